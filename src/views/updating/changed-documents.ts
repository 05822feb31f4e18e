/**
 * Reads the changes of a database since a sequence for an index: in the order of sequences, each document as the JSON text that
 * map functions get.
 */
import type { DatabaseView } from '../../database/database-view.ts'
import { type ChangePlaces, changePlaces } from '../../database/layout/change-row.ts'
import {
  afterPrefix,
  CHANGE_PREFIX,
  changeKey,
  type DatabaseState,
  sequenceOfChangeKey,
} from '../../database/layout/keys.ts'
import { type BodyPlace, bodyPlacesWithin } from '../../database/layout/read-bodies.ts'
import { decodeBody, plainTextAt } from '../../database/layout/stored-body.ts'
import { stubText } from '../../database/reading/document-text.ts'
import type { RevisionId } from '../../document/ids.ts'
import { conflicts, deletedConflicts } from '../../document/revisions/winner.ts'
import { copyBytes } from '../../encoding/bytes/short-bytes.ts'
import type { KeyRange, Page, Snapshot } from '../../storage/store.ts'

export interface ChangedBatch {
  readonly documents: readonly ChangedDocument[]
  /** The sequence that is reached with these documents. */
  readonly updateSequence: number
  /** Of the state that they were read in. */
  readonly purgeSequence: number
  /** How many changes were read; some documents are left out. */
  readonly changes: number
  /** Whether nothing is left to be read in this state of the database. */
  readonly isLast: boolean
}

/** A batch ends when it reaches one of these limits; that of bytes to within a page of rows. */
export interface BatchLimits {
  readonly changes: number
  readonly bytes: number
}

/** Called with documents as soon as they are read. */
export type DocumentListener = (documents: readonly ChangedDocument[]) => void

export interface ReadChangedOptions {
  readonly onDocuments?: DocumentListener | undefined
  /** Of the view, if it was read before. */
  readonly state?: Promise<DatabaseState> | undefined
  readonly onChanges?: ChangesListener | undefined
  /** The first changes, if they were read before. */
  readonly firstPage?: Promise<Page> | undefined
}

/** Called with the ids of changed documents before their bodies are read: what else is read of them goes with these. */
export type ChangesListener = (ids: readonly Buffer[]) => void

export async function readChanged(
  view: DatabaseView,
  since: number,
  options: ReadingOptions,
  limits: BatchLimits,
  { onDocuments, state = view.state(), onChanges, firstPage }: ReadChangedOptions = {},
): Promise<ChangedBatch> {
  const documents: ChangedDocument[] = []
  // Where it has to be read, that is done together with the first changes. A failure is reported when it is awaited.
  state.catch(() => {})
  let reached = since
  let changes = 0
  let bytes = 0
  let rest: KeyRange | undefined = changesSince(since)
  while (rest && changes < limits.changes && bytes < limits.bytes) {
    const left = { changes: limits.changes - changes, bytes: limits.bytes - bytes }
    const found = changes === 0 ? await firstPage : undefined
    const page = await readChangedPage(view.snapshot, rest, options, left, { found, onChanges })
    const some = await documentTexts(view, page, options)
    for (const document of some) {
      bytes += document.text?.length ?? 0
      documents.push(document)
    }
    onDocuments?.(some)
    reached = page.reached ?? reached
    changes += page.read
    rest = page.rest
    if (page.isCut) break
  }
  // Sequences without a document, such as that of the security object, are reached too.
  const { updateSequence, purgeSequence } = await state
  const isLast = !rest || reached >= updateSequence
  return { documents, updateSequence: isLast ? updateSequence : reached, purgeSequence, changes, isLast }
}

export function changesSince(since: number): KeyRange {
  return { from: changeKey(since + 1), to: afterPrefix(CHANGE_PREFIX) }
}

/** Some changes, and the bodies of those that are not deleted. */
export interface ChangedPage {
  /** Where the changes lie. */
  readonly block: Buffer
  readonly changes: readonly Change[]
  readonly bodies: readonly BodyPlace[]
  /** How many changes were read; some are left out. */
  readonly read: number
  /** The sequence that is reached with them; undefined where there are none. */
  readonly reached: number | undefined
  readonly rest: KeyRange | undefined
  /** Whether it ends early, since the bodies that follow are too much to be held together with these. */
  readonly isCut: boolean
}

const PAGE_CHANGES = 256

/** The first rows of changes: as many as are read together. */
export function firstChanges(snapshot: Snapshot, since: number): Promise<Page> {
  return snapshot.page(changesSince(since), { rows: PAGE_CHANGES })
}

/** The first changes of a range, up to a page of them. */
export async function readChangedPage(
  snapshot: Snapshot,
  range: KeyRange,
  options: ReadingOptions,
  limits: BatchLimits,
  {
    found: known,
    onChanges,
  }: { readonly found?: Page | undefined; readonly onChanges?: ChangesListener | undefined } = {},
): Promise<ChangedPage> {
  const page = known ?? (await snapshot.page(range, { rows: Math.min(PAGE_CHANGES, limits.changes) }))
  const { block, length } = page
  const found = changesOf(page, options)
  onChanges?.(found.map(({ places }) => idsOf(block, places).id))
  const bodies = await bodiesOf(snapshot, found, limits.bytes)
  const changes = withBodies(found, bodies.length)
  const next = found[changes.length]
  if (next) {
    const [reached, rest] = [next.sequence - 1, changesSince(next.sequence - 1)]
    return { block, changes, bodies, read: next.row, reached, rest, isCut: true }
  }
  const reached = length > 0 ? sequenceOfChangeKey(block, page.bounds[3 * (length - 1)]) : undefined
  return { block, changes, bodies, read: length, reached, rest: page.next, isCut: false }
}

interface FoundChange extends Change {
  /** Its place in the page. */
  readonly row: number
}

function changesOf({ length, block, bounds }: Page, { includeDesign }: ReadingOptions): FoundChange[] {
  const changes: FoundChange[] = []
  for (let row = 0; row < length; row++) {
    const places = changePlaces(block, bounds[3 * row + 1], bounds[3 * row + 2])
    // One that was never in the index need not be looked for there.
    if (!includeDesign && isDesign(block, places.idAt)) continue
    changes.push({ places, sequence: sequenceOfChangeKey(block, bounds[3 * row]), row })
  }
  return changes
}

const DESIGN = Buffer.from('"_design/')

function isDesign(block: Buffer, idAt: number): boolean {
  for (let i = 0; i < DESIGN.length; i++) if (block[idAt + i] !== DESIGN[i]) return false
  return true
}

/** The changes before the first one whose body is not among so many. */
function withBodies<T extends Change>(changes: readonly T[], bodies: number): readonly T[] {
  let needed = 0
  const end = changes.findIndex(({ places }) => !places.deleted && ++needed > bodies)
  return end < 0 ? changes : changes.slice(0, end)
}

/** The bodies of those changes that have a text, from the first one on until they are so many bytes. */
async function bodiesOf(snapshot: Snapshot, changes: readonly Change[], bytes: number): Promise<readonly BodyPlace[]> {
  const numbers: number[] = []
  for (const { places } of changes) if (!places.deleted) numbers.push(places.body)
  return bodyPlacesWithin(snapshot, numbers, bytes)
}

export interface ChangedDocument {
  /** UTF-8. */
  readonly id: Buffer
  /** As JSON text, with its quotes. */
  readonly quotedId: Buffer
  /** The mapped text; undefined if the document has no rows: it is deleted, or a design document that is not mapped. */
  readonly text: Buffer | undefined
}

export interface ReadingOptions {
  readonly localSequence: boolean
  readonly includeDesign: boolean
}

export interface Change {
  readonly places: ChangePlaces
  readonly sequence: number
}

async function documentTexts(
  view: DatabaseView,
  { block, changes, bodies }: ChangedPage,
  { localSequence }: ReadingOptions,
): Promise<ChangedDocument[]> {
  const documents: ChangedDocument[] = []
  const splices = Buffer.allocUnsafeSlow(mostBytes(changes, bodies))
  let at = 0
  let next = 0
  for (const change of changes) {
    const { id, quotedId } = idsOf(block, change.places)
    if (change.places.deleted) {
      documents.push({ id, quotedId, text: undefined })
      continue
    }
    const body = bodies[next++]!
    const textAt = wholeTextAt(change, body, { localSequence })
    if (textAt === undefined) {
      documents.push({ id, quotedId, text: await renderedText(view, block, change, body, { localSequence }) })
      continue
    }
    const end = splice(splices, at, block, change.places, body, textAt)
    documents.push({ id, quotedId, text: splices.subarray(at, end) })
    at = end
  }
  return documents
}

export type DocumentIds = Pick<ChangedDocument, 'id' | 'quotedId'>

/** The id of a changed document, which lies in the block. */
export function idsOf(block: Buffer, { idAt, idEnd, isPlain }: ChangePlaces): DocumentIds {
  const quotedId = block.subarray(idAt, idEnd)
  return { id: isPlain ? block.subarray(idAt + 1, idEnd - 1) : unquoted(quotedId), quotedId }
}

/** Where the text of a document begins of which id and revision are all that there is to say besides; else undefined. */
export function wholeTextAt(
  { places }: Change,
  { block, start }: BodyPlace,
  { localSequence }: Pick<ReadingOptions, 'localSequence'>,
): number | undefined {
  return places.hasOtherLeaves || localSequence ? undefined : plainTextAt(block, start)
}

function unquoted(quoted: Buffer): Buffer {
  const id: string = JSON.parse(quoted.toString())
  return Buffer.from(id)
}

const BEFORE_ID = Buffer.from('{"_id":')
const BEFORE_REVISION = Buffer.from(',"_rev":')
const COMMA = 0x2c
const EMPTY_BODY_BYTES = '{}'.length

function mostBytes(changes: readonly Change[], bodies: readonly BodyPlace[]): number {
  let bytes = changes.length * (BEFORE_ID.length + BEFORE_REVISION.length)
  for (const { places } of changes) bytes += places.idEnd - places.idAt + places.winnerEnd - places.winnerAt
  for (const { start, end } of bodies) bytes += end - start
  return bytes
}

/** Writes what most documents need: their own text behind id and revision. Answers where it ends. */
function splice(
  target: Buffer,
  position: number,
  block: Buffer,
  { idAt, idEnd, winnerAt, winnerEnd }: ChangePlaces,
  body: BodyPlace,
  textAt: number,
): number {
  let at = copyBytes(target, position, BEFORE_ID, 0, BEFORE_ID.length)
  at = copyBytes(target, at, block, idAt, idEnd)
  at = copyBytes(target, at, BEFORE_REVISION, 0, BEFORE_REVISION.length)
  at = copyBytes(target, at, block, winnerAt, winnerEnd)
  // The body's brace gives way to a comma; an empty body leaves its closing brace alone.
  if (body.end - textAt > EMPTY_BODY_BYTES) target[at++] = COMMA
  return at + body.block.copy(target, at, textAt + 1, body.end)
}

/** The text of a document of which there is more to say. */
export async function renderedText(
  view: DatabaseView,
  block: Buffer,
  { places, sequence }: Change,
  body: BodyPlace,
  { localSequence }: Pick<ReadingOptions, 'localSequence'>,
): Promise<Buffer> {
  const { text, attachments } = decodeBody(body.block.subarray(body.start, body.end))
  const id: string = JSON.parse(block.toString('utf8', places.idAt, places.idEnd))
  const revision: RevisionId = JSON.parse(block.toString('utf8', places.winnerAt, places.winnerEnd))
  const record = places.hasOtherLeaves ? await view.record(id) : undefined
  const tree = record && (await view.tree(id, record))
  const parts = {
    id,
    revision,
    body: text,
    conflicts: tree && conflicts(tree),
    deletedConflicts: tree && deletedConflicts(tree),
    localSequence: localSequence ? sequence : undefined,
  }
  return stubText({ revision, deleted: false, parts, attachments, knownGeneration: 0 })
}
