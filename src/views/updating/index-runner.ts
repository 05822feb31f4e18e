/** Where indexes are updated: in this process, or in others that can open the same stores. */
import type { Database } from '../../database/database.ts'
import type { Functions } from '../../functions/functions.ts'
import { eitherSignal, leased, type WorkLeases } from '../../storage/leases/work-leases.ts'
import type { Store } from '../../storage/store.ts'
import { memoryRuns, type SortedRuns } from '../building/sorted-runs.ts'
import type { ViewDesign } from '../design/view-design.ts'
import type { IndexMemory } from '../layout/index-memory.ts'
import { updateIndex, updateLease } from './index-update.ts'
import type { IndexBehind, UpdateProgress } from './update-request.ts'

export interface IndexRunner {
  /** Whether another node updates indexes, and decides how long it goes on: here it is awaited only while somebody waits. */
  readonly isElsewhere?: boolean
  /**
   * Brings the index to the state that the database has now, or had when it was found `behind`. What was read then need not be
   * read again where the work is done in this process.
   */
  update(
    index: IndexPlace,
    signal: AbortSignal,
    onProgress: (progress: UpdateProgress) => void,
    behind?: IndexBehind,
  ): Promise<void>
  /** An index of this design may be wanted soon: what takes long to begin may begin now. */
  prepare(design: ViewDesign): void
  /** Rewrites the store of the index, without its garbage; `onProgress` is called with the share that is done. */
  compact(index: IndexPlace, signal: AbortSignal, onProgress: (done: number) => void): Promise<void>
  /** What other servers are doing with the index; undefined where there are none. */
  workElsewhere?(index: IndexPlace): Promise<IndexWork | undefined>
  /** Settings of user functions are others now. */
  settingsChanged(): void
  close(): Promise<void>
}

/** One index and what it is made of. */
export interface IndexPlace {
  readonly database: Database
  readonly store: Store
  readonly design: ViewDesign
  /** Of queries and updates in this process. */
  readonly memory: IndexMemory
}

/** What is being done with an index. */
export interface IndexWork {
  readonly isUpdating: boolean
  readonly isCompacting: boolean
}

/** How first builds sort. */
export interface Sorting {
  /** How many bytes of rows at a time. */
  sortBytes(): number
  /** Where the sorted runs of an index are kept, derived from its store. */
  runsOf(store: string): SortedRuns
}

const IN_MEMORY: Sorting = { sortBytes: () => 64 * 1024 * 1024, runsOf: () => memoryRuns }

/** Does everything in the process in which it is called. */
export class LocalRunner implements IndexRunner {
  readonly #functions: Functions
  readonly #sorting: Sorting
  readonly #leases: () => WorkLeases | undefined

  /** With leases where other servers may work on the same indexes. */
  constructor(
    functions: Functions,
    sorting: Sorting = IN_MEMORY,
    leases: () => WorkLeases | undefined = () => undefined,
  ) {
    this.#functions = functions
    this.#sorting = sorting
    this.#leases = leases
  }

  async update(
    { database, store, design, memory }: IndexPlace,
    signal: AbortSignal,
    onProgress: (progress: UpdateProgress) => void,
    behind?: IndexBehind,
  ): Promise<void> {
    return updateIndex({
      source: { uuid: database.uuid, view: () => database.view() },
      store,
      runs: this.#sorting.runsOf(store.name),
      sortBytes: this.#sorting.sortBytes(),
      design,
      memory,
      functions: this.#functions,
      run: { owner: database.name, signal },
      leases: this.#leases(),
      onProgress,
      behind,
    })
  }

  async compact({ store }: IndexPlace, signal: AbortSignal, onProgress: (done: number) => void): Promise<void> {
    await leased(this.#leases(), compactionLease(store), (lease) => {
      onProgress(0)
      return store.compact({ signal: eitherSignal(signal, lease), onProgress })
    })
  }

  async workElsewhere({ store }: IndexPlace): Promise<IndexWork | undefined> {
    const leases = this.#leases()
    if (!leases) return undefined
    const [isUpdating, isCompacting] = await Promise.all([
      leases.isHeld(updateLease(store)),
      leases.isHeld(compactionLease(store)),
    ])
    return { isUpdating, isCompacting }
  }

  prepare(): void {}

  settingsChanged(): void {}

  async close(): Promise<void> {}
}

function compactionLease({ name }: Store): string {
  return `compaction of index ${name}`
}
