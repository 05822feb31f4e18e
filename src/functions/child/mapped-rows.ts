/**
 * Rows that map functions gave, as text of the isolate, turned into the bytes of a `MappedBatch`: sort key, key, value, row
 * after row. Whether the text is what it should be is checked here, since user code had its hands on it.
 */
import { type Collation, CollationEncoder } from '../../encoding/collation-key.ts'
import { MAPPED_FIELDS } from '../functions.ts'
import { MARKS } from './marks.ts'

/** Called with the number of a document where a function gave what cannot be sorted: it has given nothing then. */
export type OnProblem = (document: number, error: unknown) => void

const FIRST_BYTES = 16 * 1024
const FIRST_ROWS = 256
const MOST_KEPT_BYTES = 1024 * 1024
/** Of a longer text it is worth to know how many bytes it is. */
const LONG_TEXT = 256 * 1024

export class MappedRows {
  readonly #encoders: readonly CollationEncoder[]
  #text = Buffer.allocUnsafe(FIRST_BYTES)
  #block = Buffer.allocUnsafe(FIRST_BYTES)
  #blockLength = 0
  #fields = new Uint32Array(FIRST_ROWS * MAPPED_FIELDS)
  #rows = 0
  #document = 0

  constructor(collations: readonly Collation[]) {
    const unicode = new CollationEncoder('unicode')
    const raw = new CollationEncoder('raw')
    this.#encoders = collations.map((collation) => (collation === 'raw' ? raw : unicode))
  }

  /** Starts anew. The room that one huge batch needed is not kept for ever. */
  clear(): void {
    this.#blockLength = 0
    this.#rows = 0
    this.#document = 0
    if (this.#text.length > MOST_KEPT_BYTES) this.#text = Buffer.allocUnsafe(FIRST_BYTES)
    if (this.#block.length > MOST_KEPT_BYTES) this.#block = Buffer.allocUnsafe(FIRST_BYTES)
    if (this.#fields.byteLength > MOST_KEPT_BYTES) this.#fields = new Uint32Array(FIRST_ROWS * MAPPED_FIELDS)
  }

  /** How many documents were added. */
  get documents(): number {
    return this.#document
  }

  /** Adds what whole documents gave; it comes behind a mark, as all that an isolate gives. */
  add(marked: string, onProblem: OnProblem): void {
    const mostBytes = marked.length < LONG_TEXT ? 3 * marked.length : Buffer.byteLength(marked)
    if (mostBytes > this.#text.length) this.#text = Buffer.allocUnsafe(mostBytes)
    const rows = this.#text.subarray(0, this.#text.write(marked))
    for (let at = 1; at < rows.length; this.#document++) {
      for (let map = 0; map < this.#encoders.length; map++) at = this.#addFunction(rows, at, map, onProblem)
    }
  }

  /** The reply: number of rows, their fields, the block. */
  parts(): Uint8Array[] {
    const count = Buffer.allocUnsafe(4)
    count.writeUInt32LE(this.#rows, 0)
    const fields = Buffer.from(this.#fields.buffer, 0, this.#rows * MAPPED_FIELDS * 4)
    return [count, fields, this.#block.subarray(0, this.#blockLength)]
  }

  /** All rows of one function and document, or none. Answers where they end. */
  #addFunction(text: Buffer, start: number, map: number, onProblem: OnProblem): number {
    const blockLength = this.#blockLength
    const rows = this.#rows
    let at = start
    try {
      while (text[at] !== END_OF_FUNCTION) at = this.#addRow(text, at, map)
      return at + 1
    } catch (error) {
      this.#blockLength = blockLength
      this.#rows = rows
      onProblem(this.#document, error)
      const end = text.indexOf(END_OF_FUNCTION, start)
      if (end < 0) throw error
      return end + 1
    }
  }

  /** A row is a JSON array of two. */
  #addRow(text: Buffer, start: number, map: number): number {
    const encoder = this.#encoders[map]
    if (!encoder || text[start] !== OPEN) throw malformed()
    encoder.clear()
    const keyEnd = encoder.appendText(text, start + 1)
    const end = text.indexOf(END_OF_ROW, keyEnd)
    if (text[keyEnd] !== COMMA || text[end - 1] !== CLOSE) throw malformed()
    const sortKeyLength = encoder.length
    this.#reserve(sortKeyLength + end - start)
    const block = this.#block
    const sortKeyAt = this.#blockLength
    const keyAt = sortKeyAt + sortKeyLength
    encoder.copyTo(block, sortKeyAt)
    const valueAt = copy(text, start + 1, keyEnd, block, keyAt)
    this.#blockLength = copy(text, keyEnd + 1, end - 1, block, valueAt)
    const fields = this.#fields
    let field = this.#rows++ * MAPPED_FIELDS
    fields[field++] = this.#document
    fields[field++] = map
    fields[field++] = encoder.exact ? 1 : 0
    fields[field++] = sortKeyAt
    fields[field++] = keyAt
    fields[field++] = valueAt
    fields[field] = this.#blockLength
    return end + 1
  }

  /** Makes room for another row. */
  #reserve(bytes: number): void {
    if (this.#blockLength + bytes > this.#block.length) {
      const grown = Buffer.allocUnsafe(2 * (this.#blockLength + bytes))
      grown.set(this.#block.subarray(0, this.#blockLength))
      this.#block = grown
    }
    if ((this.#rows + 1) * MAPPED_FIELDS > this.#fields.length) {
      const grown = new Uint32Array(2 * this.#fields.length)
      grown.set(this.#fields)
      this.#fields = grown
    }
  }
}

const END_OF_ROW = MARKS.endOfRow.charCodeAt(0)
const END_OF_FUNCTION = MARKS.endOfFunction.charCodeAt(0)
const OPEN = 0x5b
const COMMA = 0x2c
const CLOSE = 0x5d

function malformed(): Error {
  return new Error('A row is malformed.')
}

/** For a few bytes a loop is faster than what the system has. */
const FEW_BYTES = 100

/** Answers where the copy ends. */
function copy(source: Buffer, start: number, end: number, target: Buffer, at: number): number {
  if (end - start > FEW_BYTES) return at + source.copy(target, at, start, end)
  let to = at
  for (let from = start; from < end; from++) target[to++] = source[from] as number
  return to
}
