/**
 * Documents as their map functions see them, made from what is stored. The texts of most, which have one leaf and no
 * attachments, are put together in one block without making anything else of them.
 */

import type { DatabaseView } from '../../database/database-view.ts'
import type { ChangePlaces } from '../../database/layout/change-row.ts'
import type { BodyPlace } from '../../database/layout/read-many.ts'
import { decodeBody, plainTextAt } from '../../database/layout/stored-body.ts'
import { stubText } from '../../database/reading/document-rendering.ts'
import type { RevisionId } from '../../document/revisions/revision-id.ts'
import { conflicts, deletedConflicts } from '../../document/revisions/winner.ts'
import { copyBytes } from '../../encoding/bytes/short-bytes.ts'
import type { ChangedDocument, ReadingOptions } from './changed-document.ts'

export interface Change {
  readonly places: ChangePlaces
  readonly sequence: number
}

/** The changes lie in the block; there is a body for each that is not deleted. */
export async function documentTexts(
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
