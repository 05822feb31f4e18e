/**
 * Rows of documents as texts, one by one: those requested by `keys`, and those with the contents of attachments, which are
 * rendered while they are sent.
 */
import type { RevisionId } from '../../document/ids.ts'
import { conflicts } from '../../document/revisions/winner.ts'
import { quoteText } from '../../encoding/json/json-text-splice.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import { rangeAfter } from '../../storage/rows/stored-key.ts'
import type { KeyRange } from '../../storage/store.ts'
import type { LastingView } from '../database-view.ts'
import { summarizeRecord } from '../layout/document-record.ts'
import { documentKey, idOfDocumentKey } from '../layout/keys.ts'
import type { OpenedDocument } from '../reading/document-text.ts'
import { inlineText, stubText } from '../reading/document-text.ts'
import { ATTEMPTS, contentsMissing } from '../reading/open-kept.ts'
import type { DocumentsWanted } from './document-listing.ts'
import type { PieceableText, RowBlocks } from './listed-rows.ts'
import type { LiveDocuments } from './listing-range.ts'

/** One row for each key, whether there is such a document or not. If some must not be found, `isThere` decides. */
export async function* listKeys(
  view: LastingView,
  keys: readonly unknown[],
  documents: DocumentsWanted | undefined,
  isThere: (key: unknown) => boolean = () => true,
): RowBlocks {
  let inVain = 0
  const slice = new TimeSlice()
  for (let first = 0; first < keys.length; ) {
    if (slice.isOverNow) await slice.pause()
    // Until something of it is open. What is found in states that are released right after that is never sent.
    using pin = view.pin()
    const { found, renewals } = await findKeys(view, nextKeys(keys, first), isThere)
    for (const portion of documents ? portions(found, ({ row }) => bytesOf(row)) : [found]) {
      const live = portion.map(({ row }) => row).filter(isLive)
      const texts = documents && (await openTexts(view, live, documents, renewals))
      pin[Symbol.dispose]()
      if (texts === 'outdated') break
      if (texts === 'gone') {
        lookAgain(view, ++inVain)
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

/** The rows of a range of ids with their documents, contents and all. */
export async function* listWithContents(
  view: LastingView,
  live: LiveDocuments,
  range: KeyRange,
  limit: number,
  documents: DocumentsWanted,
): RowBlocks {
  let left = limit
  let inVain = 0
  for (let rest: KeyRange | undefined = range; rest && left > 0; ) {
    // As above.
    using pin = view.pin()
    const { rows, next, renewals } = await findRows(view, live, rest, left)
    let unsent: KeyRange = rest
    rest = next
    for (const portion of portions(rows, bytesOf)) {
      const texts = await openTexts(view, portion, documents, renewals)
      pin[Symbol.dispose]()
      if (texts === 'outdated' || texts === 'gone') {
        if (texts === 'gone') lookAgain(view, ++inVain)
        rest = unsent
        break
      }
      inVain = 0
      try {
        yield portion.map((row) => liveRow(row, texts.of))
      } finally {
        texts.release()
      }
      left -= portion.length
      const last = portion.at(-1)
      if (last) unsent = rangeAfter(range, documentKey(last.id))
    }
  }
}

/** In the newest state, which does not refer to the contents that are gone. */
function lookAgain(view: LastingView, inVain: number): void {
  if (inVain === ATTEMPTS) throw contentsMissing()
  view.renew()
}

const KEYS_A_BLOCK = 500
/** A key that is not a string takes as long as this many strings: it may be nested. */
const KEYS_A_VALUE = 50

function nextKeys(keys: readonly unknown[], first: number): readonly unknown[] {
  let end = first
  for (let weight = 0; end < keys.length && weight < KEYS_A_BLOCK; end++) {
    weight += typeof keys[end] === 'string' ? 1 : KEYS_A_VALUE
  }
  return keys.slice(first, end)
}

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

interface FoundKey {
  readonly key: unknown
  readonly row: FoundRow | undefined
}

/** What was found in one state of the view, and which one that was. */
async function findKeys(
  view: LastingView,
  keys: readonly unknown[],
  isThere: (key: unknown) => boolean,
): Promise<{ found: readonly FoundKey[]; renewals: number }> {
  using _pin = view.pin()
  const ids = keys.filter((key): key is string => typeof key === 'string' && isThere(key))
  const stored = await view.snapshot.getMany(ids.map(documentKey))
  const rows = new Map<unknown, FoundRow>()
  for (const [i, id] of ids.entries()) if (stored[i]) rows.set(id, { id, ...summarizeRecord(stored[i]) })
  return { found: keys.map((key) => ({ key, row: rows.get(key) })), renewals: view.renewals }
}

interface FoundRows {
  readonly rows: readonly FoundRow[]
  readonly next: KeyRange | undefined
  readonly renewals: number
}

/** The live documents of the next page. */
async function findRows(view: LastingView, live: LiveDocuments, range: KeyRange, limit: number): Promise<FoundRows> {
  using _pin = view.pin()
  const page = await view.snapshot.page(range)
  const rows: FoundRow[] = []
  for (let row = 0; row < page.length && rows.length < limit; row++) {
    const summary = summarizeRecord(page.value(row))
    if (!summary.deleted) rows.push({ id: idOfDocumentKey(page.key(row)), ...summary })
  }
  const next = rows.length > 0 ? page.next : await live.after(page)
  return { rows, next, renewals: view.renewals }
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

/**
 * The documents of rows that were found in that state; `outdated` if it was released and they must be looked up again, `gone` if
 * a newer state refers to their contents no longer, and compaction has removed them.
 */
async function openTexts(
  view: LastingView,
  rows: readonly FoundRow[],
  wanted: DocumentsWanted,
  renewals: number,
): Promise<OpenTexts | 'outdated' | 'gone'> {
  using _pin = view.pin()
  if (view.renewals !== renewals) return 'outdated'
  const documents = await openDocuments(view, rows, wanted)
  const release = await wanted.contents?.keepAll(documents.flatMap(({ attachments }) => attachments))
  if (release === 'gone') return 'gone'
  const { reading } = view
  const byId = new Map(documents.map((document) => [document.parts.id, document]))
  // Rendered for each row: a key may be asked for twice, and pieces are given once.
  const textById = (id: string): PieceableText => {
    const document = byId.get(id)
    if (!document) return 'null'
    return reading ? reading.listed(document) : textOf(document, wanted)
  }
  return { of: textById, release: () => release?.() }
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

function textOf(document: OpenedDocument, { contents, encodingInfo }: DocumentsWanted): PieceableText {
  if (!contents || document.attachments.length === 0) return stubText(document, { encodingInfo }).toString()
  return inlineText(document, contents, { encodingInfo }).chunks()
}
