/**
 * The list of all documents in the order of their ids, or a part of it. Where the part begins and how many documents
 * lie before it is asked of the rank tree, so skipping costs no more than starting.
 */
import type { RevisionId } from '../document/revision-id.ts'
import { conflicts } from '../document/winner.ts'
import { quoteText } from '../encoding/json-text-splice.ts'
import type { KeyRange, Page } from '../storage/store.ts'
import type { Database } from './database.ts'
import type { DatabaseView } from './database-view.ts'
import { summarizeRecord } from './document-record.ts'
import { afterPrefix, DOCUMENT_PREFIX, documentKey, idOfDocumentKey } from './keys.ts'
import type { OpenedDocument } from './open-document.ts'

export interface AllDocumentsQuery {
  /** Where to begin and to end, in the direction of the listing. */
  readonly start?: string | undefined
  readonly end?: string | undefined
  readonly inclusiveEnd: boolean
  readonly descending: boolean
  readonly skip: number
  readonly limit: number
  readonly documents: DocumentsWanted | undefined
}

/** What is wanted of the documents themselves, where they are wanted at all. */
export interface DocumentsWanted {
  readonly conflicts: boolean
  /** Gives the text of a document: with its attachments or without. */
  render(document: OpenedDocument): string | Promise<string>
}

/** The listing of a range: where it begins, and its rows as JSON texts, a block at a time. */
export interface Listing {
  readonly offset: number
  rows(): AsyncGenerator<string[]>
}

export async function listRange(database: Database, view: DatabaseView, query: AllDocumentsQuery): Promise<Listing> {
  view.reading?.check('list')
  const { from, to } = boundsOf(query)
  const { ranks } = database
  const { snapshot } = view
  const total = await ranks.total(snapshot)
  const first = from ? await ranks.rank(snapshot, from) : 0
  const last = to ? await ranks.rank(snapshot, to) : total
  const inRange = Math.max(0, last - first)
  const skip = Math.min(query.skip, inRange)
  const offset = (query.descending ? total - last : first) + skip
  if (skip === inRange || query.limit === 0) return { offset, async *rows() {} }
  const beginning =
    skip === 0 ? undefined : await ranks.select(snapshot, query.descending ? last - 1 - skip : first + skip)
  const range: KeyRange = query.descending
    ? { from: rowBound(from), to: beginning ? after(rowKey(beginning)) : rowBound(to, AFTER_ALL), reverse: true }
    : { from: beginning ? rowKey(beginning) : rowBound(from), to: rowBound(to, AFTER_ALL) }
  return { offset, rows: () => rowsOf(view, range, query.limit, query.documents) }
}

/** One row for each key, whether there is such a document or not. */
export async function* listKeys(
  view: DatabaseView,
  keys: readonly unknown[],
  documents: DocumentsWanted | undefined,
): AsyncGenerator<string[]> {
  for (let first = 0; first < keys.length; first += KEYS_A_BLOCK) {
    const some = keys.slice(first, first + KEYS_A_BLOCK)
    const ids = some.filter((key) => typeof key === 'string')
    const stored = await view.snapshot.getMany(ids.map(documentKey))
    const rows = new Map<unknown, FoundRow>()
    for (const [i, id] of ids.entries()) if (stored[i]) rows.set(id, { id, ...summarizeRecord(stored[i]) })
    const found = some.map((key) => ({ key, row: rows.get(key) }))
    for (const portion of documents ? portions(found, ({ row }) => bytesOf(row)) : [found]) {
      const live = portion.map(({ row }) => row).filter(isLive)
      const texts = documents && (await documentTexts(view, live, documents))
      yield portion.map(({ key, row }) => keyRow(key, row, texts))
    }
  }
}

const AFTER_ALL = afterPrefix(DOCUMENT_PREFIX)
const KEYS_A_BLOCK = 500

/** Documents are read together up to the one that reaches this: however large they are, few are in memory at a time. */
const PORTION_BYTES = 256 * 1024

interface FoundRow {
  readonly id: string
  readonly winner: RevisionId
  readonly deleted: boolean
  readonly body: number
  readonly bodyBytes: number
}

function bytesOf(row: FoundRow | undefined): number {
  return isLive(row) ? row.bodyBytes : 0
}

function* portions<T>(items: readonly T[], sizeOf: (item: T) => number): Generator<T[]> {
  let portion: T[] = []
  let bytes = 0
  for (const item of items) {
    portion.push(item)
    bytes += sizeOf(item)
    if (bytes < PORTION_BYTES) continue
    yield portion
    portion = []
    bytes = 0
  }
  if (portion.length > 0) yield portion
}

function isLive(row: FoundRow | undefined): row is FoundRow {
  return row !== undefined && !row.deleted
}

/** Bounds of ids as bytes: from inclusive, to exclusive. */
function boundsOf({ start, end, inclusiveEnd, descending }: AllDocumentsQuery): { from?: Buffer; to?: Buffer } {
  const low = descending ? end : start
  const high = descending ? start : end
  const isLowIncluded = !descending || inclusiveEnd
  const isHighIncluded = descending || inclusiveEnd
  return {
    ...(low !== undefined && { from: isLowIncluded ? Buffer.from(low) : after(Buffer.from(low)) }),
    ...(high !== undefined && { to: isHighIncluded ? after(Buffer.from(high)) : Buffer.from(high) }),
  }
}

/** The least key above this one. */
function after(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)])
}

function rowKey(idBytes: Buffer): Buffer {
  return Buffer.concat([DOCUMENT_PREFIX, idBytes])
}

function rowBound(idBytes: Buffer | undefined, open: Buffer = DOCUMENT_PREFIX): Buffer {
  return idBytes ? rowKey(idBytes) : open
}

async function* rowsOf(
  view: DatabaseView,
  range: KeyRange,
  limit: number,
  documents: DocumentsWanted | undefined,
): AsyncGenerator<string[]> {
  let left = limit
  for (let rest: KeyRange | undefined = range; rest && left > 0; ) {
    const page: Page = await view.snapshot.page(rest)
    const rows: FoundRow[] = []
    for (let row = 0; row < page.length && rows.length < left; row++) {
      const summary = summarizeRecord(page.value(row))
      if (!summary.deleted) rows.push({ id: idOfDocumentKey(page.key(row)), ...summary })
    }
    left -= rows.length
    rest = page.next
    for (const portion of documents ? portions(rows, bytesOf) : [rows]) {
      const texts = documents && (await documentTexts(view, portion, documents))
      yield portion.map((row) => liveRow(row, texts))
    }
  }
}

function liveRow({ id, winner }: FoundRow, texts: ReadonlyMap<string, string> | undefined): string {
  const quoted = quoteText(id)
  const row = `{"id":${quoted},"key":${quoted},"value":{"rev":"${winner}"}`
  return texts ? `${row},"doc":${texts.get(id)}}` : `${row}}`
}

function keyRow(key: unknown, row: FoundRow | undefined, texts: ReadonlyMap<string, string> | undefined): string {
  if (!row) return `{"key":${JSON.stringify(key)},"error":"not_found"}`
  if (!row.deleted) return liveRow(row, texts)
  const quoted = quoteText(row.id)
  const tombstone = `{"id":${quoted},"key":${quoted},"value":{"rev":"${row.winner}","deleted":true}`
  return texts ? `${tombstone},"doc":null}` : `${tombstone}}`
}

async function documentTexts(
  view: DatabaseView,
  rows: readonly FoundRow[],
  wanted: DocumentsWanted,
): Promise<Map<string, string>> {
  const bodies = await view.bodies(rows.map(({ body }) => body))
  const trees = wanted.conflicts ? await view.records(rows.map(({ id }) => id)) : []
  const texts = new Map<string, string>()
  for (const [i, { id, winner: revision }] of rows.entries()) {
    const { text, attachments } = bodies[i]!
    const tree = trees[i]?.record?.tree
    const parts = { id, revision, body: text, conflicts: tree && conflicts(tree) }
    const document = { revision, deleted: false, parts, attachments, knownGeneration: 0 }
    texts.set(id, view.reading ? view.reading.listed(document) : await wanted.render(document))
  }
  return texts
}
