/**
 * Stores of an engine in another process. The engine says which file holds a store, and keeps that file in place while
 * this process has a lease on the store. Files are closed as soon as they are not needed, so that the lease can end.
 */
import type { LmdbEnvironment } from '../lmdb/lmdb-environment.ts'
import { LmdbStore } from '../lmdb/lmdb-store.ts'
import { OpenFiles } from '../lmdb/open-files.ts'
import type { Store } from '../store.ts'
import type { PauseCommits } from './store-leases.ts'

/** What the engine does for a process that rewrites a store. */
export interface Lender {
  nextPath(): Promise<string>
  /** Resolves when the engine has taken the new file over. */
  moved(path: string): Promise<void>
}

export interface BorrowedStore extends AsyncDisposable {
  readonly store: Store
  /** The file that holds it now. */
  readonly path: string
  readonly pauseCommits: PauseCommits
}

export class BorrowedStores {
  readonly #open: OpenFiles

  /** Files that are only read cannot be made or changed by mistake. */
  constructor({ isReadOnly = false }: { readonly isReadOnly?: boolean } = {}) {
    this.#open = new OpenFiles(0, { isShared: true, isReadOnly })
  }

  isOpen(path: string): boolean {
    return this.#open.isOpen(path)
  }

  /** Open until it is disposed of, which resolves when the file is closed. Throws `FileDamagedError`. */
  open(name: string, path: string, lender?: Lender): BorrowedStore {
    let held: LmdbEnvironment = this.#open.acquire(path)
    const store: LmdbStore = new LmdbStore(name, path, {
      open: this.#open,
      nextPath: () => lender?.nextPath() ?? Promise.reject(new Error('The store is open for reading only.')),
      // The engine opens the new file then. Nothing is written to it from here before that.
      moved: async (path) => {
        const next = this.#open.acquire(path)
        this.#open.release(held)
        held = next
        await lender?.moved(path)
      },
      discard: async (old) => this.#open.retire(old, () => {}),
    })
    return {
      store,
      get path() {
        return store.path
      },
      pauseCommits: () => store.pauseCommits(),
      [Symbol.asyncDispose]: async () => {
        this.#open.release(held)
        await this.#open.closed()
      },
    }
  }

  /** Resolves when all files are closed. */
  async close(): Promise<void> {
    await this.#open.close()
  }
}
