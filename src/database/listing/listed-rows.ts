/**
 * Rows of `_all_docs`, written as bytes of the reply. Stored bytes are copied. A row becomes a string only where its id has to
 * be escaped or its document has more members than its body.
 */
import { copyBytes } from '../../encoding/bytes/short-bytes.ts'
import { quoteBytes } from '../../encoding/json/json-text-splice.ts'
import type { RecordReader } from '../layout/record-reader.ts'

export class ListedRows implements RowBytes {
  #bytes: Buffer
  #end = 0
  /** Where each row ends. */
  readonly #ends: number[] = []
  /** Id and revision of the last row, as they are written: its document begins with the same. */
  #idAt = 0
  #idEnd = 0
  #revisionAt = 0
  #revisionEnd = 0

  /** About as many bytes as the rows will take. */
  constructor(expectedBytes: number) {
    this.#bytes = Buffer.allocUnsafe(Math.max(expectedBytes, LEAST_BYTES))
  }

  get length(): number {
    return this.#ends.length
  }

  texts(): string[] {
    return this.#ends.map((end, row) => this.#bytes.toString('utf8', this.#startOf(row), end))
  }

  takeJoined({ afterOthers }: { readonly afterOthers: boolean }): Buffer {
    return this.#bytes.subarray(afterOthers ? 0 : SEPARATOR.length, this.#end)
  }

  /** Begins the row of a document, whose id lies in a block; `end` must follow. */
  begin(block: Buffer, idAt: number, idEnd: number, record: RecordReader): void {
    const escaped = needsEscapes(block, idAt, idEnd) ? quoteBytes(block.toString('utf8', idAt, idEnd)) : undefined
    this.#reserve(FRAME_BYTES + 2 * (escaped?.length ?? idEnd - idAt) + record.mostRevisionBytes)
    this.#add(SEPARATOR)
    this.#add(BEFORE_ID)
    this.#idAt = this.#end
    if (escaped) this.#add(escaped)
    else this.#quote(block, idAt, idEnd)
    this.#idEnd = this.#end
    this.#add(BEFORE_KEY)
    this.#repeat(this.#idAt, this.#idEnd)
    this.#add(BEFORE_REVISION)
    this.#revisionAt = this.#end
    this.#end = record.writeRevision(this.#bytes, this.#end)
    this.#revisionEnd = this.#end
    this.#bytes[this.#end++] = CLOSE
  }

  /** The document of the row that was begun, which is no more than its stored text; that lies in a block. */
  plainDocument(block: Buffer, textAt: number, textEnd: number): void {
    const head = this.#idEnd - this.#idAt + this.#revisionEnd - this.#revisionAt
    this.#reserve(FRAME_BYTES + head + textEnd - textAt)
    this.#add(BEFORE_DOCUMENT)
    this.#add(BEFORE_DOCUMENT_ID)
    this.#repeat(this.#idAt, this.#idEnd)
    this.#add(BEFORE_DOCUMENT_REVISION)
    this.#repeat(this.#revisionAt, this.#revisionEnd)
    // The body's brace gives way to a comma; an empty body leaves its closing brace alone.
    if (textEnd - textAt > EMPTY_BODY_BYTES) this.#bytes[this.#end++] = COMMA
    this.#end = copyBytes(this.#bytes, this.#end, block, textAt + 1, textEnd)
  }

  /** The text of its document. */
  document(text: Buffer): void {
    this.#reserve(FRAME_BYTES + text.length)
    this.#add(BEFORE_DOCUMENT)
    this.#add(text)
  }

  end(): void {
    this.#bytes[this.#end++] = CLOSE
    this.#ends.push(this.#end)
  }

  #startOf(row: number): number {
    return (row === 0 ? 0 : this.#ends[row - 1]!) + SEPARATOR.length
  }

  #quote(block: Buffer, start: number, end: number): void {
    this.#bytes[this.#end++] = QUOTE
    this.#end = copyBytes(this.#bytes, this.#end, block, start, end)
    this.#bytes[this.#end++] = QUOTE
  }

  #add(bytes: Buffer): void {
    this.#end = copyBytes(this.#bytes, this.#end, bytes, 0, bytes.length)
  }

  #repeat(start: number, end: number): void {
    this.#end = copyBytes(this.#bytes, this.#end, this.#bytes, start, end)
  }

  #reserve(size: number): void {
    const needed = this.#end + size
    if (needed <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bytes.length))
    this.#bytes.copy(larger, 0, 0, this.#end)
    this.#bytes = larger
  }
}

const SEPARATOR = Buffer.from(',\r\n')
const BEFORE_ID = Buffer.from('{"id":')
const BEFORE_KEY = Buffer.from(',"key":')
const BEFORE_REVISION = Buffer.from(',"value":{"rev":')
const BEFORE_DOCUMENT = Buffer.from(',"doc":')
const BEFORE_DOCUMENT_ID = Buffer.from('{"_id":')
const BEFORE_DOCUMENT_REVISION = Buffer.from(',"_rev":')
const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const CLOSE = 0x7d
const EMPTY_BODY_BYTES = '{}'.length

/** More than all that stands around id, revision and document, with the quotes of the ids. */
const FRAME_BYTES = 64

const LEAST_BYTES = 256

/** Whether a text in UTF-8 is not the same in JSON. */
function needsEscapes(block: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = block[at]!
    if (byte < 0x20 || byte === QUOTE || byte === BACKSLASH) return true
  }
  return false
}

/** Bytes that were put together for the answer, or JSON texts of the rows. */
export type RowBlock = RowBytes | readonly PieceableText[]

/** A row in pieces is to be read before the next block is asked for. */
export type RowBlocks = AsyncGenerator<RowBlock>

/** A JSON text, whole or in pieces that are made while they are sent. */
export type PieceableText = string | AsyncIterable<string | Buffer>

/** Rows that lie in memory as the bytes of the answer. */
export interface RowBytes {
  readonly length: number
  /** The JSON text of each row. */
  texts(): string[]
  /**
   * All rows with a comma and a line break between them, and one in front where others went before. The rows cannot be
   * read any more afterwards: they may have been joined where they lie.
   */
  takeJoined(options: { readonly afterOthers: boolean }): Buffer
}
