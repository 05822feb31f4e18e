/**
 * A reply made of rows: of a view, or of the list of all documents. It reads one snapshot, and holds it until it is
 * released. Its text is sent in pieces of some ten kilobytes, or in one piece where it is small.
 */
import type { PieceableText, RowBlock, RowBytes } from '../../database/listing/listed-rows.ts'
import type { Page, Snapshot } from '../../storage/store.ts'
import { lineStart, StoredRow } from '../layout/index-layout.ts'

export abstract class RowQuery implements Disposable {
  /** JSON values that identify the answer, for its ETag. Known before any row is read. */
  readonly version: readonly unknown[]
  #begun: Promise<BegunQuery> | undefined

  constructor(version: readonly unknown[]) {
    this.version = version
  }

  /** What the answer says beside its rows. */
  async head(): Promise<RowQueryHead> {
    return (await this.#begin()).head
  }

  /** The JSON texts of the rows, a block at a time; asked for once, after the head. */
  async *rows(): AsyncGenerator<string[]> {
    const { blocks } = await this.#begin()
    for await (const block of blocks()) yield await textsOf(block)
  }

  /** The whole reply if it is small and its rows are already read, else undefined; to be called first. */
  async whole(): Promise<Buffer | undefined> {
    const { head, all } = await this.#begin()
    return all && wholeReply(head, all)
  }

  /** The whole reply in pieces of about 64 KiB; instead of `head` and `rows`. */
  async *chunks(): AsyncGenerator<string | Buffer> {
    const { head, blocks } = await this.#begin()
    yield* replyChunks(head, blocks())
  }

  /** For who reads more for the same reply: beside it, they wait for no second connection where a state takes one. */
  abstract get snapshot(): Snapshot

  /** Releases the snapshot. May be called twice. */
  abstract release(): void

  [Symbol.dispose](): void {
    this.release()
  }

  /** Computes what precedes the first row; called once. */
  protected abstract begin(): Promise<BegunQuery>

  #begin(): Promise<BegunQuery> {
    this.#begun ??= this.begin()
    return this.#begun
  }
}

/** What precedes the first row. */
export interface BegunQuery {
  readonly head: RowQueryHead
  /** All rows, if they are already read. */
  readonly all?: RowBytes | undefined
  blocks(): AsyncGenerator<RowBlock>
}

/** What stands before the rows of an answer, by the names of its members. Reduced rows have neither a total nor an offset. */
export interface RowQueryHead {
  /** Null if it is not counted. */
  readonly total_rows?: number | null
  readonly offset?: number | null
  readonly update_seq?: number
}

/** The JSON text of each row. */
export async function textsOf(block: RowBlock): Promise<string[]> {
  if ('takeJoined' in block) return block.texts()
  const texts: string[] = []
  for (const row of block) texts.push(typeof row === 'string' ? row : await joined(row))
  return texts
}

async function joined(pieces: AsyncIterable<string | Buffer>): Promise<string> {
  const bytes: Buffer[] = []
  for await (const piece of pieces) bytes.push(typeof piece === 'string' ? Buffer.from(piece) : piece)
  return Buffer.concat(bytes).toString()
}

/** Rows of a page, one after the other. */
export class StoredRows implements RowBytes {
  readonly #page: Page
  readonly #first: number
  readonly length: number

  /** From row `first` of the page on, and no more than `limit`. */
  constructor(
    page: Page,
    { first = 0, limit = page.length }: { readonly first?: number; readonly limit?: number } = {},
  ) {
    this.#page = page
    this.#first = first
    this.length = Math.min(limit, page.length - first)
  }

  row(index: number): StoredRow {
    return new StoredRow(this.#page.value(this.#first + index))
  }

  texts(): string[] {
    return Array.from({ length: this.length }, (_, index) => this.row(index).line.toString())
  }

  /**
   * They are joined in place: each is preceded by its key, which leaves space for the separator, and lines only move
   * towards the front.
   */
  takeJoined({ afterOthers }: { readonly afterOthers: boolean }): Buffer {
    const { block, bounds } = this.#page
    let end = 0
    for (let row = this.#first; row < this.#first + this.length; row++) {
      const line = lineStart(block, bounds[3 * row + 1]!)
      const lineEnd = bounds[3 * row + 2]!
      if (afterOthers || end > 0) {
        block[end++] = COMMA
        block[end++] = CARRIAGE_RETURN
        block[end++] = LINE_FEED
      }
      block.copyWithin(end, line, lineEnd)
      end += lineEnd - line
    }
    return block.subarray(0, end)
  }
}

/** Rows that are texts already. */
export class TextRows implements RowBytes {
  readonly #texts: readonly string[]

  constructor(texts: readonly string[]) {
    this.#texts = texts
  }

  get length(): number {
    return this.#texts.length
  }

  texts(): string[] {
    return [...this.#texts]
  }

  takeJoined({ afterOthers }: { readonly afterOthers: boolean }): Buffer {
    return Buffer.from((afterOthers ? SEPARATOR : '') + this.#texts.join(SEPARATOR))
  }
}

const SEPARATOR = ',\r\n'
const COMMA = 0x2c
const CARRIAGE_RETURN = 0x0d
const LINE_FEED = 0x0a

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
function wholeReply(head: RowQueryHead, rows: RowBytes): Buffer {
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

/** The size of one write. Blocks of rows from the store are somewhat larger and need not be copied. */
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
