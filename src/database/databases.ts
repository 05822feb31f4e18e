/**
 * The databases of a server, by name. A database is opened with its first use and then kept open: an idle one costs little.
 */
import { DATABASE_NAME_LIMIT_CHARACTERS, isDatabaseName } from '../document/database-name.ts'
import { badRequest, notFound, RequestError } from '../document/request-error.ts'
import { StoreExistsError, StoreMissingError } from '../storage/storage-error.ts'
import type { StorageEngine } from '../storage/store.ts'
import type { DatabaseCommit } from './cache-invalidation.ts'
import { Database } from './database.ts'
import { type DatabaseOptions, firstRows } from './database-identity.ts'
import type { DatabaseEvent, DatabaseEventListener, DatabaseServices } from './database-services.ts'
import { DesignCache } from './design/design-document.ts'
import type { DocumentAccess, UserContext } from './user-context.ts'

export class Databases {
  readonly #engine: StorageEngine
  readonly #services: DatabaseServices
  readonly #designs: DesignCache
  readonly #open = new Map<string, Promise<Database>>()
  /** Those of the open ones that need not be waited for. */
  readonly #ready = new Map<string, Database>()
  /** Those that are being deleted: their names are free when that is done. */
  readonly #deleting = new Map<string, Promise<void>>()
  readonly #guards = new Map<string, DocumentGuard>()
  readonly #onDeleted = new Set<DeletionListener>()
  readonly #afterDeletion = new Set<(name: string) => Promise<void>>()
  readonly #eventListeners = new Set<DatabaseEventListener>()
  readonly #designListeners = new Set<(database: string, id: string | undefined) => void>()
  readonly #stopFollowing: (() => void) | undefined

  constructor(engine: StorageEngine, services: DatabaseServices) {
    this.#engine = engine
    this.#designs = services.designs ?? new DesignCache()
    this.#services = { ...services, designs: this.#designs, onEvent: (event) => this.#publish(event) }
    this.#stopFollowing = engine.onChangedElsewhere?.((change, name) => {
      if (change !== 'dropped') this.#publish({ type: change, db: name })
      // For an open database the event is published when it is forgotten.
      else if (!this.#forgetDeleted(name)) this.#publish({ type: 'deleted', db: name })
    })
  }

  list(): Promise<string[]> {
    return this.#engine.list()
  }

  /** Without those of a storage engine that was not reached since the start. */
  listReachable(): Promise<string[]> {
    return this.#engine.listReachable?.() ?? this.#engine.list()
  }

  has(name: string): boolean {
    return this.#engine.has(name)
  }

  /** Whether it was opened since the start. */
  isOpen(name: string): boolean {
    return this.#open.has(name)
  }

  /** How many are open now, without system databases. */
  get openCount(): number {
    let count = 0
    for (const name of this.#open.keys()) if (!name.startsWith('_')) count++
    return count
  }

  /** Sets the access rules of a database, or removes them. */
  setGuard(name: string, guard: DocumentGuard | undefined): void {
    if (guard) this.#guards.set(name, guard)
    else this.#guards.delete(name)
  }

  guardOf(name: string): DocumentGuard | undefined {
    return this.#guards.get(name)
  }

  /** Calls back after a database was deleted, and waits for the listener; returns how to unsubscribe. */
  onDeleted(listener: DeletionListener): () => void {
    this.#onDeleted.add(listener)
    return () => this.#onDeleted.delete(listener)
  }

  /** Calls back when a deletion is over and the name is free again, and waits for the listener; returns how to unsubscribe. */
  afterDeletion(listener: (name: string) => Promise<void>): () => void {
    this.#afterDeletion.add(listener)
    return () => this.#afterDeletion.delete(listener)
  }

  /** Calls back after each event of any database; returns how to unsubscribe. */
  onEvent(listener: DatabaseEventListener): () => void {
    this.#eventListeners.add(listener)
    return () => this.#eventListeners.delete(listener)
  }

  /** Calls back after each commit of a design document, without its id if another server made it; returns how to unsubscribe. */
  onDesignUpdated(listener: (database: string, id: string | undefined) => void): () => void {
    this.#designListeners.add(listener)
    return () => this.#designListeners.delete(listener)
  }

  /**
   * The database as the server itself uses it, without access rules. Throws the client's error when there is none.
   */
  get(name: string): Promise<Database> {
    this.#forgetDeleted(name)
    const opening = this.#open.get(name)
    if (!opening) return this.#openAndKeep(name)
    if (this.#ready.has(name)) return opening
    return opening.catch((error: unknown) => {
      // The other node may have created it after that opening began; or it is a creation of what another server has.
      if (!this.#services.isFollower && !(error instanceof StoreExistsError)) throw error
      return this.#open.get(name) ?? this.#openAndKeep(name)
    })
  }

  /** The same, where it is open already. */
  opened(name: string): Database | undefined {
    this.#forgetDeleted(name)
    return this.#ready.get(name)
  }

  async create(name: string, options: DatabaseOptions = {}): Promise<void> {
    checkDatabaseName(name)
    if (options.isPartitioned && name.startsWith('_')) throw badRequest('Cannot partition a system database')
    for (let deletion = this.#deleting.get(name); deletion; deletion = this.#deleting.get(name)) await deletion
    this.#forgetDeleted(name)
    // Another request may be opening it, and about to fail since it does not exist.
    while (this.#open.has(name) && !this.#ready.has(name)) await this.#open.get(name)?.catch(() => {})
    if (this.#open.has(name)) throw databaseExists()
    try {
      // Kept at once: requests for it wait until it is complete.
      await this.#keep(
        name,
        this.#engine
          .create(name, firstRows(options, this.#services.clock.nowUs()))
          .then((store) => Database.open(store, this.#services)),
      )
    } catch (error) {
      if (error instanceof StoreExistsError) throw databaseExists()
      throw error
    }
    this.#publish({ type: 'created', db: name })
    // Another server may have deleted it before that, and the deletion was published then.
    this.#forgetDeleted(name)
  }

  async delete(name: string): Promise<void> {
    checkDatabaseName(name)
    // Waits while it is being created or opened. Forgotten before that, it would be opened a second time by the next
    // request, and a store has one writer.
    while (this.#open.has(name) && !this.#ready.has(name)) await this.#open.get(name)?.catch(() => {})
    // A second deletion finds nothing to delete.
    if (this.#deleting.has(name)) throw notFound('missing')
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#deleting.set(name, promise)
    try {
      await this.#delete(name)
    } finally {
      this.#deleting.delete(name)
      resolve()
    }
    for (const listener of this.#afterDeletion) await listener(name)
  }

  /** Another node wrote a database. */
  changedElsewhere({ database, ...change }: DatabaseCommit): void {
    this.#ready.get(database)?.changedElsewhere(change)
  }

  /** Commits of other nodes to any of them may have been missed. Resolves when readers that wait for changes are notified. */
  async anyChangedElsewhere(): Promise<void> {
    for (const database of [...this.#ready.values()]) {
      const { updateSequence, hasSubscribers } = database.changes
      database.changedElsewhere({ updateSequence, hasDesigns: true, hasSecurity: true })
      if (hasSubscribers) await database.catchUp()
    }
  }

  /** Another node deleted a database. Its changes feeds are woken and find it deleted. */
  async deletedElsewhere(name: string): Promise<void> {
    const known = this.#ready.get(name)
    this.#forget(name)
    known?.changes.wake()
    for (const listener of this.#onDeleted) await listener(name, 'elsewhere')
  }

  /** Flushes all of them. The storage engine is closed by its owner. */
  async close(): Promise<void> {
    this.#stopFollowing?.()
    // The next server on this folder must not find files that are still being deleted.
    await Promise.all(this.#deleting.values())
    const databases = await Promise.allSettled(this.#open.values())
    await Promise.all(databases.map((each) => (each.status === 'fulfilled' ? each.value.close() : undefined)))
  }

  async #delete(name: string): Promise<void> {
    const known = this.#ready.get(name)
    this.#forget(name)
    try {
      await this.#engine.drop(name)
    } catch (error) {
      if (error instanceof StoreMissingError) throw notFound('missing')
      // Its files may still be there, and are opened again: nobody may continue with the old handle.
      known?.changes.wake()
      await Promise.allSettled([...this.#onDeleted].map((listener) => listener(name, 'here')))
      throw error
    }
    this.#publish({ type: 'deleted', db: name })
    // Changes feeds are woken and find it deleted.
    known?.changes.wake()
    for (const listener of this.#onDeleted) await listener(name, 'here')
  }

  async #openAndKeep(name: string): Promise<Database> {
    checkDatabaseName(name)
    return this.#keep(name, this.#openStore(name))
  }

  async #openStore(name: string): Promise<Database> {
    try {
      return await Database.open(await this.#engine.open(name), this.#services)
    } catch (error) {
      if (error instanceof StoreMissingError) throw notFound('no_db_file')
      throw error
    }
  }

  /** Forgets a database that another server deleted; one that is created later under its name is another one. Returns whether it was open. */
  #forgetDeleted(name: string): boolean {
    const known = this.#ready.get(name)
    if (!known?.isDeleted || this.#deleting.has(name)) return false
    this.#forget(name)
    this.#publish({ type: 'deleted', db: name })
    known.changes.wake()
    for (const listener of this.#onDeleted) void listener(name, 'elsewhere').catch(() => {})
    return true
  }

  #forget(name: string): void {
    const known = this.#ready.get(name)
    this.#open.delete(name)
    this.#ready.delete(name)
    if (known) this.#designs.forget(known.uuid)
  }

  #publish(event: DatabaseEvent): void {
    const isElsewhere = event.type === 'ddocs_updated_elsewhere'
    if (!isElsewhere) for (const listener of this.#eventListeners) listener(event)
    if (event.type !== 'ddoc_updated' && !isElsewhere) return
    const id = isElsewhere ? undefined : event.id
    for (const listener of this.#designListeners) listener(event.db, id)
  }

  #keep(name: string, opening: Promise<Database>): Promise<Database> {
    this.#open.set(name, opening)
    opening.then(
      (database) => {
        if (this.#open.get(name) === opening) this.#ready.set(name, database)
      },
      () => {
        if (this.#open.get(name) === opening) this.#open.delete(name)
      },
    )
    return opening
  }
}

/** `elsewhere`: by another server or node, which removes what belongs to the database. */
export type DeletionListener = (name: string, where: 'here' | 'elsewhere') => Promise<void>

function databaseExists(): RequestError {
  return new RequestError(
    'precondition failed',
    'file_exists',
    'The database could not be created, the file already exists.',
  )
}

function checkDatabaseName(name: string): void {
  if (name.length > DATABASE_NAME_LIMIT_CHARACTERS) throw tooLongDatabaseName(name)
  if (!isDatabaseName(name)) throw illegalDatabaseName(name)
}

function illegalDatabaseName(name: string): RequestError {
  return new RequestError(
    'invalid',
    'illegal_database_name',
    `Name: '${name}'. Only lowercase characters (a-z), digits (0-9), and any of the characters _, $, (, ), +, -, and / ` +
      'are allowed. Must begin with a letter.',
  )
}

function tooLongDatabaseName(name: string): RequestError {
  return new RequestError(
    'invalid',
    'illegal_database_name',
    `Name: '${name.slice(0, 80)}…'. It has ${name.length} characters; at most ${DATABASE_NAME_LIMIT_CHARACTERS} are allowed.`,
  )
}

/**
 * The access rules of one database, such as `_users`. A database that was opened for a user applies them wherever
 * documents are read and written, so that no endpoint can forget to.
 */
export interface DocumentGuard {
  /** What this user may do, given whether they administer the database. */
  accessOf(database: Database, user: UserContext, isAdmin: boolean): DocumentAccess
}
