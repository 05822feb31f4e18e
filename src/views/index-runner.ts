/** Where the work of indexes is done: in this thread, or in others that reach the same stores. */
import type { Database } from '../database/database.ts'
import type { Functions } from '../functions/functions.ts'
import type { Store } from '../storage/store.ts'
import { memoryRuns, type SortedRuns } from './building/sorted-runs.ts'
import { type UpdateProgress, updateIndex } from './index-update.ts'
import type { ViewDesign } from './view-design.ts'

export interface IndexRunner {
  /** Brings the index to the state that the database has now. */
  update(index: IndexPlace, signal: AbortSignal, onProgress: (progress: UpdateProgress) => void): Promise<void>
  /** Writes the store of the index anew, without its garbage; `onProgress` hears the share that is done. */
  compact(index: IndexPlace, signal: AbortSignal, onProgress: (done: number) => void): Promise<void>
  /** Settings of user functions are others now. */
  settingsChanged(): void
  close(): Promise<void>
}

/** One index and what it is made of. */
export interface IndexPlace {
  readonly database: Database
  readonly store: Store
  readonly design: ViewDesign
}

/** Does everything in the thread in which it is called. */
export class LocalRunner implements IndexRunner {
  readonly #functions: Functions
  readonly #runsOf: (store: string) => SortedRuns

  /** `runsOf` says where first builds keep their runs; in memory unless given. */
  constructor(functions: Functions, runsOf: (store: string) => SortedRuns = () => memoryRuns) {
    this.#functions = functions
    this.#runsOf = runsOf
  }

  update(
    { database, store, design }: IndexPlace,
    signal: AbortSignal,
    onProgress: (progress: UpdateProgress) => void,
  ): Promise<void> {
    const source = { uuid: database.uuid, view: () => database.view() }
    const run = { owner: database.name, signal }
    return updateIndex({
      source,
      store,
      runs: this.#runsOf(store.name),
      design,
      functions: this.#functions,
      run,
      onProgress,
    })
  }

  compact({ store }: IndexPlace, signal: AbortSignal, onProgress: (done: number) => void): Promise<void> {
    return store.compact({ signal, onProgress })
  }

  settingsChanged(): void {}

  async close(): Promise<void> {}
}
