/**
 * Reads the changes of a database since a sequence for an index: in the order of sequences, each document as the JSON text that
 * map functions get.
 */
import type { DatabaseView } from '../../database/database-view.ts'
import { type ChangePlaces, changePlaces } from '../../database/layout/change-row.ts'
import { afterPrefix, CHANGE_PREFIX, changeKey, sequenceOfChangeKey } from '../../database/layout/keys.ts'
import { type BodyPlace, bodyPlacesWithin } from '../../database/layout/read-many.ts'
import { decodeBody, plainTextAt } from '../../database/layout/stored-body.ts'
import { stubText } from '../../database/reading/document-rendering.ts'
import type { RevisionId } from '../../document/ids.ts'
import { conflicts, deletedConflicts } from '../../document/revisions/winner.ts'
import { copyBytes } from '../../encoding/bytes/short-bytes.ts'
import type { KeyRange, Page, Snapshot } from '../../storage/store.ts'

export interface ChangedBatch {
  readonly documents: readonly ChangedDocument[]
  /** The sequence that is reached with these documents. */
  readonly updateSequence: number
  /** How many changes were read; some documents are left out. */
  readonly changes: number
  /** Whether nothing is left to be read in this state of the database. */
  readonly isLast: boolean
}

/** A batch ends where it reaches one of these: with the very change, and within a page of rows of the bytes. */
export interface BatchLimits {
  readonly changes: number
  readonly bytes: number
}

export async function readChanged(
  view: DatabaseView,
  since: number,
  options: ReadingOptions,
  limits: BatchLimits,
): Promise<ChangedBatch> {
  const documents: ChangedDocument[] = []
  let reached = since
  let changes = 0
  let bytes = 0
  let rest: KeyRange | undefined = { from: changeKey(since + 1), to: afterPrefix(CHANGE_PREFIX) }
  while (rest && changes < limits.changes && bytes < limits.bytes) {
    const page: Page = await view.snapshot.page(rest, { rows: Math.min(PAGE_CHANGES, limits.changes - changes) })
    const found = changesOf(page, options)
    const bodies = await bodiesOf(view.snapshot, found, limits.bytes - bytes)
    const read = withBodies(found, bodies.length)
    for (const document of await documentTexts(view, page.block, read, bodies, options)) {
      bytes += document.text?.length ?? 0
      documents.push(document)
    }
    const next = found[read.length]
    if (next) {
      // Their bodies are too much to be held together with those before.
      reached = next.sequence - 1
      changes += next.row
      rest = { from: changeKey(next.sequence), to: afterPrefix(CHANGE_PREFIX) }
      break
    }
    if (page.length > 0) reached = sequenceOfChangeKey(page.key(page.length - 1))
    changes += page.length
    rest = page.next
  }
  // Sequences without a document, such as that of the security object, are reached too.
  const { updateSequence } = await view.state()
  if (rest && reached < updateSequence) return { documents, updateSequence: reached, changes, isLast: false }
  return { documents, updateSequence, changes, isLast: true }
}

const PAGE_CHANGES = 256

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
  /** What is mapped; undefined where the document has no rows: it is deleted, or of a kind that is left out. */
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

/** The changes lie in the block; there is a body for each that is not deleted. */
async function documentTexts(
  view: DatabaseView,
  block: Buffer,
  changes: readonly Change[],
  bodies: readonly BodyPlace[],
  { localSequence }: ReadingOptions,
): Promise<ChangedDocument[]> {
  const documents: ChangedDocument[] = []
  const splices = Buffer.allocUnsafeSlow(mostBytes(changes, bodies))
  let at = 0
  let next = 0
  for (const change of changes) {
    const { idAt, idEnd, isPlain, deleted, hasOtherLeaves } = change.places
    const quotedId = block.subarray(idAt, idEnd)
    const id = isPlain ? block.subarray(idAt + 1, idEnd - 1) : unquoted(quotedId)
    if (deleted) {
      documents.push({ id, quotedId, text: undefined })
      continue
    }
    const body = bodies[next++]!
    const textAt = hasOtherLeaves || localSequence ? undefined : plainTextAt(body.block, body.start)
    if (textAt === undefined) {
      documents.push({ id, quotedId, text: await renderedText(view, block, change, body, localSequence) })
      continue
    }
    const end = splice(splices, at, block, change.places, body, textAt)
    documents.push({ id, quotedId, text: splices.subarray(at, end) })
    at = end
  }
  return documents
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
async function renderedText(
  view: DatabaseView,
  block: Buffer,
  { places, sequence }: Change,
  body: BodyPlace,
  localSequence: boolean,
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
