/** One commit of an index: rows, nodes of the rank trees and the state of the index change together. */
import assert from 'node:assert/strict'
import { compareBytes } from '../../encoding/bytes/short-bytes.ts'
import type { LeaseProof } from '../../storage/leases/work-leases.ts'
import type { PlannedNodes } from '../../storage/rank-tree/rank-tree.ts'
import { COMMIT_OPERATIONS_LIMIT, type Put, type Snapshot, type Store } from '../../storage/store.ts'
import { ROW_PREFIX_BYTES, STATE_KEY } from '../layout/index-layout.ts'
import { encodeState, type IndexState, type ViewState, type ViewTree } from '../layout/index-state.ts'
import type { Reached } from '../reading/reached.ts'
import type { PlannedRows, RowChange } from './row-changes.ts'

/** What a commit brings the index to. */
export interface CommittedReach extends Reached {
  /** Set where documents are gone rather than changed: the purge that they went with. */
  readonly purge?: number
}

/** What the rows are to be put into. */
export interface CommittedIndex {
  readonly trees: readonly ViewTree[]
  /** Of the update, where one server of all does it. */
  readonly lease?: LeaseProof | undefined
}

/** So many rows change in one commit that it would be refused. */
export class TooManyRowsError extends Error {
  override readonly name = 'TooManyRowsError'

  constructor() {
    super('Too many rows of an index change in one commit.')
  }
}

/** Another server has brought the index further meanwhile. */
export class OutrunError extends Error {
  override readonly name = 'OutrunError'

  constructor() {
    super('The index was changed by another writer.')
  }
}

/** The state of an index, and the version of the store that has it. */
export interface CommittedState {
  readonly state: IndexState
  readonly version: number
}

/** Resolves to what was committed. The snapshot is the state that the rows were planned for; it is released. */
export async function commitRows(
  store: Store,
  snapshot: Snapshot,
  state: IndexState,
  { trees, lease }: CommittedIndex,
  { rows, documentPuts, documentDeletes }: PlannedRows,
  reached: CommittedReach,
): Promise<CommittedState> {
  const puts: Put[] = [...documentPuts]
  const deletes: Buffer[] = [...documentDeletes]
  if (puts.length + deletes.length + rows.length > ROWS_LIMIT) throw new TooManyRowsError()
  const views = [...state.views]
  const planned: PlannedNodes[] = []
  for (const [view, changes] of byView(rows)) {
    const tree = trees[view]
    assert(tree, 'A row belongs to no view.')
    views[view] = changedView(views[view], reached)
    for (const { key, value } of changes) {
      if (value) puts.push([key, value])
      else deletes.push(key)
    }
    const nodes = await tree.ranks.planChanges(snapshot, changes.map(rankChange))
    planned[view] = nodes
    for (const put of nodes.puts) puts.push(put)
    for (const key of nodes.deletes) deletes.push(key)
  }
  const { updateSequence, purgeSequence } = reached
  const next: IndexState = { ...state, updateSequence, purgeSequence, views }
  puts.push([STATE_KEY, encodeState(next)])
  if (puts.length + deletes.length > COMMIT_OPERATIONS_LIMIT) throw new TooManyRowsError()
  const expected = await snapshot.version()
  // The commit waits for readers that have not begun, and where a state takes a connection they may wait for this one.
  snapshot.release()
  const { outcome, version } = await store.commit({ puts, deletes, expected, lease })
  if (outcome !== 'committed' && store.sharing) throw new OutrunError()
  assert(outcome === 'committed', 'An index has one writer.')
  for (const [view, { ranks }] of trees.entries()) ranks.committed(expected, version, planned[view])
  return { state: next, version }
}

/** Leaves room for the nodes of the trees: most rows share theirs with others. */
const ROWS_LIMIT = COMMIT_OPERATIONS_LIMIT / 3

function changedView(before: ViewState | undefined, { updateSequence, purge }: CommittedReach): ViewState {
  const { lastChange = 0, lastPurge = 0 } = before ?? {}
  return purge === undefined ? { lastChange: updateSequence, lastPurge } : { lastChange, lastPurge: purge }
}

/** The changes of each view in the order of their keys. */
function byView(rows: readonly RowChange[]): Map<number, RowChange[]> {
  const views = Map.groupBy(rows, ({ view }) => view)
  for (const changes of views.values()) changes.sort((a, b) => compareBytes(a.key, b.key))
  return views
}

/** Written out for each case: a spread takes several times as long. */
function rankChange({ key, existed, value }: RowChange) {
  const rowKey = key.subarray(ROW_PREFIX_BYTES)
  const before = existed ? 1 : undefined
  return value ? { key: rowKey, before, after: 1, value } : { key: rowKey, before, after: undefined }
}
