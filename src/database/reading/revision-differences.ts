/** Which revisions of documents are missing here (`_revs_diff`): what a replicator asks before it sends documents. */

import type { RevisionId } from '../../document/ids.ts'
import { RequestError } from '../../document/request-error.ts'
import type { RevisionTree } from '../../document/tree/revision-tree.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import type { DatabaseView } from '../database-view.ts'
import { openDocument } from './open-document.ts'

export interface RevisionDifference {
  readonly missing: readonly RevisionId[]
  /** Leaves that a missing revision may descend from. */
  readonly possibleAncestors: readonly RevisionId[]
}

/** Only documents of which something is missing. Of one that may not be read, all is. */
export async function revisionDifferences(
  view: DatabaseView,
  asked: ReadonlyMap<string, readonly RevisionId[]>,
): Promise<Map<string, RevisionDifference>> {
  const differences = new Map<string, RevisionDifference>()
  const slice = new TimeSlice()
  for (const { id, record: stored } of await view.records([...asked.keys()])) {
    if (slice.isOver) await slice.pause()
    const revisions = asked.get(id) ?? []
    const record = stored && (await isReadable(view, id)) ? stored : undefined
    const missing = record ? await missingIn(record.tree, revisions, slice) : revisions
    if (missing.length === 0) continue
    differences.set(id, { missing, possibleAncestors: record?.tree.possibleAncestors(missing) ?? [] })
  }
  return differences
}

const REVISIONS_A_STEP = 1000

async function missingIn(
  tree: RevisionTree,
  revisions: readonly RevisionId[],
  slice: TimeSlice,
): Promise<readonly RevisionId[]> {
  if (revisions.length <= REVISIONS_A_STEP) return tree.missing(revisions)
  const missing: RevisionId[] = []
  for (let first = 0; first < revisions.length; first += REVISIONS_A_STEP) {
    for (const each of tree.missing(revisions.slice(first, first + REVISIONS_A_STEP))) missing.push(each)
    if (slice.isOverNow) await slice.pause()
  }
  return missing
}

async function isReadable(view: DatabaseView, id: string): Promise<boolean> {
  if (!view.reading) return true
  try {
    await openDocument(view, id)
    return true
  } catch (error) {
    if (error instanceof RequestError) return false
    throw error
  }
}
