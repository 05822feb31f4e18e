/**
 * The rows that documents have in selector indexes. No function of a user is called for them: the values of the fields are
 * copied out of the documents' JSON text, in the process that builds the index.
 */
import { RequestError } from '../document/request-error.ts'
import { ByteSink } from '../encoding/bytes/byte-sink.ts'
import { copyBytes } from '../encoding/bytes/short-bytes.ts'
import { CollationEncoder } from '../encoding/collation/collation-key.ts'
import { endOfValue } from '../encoding/collation/plain-key-writer.ts'
import { fieldPath } from '../selectors/field-path.ts'
import { FieldPlaces } from '../selectors/field-places.ts'
import { rowDefinitionIn } from '../selectors/index-definition.ts'
import { beginDocument } from '../selectors/match-work.ts'
import { type SelectorMatcher, selectorMatcher } from '../selectors/selector-matcher.ts'
import { typeAt } from '../selectors/value-text.ts'
import { MAPPED_FIELDS, type MapProgram, type MappedBatch } from './functions.ts'

export class SelectorRows {
  /** By their sources: updates hand over one batch after the other. */
  readonly #readers = new Map<string, IndexReader>()
  /** Used again and again: to grow a new one for each batch costs more than to fill it. */
  readonly #rows = new RowBlock()

  map({ maps }: MapProgram, documents: readonly Uint8Array[]): MappedBatch {
    const readers = maps.map(({ source }) => this.#readerOf(source))
    const rows = this.#rows
    rows.clear()
    for (let number = 0; number < documents.length; number++) {
      const text = asBuffer(documents[number]!)
      for (let map = 0; map < readers.length; map++) readers[map]!.add(rows, number, map, text, 0, undefined)
    }
    return rows.copy()
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

/** Members of a document that do not lie in its text, but each in one of its own. */
export type MembersBeside = ReadonlyMap<string, Buffer>

/** The rows of one document after the other; they must be copied at once. */
export class DocumentRows {
  /** The members of documents that are looked at. */
  readonly members: readonly string[]
  readonly #readers: readonly IndexReader[]
  readonly #rows = new RowBlock()

  constructor(maps: MapProgram['maps']) {
    this.#readers = maps.map(({ source }) => new IndexReader(source))
    this.members = this.#readers.flatMap(({ members }) => members)
  }

  /** Of the document whose text begins at `start`. The next call overwrites them. */
  of(text: Buffer, start: number, members: MembersBeside | undefined): MappedBatch {
    const rows = this.#rows
    rows.clear()
    for (let map = 0; map < this.#readers.length; map++) this.#readers[map]!.add(rows, 0, map, text, start, members)
    return rows
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

  get members(): readonly string[] {
    return [...this.#places.topNames, ...(this.#filter?.members ?? [])]
  }

  /** Only documents that have all columns are in the index. */
  add(
    rows: RowBlock,
    document: number,
    map: number,
    text: Buffer,
    start: number,
    members: MembersBeside | undefined,
  ): void {
    if (this.#isIn(text, start, members)) rows.add(document, map, this.#places, this.#columns, this.#reduced)
  }

  /** A document that takes too long is left out, as one is that a map function throws on: others are in the index. */
  #isIn(text: Buffer, start: number, members: MembersBeside | undefined): boolean {
    try {
      return this.#hasColumns(text, start, members) && this.#passes(text, start, members)
    } catch (error) {
      if (error instanceof RequestError) return false
      throw error
    }
  }

  #hasColumns(text: Buffer, start: number, members: MembersBeside | undefined): boolean {
    const fields = this.#places
    beginDocument(text.length)
    if (members) fields.findBeside(members, text, start, ALWAYS)
    else fields.find(text, start, ALWAYS)
    for (const column of this.#columns) if (fields.places[column]! < 0) return false
    return true
  }

  #passes(text: Buffer, start: number, members: MembersBeside | undefined): boolean {
    const filter = this.#filter
    if (!filter) return true
    return members ? filter.matchesBeside(members, text, start) : filter.matches(text, start)
  }
}

const ALWAYS = () => true

function asBuffer(bytes: Uint8Array): Buffer {
  return bytes instanceof Buffer ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}

/** Rows as they are added. */
class RowBlock implements MappedBatch {
  readonly #sink = new ByteSink()
  readonly #encoder = new CollationEncoder('unicode', this.#sink)
  #fields = new Uint32Array(FIRST_ROWS * MAPPED_FIELDS)
  #rows = 0
  readonly #ends: number[] = []

  get rows(): number {
    return this.#rows
  }

  get block(): Buffer {
    return this.#sink.bytes
  }

  get fields(): Uint32Array {
    return this.#fields
  }

  /** Adds a row of the fields that were found. Of the field that is reduced only a number counts. */
  add(
    document: number,
    map: number,
    { texts, places }: FieldPlaces,
    columns: readonly number[],
    reduced: number | undefined,
  ): void {
    const sink = this.#sink
    const sortKeyAt = sink.length
    if (!this.#writeSortKey(texts, places, columns)) {
      sink.length = sortKeyAt
      return
    }
    const keyAt = sink.length
    for (let i = 0; i < columns.length; i++) {
      const column = columns[i]!
      sink.push(i === 0 ? OPEN : COMMA)
      this.#copy(texts[column]!, places[column]!, this.#ends[i]!)
    }
    sink.push(CLOSE)
    const valueAt = sink.length
    const numberAt = reduced === undefined ? -1 : places[reduced]!
    const number = numberAt < 0 ? NULL : texts[reduced!]!
    if (numberAt < 0 || typeAt(number, numberAt) !== 'number') this.#copy(NULL, 0, NULL.length)
    else this.#copy(number, numberAt, endOfValue(number, numberAt))
    this.#note(document, map, sortKeyAt, keyAt, valueAt)
  }

  clear(): void {
    this.#sink.clear()
    this.#rows = 0
  }

  /** A copy of all that was added. */
  copy(): MappedBatch {
    return { rows: this.#rows, block: this.#sink.copy(), fields: this.#fields.slice(0, this.#rows * MAPPED_FIELDS) }
  }

  /** False where a value is nested too deeply to be sorted. */
  #writeSortKey(texts: readonly Buffer[], places: readonly number[], columns: readonly number[]): boolean {
    const encoder = this.#encoder
    encoder.begin()
    encoder.openArray()
    try {
      for (let i = 0; i < columns.length; i++) {
        const column = columns[i]!
        this.#ends[i] = encoder.appendText(texts[column]!, places[column]!)
      }
    } catch (error) {
      if (error instanceof RangeError) return false
      throw error
    }
    encoder.closeArray()
    return true
  }

  #copy(source: Buffer, start: number, end: number): void {
    const sink = this.#sink
    sink.reserve(end - start)
    sink.length = copyBytes(sink.bytes, sink.length, source, start, end)
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
    fields[field] = this.#sink.length
  }
}
