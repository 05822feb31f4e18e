/** The sources of a selector query: rows of an index, or the records of documents, in ranges and in one direction. */
import type { Database } from '../../database/database.ts'
import type { LastingView } from '../../database/database-view.ts'
import { DOCUMENT_PREFIX, documentKey } from '../../database/layout/keys.ts'
import { RecordReader } from '../../database/layout/record-reader.ts'
import { LiveDocuments } from '../../database/listing/listing-range.ts'
import type { RankTree } from '../../storage/rank-tree/rank-tree.ts'
import { ORDERED_KEY_BYTES, rangeAfter } from '../../storage/rows/stored-key.ts'
import { orderedPage } from '../../storage/snapshots/row-page.ts'
import type { KeyRange, Page, Snapshot } from '../../storage/store.ts'
import { ROW_PREFIX_BYTES, rowPrefix, StoredRow } from '../layout/index-layout.ts'
import type { OpenView } from '../reading/open-index.ts'
import type { CoveredRows } from './covered-rows.ts'
import { type DocumentPlace, type FoundDocuments, idOf } from './found-documents.ts'
import type { FoundTexts } from './found-texts.ts'
import { type FindRange, rangeBehind } from './ranges/find-range.ts'

/** Some rows of the source, in their order. */
export interface FindPage {
  /** The key of a row, to go on after it. */
  keyOf(row: number): Buffer
  /** Of the documents that match, by their rows. */
  readonly texts: FoundTexts
}

export interface FindSource {
  /** Counts the rows of a range. */
  readonly ranks: RankTree
  readonly snapshot: Snapshot
  /** Some of the first rows of a range, and what is left of it. */
  page(range: FindRange, rows: number): Promise<{ readonly page: FindPage; readonly rest: FindRange | undefined }>
}

const PAGE_BYTES = 64 * 1024

/** The rows of an index. */
export class IndexSource implements FindSource {
  readonly #view: OpenView
  readonly #reverse: boolean
  readonly #documents: FoundDocuments | CoveredRows

  constructor(view: OpenView, { reverse }: { readonly reverse: boolean }, documents: FoundDocuments | CoveredRows) {
    this.#view = view
    this.#reverse = reverse
    this.#documents = documents
  }

  get ranks(): RankTree {
    return this.#view.ranks
  }

  get snapshot(): Snapshot {
    return this.#view.snapshot
  }

  async page(range: FindRange, rows: number): Promise<{ page: FindPage; rest: FindRange | undefined }> {
    const stored = storeRange(rowPrefix(this.#view.number), range, this.#reverse)
    const limits = { rows, bytes: PAGE_BYTES, expectsMany: !isPoint(range) }
    const page = await orderedPage(this.#view.snapshot, stored, limits)
    const texts = await this.#texts(page)
    const keyOf = (row: number) => Buffer.from(page.key(row).subarray(ROW_PREFIX_BYTES))
    const rest =
      texts.rows < page.length
        ? rangeBehind(range, keyOf(texts.rows - 1), this.#reverse)
        : restOf(range, page.next, ROW_PREFIX_BYTES)
    return { page: { keyOf, texts }, rest }
  }

  #texts(page: Page): Promise<FoundTexts> {
    const documents = this.#documents
    const { length, block, bounds } = page
    const rows: StoredRow[] = []
    for (let row = 0; row < length; row++) rows.push(new StoredRow(block, bounds[3 * row + 1], bounds[3 * row + 2]))
    return 'ofRows' in documents ? documents.ofRows(rows) : documents.ofKeys(rows.map(documentKeyOf))
  }
}

/** The documents of a database, in the order of their ids. */
export class DocumentSource implements FindSource {
  readonly ranks: RankTree
  readonly #view: LastingView
  readonly #live: LiveDocuments
  readonly #reverse: boolean
  readonly #documents: FoundDocuments
  readonly #record = new RecordReader()

  constructor(
    { ranks }: Database,
    view: LastingView,
    { reverse }: { readonly reverse: boolean },
    documents: FoundDocuments,
  ) {
    this.ranks = ranks
    this.#view = view
    this.#live = new LiveDocuments(ranks, view)
    this.#reverse = reverse
    this.#documents = documents
  }

  get snapshot(): Snapshot {
    return this.#view.snapshot
  }

  /** Records and bodies are read from one snapshot, so the texts are built here. */
  async page(range: FindRange, rows: number): Promise<{ page: FindPage; rest: FindRange | undefined }> {
    using _pin = this.#view.pin()
    const stored = storeRange(DOCUMENT_PREFIX, range, this.#reverse)
    const page = await orderedPage(this.#view.snapshot, stored, { rows, bytes: PAGE_BYTES })
    const places = this.#places(page)
    const texts = await this.#documents.ofRecords(places)
    const found = { keyOf: (row: number) => idOf(places[row]!), texts }
    if (texts.rows < places.length) {
      return { page: found, rest: rangeBehind(range, idOf(places[texts.rows - 1]!), this.#reverse) }
    }
    const next = places.length > 0 ? page.next : await this.#live.after(page)
    return { page: found, rest: restOf(range, next, DOCUMENT_PREFIX.length) }
  }

  #places({ length, block, bounds }: Page): DocumentPlace[] {
    const places: DocumentPlace[] = []
    for (let row = 0; row < length; row++) {
      const recordAt = bounds[3 * row + 1]!
      this.#record.read(block, recordAt)
      if (this.#record.deleted) continue
      places.push({ keyBlock: block, keyAt: bounds[3 * row]!, keyEnd: recordAt, block, recordAt })
    }
    return places
  }
}

function storeRange(prefix: Buffer, { from, to, after, resume }: FindRange, reverse: boolean): KeyRange {
  const range = { from: Buffer.concat([prefix, from]), to: Buffer.concat([prefix, to]), reverse }
  if (resume) return { ...range, resume }
  return after && isLong(prefix, after) ? rangeAfter(range, Buffer.concat([prefix, after])) : range
}

/** Whether all rows of a range have one key. */
function isPoint({ low, high }: FindRange): boolean {
  return low.every((value, column) => value === high[column])
}

function isLong(prefix: Buffer, key: Buffer): boolean {
  return prefix.length + key.length >= ORDERED_KEY_BYTES
}

function restOf(range: FindRange, next: KeyRange | undefined, prefixBytes: number): FindRange | undefined {
  if (!next?.from || !next.to) return undefined
  return {
    ...range,
    from: withoutPrefix(next.from, prefixBytes),
    to: withoutPrefix(next.to, prefixBytes),
    after: undefined,
    resume: next.resume,
  }
}

function withoutPrefix(key: Uint8Array, prefixBytes: number): Buffer {
  return Buffer.from(key.buffer, key.byteOffset + prefixBytes, key.length - prefixBytes)
}

/** The key of the document that a row is of. */
function documentKeyOf({ block, idAt, idEnd }: StoredRow): Buffer {
  const key = Buffer.allocUnsafe(DOCUMENT_PREFIX.length + idEnd - idAt)
  key[0] = DOCUMENT_PREFIX[0]!
  for (let from = idAt, to = DOCUMENT_PREFIX.length; from < idEnd; from++, to++) {
    const byte = block[from]!
    if (byte === BACKSLASH) return documentKey(JSON.parse(`"${block.toString('utf8', idAt, idEnd)}"`))
    key[to] = byte
  }
  return key
}

const BACKSLASH = 0x5c
