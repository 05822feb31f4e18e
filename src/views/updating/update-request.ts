/** What an update of an index works on, and how it reports progress. */
import type { DatabaseView } from '../../database/database-view.ts'
import type { DatabaseState } from '../../database/layout/keys.ts'
import type { Functions } from '../../functions/functions.ts'
import type { Run } from '../../runtime/fair-semaphore.ts'
import type { WorkLeases } from '../../storage/leases/work-leases.ts'
import type { Snapshot, Store } from '../../storage/store.ts'
import type { SortedRuns } from '../building/sorted-runs.ts'
import type { ViewDesign } from '../design/view-design.ts'
import type { IndexMemory } from '../layout/index-memory.ts'
import type { IndexState } from '../layout/index-state.ts'
import type { IndexSource, ReadChanges } from './batch-reader.ts'

export interface UpdateRequest {
  readonly source: IndexSource
  readonly store: Store
  /** Where a first build keeps what it has sorted. */
  readonly runs: SortedRuns
  /** How many bytes of rows it sorts at a time. */
  readonly sortBytes: number
  /** Changes of one commit. More of them save flushes, but keep whoever shares the process waiting. */
  readonly commitChanges?: number
  readonly design: ViewDesign
  /** Of earlier updates and queries. */
  readonly memory?: IndexMemory
  readonly functions: Functions
  readonly run: Run
  /** Where other servers may update the same index. */
  readonly leases?: WorkLeases | undefined
  /** Called after each commit, and now and then between. */
  readonly onProgress: (progress: UpdateProgress) => void
  /** What whoever asks for the update has read: it is not read again. */
  readonly behind?: IndexBehind | undefined
}

/** An index that is behind its database, as both were in one moment. */
export interface IndexBehind {
  /** Where the changes can be read. An update releases it when it has read the first of them. */
  readonly view: DatabaseView
  readonly database: DatabaseState
  /** Undefined if it was never built. */
  readonly state: IndexState | undefined
  /** Of its store. */
  readonly version: number
  /** Where that state can be read; an update releases it with the view. */
  readonly snapshot: Snapshot
  /** The first changes since a sequence, which is mostly the one that the index has reached. */
  readonly changes?: ReadChanges | undefined
}

export interface UpdateProgress {
  /** What the index has reached. */
  readonly updateSequence: number
  readonly purgeSequence: number
  readonly changesDone: number
  readonly totalChanges: number
}
