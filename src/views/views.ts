/**
 * The indexes of a server. An index belongs to a database and to the views of a design document. It is updated when it is
 * queried, once for all readers that wait, and removed with its database.
 */

import type { Database } from '../database/database.ts'
import type { Databases } from '../database/databases.ts'
import { isDesignId } from '../document/ids.ts'
import { notFound } from '../document/request-error.ts'
import type { Metrics } from '../runtime/metrics.ts'
import { isFileOf } from '../storage/files/store-file.ts'
import {
  EngineUnavailableError,
  FileDamagedError,
  StoreExistsError,
  StoreGoneError,
  StoreMissingError,
} from '../storage/storage-error.ts'
import type { StorageEngine, Store } from '../storage/store.ts'
import { liveDesigns, partOf, partsOf, type ViewDesign, viewDesign } from './design/view-design.ts'
import { databasePart, databasePartOf, indexStoreName, isStoreOf } from './index-store-name.ts'
import { IndexMemory } from './layout/index-memory.ts'
import { OpenIndexes } from './open-indexes.ts'
import type { Client, Freshness, IndexInformation, OpenIndex } from './reading/open-index.ts'
import { ReductionError } from './reductions/reduction.ts'
import { type IndexServices, ViewIndex } from './view-index.ts'

const MOST_TRIES = 3

/** When there are more, some are tried in one piece again. */
const MOST_PARTED = 10_000

export interface ViewsOptions extends IndexServices {
  readonly databases: Databases
  /** Holds a store an index, and nothing else. */
  readonly engine: StorageEngine
  readonly metrics?: Metrics
  /** Set where another node has the indexes made, and removes them: sees to it that the store of an index is there. */
  readonly provide?: (database: Database, design: ViewDesign) => Promise<void>
}

export class Views {
  readonly #options: ViewsOptions
  /** By the database's uuid and the signature. */
  readonly #indexes = new Map<string, Promise<ViewIndex>>()
  readonly #opened = new OpenIndexes()
  /**
   * Those that were asked for, without the name and the signature that they are found by. Weak: a cached design document
   * must not keep an index that was dropped, and with it a database.
   */
  readonly #known = new WeakMap<ViewDesign, WeakRef<ViewIndex>>()
  /** Databases whose indexes are being removed. */
  readonly #removals = new Map<string, Promise<void>>()
  /** Indexes that are damaged and being removed, by the names of their stores. */
  readonly #discards = new Map<string, Promise<void>>()
  readonly #forget: readonly (() => void)[]
  /** The signatures of design documents of which not all views can be in one index. */
  readonly #parted = new Set<string>()
  #isClosed = false

  /** Removes what a crash left of databases that are gone. */
  static async open(options: ViewsOptions): Promise<Views> {
    try {
      if (!options.provide) await removeLeft(options)
    } catch (error) {
      // A later start removes it.
      if (!(error instanceof EngineUnavailableError)) throw error
    }
    return new Views(options)
  }

  private constructor(options: ViewsOptions) {
    this.#options = options
    const { databases, metrics } = options
    metrics?.gauge('settle_indexes_open', 'indexes that were used since the start', () => this.#opened.lags().length)
    metrics?.gauge('settle_index_lag_changes', 'changes that open indexes do not have yet, of all together', () =>
      this.#opened.lags().reduce((sum, lag) => sum + lag, 0),
    )
    metrics?.gauge(
      'settle_index_lag_changes_max',
      'changes that the open index furthest behind does not have yet',
      () => this.#opened.lags().reduce((most, lag) => Math.max(most, lag), 0),
    )
    this.#forget = [
      databases.onDeleted((name, where) => (where === 'here' ? this.#removeAll(name) : this.#endGone(name))),
      databases.onDesignUpdated((database, id) => {
        if (id !== undefined) void this.#prepare(database, id)
        void this.#detachUnused(database)
      }),
      // Also where a query that had begun to answer found the damage: the next one gets a rebuilt index.
      options.engine.onDamaged((name) => void this.#discard(name).catch(() => {})),
    ]
  }

  /**
   * A state of the index, to be released. Rejects with what went wrong in a function, with 404 when the database is
   * deleted meanwhile, and with the reason of the client's signal.
   */
  openIndex(
    database: Database,
    design: ViewDesign,
    freshness: Freshness,
    client?: Client,
  ): OpenIndex | Promise<OpenIndex> {
    const known = this.#known.get(design)?.deref()
    const atHand = known?.place.database.uuid === database.uuid ? known.atHand(freshness) : undefined
    return atHand ?? this.#use(database, design, (index) => index.open(freshness, client))
  }

  /**
   * The same for one of its views. If a reduce function fails, views of other map functions must not: from then on the views of
   * each map function have their own index.
   */
  openIndexOf(
    view: string,
    database: Database,
    design: ViewDesign,
    freshness: Freshness,
    client?: Client,
  ): OpenIndex | Promise<OpenIndex> {
    if (this.#parted.has(design.signature)) {
      return this.openIndex(database, partOf(design, view), freshness, client)
    }
    const index = this.openIndex(database, design, freshness, client)
    if (!(index instanceof Promise) || design.maps.length < 2) return index
    return index.catch((error: unknown) => {
      if (!(error instanceof ReductionError)) throw error
      this.#part(design)
      return this.openIndex(database, partOf(design, view), freshness, client)
    })
  }

  /** Never brings the index up to date. */
  async information(database: Database, design: ViewDesign): Promise<IndexInformation> {
    return this.#use(database, design, (index) => index.information())
  }

  /** Starts a compaction in the background, unless one is running. */
  async compact(database: Database, design: ViewDesign): Promise<void> {
    await this.#use(database, design, async (index) => index.compact())
  }

  /** The existing indexes of a database, for the compaction daemon. */
  async indexesOf(name: string): Promise<ViewIndex[]> {
    const { databases, engine } = this.#options
    const database = await databases.get(name)
    const designs = (await liveDesigns(database)).filter(({ signature }) => engine.has(indexStoreName(name, signature)))
    return Promise.all(designs.map((design) => this.#index(database, design)))
  }

  /** Removes the indexes that none of the database's design documents has any more; those in use when they are not. */
  async cleanup(database: Database): Promise<void> {
    const { engine } = this.#options
    const live = await this.#liveStores(database)
    for (const name of await engine.list()) {
      if (isStoreOf(name, database.name) && !live.has(name)) await this.#removeUnused(name)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const forget of this.#forget) forget()
    const error = new Error('The server is being closed.')
    await Promise.allSettled([...this.#indexes.values()].map(async (opening) => (await opening).end(error)))
    await Promise.allSettled([...this.#removals.values(), ...this.#discards.values()])
    await this.#options.runner.close()
  }

  /** Who saves a design document with views will soon ask for one. */
  async #prepare(name: string, id: string): Promise<void> {
    try {
      const database = await this.#options.databases.get(name)
      const { members } = await database.currentDesign(id)
      const design = viewDesign(id, members, database)
      if (design.maps.length > 0 && !this.#isClosed) this.#options.runner.prepare(design)
    } catch {
      // It is deleted, or not valid: queries of its views get the error.
    }
  }

  /** The names of the stores of all indexes that design documents have. */
  async #liveStores(database: Database): Promise<ReadonlySet<string>> {
    const designs = await liveDesigns(database)
    const inUse = designs.flatMap((design) =>
      this.#parted.has(design.signature) ? [design, ...partsOf(design)] : [design],
    )
    return new Set(inUse.map(({ signature }) => indexStoreName(database.name, signature)))
  }

  /** What is being built of views that no design document has any more is given up, unless somebody waits for it. */
  async #detachUnused(name: string): Promise<void> {
    try {
      const opened = await Promise.all([...this.#indexes.values()].map((opening) => opening.catch(() => undefined)))
      const indexes = opened
        .filter((index) => index !== undefined)
        .filter(({ place, isUpdating }) => isUpdating && place.database.name === name)
      if (indexes.length === 0) return
      const live = await this.#liveStores(await this.#options.databases.get(name))
      for (const index of indexes) if (!live.has(index.place.store.name)) index.detach()
    } catch {
      // The database is gone, and its indexes with it.
    }
  }

  #part({ signature }: ViewDesign): void {
    if (this.#parted.size >= MOST_PARTED) this.#parted.clear()
    this.#parted.add(signature)
  }

  async #use<T>(database: Database, design: ViewDesign, use: (index: ViewIndex) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        const index = await this.#index(database, design)
        if (isDesignId(design.id)) index.attach()
        if (this.#known.get(design)?.deref() !== index) this.#known.set(design, new WeakRef(index))
        return await use(index)
      } catch (error) {
        const name = indexStoreName(database.name, design.signature)
        const isDamaged = error instanceof FileDamagedError && isFileOf(error.path, name)
        if (isDamaged) await this.#discard(name)
        else if (error instanceof StoreGoneError) await this.#forgetGone(database, design)
        else if (!(error instanceof StoreGoneError || error instanceof StoreMissingError)) throw error
        // A clean-up may have removed the index in this moment; with the database it is gone for good.
        if (tries === MOST_TRIES || !this.#options.databases.has(database.name)) throw notFound('no_db_file')
      }
    }
  }

  /** Another server dropped its store: the next query builds it again. */
  async #forgetGone(database: Database, design: ViewDesign): Promise<void> {
    const key = `${database.uuid}/${design.signature}`
    const opening = this.#indexes.get(key)
    const index = await opening?.catch(() => undefined)
    if (index?.place.store.dropped && this.#indexes.get(key) === opening) this.#indexes.delete(key)
  }

  async #index(database: Database, design: ViewDesign): Promise<ViewIndex> {
    for (let removal = this.#removals.get(database.name); removal; removal = this.#removals.get(database.name)) {
      await removal
    }
    await this.#discards.get(indexStoreName(database.name, design.signature))
    // Another one may have its name by now, and indexes of its own.
    if (database.isDeleted) throw notFound('no_db_file')
    const key = `${database.uuid}/${design.signature}`
    const known = this.#indexes.get(key)
    if (known && !(await this.#isRemovedElsewhere(known))) return known
    const opening = this.#open(database, design)
    this.#indexes.set(key, opening)
    opening.catch(() => this.#indexes.delete(key))
    return opening
  }

  async #open(database: Database, design: ViewDesign): Promise<ViewIndex> {
    const { engine, provide } = this.#options
    const name = indexStoreName(database.name, design.signature)
    if (provide && !engine.has(name)) await provide(database, design)
    const store = await engine.open(name).catch((error: unknown) => {
      if (error instanceof StoreMissingError) return createOrOpen(engine, name)
      throw error
    })
    const index = new ViewIndex({ database, design, store, memory: new IndexMemory() }, this.#options)
    if (!isDesignId(design.id)) index.detach()
    this.#opened.add(index)
    return index
  }

  /** Whether another node has removed it, perhaps to build it again. */
  async #isRemovedElsewhere(opening: Promise<ViewIndex>): Promise<boolean> {
    if (!this.#options.provide) return false
    const index = await opening.catch(() => undefined)
    return index?.place.store.dropped ?? false
  }

  /** An index that queries wait for is removed after them; the clean-up does not wait for that. */
  async #removeUnused(name: string): Promise<void> {
    for (const [key, opening] of this.#indexes) {
      // The error of a failed opening goes to the query that opened it.
      const index = await opening.catch(() => undefined)
      if (index?.place.store.name !== name) continue
      index.detach()
      const isInUse = index.isBusy
      const removal = this.#removeIdle(index, () => this.#indexes.get(key) === opening && this.#indexes.delete(key))
      // The server may be closed before, and the index removed with its database.
      if (isInUse) removal.catch(() => {})
      else await removal
      return
    }
    await this.#drop(name)
  }

  /** `forget` returns whether it is still the one that is known by its name: another cleanup may have removed it. */
  async #removeIdle(index: ViewIndex, forget: () => boolean): Promise<void> {
    await index.idle()
    // A design document may have got it again meanwhile.
    if (index.isDetached && forget()) await this.#drop(index.place.store.name)
  }

  /**
   * Removes an index whose file is damaged, so that the next query rebuilds it: everything in it comes from its database.
   * Queries that wait for it wait for the rebuilt one.
   */
  #discard(name: string): Promise<void> {
    const known = this.#discards.get(name)
    if (known || this.#isClosed) return known ?? Promise.resolve()
    this.#options.log.warn('A damaged index was removed; it is rebuilt with its next query.', { index: name })
    const discard = this.#endAndDrop(name).finally(() => this.#discards.delete(name))
    this.#discards.set(name, discard)
    return discard
  }

  async #endAndDrop(name: string): Promise<void> {
    for (const [key, opening] of this.#indexes) {
      const index = await opening.catch(() => undefined)
      if (index?.place.store.name !== name) continue
      this.#indexes.delete(key)
      await index.end(new StoreGoneError(name))
    }
    await this.#drop(name)
  }

  #removeAll(database: string): Promise<void> {
    const removal = this.#endAll(database).finally(() => this.#removals.delete(database))
    this.#removals.set(database, removal)
    return removal
  }

  async #endAll(database: string): Promise<void> {
    await this.#endThose(({ place }) => place.database.name === database)
    for (const name of await this.#options.engine.list()) if (isStoreOf(name, database)) await this.#drop(name)
  }

  /** Another server or node deleted it, and drops the stores. One that has its name by now has indexes of its own. */
  async #endGone(database: string): Promise<void> {
    const { provide } = this.#options
    await this.#endThose(({ place }) => place.database.name === database && (place.database.isDeleted || !!provide))
  }

  async #endThose(isMeant: (index: ViewIndex) => boolean): Promise<void> {
    for (const [key, opening] of this.#indexes) {
      const index = await opening.catch(() => undefined)
      if (!index || !isMeant(index)) continue
      this.#indexes.delete(key)
      await index.end(notFound('no_db_file'))
    }
  }

  async #drop(name: string): Promise<void> {
    const { engine, provide } = this.#options
    if (provide) return
    try {
      await engine.drop(name)
    } catch (error) {
      if (!(error instanceof StoreMissingError)) throw error
    }
  }
}

/** The indexes of databases that are gone. */
async function removeLeft({ engine, databases }: ViewsOptions): Promise<void> {
  // Before the databases: the database of an index that another server makes meanwhile is there already.
  const indexes = await engine.list()
  const live = new Set((await databases.list()).map(databasePart))
  for (const name of indexes) {
    if (live.has(databasePartOf(name))) continue
    // Another server that starts may be doing the same.
    await engine.drop(name).catch((error: unknown) => {
      if (!(error instanceof StoreMissingError)) throw error
    })
  }
}

/** Another server may make it at the same time. */
async function createOrOpen(engine: StorageEngine, name: string): Promise<Store> {
  try {
    return await engine.create(name)
  } catch (error) {
    if (!(error instanceof StoreExistsError)) throw error
    return await engine.open(name)
  }
}
