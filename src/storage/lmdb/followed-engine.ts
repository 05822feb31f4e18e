/**
 * The stores of an engine in another process, for reading. That process says which stores there are and where their files
 * lie, and is answered only when this one has taken it over: so a path that is opened here is always that of the newest file.
 */
import type { RefusedFile, StorePlace } from '../leases/store-followers.ts'
import { FileDamagedError, StoreMissingError } from '../storage-error.ts'
import type { StorageEngine, Store } from '../store.ts'
import { type AskToOpen, FollowedStore, readOnly } from './followed-store.ts'
import { OpenFiles } from './open-files.ts'

export interface FollowedOptions {
  /** Files without users that are kept open. */
  readonly idleFiles: number
  /** How many snapshots of each store idle readers of this process may hold. */
  readonly idleStates: number
  readonly askToOpen: AskToOpen
}

export class FollowedEngine implements StorageEngine {
  readonly #open: OpenFiles
  readonly #stores = new Map<string, FollowedStore>()
  readonly #options: FollowedOptions
  #sortedNames: string[] | undefined

  constructor(options: FollowedOptions) {
    const { idleFiles } = options
    this.#options = options
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
    } else if (store.path !== path) store.moveTo(path)
  }

  /** The store is gone. Snapshots that are held stay readable. */
  forget(name: string): void {
    const store = this.#stores.get(name)
    if (!store) return
    this.#stores.delete(name)
    this.#sortedNames = undefined
    store.drop()
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
    for (const store of this.#stores.values()) store.drop()
    await this.#open.close()
  }

  #store(name: string, path: string): FollowedStore {
    const { idleStates, askToOpen } = this.#options
    return new FollowedStore(name, path, { open: this.#open, holding: { idleMs: IDLE_MS, idleStates }, askToOpen })
  }
}

/** A reader that reads nothing for this time has stalled. */
const IDLE_MS = 5000
