/**
 * Turns the rows of map functions, text from the isolate, into the bytes of a `MappedBatch`: sort key, key and value of each
 * row. The text is validated here, since user code could change it.
 */

import { ByteSink } from '../../encoding/bytes/byte-sink.ts'
import { copyBytes } from '../../encoding/bytes/short-bytes.ts'
import { type Collation, CollationEncoder } from '../../encoding/collation/collation-key.ts'
import { endOfValue } from '../../encoding/collation/plain-key-writer.ts'
import { MAPPED_FIELDS } from '../functions.ts'

/** Called with the number of a document where a function gave what cannot be sorted: it has given nothing then. */
export type OnProblem = (document: number, error: unknown) => void

const FIRST_BYTES = 64 * 1024
const FIRST_ROWS = 1024
const MOST_KEPT_BYTES = 1024 * 1024
/** Of a longer text it is worth to know how many bytes it is. */
const LONG_TEXT = 256 * 1024

export class MappedRows {
  /** Sort keys are written where they belong. */
  readonly #block = new ByteSink()
  readonly #encoders: readonly CollationEncoder[]
  #text = Buffer.allocUnsafe(FIRST_BYTES)
  #fields = new Uint32Array(FIRST_ROWS * MAPPED_FIELDS)
  #rows = 0
  #document = 0
  /** The function whose rows come next, and where its rows of this document begin. */
  #map = 0
  #firstRow = 0
  #firstByte = 0
  /** What it gave for this document cannot be sorted. */
  #isSpoiled = false

  constructor(collations: readonly Collation[]) {
    const unicode = new CollationEncoder('unicode', this.#block)
    const raw = new CollationEncoder('raw', this.#block)
    this.#encoders = collations.map((collation) => (collation === 'raw' ? raw : unicode))
  }

  /** Starts over. The memory of a very large batch is released. */
  clear(): void {
    this.#block.clear()
    this.#rows = 0
    this.#document = 0
    this.#beginFunction(0)
    if (this.#text.length > MOST_KEPT_BYTES) this.#text = Buffer.allocUnsafe(FIRST_BYTES)
    if (this.#fields.byteLength > MOST_KEPT_BYTES) this.#fields = new Uint32Array(FIRST_ROWS * MAPPED_FIELDS)
  }

  /** How many documents were added. */
  get documents(): number {
    return this.#document
  }

  /** Adds what an isolate gave: see `realm/emitted-rows.ts` for its form. */
  add(given: string, onProblem: OnProblem): void {
    const mostBytes = given.length < LONG_TEXT ? 3 * given.length : Buffer.byteLength(given)
    if (mostBytes > this.#text.length) this.#text = Buffer.allocUnsafe(mostBytes)
    const text = this.#text.subarray(0, this.#text.write(given))
    for (let at = 0; at < text.length; ) {
      if (text[at] !== OPEN) throw malformed()
      at = this.#addArray(text, at + 1, onProblem)
    }
  }

  /** The reply: number of rows, their fields, the block. */
  parts(): Uint8Array[] {
    const count = Buffer.allocUnsafe(4)
    count.writeUInt32LE(this.#rows, 0)
    const fields = Buffer.from(this.#fields.buffer, 0, this.#rows * MAPPED_FIELDS * 4)
    return [count, fields, this.#block.bytes.subarray(0, this.#block.length)]
  }

  /** Rows and ends of functions up to the end of an array; answers where that is. */
  #addArray(text: Buffer, start: number, onProblem: OnProblem): number {
    for (let at = start; at < text.length; ) {
      const first = text[at]
      if (first === OPEN) at = this.#isSpoiled ? endOfValue(text, at) : this.#tryRow(text, at, onProblem)
      else if (first === END_OF_FUNCTION) at = this.#endFunction(at)
      else if (first === CLOSE) return at + 1
      else throw malformed()
      if (text[at] === COMMA) at++
    }
    throw malformed()
  }

  #beginFunction(map: number): void {
    this.#map = map
    this.#firstRow = this.#rows
    this.#firstByte = this.#block.length
    this.#isSpoiled = false
  }

  #endFunction(at: number): number {
    const isLast = this.#map + 1 === this.#encoders.length
    if (isLast) this.#document++
    this.#beginFunction(isLast ? 0 : this.#map + 1)
    return at + 1
  }

  /** Where a key cannot be sorted, all that the function gave for the document goes. */
  #tryRow(text: Buffer, start: number, onProblem: OnProblem): number {
    try {
      return this.#addRow(text, start)
    } catch (error) {
      if (error instanceof MalformedRow) throw error
      this.#rows = this.#firstRow
      this.#block.length = this.#firstByte
      this.#isSpoiled = true
      onProblem(this.#document, error)
      return endOfValue(text, start)
    }
  }

  /** A row is a JSON array of two. Answers where it ends. */
  #addRow(text: Buffer, start: number): number {
    const encoder = this.#encoders[this.#map]
    if (!encoder) throw malformed()
    const block = this.#block
    const sortKeyAt = block.length
    encoder.begin()
    const keyEnd = encoder.appendText(text, start + 1)
    const end = isNull(text, keyEnd + 1) ? keyEnd + 1 + NULL_BYTES : endOfValue(text, keyEnd + 1)
    if (text[keyEnd] !== COMMA || text[end] !== CLOSE) throw malformed()
    const keyAt = block.length
    block.reserve(end - start)
    const { bytes } = block
    const valueAt = copyBytes(bytes, keyAt, text, start + 1, keyEnd)
    block.length = copyBytes(bytes, valueAt, text, keyEnd + 1, end)
    if ((this.#rows + 1) * MAPPED_FIELDS > this.#fields.length) this.#growFields()
    const fields = this.#fields
    let field = this.#rows++ * MAPPED_FIELDS
    fields[field++] = this.#document
    fields[field++] = this.#map
    fields[field++] = encoder.exact ? 1 : 0
    fields[field++] = sortKeyAt
    fields[field++] = keyAt
    fields[field++] = valueAt
    fields[field] = block.length
    return end + 1
  }

  #growFields(): void {
    const grown = new Uint32Array(2 * this.#fields.length)
    grown.set(this.#fields)
    this.#fields = grown
  }
}

/** The value of most rows, whose end need not be looked for. */
function isNull(text: Uint8Array, at: number): boolean {
  return text[at] === LETTER_N && text[at + 1] === LETTER_U && text[at + 2] === LETTER_L && text[at + 3] === LETTER_L
}

const OPEN = 0x5b
const COMMA = 0x2c
const CLOSE = 0x5d
const END_OF_FUNCTION = 0x30
const LETTER_L = 0x6c
const LETTER_N = 0x6e
const LETTER_U = 0x75
const NULL_BYTES = 4

class MalformedRow extends Error {}

function malformed(): Error {
  return new MalformedRow('A row is malformed.')
}
