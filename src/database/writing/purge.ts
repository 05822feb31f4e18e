/**
 * Purging removes revisions without a tombstone, as if they had never existed. What was purged is recorded under a purge
 * sequence, so that indexes can catch up.
 */
import type { RevisionId } from '../../document/ids.ts'
import { winner } from '../../document/revisions/winner.ts'
import type { RevisionTree } from '../../document/tree/revision-tree.ts'
import { droppedBodies, purge } from '../../document/tree/tree-pruning.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import type { RankTree } from '../../storage/rank-tree/rank-tree.ts'
import type { Snapshot } from '../../storage/store.ts'
import { readRecords, type WholeRecord } from '../layout/document-record.ts'
import { type DatabaseState, purgeKey } from '../layout/keys.ts'
import { bodySizes } from '../layout/read-bodies.ts'
import { DocumentChanges } from './document-changes.ts'
import type { ExclusivePlan } from './write-queue.ts'

export type PurgeRequest = ReadonlyMap<string, readonly RevisionId[]>

export interface Purged {
  readonly purgeSequence: number
  /** Only documents of which something was purged. */
  readonly purged: ReadonlyMap<string, readonly RevisionId[]>
}

export async function planPurge(
  snapshot: Snapshot,
  before: DatabaseState,
  request: PurgeRequest,
  ranks: RankTree,
): Promise<ExclusivePlan<Purged>> {
  const changes = new DocumentChanges()
  const purged = new Map<string, readonly RevisionId[]>()
  const purgeSequence = before.purgeSequence + 1
  let state = { ...before, purgeSequence, updateSequence: before.updateSequence + 1 }
  const slice = new TimeSlice()
  for (const { id, record } of await readRecords(snapshot, [...request.keys()])) {
    if (slice.isOver) await slice.pause()
    const result = record && purge(record.tree, request.get(id) ?? [])
    if (!result || result.purged.length === 0) continue
    purged.set(id, result.purged)
    changes.dropBodies(droppedBodies(record.tree, result.tree))
    // The rest of a document moves to the end of the changes.
    if (result.tree) state = { ...state, updateSequence: state.updateSequence + 1 }
    const after = result.tree && (await remaining(snapshot, record, result.tree, state.updateSequence))
    changes.replace(id, record, after)
  }
  changes.puts.push([purgeKey(purgeSequence), Buffer.from(JSON.stringify(Object.fromEntries(purged)))])
  await changes.finish(snapshot, ranks)
  return { changes, state: changes.counted(state), result: { purgeSequence, purged }, written: [...purged.keys()] }
}

async function remaining(
  snapshot: Snapshot,
  record: WholeRecord,
  tree: RevisionTree,
  sequence: number,
): Promise<WholeRecord> {
  const best = winner(tree)
  const [bodyBytes = 0] = best.body === record.body ? [record.bodyBytes] : await bodySizes(snapshot, [best.body])
  return {
    sequence,
    winner: best.revision,
    deleted: best.status === 'deleted',
    body: best.body,
    bodyBytes,
    hasOldBodies: tree.hasInnerBodies(),
    hasAttachments: record.hasAttachments,
    tree,
  }
}
