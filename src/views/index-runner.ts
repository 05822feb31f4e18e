/** Where the work of indexes is done: in this thread, or in others that reach the same stores. */
import type { Database } from '../database/database.ts'
import type { Functions } from '../functions/functions.ts'
import type { Store } from '../storage/store.ts'
import { memoryRuns } from './building/sorted-runs.ts'
import { type UpdateProgress, updateIndex } from './index-update.ts'
import type { ViewDesign } from './view-design.ts'

export interface IndexRunner {
  /** Brings the index to the state that the database has now. */
  update(index: IndexPlace, signal: AbortSignal, onProgress: (progress: UpdateProgress) => void): Promise<void>
  /** Writes the store of the index anew, without its garbage; `onProgress` hears the share that is done. */
  compact(index: IndexPlace, signal: AbortSignal, onProgress: (done: number) => void): Promise<void>
  close(): Promise<void>
}

/** One index and what it is made of. */
export interface IndexPlace {
  readonly database: Database
  readonly store: Store
  readonly design: ViewDesign
}

/** Does everything where it is called: for stores that no other thread can reach. */
export class LocalRunner implements IndexRunner {
  readonly #functions: Functions

  constructor(functions: Functions) {
    this.#functions = functions
  }

  update(
    { database, store, design }: IndexPlace,
    signal: AbortSignal,
    onProgress: (progress: UpdateProgress) => void,
  ): Promise<void> {
    const source = { uuid: database.uuid, view: () => database.view() }
    const run = { owner: database.name, signal }
    return updateIndex({ source, store, runs: memoryRuns, design, functions: this.#functions, run, onProgress })
  }

  compact({ store }: IndexPlace, signal: AbortSignal, onProgress: (done: number) => void): Promise<void> {
    return store.compact({ signal, onProgress })
  }

  async close(): Promise<void> {}
}
