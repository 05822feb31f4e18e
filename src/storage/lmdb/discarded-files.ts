/**
 * Files on their way out: earlier generations of a store, and those of dropped stores. A file is renamed into the trash,
 * the folder flushed, and its bytes removed when the last reader, in any process, is done with it.
 */
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { asidePath, flush, lockPath } from '../files/store-file.ts'
import type { StoreLeases } from '../leases/store-leases.ts'
import { CommitFailedError } from '../storage-error.ts'
import type { Store } from '../store.ts'
import { TRASH } from './clear-folder.ts'
import type { OpenFiles } from './open-files.ts'

export class DiscardedFiles {
  readonly #folder: string
  readonly #trash: string
  readonly #open: OpenFiles
  /** Earlier generations of a store that other processes may still read. */
  readonly #outdated = new WeakMap<Store, Set<Promise<void>>>()
  /** Those that could not be removed, by the name of their store. */
  readonly #undiscarded = new Map<string, Set<string>>()
  readonly #removals = new Set<Promise<void>>()

  constructor(folder: string, open: OpenFiles) {
    this.#folder = folder
    this.#trash = join(folder, TRASH)
    this.#open = open
  }

  /** Discards an earlier generation: now, or when the leases of other processes on the store are returned. */
  async outdate(store: Store, leases: StoreLeases, path: string): Promise<void> {
    if (leases.isEmpty) {
      await this.#discardOutdated(store, path)
      return
    }
    const outdated = this.#outdated.get(store) ?? new Set()
    this.#outdated.set(store, outdated)
    const removal = leases
      .returned()
      .then(() => this.#discardOutdated(store, path))
      .catch(() => {})
      .finally(() => outdated.delete(removal))
    outdated.add(removal)
  }

  /** Resolves when the earlier generations of the store are discarded that had to wait for leases. */
  async outdatedGone(store: Store): Promise<void> {
    await Promise.all(this.#outdated.get(store) ?? [])
  }

  /** Discards the files of a dropped store. The newest goes last: none before it may come back after a crash. */
  async discardAll(name: string, newest: string): Promise<void> {
    for (const each of [...(this.#undiscarded.get(name) ?? []), newest]) await this.#discard(each)
    this.#undiscarded.delete(name)
  }

  /** Resolves when all removals under way are done. */
  async removed(): Promise<void> {
    await Promise.all(this.#removals)
  }

  /** What cannot be removed now goes before the store does, or at the next start, since there is a higher generation. */
  async #discardOutdated({ name }: Store, path: string): Promise<void> {
    try {
      await this.#discard(path)
    } catch (error) {
      this.#undiscarded.set(name, (this.#undiscarded.get(name) ?? new Set()).add(path))
      throw error
    }
  }

  async #discard(path: string): Promise<void> {
    const trashed = join(this.#trash, basename(path))
    try {
      await mkdir(this.#trash, { recursive: true })
      // It may have been removed already: then only its side files are left.
      if (await fileExists(path)) await rename(path, trashed)
      await flush(this.#folder)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      throw new CommitFailedError(`A store could not be removed: ${reason}`, { cause: error })
    }
    this.#open.retire(path, () => {
      // What cannot be removed now goes at the next start.
      const removal = Promise.allSettled(
        [trashed, lockPath(path), asidePath(path)].map((each) => rm(each, { force: true })),
      ).then(() => {
        this.#removals.delete(removal)
      })
      this.#removals.add(removal)
    })
  }
}

export async function fileExists(path: string): Promise<boolean> {
  try {
    await stat(path)
    return true
  } catch {
    return false
  }
}
