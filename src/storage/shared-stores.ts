/**
 * Stores of an engine as another thread of the process uses them: it opens the same files. Which file is a store's is the
 * engine's to say; who writes one anew tells the engine where. Files are closed as soon as nobody needs them: of one
 * that the engine drops, nothing must be left.
 */
import { existsSync } from 'node:fs'
import type { LmdbEnvironment } from './lmdb-environment.ts'
import { LmdbStore } from './lmdb-store.ts'
import { OpenFiles } from './open-files.ts'
import { StoreGoneError } from './storage-error.ts'
import type { Store } from './store.ts'
import { StorePaths, type StorePlace } from './store-paths.ts'

export interface SharedStore extends Disposable {
  readonly store: Store
}

export class SharedStores {
  readonly #open = new OpenFiles(0, { isShared: true })
  readonly #paths: StorePaths
  readonly #onMoved: (name: string, path: string) => void

  /** `onMoved` hears of stores that were written anew. */
  constructor(place: StorePlace, onMoved: (name: string, path: string) => void) {
    this.#paths = new StorePaths(place)
    this.#onMoved = onMoved
  }

  /** Open until it is disposed of. Throws `StoreGoneError` when the file is not there any more. */
  open(name: string, path: string): SharedStore {
    let lease = this.#lease(name, path)
    const store: LmdbStore = new LmdbStore(name, path, {
      open: this.#open,
      nextPath: (of) => this.#paths.next(of),
      discard: async (old) => {
        const next = this.#lease(name, store.path)
        this.#open.retire(old, () => {})
        this.#open.release(lease)
        lease = next
        this.#onMoved(name, store.path)
      },
    })
    return { store, [Symbol.dispose]: () => this.#open.release(lease) }
  }

  /** Resolves when all files are closed. */
  async close(): Promise<void> {
    await this.#open.close()
  }

  #lease(name: string, path: string): LmdbEnvironment {
    // Opening would make the file.
    if (!existsSync(path)) throw new StoreGoneError(name)
    return this.#open.acquire(path)
  }
}
