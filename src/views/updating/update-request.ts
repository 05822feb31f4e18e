/** What an update of an index works on, and how it reports progress. */
import type { Functions } from '../../functions/functions.ts'
import type { Run } from '../../runtime/fair-semaphore.ts'
import type { WorkLeases } from '../../storage/leases/work-leases.ts'
import type { Store } from '../../storage/store.ts'
import type { SortedRuns } from '../building/sorted-runs.ts'
import type { ViewDesign } from '../design/view-design.ts'
import type { IndexSource } from './batch-reader.ts'

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
  readonly functions: Functions
  readonly run: Run
  /** Where other servers may update the same index. */
  readonly leases?: WorkLeases | undefined
  /** Called after each commit, and now and then between. */
  readonly onProgress: (progress: UpdateProgress) => void
}

export interface UpdateProgress {
  /** What the index has reached. */
  readonly updateSequence: number
  readonly purgeSequence: number
  readonly changesDone: number
  readonly totalChanges: number
}
