/**
 * The list of all documents in the order of their ids, or a part of it. Where the part begins and how many documents
 * lie before it is asked of the rank tree, so skipping costs no more than starting. When its reader stalls the list goes
 * on, after the last document sent, from a newer state: what is there all the time is listed once.
 */
import type { RevisionId } from '../document/revision-id.ts'
import { conflicts } from '../document/winner.ts'
import { quoteText } from '../encoding/json-text-splice.ts'
import { rangeAfter } from '../storage/long-key.ts'
import type { KeyRange } from '../storage/store.ts'
import type { AttachmentStore } from './attachment-store.ts'
import type { Database } from './database.ts'
import type { LastingView } from './database-view.ts'
import { summarizeRecord } from './document-record.ts'
import { afterPrefix, DOCUMENT_PREFIX, documentKey, idOfDocumentKey } from './keys.ts'
import type { OpenedDocument } from './open-document.ts'
import { ATTEMPTS, contentsMissing } from './open-kept.ts'

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
  /** Where the contents of attachments are read from, if they are wanted: they are kept while they are sent. */
  readonly contents: AttachmentStore | undefined
  /** Gives the text of a document, in pieces where it has contents of attachments in it. */
  render(document: OpenedDocument): PieceableText
}

/** A JSON text, whole or in pieces that are made while they are sent. */
export type PieceableText = string | AsyncIterable<string | Buffer>

/** Rows as JSON texts. A row in pieces is to be read before the next block is asked for. */
export type RowBlocks = AsyncGenerator<readonly PieceableText[]>

/** The listing of a range: where it begins, and its rows, a block at a time. */
export interface Listing {
  readonly offset: number
  rows(): RowBlocks
}

export async function listRange(database: Database, view: LastingView, query: AllDocumentsQuery): Promise<Listing> {
  view.reading?.check('list')
  const { from, to } = boundsOf(query)
  const { ranks } = database
  const { snapshot } = view
  const first = from ? await ranks.rank(snapshot, from) : 0
  if (!query.descending && query.skip === 0) {
    // Where the range ends need not be known before it is read.
    if (query.limit === 0 || (from && to && Buffer.compare(from, to) >= 0)) return { offset: first, async *rows() {} }
    const range: KeyRange = { from: rowBound(from), to: rowBound(to, AFTER_ALL) }
    return { offset: first, rows: () => rowsOf(view, range, query.limit, query.documents) }
  }
  const total = await ranks.total(snapshot)
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
  view: LastingView,
  keys: readonly unknown[],
  documents: DocumentsWanted | undefined,
): RowBlocks {
  let inVain = 0
  for (let first = 0; first < keys.length; ) {
    const { found, renewals } = await findKeys(view, keys.slice(first, first + KEYS_A_BLOCK))
    for (const portion of documents ? portions(found, ({ row }) => bytesOf(row)) : [found]) {
      const live = portion.map(({ row }) => row).filter(isLive)
      const texts = documents && (await openTexts(view, live, documents, renewals))
      if (texts === 'outdated') {
        if (++inVain === ATTEMPTS) throw contentsMissing()
        break
      }
      inVain = 0
      try {
        yield portion.map(({ key, row }) => keyRow(key, row, texts?.of))
      } finally {
        texts?.release()
      }
      first += portion.length
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

interface FoundKey {
  readonly key: unknown
  readonly row: FoundRow | undefined
}

/** What was found in one state of the view, and which one that was. */
async function findKeys(
  view: LastingView,
  keys: readonly unknown[],
): Promise<{ found: readonly FoundKey[]; renewals: number }> {
  using _pin = view.pin()
  const ids = keys.filter((key) => typeof key === 'string')
  const stored = await view.snapshot.getMany(ids.map(documentKey))
  const rows = new Map<unknown, FoundRow>()
  for (const [i, id] of ids.entries()) if (stored[i]) rows.set(id, { id, ...summarizeRecord(stored[i]) })
  return { found: keys.map((key) => ({ key, row: rows.get(key) })), renewals: view.renewals }
}

async function* rowsOf(
  view: LastingView,
  range: KeyRange,
  limit: number,
  documents: DocumentsWanted | undefined,
): RowBlocks {
  let left = limit
  let inVain = 0
  for (let rest: KeyRange | undefined = range; rest && left > 0; ) {
    const { rows, next, renewals } = await findRows(view, rest, left)
    let unsent: KeyRange = rest
    rest = next
    for (const portion of documents ? portions(rows, bytesOf) : [rows]) {
      const texts = documents && (await openTexts(view, portion, documents, renewals))
      if (texts === 'outdated') {
        if (++inVain === ATTEMPTS) throw contentsMissing()
        rest = unsent
        break
      }
      inVain = 0
      try {
        yield portion.map((row) => liveRow(row, texts?.of))
      } finally {
        texts?.release()
      }
      left -= portion.length
      const last = portion.at(-1)
      if (last) unsent = rangeAfter(range, documentKey(last.id))
    }
  }
}

interface FoundRows {
  readonly rows: readonly FoundRow[]
  readonly next: KeyRange | undefined
  readonly renewals: number
}

/** The live documents of the next page. */
async function findRows(view: LastingView, range: KeyRange, limit: number): Promise<FoundRows> {
  using _pin = view.pin()
  const page = await view.snapshot.page(range)
  const rows: FoundRow[] = []
  for (let row = 0; row < page.length && rows.length < limit; row++) {
    const summary = summarizeRecord(page.value(row))
    if (!summary.deleted) rows.push({ id: idOfDocumentKey(page.key(row)), ...summary })
  }
  return { rows, next: page.next, renewals: view.renewals }
}

function liveRow({ id, winner }: FoundRow, textOf: TextOf | undefined): PieceableText {
  const quoted = quoteText(id)
  const row = `{"id":${quoted},"key":${quoted},"value":{"rev":${quoteText(winner)}}`
  if (!textOf) return `${row}}`
  const text = textOf(id)
  return typeof text === 'string' ? `${row},"doc":${text}}` : enclosed(`${row},"doc":`, text, '}')
}

async function* enclosed(
  before: string,
  pieces: AsyncIterable<string | Buffer>,
  after: string,
): AsyncGenerator<string | Buffer> {
  yield before
  yield* pieces
  yield after
}

function keyRow(key: unknown, row: FoundRow | undefined, textOf: TextOf | undefined): PieceableText {
  if (!row) return `{"key":${JSON.stringify(key)},"error":"not_found"}`
  if (!row.deleted) return liveRow(row, textOf)
  const quoted = quoteText(row.id)
  const tombstone = `{"id":${quoted},"key":${quoted},"value":{"rev":${quoteText(row.winner)},"deleted":true}`
  return textOf ? `${tombstone},"doc":null}` : `${tombstone}}`
}

type TextOf = (id: string) => PieceableText

interface OpenTexts {
  readonly of: TextOf
  /** To be called when the texts were sent, or will not be. */
  release(): void
}

/** The documents of rows that were found in that state; `outdated` when it is gone and they must be looked up anew. */
async function openTexts(
  view: LastingView,
  rows: readonly FoundRow[],
  wanted: DocumentsWanted,
  renewals: number,
): Promise<OpenTexts | 'outdated'> {
  using pin = view.pin()
  if (view.renewals !== renewals) return 'outdated'
  const documents = await openDocuments(view, rows, wanted)
  const release = await wanted.contents?.keepAll(documents.flatMap(({ attachments }) => attachments))
  if (release === 'gone') {
    // A newer state refers to them no longer, and compaction has removed them.
    pin[Symbol.dispose]()
    view.renew()
    return 'outdated'
  }
  const { reading } = view
  const byId = new Map(documents.map((document) => [document.parts.id, document]))
  // Rendered for each row: a key may be asked for twice, and pieces are given once.
  const textOf = (id: string): PieceableText => {
    const document = byId.get(id)
    if (!document) return 'null'
    return reading ? reading.listed(document) : wanted.render(document)
  }
  return { of: textOf, release: () => release?.() }
}

async function openDocuments(
  view: LastingView,
  rows: readonly FoundRow[],
  wanted: DocumentsWanted,
): Promise<OpenedDocument[]> {
  const bodies = await view.bodies(rows.map(({ body }) => body))
  const trees = wanted.conflicts ? await view.records(rows.map(({ id }) => id)) : []
  return rows.map(({ id, winner: revision }, i) => {
    const { text, attachments } = bodies[i]!
    const tree = trees[i]?.record?.tree
    const parts = { id, revision, body: text, conflicts: tree && conflicts(tree) }
    return { revision, deleted: false, parts, attachments, knownGeneration: 0 }
  })
}
