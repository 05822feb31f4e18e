/**
 * `_all_docs`, or a range of it, in the order of ids. The rank tree finds the start of the range and its offset, so
 * `skip` is cheap. When the client stalls, the list continues after the last document sent from a newer state. A
 * document that exists all the time is listed once.
 */
import { rangeAfter } from '../../storage/rows/stored-key.ts'
import type { KeyRange, Page } from '../../storage/store.ts'
import type { Database } from '../database.ts'
import type { LastingView } from '../database-view.ts'
import { afterPrefix, DOCUMENT_PREFIX } from '../layout/keys.ts'
import { type DocumentsWanted, firstRows, listedDocuments, listedRows } from './document-listing.ts'
import type { RowBlocks } from './listed-rows.ts'
import { listWithContents } from './listed-texts.ts'
import { type IdBounds, idBounds, type ListedIds, LiveDocuments } from './listing-range.ts'

export interface AllDocumentsQuery extends ListedIds {
  readonly skip: number
  readonly limit: number
  /** What is wanted of the documents themselves, where they are wanted at all. */
  readonly documents: DocumentsWanted | undefined
  /** Lists as if there were no other documents. */
  readonly within?: IdRange | undefined
}

/** Ids from the first one on, up to the last one without it. */
export interface IdRange {
  readonly first: string
  readonly last: string
}

/** The listing of a range: where it begins, and its rows, a block at a time. */
export interface Listing {
  readonly offset: number
  rows(): RowBlocks
}

/**
 * Asks for the first page of a listing before anything else of it is known, so that an engine that is another process answers
 * everything at once. Undefined where it depends on more than the query.
 */
export function firstPage(view: LastingView, query: AllDocumentsQuery): Promise<Page> | undefined {
  const range = query.documents ? undefined : directRange(query)
  if (!range || query.limit === 0) return undefined
  const page = firstRows(view, range, query.limit)
  // Who reads the rows gets the error; the listing may end before.
  page.catch(() => {})
  return page
}

/** Of the same query, view and state: the first page of it, if it was asked for. */
export async function listRange(
  database: Database,
  view: LastingView,
  query: AllDocumentsQuery,
  first?: Promise<Page>,
): Promise<Listing> {
  const { within, descending } = query
  const listing = await listBounds(database, view, query, first)
  if (!within) return listing
  const { before, after } = await countAround(database, view, within)
  return { ...listing, offset: listing.offset - (descending ? after : before) }
}

/** How many documents have an id of the range. */
export async function countWithin(database: Database, view: LastingView, within: IdRange): Promise<number> {
  const { total, before, after } = await countAround(database, view, within)
  return total - before - after
}

async function countAround(
  { ranks }: Database,
  { snapshot }: LastingView,
  { first, last }: IdRange,
): Promise<{ total: number; before: number; after: number }> {
  const total = await ranks.total(snapshot)
  const before = await ranks.rank(snapshot, Buffer.from(first))
  return { total, before, after: total - (await ranks.rank(snapshot, Buffer.from(last))) }
}

/** What is read of the store, where no count is needed to know it; undefined too where there is nothing to read. */
function directRange(query: AllDocumentsQuery): KeyRange | undefined {
  if (query.descending || query.skip > 0) return undefined
  const { from, to } = boundsOf(query)
  if (from && to && Buffer.compare(from, to) >= 0) return undefined
  return { from: rowBound(from), to: rowBound(to, AFTER_ALL) }
}

async function listBounds(
  database: Database,
  view: LastingView,
  query: AllDocumentsQuery,
  rowsAhead: Promise<Page> | undefined,
): Promise<Listing> {
  view.reading?.check('list')
  const { from, to } = boundsOf(query)
  const { ranks } = database
  const { snapshot } = view
  const live = new LiveDocuments(ranks, view)
  const first = from ? await ranks.rank(snapshot, from) : 0
  if (!query.descending && query.skip === 0) {
    // Where the range ends need not be known before it is read.
    const range = directRange(query)
    if (query.limit === 0 || !range) return { offset: first, async *rows() {} }
    return { offset: first, rows: () => rowsOf(view, live, range, query, rowsAhead) }
  }
  const total = await ranks.total(snapshot)
  const last = to ? await ranks.rank(snapshot, to) : total
  const inRange = Math.max(0, last - first)
  const skip = Math.min(query.skip, inRange)
  const offset = (query.descending ? total - last : first) + skip
  if (skip === inRange || query.limit === 0) return { offset, async *rows() {} }
  const range: KeyRange = { from: rowBound(from), to: rowBound(to, AFTER_ALL), reverse: query.descending }
  if (skip === 0) return { offset, rows: () => rowsOf(view, live, range, query) }
  // After the last one that is skipped: long keys do not lie in the order of their bytes, but each has its place.
  const skipped = await ranks.select(snapshot, query.descending ? last - skip : first + skip - 1)
  const rest = skipped ? rangeAfter(range, rowKey(skipped)) : range
  return { offset, rows: () => rowsOf(view, live, rest, query) }
}

const AFTER_ALL = afterPrefix(DOCUMENT_PREFIX)

function boundsOf(query: AllDocumentsQuery): IdBounds {
  const bounds = idBounds(query)
  return query.within ? boundsWithin(bounds, query.within) : bounds
}

function boundsWithin({ from, to }: IdBounds, within: IdRange): IdBounds {
  const first = Buffer.from(within.first)
  const last = Buffer.from(within.last)
  const clamped = (bound: Buffer) => {
    if (Buffer.compare(bound, first) < 0) return first
    return Buffer.compare(bound, last) > 0 ? last : bound
  }
  return { from: from ? clamped(from) : first, to: to ? clamped(to) : last }
}

function rowKey(idBytes: Buffer): Buffer {
  return Buffer.concat([DOCUMENT_PREFIX, idBytes])
}

function rowBound(idBytes: Buffer | undefined, open: Buffer = DOCUMENT_PREFIX): Buffer {
  return idBytes ? rowKey(idBytes) : open
}

function rowsOf(
  view: LastingView,
  live: LiveDocuments,
  range: KeyRange,
  { limit, documents }: AllDocumentsQuery,
  first?: Promise<Page>,
): RowBlocks {
  if (!documents) return listedRows(view, live, range, limit, first)
  return documents.contents
    ? listWithContents(view, live, range, limit, documents)
    : listedDocuments(view, live, range, limit, documents)
}
