/**
 * A store of an engine in another process, for reading. Its file may be closed between uses and opened again; each time the
 * other process is asked first, since it must not write a commit meanwhile.
 */
import { stat } from 'node:fs/promises'
import type { StorePlace } from '../leases/store-followers.ts'
import { PendingSnapshot } from '../snapshots/pending-snapshot.ts'
import { StorageError, StoreGoneError } from '../storage-error.ts'
import type { CommitOutcome, SharedSnapshot, Store, StoreSizes } from '../store.ts'
import type { LmdbEnvironment } from './lmdb-environment.ts'
import { LmdbSnapshot } from './lmdb-snapshot.ts'
import type { OpenFiles } from './open-files.ts'

/**
 * Calls `open` in a moment in which nobody writes to the store, and resolves to whether it did. Otherwise the store has another
 * file by now, or is gone, and this process is about to be notified.
 */
export type AskToOpen = (place: StorePlace, open: () => void) => Promise<boolean>

export interface FollowedFiles {
  readonly open: OpenFiles
  readonly holding: NonNullable<Store['holding']>
  readonly askToOpen: AskToOpen
}

/** A notice of the other process comes sooner; without one, it is asked again. */
const NOTICE_MS = 50

export class FollowedStore implements Store {
  readonly name: string
  readonly keepsValues = false
  readonly givesCopies = true
  readonly #files: FollowedFiles
  #path: string
  #dropped = false
  /** Of the file at the path. */
  #opening: { readonly path: string; readonly opened: Promise<void> } | undefined
  /** Resolves when the store has another file, or is gone. */
  #changed = Promise.withResolvers<void>()

  constructor(name: string, path: string, files: FollowedFiles) {
    this.name = name
    this.#path = path
    this.#files = files
  }

  get holding(): Store['holding'] {
    return this.#files.holding
  }

  get dropped(): boolean {
    return this.#dropped
  }

  /** The file that holds the store now. */
  get path(): string {
    return this.#path
  }

  /** From now on the store is the file at this path. */
  moveTo(path: string): void {
    const old = this.#path
    this.#path = path
    this.#notify()
    this.#files.open.retire(old, () => {})
  }

  /** Snapshots that are held stay readable; everything else is refused from now on. */
  drop(): void {
    this.#dropped = true
    this.#notify()
    this.#files.open.retire(this.#path, () => {})
  }

  snapshot(): SharedSnapshot {
    this.#assertThere()
    const { open } = this.#files
    if (open.isOpen(this.#path)) return LmdbSnapshot.open(open, this.#path)
    return new PendingSnapshot(this.#whenOpen(async (path) => LmdbSnapshot.open(open, path)))
  }

  async sizes(): Promise<StoreSizes> {
    return this.#use(async (environment) => environment.sizes((await stat(environment.path)).size))
  }

  async isEmpty(): Promise<boolean> {
    return this.#use(async (environment) => environment.rowCount() === 0)
  }

  async commit(): Promise<CommitOutcome> {
    throw readOnly(this.name)
  }

  async replace(): Promise<void> {
    throw readOnly(this.name)
  }

  async compact(): Promise<void> {
    throw readOnly(this.name)
  }

  #use<T>(work: (environment: LmdbEnvironment) => Promise<T>): Promise<T> {
    const { open } = this.#files
    return this.#whenOpen(async (path) => {
      const environment = open.acquire(path)
      try {
        return await work(environment)
      } finally {
        open.release(environment)
      }
    })
  }

  /** Calls back in the turn in which it finds the file open. */
  async #whenOpen<T>(use: (path: string) => Promise<T>): Promise<T> {
    for (;;) {
      this.#assertThere()
      const path = this.#path
      if (this.#files.open.isOpen(path)) return use(path)
      if (this.#opening?.path !== path) this.#opening = { path, opened: this.#open(path) }
      await this.#opening.opened
    }
  }

  /** Resolves when the file is open, or the store has another one. */
  async #open(path: string): Promise<void> {
    const { open, askToOpen } = this.#files
    try {
      const changed = this.#changed.promise
      let environment: LmdbEnvironment | undefined
      const isAllowed = await askToOpen({ name: this.name, path }, () => {
        if (this.#path === path && !this.#dropped) environment = open.acquire(path)
      })
      const opened = environment
      // Those that wait for it use it in this turn.
      if (opened) setImmediate(() => open.release(opened))
      if (!isAllowed) await Promise.race([changed, new Promise((resolve) => setTimeout(resolve, NOTICE_MS))])
    } finally {
      if (this.#opening?.path === path) this.#opening = undefined
    }
  }

  #notify(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }

  #assertThere(): void {
    if (this.#dropped) throw new StoreGoneError(this.name)
  }
}

export function readOnly(name: string): StorageError {
  return new StorageError(`The store ${name} is only read here.`)
}
