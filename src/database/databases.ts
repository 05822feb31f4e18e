/**
 * The databases of a server, by name. A database is opened with its first use and then kept open: an idle one costs little.
 */
import { DATABASE_NAME_LIMIT_CHARACTERS, isDatabaseName } from '../document/database-name.ts'
import { badRequest, notFound, RequestError } from '../document/request-error.ts'
import { StoreExistsError, StoreMissingError } from '../storage/storage-error.ts'
import type { StorageEngine } from '../storage/store.ts'
import { Database } from './database.ts'
import {
  type DatabaseCommit,
  type DatabaseEvent,
  type DatabaseEventListener,
  type DatabaseOptions,
  type DatabaseServices,
  firstRows,
} from './database-engine.ts'
import { DesignCache } from './design/design-document.ts'
import type { DocumentAccess, UserContext } from './user-context.ts'

export class Databases {
  readonly #engine: StorageEngine
  readonly #services: DatabaseServices
  readonly #open = new Map<string, Promise<Database>>()
  /** Those of the open ones that need not be waited for. */
  readonly #ready = new Map<string, Database>()
  /** Those that are being deleted: their names are free when that is done. */
  readonly #deleting = new Map<string, Promise<void>>()
  readonly #guards = new Map<string, DocumentGuard>()
  readonly #onDeleted = new Set<DeletionListener>()
  readonly #afterDeletion = new Set<(name: string) => Promise<void>>()
  readonly #eventListeners = new Set<DatabaseEventListener>()
  readonly #stopFollowing: (() => void) | undefined

  constructor(engine: StorageEngine, services: DatabaseServices) {
    this.#engine = engine
    this.#services = { designs: new DesignCache(), ...services, onEvent: (event) => this.#tell(event) }
    this.#stopFollowing = engine.onChangedElsewhere?.((change, name) => {
      if (change === 'created') this.#tell({ type: 'created', db: name })
      // One that is open is told of when it is forgotten.
      else if (!this.#forgetGone(name)) this.#tell({ type: 'deleted', db: name })
    })
  }

  list(): Promise<string[]> {
    return this.#engine.list()
  }

  has(name: string): boolean {
    return this.#engine.has(name)
  }

  /** Whether it was used since the start. */
  isOpen(name: string): boolean {
    return this.#open.has(name)
  }

  /** How many are open now, those of the system not counted. */
  get openCount(): number {
    let count = 0
    for (const name of this.#open.keys()) if (!name.startsWith('_')) count++
    return count
  }

  /** Puts documents of a database under rules of their own; without a guard, that ends. */
  setGuard(name: string, guard: DocumentGuard | undefined): void {
    if (guard) this.#guards.set(name, guard)
    else this.#guards.delete(name)
  }

  guardOf(name: string): DocumentGuard | undefined {
    return this.#guards.get(name)
  }

  /** Calls back after a database was deleted, and waits until that is done; returns how to stop that. */
  onDeleted(listener: DeletionListener): () => void {
    this.#onDeleted.add(listener)
    return () => this.#onDeleted.delete(listener)
  }

  /** Calls back when a deletion is over and the name is free again, and waits until that is done. */
  afterDeletion(listener: (name: string) => Promise<void>): () => void {
    this.#afterDeletion.add(listener)
    return () => this.#afterDeletion.delete(listener)
  }

  /** Calls back after each event of any database; returns how to stop that. */
  onEvent(listener: DatabaseEventListener): () => void {
    this.#eventListeners.add(listener)
    return () => this.#eventListeners.delete(listener)
  }

  /**
   * The database as the server itself uses it: without a guard. Throws what the client is to be told when there is none.
   */
  get(name: string): Promise<Database> {
    this.#forgetGone(name)
    const opening = this.#open.get(name)
    if (!opening) return this.#openAndKeep(name)
    if (!this.#services.isFollower || this.#ready.has(name)) return opening
    // The other node may have created it after that opening began.
    return opening.catch(() => this.#open.get(name) ?? this.#openAndKeep(name))
  }

  /** The same, where it is open already. */
  opened(name: string): Database | undefined {
    this.#forgetGone(name)
    return this.#ready.get(name)
  }

  async create(name: string, options: DatabaseOptions = {}): Promise<void> {
    checkDatabaseName(name)
    if (options.isPartitioned && name.startsWith('_')) throw badRequest('Cannot partition a system database')
    for (let deletion = this.#deleting.get(name); deletion; deletion = this.#deleting.get(name)) await deletion
    this.#forgetGone(name)
    // Somebody may be about to find out that there is none.
    while (this.#open.has(name) && !this.#ready.has(name)) await this.#open.get(name)?.catch(() => {})
    if (this.#open.has(name)) throw databaseExists()
    try {
      // Kept at once: who asks for it now waits until it is whole.
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
    this.#tell({ type: 'created', db: name })
  }

  async delete(name: string): Promise<void> {
    checkDatabaseName(name)
    // One that is being made or opened is waited for: were it forgotten on the way, the next who asks would open its store
    // a second time, and one store has one writer.
    while (this.#open.has(name) && !this.#ready.has(name)) await this.#open.get(name)?.catch(() => {})
    // Who comes second is told that there is none.
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

  /** Other nodes may have written any of them, without a word of it. Resolves when who waits for changes was notified. */
  async anyChangedElsewhere(): Promise<void> {
    for (const database of [...this.#ready.values()]) {
      const { updateSequence, hasSubscribers } = database.changes
      database.changedElsewhere({ updateSequence, hasDesigns: true, hasSecurity: true })
      if (hasSubscribers) await database.catchUp()
    }
  }

  /** Another node deleted a database. Who follows its changes looks, and finds it gone. */
  async deletedElsewhere(name: string): Promise<void> {
    const known = this.#ready.get(name)
    this.#open.delete(name)
    this.#ready.delete(name)
    known?.changes.wake()
    for (const listener of this.#onDeleted) await listener(name, 'elsewhere')
  }

  /** Writes what waits in any of them. The engine is closed by who opened it. */
  async close(): Promise<void> {
    this.#stopFollowing?.()
    // Whoever opens the same folder next must not find what is on its way out.
    await Promise.all(this.#deleting.values())
    const databases = await Promise.allSettled(this.#open.values())
    await Promise.all(databases.map((each) => (each.status === 'fulfilled' ? each.value.close() : undefined)))
  }

  async #delete(name: string): Promise<void> {
    const known = this.#ready.get(name)
    this.#open.delete(name)
    this.#ready.delete(name)
    try {
      await this.#engine.drop(name)
    } catch (error) {
      if (error instanceof StoreMissingError) throw notFound('missing')
      // It may be there still, and is opened anew: nobody goes on with what they have of it.
      known?.changes.wake()
      await Promise.allSettled([...this.#onDeleted].map((listener) => listener(name, 'here')))
      throw error
    }
    this.#tell({ type: 'deleted', db: name })
    // Who follows its changes looks, and finds it gone.
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

  /** One that another server deleted is opened anew, should there be one of its name again. Tells whether it was such a one. */
  #forgetGone(name: string): boolean {
    const known = this.#ready.get(name)
    if (!known?.isDeleted || this.#deleting.has(name)) return false
    this.#open.delete(name)
    this.#ready.delete(name)
    this.#tell({ type: 'deleted', db: name })
    known.changes.wake()
    for (const listener of this.#onDeleted) void listener(name, 'elsewhere').catch(() => {})
    return true
  }

  #tell(event: DatabaseEvent): void {
    for (const listener of this.#eventListeners) listener(event)
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

export function checkDatabaseName(name: string): void {
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
  /** What this user may do, given whether it administers the database. */
  accessOf(database: Database, user: UserContext, isAdmin: boolean): DocumentAccess
}
