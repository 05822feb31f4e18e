/**
 * Reads what changed in a database since a sequence, as an index wants it: in the order of sequences, each document as the
 * JSON text that its map functions see.
 */
import { changeTexts } from '../database/change-row.ts'
import type { DatabaseView } from '../database/database-view.ts'
import { stubText } from '../database/document-rendering.ts'
import {
  afterPrefix,
  bodyKey,
  CHANGE_PREFIX,
  changeKey,
  numberOfBodyKey,
  sequenceOfChangeKey,
} from '../database/keys.ts'
import { decodeBody, type StoredBody } from '../database/stored-body.ts'
import type { RevisionId } from '../document/revision-id.ts'
import { conflicts, deletedConflicts } from '../document/winner.ts'
import type { KeyRange, Page, Snapshot } from '../storage/store.ts'

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

export interface ChangedBatch {
  readonly documents: readonly ChangedDocument[]
  /** The sequence that is reached with these documents. */
  readonly updateSequence: number
  /** How many changes were read; some documents are left out. */
  readonly changes: number
  /** Whether nothing is left to be read in this state of the database. */
  readonly isLast: boolean
}

/** A batch ends with the document that reaches one of these. */
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
    const read = changesOf(page, options)
    const bodies = await bodiesOf(view, read)
    let next = 0
    for (const change of read) {
      const text = change.hasText ? await textOf(view, change, bodies[next++]!, options) : undefined
      bytes += text?.length ?? 0
      documents.push({ id: change.id, quotedId: change.quotedId, text })
    }
    if (page.length > 0) reached = sequenceOfChangeKey(page.key(page.length - 1))
    changes += page.length
    rest = page.next
  }
  if (rest) return { documents, updateSequence: reached, changes, isLast: false }
  // Sequences without a document, such as that of the security object, are reached too.
  const { updateSequence } = await view.state()
  return { documents, updateSequence, changes, isLast: true }
}

const PAGE_CHANGES = 256

/** The bodies of those changes that have a text. */
async function bodiesOf(view: DatabaseView, changes: readonly Change[]): Promise<StoredBody[]> {
  const numbers: number[] = []
  for (const { hasText, body } of changes) if (hasText) numbers.push(body)
  return (await inOneScan(view.snapshot, numbers)) ?? view.bodies(numbers)
}

/** Documents that were written one after the other have their bodies side by side; undefined where that is not so. */
async function inOneScan(snapshot: Snapshot, numbers: readonly number[]): Promise<StoredBody[] | undefined> {
  const [first, last] = [numbers[0], numbers.at(-1)]
  if (first === undefined || last === undefined || last - first >= 2 * numbers.length) return undefined
  const bodies: StoredBody[] = []
  let rest: KeyRange | undefined = { from: bodyKey(first), to: bodyKey(last + 1) }
  while (rest) {
    const page: Page = await snapshot.page(rest, { rows: PAGE_CHANGES, bytes: SCAN_BYTES })
    for (let row = 0; row < page.length && bodies.length < numbers.length; row++) {
      const number = numberOfBodyKey(page.key(row))
      const wanted = numbers[bodies.length]!
      if (number === wanted) bodies.push(decodeBody(page.value(row)))
      else if (number > wanted) return undefined
    }
    rest = page.next
  }
  return bodies.length === numbers.length ? bodies : undefined
}

const SCAN_BYTES = 256 * 1024

interface Change {
  readonly id: Buffer
  readonly quotedId: Buffer
  readonly quotedWinner: Buffer
  readonly sequence: number
  readonly body: number
  readonly hasText: boolean
  readonly hasOtherLeaves: boolean
}

function changesOf(page: Page, { includeDesign }: ReadingOptions): Change[] {
  const changes: Change[] = []
  for (let row = 0; row < page.length; row++) {
    const texts = changeTexts(page.value(row))
    const { id: quotedId, winner: quotedWinner, deleted, body, hasOtherLeaves } = texts
    const id = texts.isPlain ? quotedId.subarray(1, -1) : unquoted(quotedId)
    const isDesign = id.length >= DESIGN.length && DESIGN.equals(id.subarray(0, DESIGN.length))
    // One that was never in the index need not be looked for there.
    if (isDesign && !includeDesign) continue
    const sequence = sequenceOfChangeKey(page.key(row))
    changes.push({ id, quotedId, quotedWinner, sequence, body, hasText: !deleted, hasOtherLeaves })
  }
  return changes
}

const DESIGN = Buffer.from('_design/')

function unquoted(quoted: Buffer): Buffer {
  const id: string = JSON.parse(quoted.toString())
  return Buffer.from(id)
}

async function textOf(
  view: DatabaseView,
  change: Change,
  { text, attachments }: StoredBody,
  { localSequence }: ReadingOptions,
): Promise<Buffer> {
  if (!change.hasOtherLeaves && !localSequence && attachments.length === 0) return splice(change, text)
  const id = change.id.toString()
  const revision: RevisionId = JSON.parse(change.quotedWinner.toString())
  const record = change.hasOtherLeaves ? await view.record(id) : undefined
  const tree = record && (await view.tree(id, record))
  const parts = {
    id,
    revision,
    body: text,
    conflicts: tree && conflicts(tree),
    deletedConflicts: tree && deletedConflicts(tree),
    localSequence: localSequence ? change.sequence : undefined,
  }
  return stubText({ revision, deleted: false, parts, attachments, knownGeneration: 0 })
}

const BEFORE_ID = Buffer.from('{"_id":')
const BEFORE_REVISION = Buffer.from(',"_rev":')
const COMMA = 0x2c

/** What most documents need: their own text behind id and revision. */
function splice({ quotedId, quotedWinner }: Change, body: Buffer): Buffer {
  const head = BEFORE_ID.length + quotedId.length + BEFORE_REVISION.length + quotedWinner.length
  const text = Buffer.allocUnsafe(head + body.length)
  text.set(BEFORE_ID, 0)
  text.set(quotedId, BEFORE_ID.length)
  text.set(BEFORE_REVISION, BEFORE_ID.length + quotedId.length)
  text.set(quotedWinner, head - quotedWinner.length)
  // The body's brace gives way to a comma; an empty body leaves its closing brace alone.
  if (body.length === 2) {
    text[head] = body[1]!
    return text.subarray(0, head + 1)
  }
  text.set(body, head)
  text[head] = COMMA
  return text
}
