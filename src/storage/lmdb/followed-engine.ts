/**
 * The stores of an engine in another process, for reading. That process says which stores there are and where their files
 * lie, and is answered only when this one has taken it over: so a path that is opened here is always that of the newest file.
 */
import type { RefusedFile, StorePlace } from '../leases/store-followers.ts'
import { FileDamagedError, StorageError, StoreMissingError } from '../storage-error.ts'
import type { StorageEngine, Store } from '../store.ts'
import { LmdbStore } from './lmdb-store.ts'
import { OpenFiles } from './open-files.ts'

export class FollowedEngine implements StorageEngine {
  readonly #open: OpenFiles
  readonly #stores = new Map<string, LmdbStore>()
  readonly #idleStates: number
  #sortedNames: string[] | undefined

  /** How many snapshots of each store idle readers of this process may hold. */
  constructor(idleFiles: number, idleStates: number) {
    this.#idleStates = idleStates
    this.#open = new OpenFiles(idleFiles, { isShared: true, isReadOnly: true })
  }

  async list(): Promise<string[]> {
    this.#sortedNames ??= [...this.#stores.keys()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    return [...this.#sortedNames]
  }

  has(name: string): boolean {
    return this.#stores.has(name)
  }

  async create(name: string): Promise<Store> {
    throw readOnly(name)
  }

  async open(name: string): Promise<Store> {
    const store = this.#stores.get(name)
    if (!store) throw new StoreMissingError(name)
    return store
  }

  async drop(name: string): Promise<void> {
    throw readOnly(name)
  }

  /** The other process looks after its files. */
  onDamaged(): () => void {
    return () => {}
  }

  /** A store is new, or has another file: every snapshot from now on is of that. */
  place({ name, path }: StorePlace): void {
    const store = this.#stores.get(name)
    if (!store) {
      this.#stores.set(name, this.#store(name, path))
      this.#sortedNames = undefined
    } else if (store.path !== path) void store.moveTo(path)
  }

  /** The store is gone. Snapshots that are held stay readable. */
  forget(name: string): void {
    const store = this.#stores.get(name)
    if (!store) return
    this.#stores.delete(name)
    this.#sortedNames = undefined
    void store.retire().then((path) => this.#open.retire(path, () => {}))
  }

  /**
   * The complete list, after a lost connection. Returns the names of stores that are gone. A store with another file
   * may be another store of the same name: it counts as gone and new.
   */
  placeAll(places: readonly StorePlace[]): string[] {
    const paths = new Map(places.map(({ name, path }) => [name, path]))
    const gone = [...this.#stores.values()].filter(({ name, path }) => paths.get(name) !== path).map(({ name }) => name)
    for (const name of gone) this.forget(name)
    for (const each of places) this.place(each)
    return gone
  }

  /** These files are not opened from now on, or not used any more. */
  refuse(files: readonly RefusedFile[]): void {
    for (const { path, problem } of files) this.#open.refuse(new FileDamagedError(path, problem))
  }

  keepIdle(files: number): void {
    this.#open.idleLimit = files
  }

  async close(): Promise<void> {
    for (const store of this.#stores.values()) await store.retire()
    await this.#open.close()
  }

  #store(name: string, path: string): LmdbStore {
    return new LmdbStore(name, path, {
      open: this.#open,
      isReadOnly: true,
      holding: { idleMs: IDLE_MS, idleStates: this.#idleStates },
      nextPath: () => Promise.reject(readOnly(name)),
      discard: async (old) => this.#open.retire(old, () => {}),
    })
  }
}

/** A reader that reads nothing for this time has stalled. */
const IDLE_MS = 5000

function readOnly(name: string): StorageError {
  return new StorageError(`The store ${name} is only read here.`)
}
