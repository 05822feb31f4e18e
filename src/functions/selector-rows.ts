/**
 * The rows that documents have in selector indexes. No function of a user is called for them: the values of the fields are
 * copied out of the documents' JSON text, in the process that builds the index.
 */
import { RequestError } from '../document/request-error.ts'
import { ByteSink } from '../encoding/bytes/byte-sink.ts'
import { CollationEncoder } from '../encoding/collation/collation-key.ts'
import { endOfValue } from '../encoding/collation/plain-key-writer.ts'
import { fieldPath } from '../selectors/field-path.ts'
import { FieldPlaces } from '../selectors/field-places.ts'
import { rowDefinitionIn } from '../selectors/index-definition.ts'
import { type SelectorMatcher, selectorMatcher } from '../selectors/selector-matcher.ts'
import { typeAt } from '../selectors/value-text.ts'
import { MAPPED_FIELDS, type MapProgram, type MappedBatch } from './functions.ts'

export class SelectorRows {
  /** By their sources: builds hand over one batch after the other. */
  readonly #readers = new Map<string, IndexReader>()
  /** Used again and again: to grow a new one for each batch costs more than to fill it. */
  readonly #rows = new RowBlock()

  map({ maps }: MapProgram, documents: readonly Uint8Array[]): MappedBatch {
    const readers = maps.map(({ source }) => this.#readerOf(source))
    const rows = this.#rows
    rows.clear()
    for (let number = 0; number < documents.length; number++) {
      const text = asBuffer(documents[number]!)
      for (let map = 0; map < readers.length; map++) readers[map]!.add(rows, number, map, text)
    }
    return rows.batch()
  }

  #readerOf(source: string): IndexReader {
    const known = this.#readers.get(source)
    if (known) return known
    if (this.#readers.size >= MOST_READERS) this.#readers.clear()
    const reader = new IndexReader(source)
    this.#readers.set(source, reader)
    return reader
  }
}

const MOST_READERS = 1000
const FIRST_ROWS = 256
const OPEN = 0x5b
const COMMA = 0x2c
const CLOSE = 0x5d
const NULL = Buffer.from('null')

/** Finds the columns of one index. */
class IndexReader {
  readonly #places = new FieldPlaces()
  readonly #columns: readonly number[]
  readonly #reduced: number | undefined
  readonly #filter: SelectorMatcher | undefined

  constructor(source: string) {
    const { columns, partialFilter, reducedField } = rowDefinitionIn(source)
    this.#columns = columns.map((name) => this.#places.add(fieldPath(name)))
    this.#reduced = reducedField === undefined ? undefined : this.#places.add(fieldPath(reducedField))
    this.#filter = partialFilter === undefined ? undefined : selectorMatcher(partialFilter)
  }

  /** Only documents that have all columns are in the index. */
  add(rows: RowBlock, document: number, map: number, text: Buffer): void {
    const { places } = this.#places
    this.#places.find(text, 0, ALWAYS)
    for (const column of this.#columns) if (places[column]! < 0) return
    if (this.#filter && !passes(this.#filter, text)) return
    const reducedAt = this.#reduced === undefined ? -1 : places[this.#reduced]!
    const valueAt = reducedAt >= 0 && typeAt(text, reducedAt) === 'number' ? reducedAt : -1
    rows.add(document, map, text, this.#columns, places, valueAt)
  }
}

const ALWAYS = () => true

/** A document that takes too long is left out, as one is that a map function throws on: others are in the index. */
function passes(filter: SelectorMatcher, text: Buffer): boolean {
  try {
    return filter.matches(text)
  } catch (error) {
    if (error instanceof RequestError) return false
    throw error
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}

/** Rows as a `MappedBatch` has them. */
class RowBlock {
  readonly #block = new ByteSink()
  readonly #encoder = new CollationEncoder('unicode', this.#block)
  #fields = new Uint32Array(FIRST_ROWS * MAPPED_FIELDS)
  #rows = 0
  readonly #ends: number[] = []

  add(
    document: number,
    map: number,
    text: Buffer,
    columns: readonly number[],
    places: readonly number[],
    numberAt: number,
  ): void {
    const block = this.#block
    const sortKeyAt = block.length
    if (!this.#writeSortKey(text, columns, places)) {
      block.length = sortKeyAt
      return
    }
    const keyAt = block.length
    for (let i = 0; i < columns.length; i++) {
      block.push(i === 0 ? OPEN : COMMA)
      this.#copy(text, places[columns[i]!]!, this.#ends[i]!)
    }
    block.push(CLOSE)
    const valueAt = block.length
    if (numberAt < 0) this.#copy(NULL, 0, NULL.length)
    else this.#copy(text, numberAt, endOfValue(text, numberAt))
    this.#note(document, map, sortKeyAt, keyAt, valueAt)
  }

  clear(): void {
    this.#block.clear()
    this.#rows = 0
  }

  /** A copy of all that was added. */
  batch(): MappedBatch {
    return { rows: this.#rows, block: this.#block.copy(), fields: this.#fields.slice(0, this.#rows * MAPPED_FIELDS) }
  }

  /** False where a value is nested too deeply to be sorted. */
  #writeSortKey(text: Buffer, columns: readonly number[], places: readonly number[]): boolean {
    const encoder = this.#encoder
    encoder.begin()
    encoder.openArray()
    try {
      for (let i = 0; i < columns.length; i++) this.#ends[i] = encoder.appendText(text, places[columns[i]!]!)
    } catch (error) {
      if (error instanceof RangeError) return false
      throw error
    }
    encoder.closeArray()
    return true
  }

  #copy(source: Buffer, start: number, end: number): void {
    const block = this.#block
    block.reserve(end - start)
    const { bytes } = block
    for (let from = start, to = block.length; from < end; from++, to++) bytes[to] = source[from]!
    block.length += end - start
  }

  #note(document: number, map: number, sortKeyAt: number, keyAt: number, valueAt: number): void {
    if ((this.#rows + 1) * MAPPED_FIELDS > this.#fields.length) {
      const grown = new Uint32Array(2 * this.#fields.length)
      grown.set(this.#fields)
      this.#fields = grown
    }
    const fields = this.#fields
    let field = this.#rows++ * MAPPED_FIELDS
    fields[field++] = document
    fields[field++] = map
    fields[field++] = this.#encoder.exact ? 1 : 0
    fields[field++] = sortKeyAt
    fields[field++] = keyAt
    fields[field++] = valueAt
    fields[field] = this.#block.length
  }
}
