/** Which revisions of documents are not here: what a replicator asks before it sends anything. */
import type { RevisionId } from '../document/revision-id.ts'
import type { DatabaseView } from './database-view.ts'

export interface RevisionDifference {
  readonly missing: readonly RevisionId[]
  /** Leaves that a missing revision may descend from. */
  readonly possibleAncestors: readonly RevisionId[]
}

/** Only documents of which something is missing. */
export async function revisionDifferences(
  view: DatabaseView,
  asked: ReadonlyMap<string, readonly RevisionId[]>,
): Promise<Map<string, RevisionDifference>> {
  const differences = new Map<string, RevisionDifference>()
  for (const { id, record } of await view.records([...asked.keys()])) {
    const revisions = asked.get(id) ?? []
    const missing = record ? record.tree.missing(revisions) : revisions
    if (missing.length === 0) continue
    differences.set(id, { missing, possibleAncestors: record?.tree.possibleAncestors(missing) ?? [] })
  }
  return differences
}
