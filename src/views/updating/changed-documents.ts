/**
 * Reads what changed in a database since a sequence, as an index wants it: in the order of sequences, each document as the
 * JSON text that its map functions see.
 */

import type { DatabaseView } from '../../database/database-view.ts'
import { changePlaces } from '../../database/layout/change-row.ts'
import { afterPrefix, CHANGE_PREFIX, changeKey, sequenceOfChangeKey } from '../../database/layout/keys.ts'
import { type BodyPlace, bodyPlacesWithin } from '../../database/layout/read-many.ts'
import type { KeyRange, Page, Snapshot } from '../../storage/store.ts'
import type { ChangedDocument, ReadingOptions } from './changed-document.ts'
import { type Change, documentTexts } from './document-texts.ts'

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
