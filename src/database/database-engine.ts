/**
 * What all users of one database share: its store, its write queue, its caches and the notification of its readers.
 * There is one engine for each open database. `Database` is the view of it for one user.
 */
import { randomBytes } from 'node:crypto'
import { isDesignId } from '../document/ids.ts'
import { notFound } from '../document/request-error.ts'
import type { Functions } from '../functions/functions.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log/log.ts'
import type { TaskRegistry } from '../runtime/tasks.ts'
import { randomUuid } from '../runtime/uuids.ts'
import type { LeaseProof, WorkLeases } from '../storage/leases/work-leases.ts'
import { RankTree, SALT_BYTES } from '../storage/rank-tree/rank-tree.ts'
import { HeldStates } from '../storage/snapshots/renewable-snapshot.ts'
import { FileDamagedError } from '../storage/storage-error.ts'
import type { Put, Store } from '../storage/store.ts'
import { AttachmentStore } from './attachments/attachment-store.ts'
import { ChangesHub } from './changes/changes-hub.ts'
import { Compactor } from './compaction/compactor.ts'
import { DatabaseView, LastingView } from './database-view.ts'
import { DesignCache, type DesignDocument } from './design/design-document.ts'
import { ForeignCommits, type StaleCaches } from './foreign-commits.ts'
import { weightOfRecord } from './layout/document-record.ts'
import {
  type DatabaseState,
  DOCUMENT_PREFIX,
  encodeState,
  IDENTITY_KEY,
  INITIAL_STATE,
  RANK_PREFIX,
  SECURITY_KEY,
  STATE_KEY,
} from './layout/keys.ts'
import type { ReadingAccess } from './user-context.ts'
import { BatchedWrites } from './writing/batched-writes.ts'
import type { DocumentEdit, EditOutcome } from './writing/edit.ts'
import { type Purged, type PurgeRequest, planPurge } from './writing/purge.ts'
import { Validation, type Writer } from './writing/validation.ts'
import { Validators } from './writing/validation-functions.ts'
import type { WriteMetrics } from './writing/write-queue.ts'
import { type ExclusiveWork, WriteQueue } from './writing/write-queue.ts'

/** What databases use of the server. */
export interface DatabaseServices {
  readonly clock: Clock
  readonly log: Log
  readonly tasks: TaskRegistry
  /** Called after updates and compactions. */
  readonly onEvent?: DatabaseEventListener
  /** Runs the validation functions of users' writes. */
  readonly functions?: Functions
  /** Shared by all databases. */
  readonly designs?: DesignCache
  readonly writes?: WriteMetrics
  /** Where other servers use the databases too. */
  readonly leases?: WorkLeases | undefined
  /** When the server opened its databases, the same in all of its nodes; of each database when it is opened unless given. */
  readonly epochUs?: () => number
  /** Whether another node writes the databases: then what is kept of their state must be heard of, or read anew. */
  readonly isFollower?: boolean
  /** Where another node writes: somebody waits for changes of the database, so its commits must be heard of from now on. */
  readonly onFollowed?: (database: string) => void
  /** Tells other nodes of a commit. Its writer is answered when the promise resolves, where there is one. */
  readonly onCommit?: (commit: DatabaseCommit) => Promise<void> | undefined
}

/** What a commit makes stale in other nodes. */
export interface DatabaseCommit {
  readonly database: string
  readonly updateSequence: number
  /** Whether a design document was written. */
  readonly hasDesigns: boolean
  /** Whether the security object was set. */
  readonly hasSecurity: boolean
}

export interface DatabaseInformation extends DatabaseState {
  readonly name: string
  readonly isCompacting: boolean
  readonly fileBytes: number
  readonly dataBytes: number
  readonly openedUs: number
}

/** Given to a database when it is created, and never changed. */
interface Identity {
  readonly uuid: string
  /** Decides which ids are boundaries in the rank tree. */
  readonly salt: Buffer
  readonly isPartitioned: boolean
  /** In microseconds since 1970; 0 where it is not known. */
  readonly createdUs: number
}

/** What a database is created with. */
export interface DatabaseOptions {
  /** Whether the ids of its documents are `partition:id`. */
  readonly isPartitioned?: boolean
}

interface StoredIdentity {
  readonly uuid: string
  readonly salt: string
  readonly partitioned?: boolean
  readonly created?: number
}

/** What a new database begins with. */
export function firstRows({ isPartitioned = false }: DatabaseOptions, nowUs: number): Put[] {
  const identity: StoredIdentity = {
    uuid: randomUuid(),
    salt: randomBytes(SALT_BYTES).toString('hex'),
    ...(isPartitioned && { partitioned: true }),
    created: nowUs,
  }
  return [
    [IDENTITY_KEY, Buffer.from(JSON.stringify(identity))],
    [STATE_KEY, encodeState(INITIAL_STATE)],
  ]
}

export class DatabaseEngine {
  readonly name: string
  readonly uuid: string
  readonly isPartitioned: boolean
  /** In microseconds since 1970. */
  readonly openedUs: number
  readonly ranks: RankTree
  readonly attachments: AttachmentStore
  readonly changes: ChangesHub
  readonly batched: BatchedWrites
  readonly compactor: Compactor
  readonly #store: Store
  readonly #services: DatabaseServices
  readonly #designs: DesignCache
  readonly #validators: Validators
  readonly #validation: Validation
  readonly #queue: WriteQueue
  readonly #held: HeldStates
  readonly #listeners = new Set<(updateSequence: number) => void>()
  readonly #closing = new AbortController()
  /** Another object after each commit of a design document. */
  #designsMark = {}
  /** As of the last commit; undefined until it is first read. */
  #latestState: DatabaseState | undefined
  #securityChanges = 0
  /** Other nodes are being told of a commit. */
  #announcing: Promise<void> | undefined
  readonly #foreign: ForeignCommits

  /** Writes what a new database begins with into an empty store. */
  static async create(
    store: Store,
    services: DatabaseServices,
    options: DatabaseOptions = {},
  ): Promise<DatabaseEngine> {
    await store.commit({ puts: firstRows(options, services.clock.nowUs()) })
    return DatabaseEngine.open(store, services)
  }

  static async open(store: Store, services: DatabaseServices): Promise<DatabaseEngine> {
    using snapshot = store.snapshot()
    const stored = await snapshot.get(IDENTITY_KEY)
    if (!stored) {
      // It is being created by the node that writes it.
      if (services.isFollower) throw notFound('no_db_file')
      // With rows in it, it was a database once. To begin anew here would give up what may still be there.
      if (!(await store.isEmpty())) throw new FileDamagedError(store.name, 'It has no database identity.')
      // A crash between the creation of the store and its first commit: no client was told that it exists.
      return await DatabaseEngine.create(store, services)
    }
    const { uuid, salt, partitioned = false, created = 0 }: StoredIdentity = JSON.parse(stored.toString())
    const identity = { uuid, salt: Buffer.from(salt, 'hex'), isPartitioned: partitioned, createdUs: created }
    return new DatabaseEngine(store, identity, services)
  }

  private constructor(store: Store, { uuid, salt, isPartitioned, createdUs }: Identity, services: DatabaseServices) {
    const { name } = store
    this.name = name
    this.uuid = uuid
    this.isPartitioned = isPartitioned
    // Several servers open it, and clients must not take them for different ones: what they wrote is not lost with a server.
    this.openedUs = store.sharing ? createdUs : services.clock.nowUs()
    this.#store = store
    this.#services = services
    this.#held = new HeldStates(store)
    this.ranks = new RankTree({
      rowPrefix: DOCUMENT_PREFIX,
      nodePrefix: RANK_PREFIX,
      salt,
      weightOf: weightOfRecord,
    })
    this.attachments = new AttachmentStore(store, { isFollower: services.isFollower ?? false })
    this.changes = new ChangesHub(
      (error) => this.#logFailedListener(error),
      () => services.onFollowed?.(name),
    )
    this.#queue = new WriteQueue(store, this.ranks, {
      onCommitted: (state, written) => this.#committed(state, written),
      onReference: (numbers) => this.attachments.refer(numbers),
      onOthers: store.sharing && ((state) => this.#foreign.saw(state)),
      metrics: services.writes,
    })
    this.#foreign = new ForeignCommits({
      store,
      log: services.log,
      closing: this.#closing.signal,
      readState: () => this.readState(),
      onStale: (stale) => this.#stale(stale),
      onChanges: ({ updateSequence }) => this.#changed(updateSequence, [{ type: 'updated', db: name }]),
      wake: () => this.changes.wake(),
    })
    this.batched = new BatchedWrites(services.log)
    const view = () => this.view()
    this.#designs = services.designs ?? new DesignCache()
    this.#validators = new Validators(uuid, this.#designs, view)
    const { functions } = services
    this.#validation = new Validation({ name, queue: this.#queue, validators: this.#validators, view, functions })
    this.compactor = new Compactor({
      store,
      queue: this.#queue,
      ranks: this.ranks,
      attachments: this.attachments,
      log: services.log,
      tasks: services.tasks,
      onCompacted: () => services.onEvent?.({ type: 'compacted', db: name }),
      closing: this.#closing.signal,
      sizes: () => this.information(),
      remember: (compactedTo, lease) => this.changeState((state) => ({ ...state, compactedTo }), lease),
      leases: services.leases,
    })
  }

  /** Whether it was deleted. A database that is created later under the same name is another one. */
  get isDeleted(): boolean {
    return this.#store.dropped
  }

  /** Another number after the server was started or restarted: its file may have been put back to an older state. */
  get epochUs(): number {
    return this.#services.epochUs?.() ?? this.openedUs
  }

  /** The current state; must be released. */
  view(reading?: ReadingAccess): DatabaseView {
    return new DatabaseView(this.#store.snapshot(), reading)
  }

  /** The current state, for a reply that lasts as long as its client takes; must be released. */
  lastingView(reading?: ReadingAccess): LastingView {
    return new LastingView(this.#held.snapshot(), reading)
  }

  /** A design document in a view of this database. Throws when there is none. */
  design({ snapshot }: DatabaseView, id: string): Promise<DesignDocument> {
    // Without the access rules of the view: its functions are the same, whoever may call them.
    return this.#designs.open(new DatabaseView(snapshot), this.uuid, id)
  }

  /** The design document as it is now, cached until some design document of the database is written. */
  currentDesign(id: string): DesignDocument | Promise<DesignDocument> {
    const known = this.isDeleted ? undefined : this.#designs.known(this.uuid, id, this.#designsMark)
    return known ?? this.#readDesign(id)
  }

  /** The state as of the last commit, once it was read or written. */
  get knownState(): DatabaseState | undefined {
    return this.isDeleted || this.hasOtherWriters ? undefined : this.#latestState
  }

  /** Whether commits are made that this process hears of later, or not at all. */
  get hasOtherWriters(): boolean {
    return this.#services.isFollower === true || this.#store.sharing !== undefined
  }

  /** The newest state that was read or written here. Where others write too it may be an old one: for who measures. */
  get lastState(): DatabaseState | undefined {
    return this.#latestState
  }

  async readState(): Promise<DatabaseState> {
    using view = this.view()
    const state = await view.state()
    // A commit that came meanwhile knows better.
    const isNewer = state.updateSequence > (this.#latestState?.updateSequence ?? -1)
    if (!this.#services.isFollower && isNewer) this.#latestState = state
    return state
  }

  async information(): Promise<DatabaseInformation> {
    using view = this.view()
    const [state, { fileBytes }] = await Promise.all([view.state(), this.#store.sizes()])
    return {
      ...state,
      name: this.name,
      isCompacting: this.compactor.isRunning,
      fileBytes,
      dataBytes: Math.min(fileBytes, state.bodyBytes),
      openedUs: this.openedUs,
    }
  }

  /** Resolves, when they are on disk, to the outcomes of the edits in their order. Without a writer nothing is validated. */
  commit(edits: readonly DocumentEdit[], writer: Writer | undefined, lease?: LeaseProof): Promise<EditOutcome[]> {
    const written = writer ? this.#validation.write(edits, writer) : this.#queue.write(edits, lease)
    return this.#services.onCommit ? this.#announced(written) : written
  }

  /** Resolves when everything that was accepted so far is on disk. */
  async flush(): Promise<void> {
    await this.batched.flush()
    await this.#queue.idle()
  }

  purge(request: PurgeRequest, lease?: LeaseProof): Promise<Purged> {
    return this.#queue.exclusive((snapshot, state) => planPurge(snapshot, state, request, this.ranks), lease)
  }

  setRevisionLimit(revisionLimit: number): Promise<void> {
    return this.#queue.exclusive(async (_, state) => ({
      changes: {},
      state: { ...state, revisionLimit, updateSequence: state.updateSequence + 1 },
      result: undefined,
    }))
  }

  setPurgeLimit(purgeLimit: number): Promise<void> {
    return this.#queue.exclusive(async (_, state) => ({
      changes: {},
      state: { ...state, purgeLimit, updateSequence: state.updateSequence + 1 },
      result: undefined,
    }))
  }

  async setSecurity(text: Buffer): Promise<void> {
    await this.#queue.exclusive(async (_, state) => ({
      changes: { puts: [[SECURITY_KEY, text]] },
      state: { ...state, updateSequence: state.updateSequence + 1, securityAt: state.updateSequence + 1 },
      result: undefined,
    }))
    this.#securityChanges++
    this.changes.wake()
    await this.#announce({ hasDesigns: false, hasSecurity: true })
  }

  /** Another node wrote the database, or may have: what is kept of its state is stale. */
  changedElsewhere({ updateSequence, ...stale }: Omit<DatabaseCommit, 'database'>): void {
    this.#stale(stale)
    this.#changed(updateSequence, [])
  }

  /** Commits of another node may have been missed: reads how far the database is, and notifies who waits for changes. */
  async catchUp(): Promise<void> {
    try {
      const { updateSequence } = await this.readState()
      this.changes.updated(updateSequence)
    } catch (error) {
      // Whoever reads next is told what is wrong.
      this.changes.wake()
      const { log } = this.#services
      log.debug('What another node wrote was not read.', { database: this.name, error: String(error) })
    }
  }

  /** Work of the server itself that no other write may come between. */
  exclusive<T>(work: ExclusiveWork<T>, lease?: LeaseProof): Promise<T> {
    return this.#queue.exclusive(work, lease)
  }

  /** Changes what is known of the database as a whole, and no sequence. */
  async changeState(change: (state: DatabaseState) => DatabaseState, lease?: LeaseProof): Promise<void> {
    await this.#queue.exclusive(async (_, state) => ({ changes: {}, state: change(state), result: undefined }), lease)
  }

  /** Another object after each commit of a design document. */
  get designsMark(): object {
    return this.#designsMark
  }

  /** How often the security object was set since the database was opened. */
  get securityChanges(): number {
    return this.#securityChanges
  }

  /** Calls back with the newest sequence after each commit; returns how to unsubscribe. */
  onUpdate(listener: (updateSequence: number) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Flushes accepted writes and stops compaction. The store is closed by its engine. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('The database is being closed.'))
    await this.#foreign.close()
    await this.flush()
    await this.compactor.idle()
  }

  async #readDesign(id: string): Promise<DesignDocument> {
    // Taken before the view: what is written meanwhile must not count as read.
    const mark = this.#designsMark
    using view = this.view()
    return await this.#designs.open(view, this.uuid, id, mark)
  }

  /** What was made of design documents or the security object is not to be used any more. */
  #stale({ hasDesigns, hasSecurity }: StaleCaches): void {
    if (hasDesigns) {
      this.#designsMark = {}
      this.#validators.designsWritten()
    }
    if (hasSecurity) this.#securityChanges++
  }

  #changed(updateSequence: number, events: readonly DatabaseEvent[]): void {
    this.changes.updated(updateSequence)
    for (const listener of this.#listeners) this.#guarded(() => listener(updateSequence))
    const { onEvent } = this.#services
    if (onEvent) this.#guarded(() => events.forEach(onEvent))
  }

  /** The commit is on disk: its writer is answered even if a listener fails. */
  #committed(state: DatabaseState, written: readonly string[] | undefined): void {
    this.#latestState = state
    this.#foreign.committed(state)
    const hasDesigns = written?.some(isDesignId) ?? false
    this.#stale({ hasDesigns, hasSecurity: false })
    void this.#announce({ hasDesigns, hasSecurity: false })
    this.#changed(state.updateSequence, written ? updateEvents(this.name, written) : [])
  }

  /** Of the commit that is on disk now. */
  #announce(stale: Pick<DatabaseCommit, 'hasDesigns' | 'hasSecurity'>): Promise<void> | undefined {
    const updateSequence = this.#latestState?.updateSequence ?? 0
    const announcing = this.#services.onCommit?.({ database: this.name, updateSequence, ...stale })
    if (!announcing) return undefined
    const both = Promise.all([this.#announcing, announcing]).then(() => {
      if (this.#announcing === both) this.#announcing = undefined
    })
    this.#announcing = both
    return both
  }

  async #announced<T>(written: Promise<T>): Promise<T> {
    const outcome = await written
    if (this.#announcing) await this.#announcing
    return outcome
  }

  #guarded(call: () => void): void {
    try {
      call()
    } catch (error) {
      this.#logFailedListener(error)
    }
  }

  #logFailedListener(error: unknown): void {
    this.#services.log.error('A listener of a database failed.', { database: this.name, error: String(error) })
  }
}

/** What happens to databases as a whole, for those who follow all of them. */
export type DatabaseEvent =
  | { readonly type: 'created' | 'updated' | 'deleted' | 'compacted'; readonly db: string }
  /** Comes after the `updated` of the same commit. */
  | { readonly type: 'ddoc_updated'; readonly db: string; readonly id: string }

/** Called at once, in the order in which things happen; must not throw. */
export type DatabaseEventListener = (event: DatabaseEvent) => void

/** A commit of these documents. */
function updateEvents(db: string, ids: readonly string[]): DatabaseEvent[] {
  const designs = ids.filter((id) => id.startsWith('_design/'))
  return [{ type: 'updated', db }, ...designs.map((id) => ({ type: 'ddoc_updated', db, id }) as const)]
}
