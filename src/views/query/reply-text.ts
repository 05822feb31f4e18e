/** The text of an answer made of rows, in pieces of some ten kilobytes: whole in one piece where it is small. */
import type { PieceableText, RowBlock, RowBytes } from '../../database/listing/row-block.ts'
import type { RowQueryHead } from './row-query-head.ts'

export async function* replyChunks(
  head: RowQueryHead,
  blocks: AsyncIterable<RowBlock>,
): AsyncGenerator<string | Buffer> {
  const waiting = new WaitingBytes(beginning(head))
  let afterOthers = false
  for await (const block of blocks) {
    if (block.length === 0) continue
    if ('takeJoined' in block) waiting.add(block.takeJoined({ afterOthers }))
    else if (isWhole(block)) waiting.addText((afterOthers ? SEPARATOR : '') + block.join(SEPARATOR))
    else {
      for (const row of block) {
        if (afterOthers) waiting.addText(SEPARATOR)
        afterOthers = true
        if (typeof row === 'string') waiting.addText(row)
        else {
          yield waiting.take()
          yield* row
        }
      }
    }
    afterOthers = true
    if (waiting.size >= CHUNK_BYTES) yield waiting.take()
  }
  waiting.addText(END)
  yield waiting.take()
}

/** Nearly all blocks are: only contents of attachments come in pieces. */
function isWhole(block: readonly PieceableText[]): block is readonly string[] {
  return block.every((row) => typeof row === 'string')
}

/** The same in one piece, for rows that are at hand. */
export function wholeReply(head: RowQueryHead, rows: RowBytes): Buffer {
  const start = beginning(head)
  const joined = rows.takeJoined({ afterOthers: false })
  const reply = Buffer.allocUnsafe(start.length + joined.length + END.length)
  reply.write(start, 'latin1')
  joined.copy(reply, start.length)
  reply.write(END, start.length + joined.length, 'latin1')
  return reply
}

/** A head has numbers in it, and nothing else. */
function beginning(head: RowQueryHead): string {
  const { total_rows: total, offset, update_seq: sequence } = head
  const ofTotal = total === undefined ? '' : `"total_rows":${total},`
  const ofOffset = offset === undefined ? '' : `"offset":${offset},`
  const ofSequence = sequence === undefined ? '' : `"update_seq":${sequence},`
  return `{${ofTotal}${ofOffset}${ofSequence}"rows":[\r\n`
}

const END = '\r\n]}\n'

const SEPARATOR = ',\r\n'

/** So much goes out at once. Blocks of rows from the store are somewhat larger and need not be copied then. */
const CHUNK_BYTES = 32 * 1024

class WaitingBytes {
  #parts: Buffer[] = []
  #text: string
  #size: number

  constructor(text: string) {
    this.#text = text
    this.#size = text.length
  }

  /** About as many bytes: texts are counted in characters. */
  get size(): number {
    return this.#size
  }

  addText(text: string): void {
    this.#text += text
    this.#size += text.length
  }

  add(bytes: Buffer): void {
    this.#endText()
    this.#parts.push(bytes)
    this.#size += bytes.length
  }

  take(): string | Buffer {
    if (this.#parts.length === 0) {
      const text = this.#text
      this.#text = ''
      this.#size = 0
      return text
    }
    this.#endText()
    const [only] = this.#parts
    const bytes = only && this.#parts.length === 1 ? only : Buffer.concat(this.#parts)
    this.#parts = []
    this.#size = 0
    return bytes
  }

  #endText(): void {
    if (this.#text === '') return
    this.#parts.push(Buffer.from(this.#text))
    this.#text = ''
  }
}
