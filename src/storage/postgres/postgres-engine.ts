/**
 * Stores in a PostgreSQL server. Any number of servers may use the same one. The names of stores are kept in PostgreSQL; the
 * names known here are only a cache.
 */
import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { checkStoreName } from '../files/store-file.ts'
import type { WorkLeases } from '../leases/work-leases.ts'
import { checkChanges } from '../rows/packed-rows.ts'
import { SharedRuns } from '../shared-runs.ts'
import { StoreExistsError, StoreGoneError, StoreMissingError } from '../storage-error.ts'
import type { CatalogListener, Put, StorageEngine, Store } from '../store.ts'
import type { ResultRow } from './connection.ts'
import { mergeRows } from './merged-changes.ts'
import { type PostgresOptions, PostgresServer } from './postgres-server.ts'
import { PostgresStore, type StorePlace } from './postgres-store.ts'
import { STATEMENTS } from './statements.ts'
import { CATALOG } from './store-signals.ts'
import { byteaArray, bytesOf } from './wire-values.ts'

/** A store of the servers themselves, in no list of any engine. It is never dropped. */
export async function openNamedStore(server: PostgresServer, name: string): Promise<Store> {
  const key = [name, Buffer.from(name)]
  await server.run(STATEMENTS.create, [...key, 0, byteaArray([]), byteaArray([])])
  const [row = []] = await server.run(STATEMENTS.find, key)
  const [id, space, version] = row.map(Number)
  assert(id !== undefined && space !== undefined && version !== undefined)
  return new PostgresStore({ id, name, space, version }, server, () => {})
}

interface EngineOptions {
  readonly ownsServer?: boolean
  /** Whether a drop waits until the other servers know of it: none of them then takes the next store of the name for this one. */
  readonly confirmsDrops?: boolean
}

interface KnownStore {
  readonly name: string
  version: number
}

/** What happened here while a list is being read, which may be from before that. */
interface Meanwhile {
  /** Names of stores that were created or found. */
  readonly kept: Set<string>
  /** The ids of stores that are gone. They do not come back. */
  readonly gone: Set<number>
  /** Versions of stores that are not known yet. */
  readonly versions: Map<number, number>
}

/** A store that is being looked up. */
interface Finding {
  readonly name: string
  /** What is found may be from before something that is known here. */
  isStale: boolean
}

/** The pause before names that could not be read are read again. */
const RETRY_MS = 500

export class PostgresEngine implements StorageEngine {
  readonly #server: PostgresServer
  readonly #catalog: string
  readonly #options: EngineOptions
  readonly #stores = new Map<string, PostgresStore>()
  /** The ids of stores, as of the last listing. */
  readonly #ids = new Map<string, number>()
  /** The same stores by their ids, with the last versions that other servers are known to have made. */
  readonly #known = new Map<number, KnownStore>()
  #meanwhile: Meanwhile | undefined
  readonly #catalogListeners = new Set<CatalogListener>()
  readonly #listing = new SharedRuns(() => this.#list())
  /** Names whose stores are being dropped: they cannot be opened meanwhile. */
  readonly #dropping = new Set<string>()
  readonly #findings = new Set<Finding>()
  readonly #unsubscribe: readonly (() => void)[]
  #closed = false

  /** An engine with its own connections. */
  static async open(options: PostgresOptions): Promise<PostgresEngine> {
    const server = await PostgresServer.open(options)
    return PostgresEngine.on(server, 'databases', { ownsServer: true })
  }

  /** The stores of a catalog. Stores of different catalogs have nothing to do with each other. */
  static async on(server: PostgresServer, catalog: string, options: EngineOptions = {}): Promise<PostgresEngine> {
    const engine = new PostgresEngine(server, catalog, options)
    try {
      await engine.list()
      return engine
    } catch (error) {
      await engine.close()
      throw error
    }
  }

  private constructor(server: PostgresServer, catalog: string, options: EngineOptions) {
    this.#server = server
    this.#catalog = catalog
    this.#options = options
    this.#unsubscribe = [
      server.onCatalog(() => this.#listSoon()),
      server.onCommit((store, version) => this.#reached(store, version)),
    ]
  }

  /** A listing under way may have begun before the change that the caller knows of. */
  async list(): Promise<string[]> {
    this.#assertOpen()
    return this.#listing.run()
  }

  get uuid(): string {
    return this.#server.uuid
  }

  get leases(): WorkLeases {
    return this.#server.leases
  }

  leasesOf(): WorkLeases {
    return this.#server.leases
  }

  /** As of the last listing. */
  get knownNames(): string[] {
    return [...this.#ids.keys()]
  }

  has(name: string): boolean {
    return this.#ids.has(name)
  }

  async create(name: string, rows: readonly Put[] = []): Promise<Store> {
    this.#assertOpen()
    checkStoreName(name)
    checkChanges({ puts: rows })
    const { keys, values, bytes } = mergeRows(rows)
    const parameters = [this.#catalog, Buffer.from(name), bytes, byteaArray(keys), byteaArray(values)]
    const [row] = await this.#server.run(STATEMENTS.create, parameters)
    if (!row) {
      // The next listing notifies the listeners.
      void this.#listSoon()
      throw new StoreExistsError(name)
    }
    // Another server dropped the store of this name.
    this.#stores.get(name)?.lost()
    this.#server.signals.announceCatalog()
    return this.#keep({ id: Number(row[0]), name, space: Number(row[1]), version: 0 }, { isCreatedHere: true })
  }

  async open(name: string): Promise<Store> {
    this.#assertOpen()
    return this.#stores.get(name) ?? this.#find(name)
  }

  async drop(name: string): Promise<void> {
    this.#assertOpen()
    const store = this.#stores.get(name) ?? (await this.#find(name))
    if (this.#dropping.has(name)) throw new StoreMissingError(name)
    this.#dropping.add(name)
    let gone: ResultRow[]
    try {
      await store.fixSnapshots()
      this.#stores.delete(name)
      await store.retire()
      gone = await this.#server.repeat(STATEMENTS.drop, [store.id], { times: 2, pauseMs: 100 })
    } finally {
      this.#dropping.delete(name)
    }
    this.#outdate(name)
    if (this.#ids.get(name) === store.id) this.#remove(name, store.id)
    this.#server.signals.announceCatalog()
    if (this.#options.confirmsDrops) await this.#server.signals.confirm(CATALOG)
    this.#server.garbage.sweepSoon()
    if (gone.length === 0) throw new StoreMissingError(name)
  }

  /** Resolves when all other servers have processed the commits to a store so far. */
  async confirm(name: string): Promise<void> {
    await this.#stores.get(name)?.sharing.confirm()
  }

  onChangedElsewhere(listener: CatalogListener): () => void {
    this.#catalogListeners.add(listener)
    return () => this.#catalogListeners.delete(listener)
  }

  /** PostgreSQL checks its own files. */
  onDamaged(): () => void {
    return () => {}
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    await Promise.all([...this.#stores.values()].map((store) => store.retire()))
    if (this.#options.ownsServer) await this.#server.close()
  }

  /** Not read again because of what happens here meanwhile: where something always happens that would not end. */
  async #list(): Promise<string[]> {
    const meanwhile: Meanwhile = { kept: new Set(), gone: new Set(), versions: new Map() }
    this.#meanwhile = meanwhile
    // The signal that the list is read for may be of something that they do not show.
    for (const finding of this.#findings) finding.isStale = true
    try {
      const rows = await this.#server.run(STATEMENTS.list, [this.#catalog])
      const listed = new Map(
        rows.map(([id, name, version]) => [
          bytesOf(name ?? '\\x').toString(),
          { id: Number(id), version: Number(version) },
        ]),
      )
      this.#apply(listed, meanwhile)
      return [...listed.keys()]
    } finally {
      this.#meanwhile = undefined
    }
  }

  #apply(listed: ReadonlyMap<string, { readonly id: number; readonly version: number }>, meanwhile: Meanwhile): void {
    const { kept, gone, versions } = meanwhile
    for (const [name, id] of [...this.#ids]) if (listed.get(name)?.id !== id && !kept.has(name)) this.#left(name, id)
    for (const [name, { id, version }] of listed) {
      if (this.#ids.get(name) === id) this.#reached(id, version)
      else if (!kept.has(name) && !gone.has(id)) this.#entered(name, id, version)
    }
    for (const [id, version] of versions) this.#reached(id, version)
  }

  /** Another server has dropped it. */
  #left(name: string, id: number): void {
    this.#remove(name, id)
    const store = this.#stores.get(name)
    if (store?.id === id) store.lost()
    for (const listener of this.#catalogListeners) listener('dropped', name)
  }

  /** Another server has created it. */
  #entered(name: string, id: number, version: number): void {
    this.#add(name, id, version)
    for (const listener of this.#catalogListeners) listener('created', name)
  }

  /** A store has this version. Those who watch it know. */
  #reached(id: number, version: number): void {
    const known = this.#known.get(id)
    if (!known) this.#meanwhile?.versions.set(id, version)
    if (!known || version <= known.version) return
    known.version = version
    if (this.#server.signals.isWatched(id)) return
    for (const listener of this.#catalogListeners) listener('updated', known.name)
  }

  #add(name: string, id: number, version: number): void {
    this.#ids.set(name, id)
    this.#known.set(id, { name, version })
  }

  #remove(name: string, id: number): void {
    this.#ids.delete(name)
    this.#known.delete(id)
    this.#meanwhile?.gone.add(id)
  }

  /** A store of the name was created, found or dropped: those who look it up look again. */
  #outdate(name: string): void {
    for (const finding of this.#findings) if (finding.name === name) finding.isStale = true
  }

  /** Until it succeeds: the signal will not come again, and another server may wait until this one knows. */
  async #listSoon(): Promise<void> {
    while (!this.#closed) {
      try {
        await this.list()
        return
      } catch {
        await pause(RETRY_MS, undefined, { ref: false })
      }
    }
  }

  async #find(name: string): Promise<PostgresStore> {
    const finding: Finding = { name, isStale: false }
    let rows: ResultRow[] = []
    this.#findings.add(finding)
    try {
      if (!this.#dropping.has(name)) rows = await this.#server.run(STATEMENTS.find, [this.#catalog, Buffer.from(name)])
    } finally {
      this.#findings.delete(finding)
    }
    const [row] = rows
    if (finding.isStale) return this.#stores.get(name) ?? this.#find(name)
    if (!row || this.#dropping.has(name)) {
      const id = this.#ids.get(name)
      if (id !== undefined && !this.#dropping.has(name)) this.#left(name, id)
      throw new StoreMissingError(name)
    }
    const known = this.#stores.get(name)
    if (known?.id === Number(row[0])) return known
    known?.lost()
    const place = { id: Number(row[0]), name, space: Number(row[1]), version: Number(row[2]) }
    return this.#keep(place, { isCreatedHere: false })
  }

  #keep(place: StorePlace, { isCreatedHere }: { readonly isCreatedHere: boolean }): PostgresStore {
    const store = new PostgresStore(place, this.#server, (lost) => {
      if (this.#stores.get(lost.name) === lost) this.#stores.delete(lost.name)
      if (this.#ids.get(lost.name) === lost.id) this.#left(lost.name, lost.id)
    })
    const { name, id, version = 0 } = place
    const known = this.#ids.get(name)
    if (known !== undefined && known !== id) this.#left(name, known)
    // Who opens it watches it from this version on.
    if (known === id) this.#reached(id, version)
    this.#stores.set(name, store)
    if (isCreatedHere) this.#add(name, id, version)
    else if (known !== id) this.#entered(name, id, version)
    this.#meanwhile?.kept.add(name)
    this.#outdate(name)
    return store
  }

  #assertOpen(): void {
    if (this.#closed) throw new StoreGoneError('engine')
  }
}
