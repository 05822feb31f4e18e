/** Which revisions of documents are not here: what a replicator asks before it sends anything. */
import { RequestError } from '../document/request-error.ts'
import type { RevisionId } from '../document/revision-id.ts'
import { TimeSlice } from '../runtime/time-slice.ts'
import type { DatabaseView } from './database-view.ts'
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
    const missing = record ? record.tree.missing(revisions) : revisions
    if (missing.length === 0) continue
    differences.set(id, { missing, possibleAncestors: record?.tree.possibleAncestors(missing) ?? [] })
  }
  return differences
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
