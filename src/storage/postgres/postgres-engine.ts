/**
 * Stores in a PostgreSQL server. Any number of servers may use the same one; the names of stores are kept in it, and a name
 * that is known here is only a hint.
 */
import { checkStoreName } from '../files/store-file.ts'
import { StoreExistsError, StoreGoneError, StoreMissingError } from '../storage-error.ts'
import type { StorageEngine, Store } from '../store.ts'
import type { ResultRow } from './connection.ts'
import { type PostgresOptions, PostgresServer } from './postgres-server.ts'
import { PostgresStore } from './postgres-store.ts'
import { STATEMENTS } from './statements.ts'
import { bytesOf } from './wire-values.ts'

export class PostgresEngine implements StorageEngine {
  readonly #server: PostgresServer
  readonly #catalog: string
  readonly #ownsServer: boolean
  readonly #stores = new Map<string, PostgresStore>()
  /** As of the last time that all were listed. */
  #names = new Set<string>()
  #listing: Promise<string[]> | undefined
  /** Names whose stores are being dropped: nobody opens these meanwhile. */
  readonly #dropping = new Set<string>()
  /** Stores that were created and dropped from here so far: a list that was read meanwhile is read again. */
  #ownChanges = 0
  readonly #forget: () => void
  #closed = false

  /** An engine with a server of its own. */
  static async open(options: PostgresOptions): Promise<PostgresEngine> {
    const server = await PostgresServer.open(options)
    return PostgresEngine.on(server, 'databases', { ownsServer: true })
  }

  /** The stores of a catalog. Stores of different catalogs have nothing to do with each other. */
  static async on(
    server: PostgresServer,
    catalog: string,
    { ownsServer = false }: { readonly ownsServer?: boolean } = {},
  ): Promise<PostgresEngine> {
    const engine = new PostgresEngine(server, catalog, ownsServer)
    try {
      await engine.list()
      return engine
    } catch (error) {
      await engine.close()
      throw error
    }
  }

  private constructor(server: PostgresServer, catalog: string, ownsServer: boolean) {
    this.#server = server
    this.#catalog = catalog
    this.#ownsServer = ownsServer
    this.#forget = server.onCatalog(() => {
      // Where it fails, whoever needs a store finds out.
      this.list().catch(() => {})
    })
  }

  async list(): Promise<string[]> {
    this.#assertOpen()
    // One that is under way may have begun before what the caller knows of.
    while (this.#listing) await this.#listing.catch(() => {})
    this.#listing = this.#list()
    try {
      return await this.#listing
    } finally {
      this.#listing = undefined
    }
  }

  has(name: string): boolean {
    return this.#names.has(name)
  }

  async create(name: string): Promise<Store> {
    this.#assertOpen()
    checkStoreName(name)
    const [row] = await this.#server.run(STATEMENTS.create, [this.#catalog, Buffer.from(name)])
    if (!row) {
      this.#names.add(name)
      throw new StoreExistsError(name)
    }
    // One of this name was dropped elsewhere.
    this.#stores.get(name)?.lost()
    this.#server.signals.announceCatalog()
    return this.#keep({ id: Number(row[0]), name, space: Number(row[1]), version: 0 })
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
    this.#ownChanges++
    this.#names.delete(name)
    this.#server.signals.announceCatalog()
    this.#server.garbage.sweepSoon()
    if (gone.length === 0) throw new StoreMissingError(name)
  }

  /** The server looks after its files itself. */
  onDamaged(): () => void {
    return () => {}
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#forget()
    await Promise.all([...this.#stores.values()].map((store) => store.retire()))
    if (this.#ownsServer) await this.#server.close()
  }

  async #list(): Promise<string[]> {
    let rows: ResultRow[]
    let before: number
    do {
      before = this.#ownChanges
      rows = await this.#server.run(STATEMENTS.list, [this.#catalog])
    } while (before !== this.#ownChanges)
    const names: string[] = []
    const ids = new Set<number>()
    for (const [id, name] of rows) {
      names.push(bytesOf(name ?? '\\x').toString())
      ids.add(Number(id))
    }
    this.#names = new Set(names)
    for (const store of [...this.#stores.values()]) {
      if (ids.has(store.id)) continue
      // Created since the list was read, or dropped elsewhere.
      const [row] = await this.#server.run(STATEMENTS.state, [store.id])
      if (row) this.#names.add(store.name)
      else store.lost()
    }
    return names
  }

  async #find(name: string): Promise<PostgresStore> {
    const before = this.#ownChanges
    const [row] = this.#dropping.has(name)
      ? []
      : await this.#server.run(STATEMENTS.find, [this.#catalog, Buffer.from(name)])
    // What was found may have been dropped or created from here meanwhile.
    if (before !== this.#ownChanges) return this.#stores.get(name) ?? this.#find(name)
    if (!row || this.#dropping.has(name)) {
      this.#names.delete(name)
      throw new StoreMissingError(name)
    }
    const known = this.#stores.get(name)
    if (known?.id === Number(row[0])) return known
    known?.lost()
    return this.#keep({ id: Number(row[0]), name, space: Number(row[1]), version: Number(row[2]) })
  }

  #keep(place: { id: number; name: string; space: number; version: number }): PostgresStore {
    const store = new PostgresStore(place, this.#server, (lost) => {
      if (this.#stores.get(lost.name) !== lost) return
      this.#stores.delete(lost.name)
      this.#names.delete(lost.name)
    })
    this.#stores.set(place.name, store)
    this.#names.add(place.name)
    this.#ownChanges++
    return store
  }

  #assertOpen(): void {
    if (this.#closed) throw new StoreGoneError('engine')
  }
}
