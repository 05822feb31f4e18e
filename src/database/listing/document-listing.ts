/**
 * Reads the rows of a range of ids block by block, as bytes of the reply. Each block is of one state. When the client stalls
 * between two blocks, the listing continues after the last document sent from a newer state.
 */

import { conflicts } from '../../document/revisions/winner.ts'
import type { RevisionTree } from '../../document/tree/revision-tree.ts'
import { rangeAfter } from '../../storage/rows/stored-key.ts'
import type { KeyRange, Page, PageLimits } from '../../storage/store.ts'
import type { AttachmentContents } from '../attachments/attachment-store.ts'
import type { LastingView } from '../database-view.ts'
import { afterPrefix, DOCUMENT_PREFIX, idOfDocumentKey } from '../layout/keys.ts'
import { type BodyPlace, bodyPlaces } from '../layout/read-bodies.ts'
import { RecordReader } from '../layout/record-reader.ts'
import { decodeBody, plainTextAt } from '../layout/stored-body.ts'
import { stubText } from '../reading/document-text.ts'
import { ListedRows } from './listed-rows.ts'
import type { LiveDocuments } from './listing-range.ts'

/** What is wanted of the documents of rows. */
export interface DocumentsWanted {
  readonly conflicts: boolean
  /** Where the contents of attachments are read from, if they are wanted: they are kept while they are sent. */
  readonly contents: AttachmentContents | undefined
  /** Tell how attachments are packed. */
  readonly encodingInfo: boolean
}

/** The first page of rows without their documents, for `listedRows`. */
export function firstRows(view: LastingView, range: KeyRange, limit: number): Promise<Page> {
  return view.snapshot.page(range, pageLimits(range, limit))
}

/** Rows without their documents. The first page may be given, of whatever state. */
export async function* listedRows(
  view: LastingView,
  live: LiveDocuments,
  range: KeyRange,
  limit: number,
  first?: Promise<Page>,
): AsyncGenerator<ListedRows> {
  const record = new RecordReader()
  let left = limit
  let given = first
  for (let rest: KeyRange | undefined = range; rest && left > 0; ) {
    const page: Page = await (given ?? view.snapshot.page(rest, pageLimits(rest, left)))
    given = undefined
    const rows = new ListedRows(page.length * ROW_BYTES)
    for (let row = 0; row < page.length && rows.length < left; row++) {
      record.read(page.block, page.bounds[3 * row + 1]!)
      if (record.deleted) continue
      beginRow(rows, page, row, record)
      rows.end()
    }
    left -= rows.length
    rest = rows.length > 0 ? page.next : await live.after(page)
    if (rows.length > 0) yield rows
  }
}

/** Rows with their documents, but without contents of attachments. */
export async function* listedDocuments(
  view: LastingView,
  live: LiveDocuments,
  range: KeyRange,
  limit: number,
  wanted: DocumentsWanted,
): AsyncGenerator<ListedRows> {
  const listing = new DocumentListing(view, live, range, wanted)
  for (let left = limit; left > 0; ) {
    const rows = await listing.next(left)
    if (!rows) return
    left -= rows.length
    yield rows
  }
}

/** What such a page makes goes out at once. */
const PAGE_ROWS = 512
const PAGE_BYTES = 24 * 1024

/** What most rows take, the second one without their bodies. Buffers of more than that only cause their collection. */
const ROW_BYTES = 128
const DOCUMENT_ROW_BYTES = 224

/** Where few are wanted some more are read: deleted ones may lie between them. */
const LEAST_ROWS = 16

/** Documents are read together up to the one that reaches this: however large they are, few are in memory at a time. */
const PORTION_ROWS = 256
const PORTION_BYTES = 256 * 1024

function pageLimits(range: KeyRange, left: number): PageLimits {
  const readsOn = left >= 2 * PAGE_ROWS
  return { rows: rowsToRead(left), bytes: PAGE_BYTES, readsOn, expectsMany: expectsMany(range, left) }
}

/** Few ranges without an end begin at the last documents. */
function expectsMany({ to }: KeyRange, left: number): boolean {
  return left >= LEAST_ROWS && to !== undefined && Buffer.compare(to, AFTER_DOCUMENTS) === 0
}

const AFTER_DOCUMENTS = afterPrefix(DOCUMENT_PREFIX)

function rowsToRead(left: number): number {
  return Math.min(PAGE_ROWS, Math.max(left, LEAST_ROWS))
}

function beginRow(rows: ListedRows, { block, bounds }: Page, row: number, record: RecordReader): void {
  rows.begin(block, bounds[3 * row]! + DOCUMENT_PREFIX.length, bounds[3 * row + 1]!, record)
}

/** Live documents of a page that are read together. */
interface Portion {
  readonly page: Page
  readonly rows: readonly number[]
  readonly bodies: readonly number[]
}

class DocumentListing {
  readonly #view: LastingView
  readonly #live: LiveDocuments
  readonly #range: KeyRange
  readonly #wanted: DocumentsWanted
  readonly #record = new RecordReader()
  /** What comes after the rows that were given out. */
  #rest: KeyRange | undefined
  /** What was read of it, in which state, and the first row that was not given out. */
  #page: Page | undefined
  #renewals = 0
  #row = 0

  constructor(view: LastingView, live: LiveDocuments, range: KeyRange, wanted: DocumentsWanted) {
    this.#view = view
    this.#live = live
    this.#range = range
    this.#rest = range
    this.#wanted = wanted
  }

  /** The next rows, at least one and at most a limit; undefined when there are none. */
  async next(limit: number): Promise<ListedRows | undefined> {
    // Records and bodies must be of one state; a client that stalls later does not hold it.
    using _pin = this.#view.pin()
    while (this.#rest) {
      const page = this.#pageAtHand() ?? (await this.#readPage(this.#rest, limit))
      const portion = this.#portion(page, limit)
      if (portion.rows.length > 0) return await this.#write(portion)
      this.#rest = await this.#live.after(page)
    }
    return undefined
  }

  /** Undefined where all of it was given out, or its state is gone. */
  #pageAtHand(): Page | undefined {
    const page = this.#page
    return page && this.#row < page.length && this.#view.renewals === this.#renewals ? page : undefined
  }

  async #readPage(range: KeyRange, limit: number): Promise<Page> {
    const rows = Math.min(PORTION_ROWS, rowsToRead(limit))
    const page = await this.#view.snapshot.page(range, { rows, expectsMany: expectsMany(range, limit) })
    this.#page = page
    this.#renewals = this.#view.renewals
    this.#row = 0
    return page
  }

  #portion(page: Page, limit: number): Portion {
    const record = this.#record
    const rows: number[] = []
    const bodies: number[] = []
    let bytes = 0
    let row = this.#row
    for (; row < page.length && rows.length < limit && bytes < PORTION_BYTES; row++) {
      record.read(page.block, page.bounds[3 * row + 1]!)
      if (record.deleted) continue
      rows.push(row)
      bodies.push(record.body)
      bytes += record.bodyBytes
    }
    this.#row = row
    this.#rest = row === page.length ? page.next : rangeAfter(this.#range, page.key(row - 1))
    return { page, rows, bodies }
  }

  async #write({ page, rows: portion, bodies }: Portion): Promise<ListedRows> {
    const record = this.#record
    const places = await bodyPlaces(this.#view.snapshot, bodies)
    const rows = new ListedRows(places.reduce((sum, { start, end }) => sum + end - start + DOCUMENT_ROW_BYTES, 0))
    for (const [i, row] of portion.entries()) {
      const place = places[i]!
      record.read(page.block, page.bounds[3 * row + 1]!)
      beginRow(rows, page, row, record)
      const textAt = this.#isPlain(record) ? plainTextAt(place.block, place.start) : undefined
      if (textAt === undefined) rows.document(await this.#text(idOfDocumentKey(page.key(row)), record, place))
      else rows.plainDocument(place.block, textAt, place.end)
      rows.end()
    }
    return rows
  }

  /** Whether there is nothing to say of a document beside its body and its attachments. */
  #isPlain({ hasHistory }: RecordReader): boolean {
    return this.#view.reading === undefined && !(this.#wanted.conflicts && hasHistory)
  }

  async #text(id: string, { winner: revision, hasHistory }: RecordReader, place: BodyPlace): Promise<Buffer> {
    const { text: body, attachments } = decodeBody(place.block.subarray(place.start, place.end))
    const tree = this.#wanted.conflicts && hasHistory ? await this.#tree(id) : undefined
    const parts = { id, revision, body, conflicts: tree && conflicts(tree) }
    const document = { revision, deleted: false, parts, attachments, knownGeneration: 0 }
    const { reading } = this.#view
    return reading ? Buffer.from(reading.listed(document)) : stubText(document, this.#wanted)
  }

  async #tree(id: string): Promise<RevisionTree | undefined> {
    const record = await this.#view.record(id)
    return record && this.#view.tree(id, record)
  }
}
