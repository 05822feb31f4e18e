/**
 * What all users of one database share: its store, its write queue, its caches and the notification of its readers.
 * There is one engine for each open database. `Database` is the view of it for one user.
 */
import { isDesignId } from '../document/ids.ts'
import { notFound } from '../document/request-error.ts'
import type { LeaseProof } from '../storage/leases/work-leases.ts'
import { RankTree } from '../storage/rank-tree/rank-tree.ts'
import { HeldStates } from '../storage/snapshots/renewable-snapshot.ts'
import { FileDamagedError } from '../storage/storage-error.ts'
import type { Snapshot, Store } from '../storage/store.ts'
import { AttachmentStore } from './attachments/attachment-store.ts'
import { CacheInvalidation, type DatabaseCommit, type StaleCaches } from './cache-invalidation.ts'
import { ChangesHub } from './changes/changes-hub.ts'
import { Compactor } from './compaction/compactor.ts'
import { type DatabaseIdentity, type DatabaseOptions, decodeIdentity, firstRows } from './database-identity.ts'
import type { DatabaseEvent, DatabaseServices } from './database-services.ts'
import { DatabaseView, LastingView } from './database-view.ts'
import { DesignCache, type DesignDocument } from './design/design-document.ts'
import { weightOfRecord } from './layout/document-record.ts'
import {
  type DatabaseState,
  DOCUMENT_PREFIX,
  IDENTITY_KEY,
  RANK_PREFIX,
  SECURITY_KEY,
  STATE_KEY,
  stateOf,
} from './layout/keys.ts'
import type { ReadingAccess } from './user-context.ts'
import { BatchedWrites } from './writing/batched-writes.ts'
import type { DocumentEdit, EditOutcome } from './writing/edit.ts'
import { type Purged, type PurgeRequest, planPurge } from './writing/purge.ts'
import { Validation, Validators, type Writer } from './writing/validation.ts'
import { type ExclusiveWork, type WriteOptions, WriteQueue } from './writing/write-queue.ts'

export interface DatabaseInformation extends DatabaseState {
  readonly name: string
  readonly isCompacting: boolean
  readonly fileBytes: number
  readonly dataBytes: number
  readonly openedUs: number
}

export class DatabaseEngine {
  readonly name: string
  readonly uuid: string
  readonly isPartitioned: boolean
  /** In microseconds since 1970. */
  readonly openedUs: number
  readonly ranks: RankTree
  readonly store: Store
  readonly attachments: AttachmentStore
  readonly changes: ChangesHub
  readonly batched: BatchedWrites
  readonly compactor: Compactor
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
  /** Undefined where no other process uses the database. */
  readonly #invalidation: CacheInvalidation | undefined

  /** Writes the rows of a new database into an empty store. */
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
    snapshot.release()
    if (!stored) {
      // The node that writes it is still creating it.
      if (services.isFollower) throw notFound('no_db_file')
      // A store with rows was a database once. A new one in its place would give up what may still be there.
      if (!(await store.isEmpty())) throw new FileDamagedError(store.name, 'It has no database identity.')
      // A crash between the creation of the store and its first commit: no client got a reply that it exists.
      return await DatabaseEngine.create(store, services)
    }
    return new DatabaseEngine(store, decodeIdentity(stored), services)
  }

  private constructor(store: Store, identity: DatabaseIdentity, services: DatabaseServices) {
    const { name } = store
    const { uuid, salt, isPartitioned, createdUs } = identity
    this.name = name
    this.uuid = uuid
    this.isPartitioned = isPartitioned
    // Where several servers open it, all must show the same time: a client that sees another one takes its last writes for lost.
    this.openedUs = store.sharing ? createdUs : services.clock.nowUs()
    this.store = store
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
      checkReferences: store.sharing && ((...referred) => this.attachments.assertStored(...referred)),
      onOthers: store.sharing && ((state) => this.#invalidation?.saw(state)),
      metrics: services.writes,
    })
    this.#invalidation = store.sharing || services.onCommit ? this.#invalidationOf(store, services) : undefined
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
      leases: services.leases?.(store.name),
    })
  }

  /** Another number after the server was started or restarted: its file may have been put back to an older state. */
  get epochUs(): number {
    return this.#services.epochUs?.() ?? this.openedUs
  }

  /** The current state as the server itself sees it; must be released. */
  view(): DatabaseView {
    return new DatabaseView(this.store.snapshot())
  }

  /** The current state, for a reply that lasts as long as its client takes; must be released. */
  lastingView(reading?: ReadingAccess, beside?: Snapshot): LastingView {
    return new LastingView(this.#held.snapshot(beside), reading)
  }

  /** A design document in a view of this database. Throws when there is none. */
  design({ snapshot }: DatabaseView, id: string): Promise<DesignDocument> {
    // Without the access rules of the view: its functions are the same for all users.
    return this.#designs.open(new DatabaseView(snapshot), this.uuid, id)
  }

  /** The design document as it is now, cached until some design document of the database is written. */
  currentDesign(id: string): DesignDocument | Promise<DesignDocument> {
    const known = this.store.dropped ? undefined : this.#designs.known(this.uuid, id, this.#designsMark)
    return known ?? this.#readDesign(id)
  }

  /** The state as of the last commit, once it was read or written. */
  get knownState(): DatabaseState | undefined {
    return this.store.dropped || this.hasOtherWriters ? undefined : this.#latestState
  }

  /** Whether other nodes or servers write it too: this process learns of their commits later, or not at all. */
  get hasOtherWriters(): boolean {
    return this.#services.isFollower === true || this.store.sharing !== undefined
  }

  /** The newest state that was read or written here. Where others write too it may be an old one: for statistics. */
  get lastState(): DatabaseState | undefined {
    return this.#latestState
  }

  /** As it is now, or in a view that was taken just now. */
  async readState(view?: DatabaseView): Promise<DatabaseState> {
    const state = await (view ? view.state() : this.#stateNow())
    // A commit that came meanwhile is newer.
    const isNewer = state.updateSequence > (this.#latestState?.updateSequence ?? -1)
    if (!this.#services.isFollower && isNewer) this.#latestState = state
    return state
  }

  async information(view?: DatabaseView): Promise<DatabaseInformation> {
    const [state, { fileBytes }, isCompacting] = await Promise.all([
      view ? view.state() : this.#stateNow(),
      this.store.sizes(),
      this.compactor.isRunningAnywhere(),
    ])
    return {
      ...state,
      name: this.name,
      isCompacting,
      fileBytes,
      dataBytes: Math.min(fileBytes, state.bodyBytes),
      openedUs: this.openedUs,
    }
  }

  /** Resolves, when they are on disk, to the outcomes of the edits in their order. Without a writer nothing is validated. */
  commit(edits: readonly DocumentEdit[], writer: Writer | undefined, options?: WriteOptions): Promise<EditOutcome[]> {
    const written = writer ? this.#validation.write(edits, writer) : this.#queue.write(edits, options)
    return this.#published(written)
  }

  /** Resolves when everything that was accepted so far is on disk. */
  async flush(): Promise<void> {
    await this.batched.flush()
    await this.#queue.idle()
  }

  purge(request: PurgeRequest, lease?: LeaseProof): Promise<Purged> {
    return this.exclusive((snapshot, state) => planPurge(snapshot, state, request, this.ranks), lease)
  }

  setRevisionLimit(revisionLimit: number): Promise<void> {
    return this.#setLimit({ revisionLimit })
  }

  setPurgeLimit(purgeLimit: number): Promise<void> {
    return this.#setLimit({ purgeLimit })
  }

  async setSecurity(text: Buffer): Promise<void> {
    await this.#queue.exclusive(async (_, state) => ({
      changes: { puts: [[SECURITY_KEY, text]] },
      state: { ...state, updateSequence: state.updateSequence + 1, securityAt: state.updateSequence + 1 },
      result: undefined,
    }))
    this.#securityChanges++
    this.changes.wake()
    await this.#publish({ hasDesigns: false, hasSecurity: true })
  }

  /** Another node wrote the database, or may have: caches of its state are stale. */
  changedElsewhere({ updateSequence, ...stale }: Omit<DatabaseCommit, 'database'>): void {
    this.#invalidate(stale)
    this.#changed(updateSequence, [])
  }

  /** Commits of another node may have been missed: reads the update sequence and notifies readers that wait for changes. */
  async catchUp(): Promise<void> {
    try {
      const { updateSequence } = await this.readState()
      this.changes.updated(updateSequence)
    } catch (error) {
      // The next read gets the error.
      this.changes.wake()
      const { log } = this.#services
      log.debug('The state that another node committed could not be read.', {
        database: this.name,
        error: String(error),
      })
    }
  }

  /** Work of the server itself, with no other write between the state that it sees and its commit. */
  exclusive<T>(work: ExclusiveWork<T>, lease?: LeaseProof): Promise<T> {
    return this.#published(this.#queue.exclusive(work, lease))
  }

  /** Commits a change of the state alone. */
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
    await this.#invalidation?.close()
    await this.flush()
    await this.compactor.idle()
  }

  #setLimit(limit: Partial<Pick<DatabaseState, 'revisionLimit' | 'purgeLimit'>>): Promise<void> {
    return this.changeState((state) => ({ ...state, ...limit, updateSequence: state.updateSequence + 1 }))
  }

  #invalidationOf(store: Store, { log, onCommit: publish }: DatabaseServices): CacheInvalidation {
    return new CacheInvalidation({
      store,
      log,
      closing: this.#closing.signal,
      publish,
      readState: () => this.readState(),
      onStale: (stale) => {
        this.#invalidate(stale)
        if (stale.hasDesigns) this.#services.onEvent?.({ type: 'ddocs_updated_elsewhere', db: this.name })
      },
      onChanges: (updateSequence) => this.#changed(updateSequence, [{ type: 'updated', db: this.name }]),
      onUnknown: () => {
        this.changes.wake()
        this.#notify(this.#latestState?.updateSequence ?? 0)
      },
    })
  }

  async #stateNow(): Promise<DatabaseState> {
    const { latest } = this.store
    if (latest) return stateOf(await latest.get(STATE_KEY))
    using view = this.view()
    return await view.state()
  }

  async #readDesign(id: string): Promise<DesignDocument> {
    // Taken before the view: a design document that is written meanwhile must not count as read.
    const mark = this.#designsMark
    using view = this.view()
    return await this.#designs.open(view, this.uuid, id, mark)
  }

  /** Drops what was made from design documents or the security object. */
  #invalidate({ hasDesigns, hasSecurity }: StaleCaches): void {
    if (hasDesigns) {
      this.#designsMark = {}
      this.#validators.designsWritten()
    }
    if (hasSecurity) this.#securityChanges++
  }

  #changed(updateSequence: number, events: readonly DatabaseEvent[]): void {
    this.changes.updated(updateSequence)
    this.#notify(updateSequence)
    const { onEvent } = this.#services
    if (onEvent) this.#guarded(() => events.forEach(onEvent))
  }

  #notify(updateSequence: number): void {
    for (const listener of this.#listeners) this.#guarded(() => listener(updateSequence))
  }

  /** The commit is on disk: its writer is answered even if a listener fails. */
  #committed(state: DatabaseState, written: readonly string[] | undefined): void {
    this.#latestState = state
    this.#invalidation?.committed(state)
    const stale = { hasDesigns: written?.some(isDesignId) ?? false, hasSecurity: false }
    this.#invalidate(stale)
    void this.#publish(stale)
    this.#changed(state.updateSequence, written ? updateEvents(this.name, written) : [])
  }

  /** The outcome of a write, when other nodes know of its commit. */
  #published<T>(written: Promise<T>): Promise<T> {
    return this.#services.onCommit && this.#invalidation ? this.#invalidation.published(written) : written
  }

  /** Notifies other nodes of the last commit. */
  #publish(stale: StaleCaches): Promise<void> | undefined {
    return this.#invalidation?.publish(this.#latestState?.updateSequence ?? 0, stale)
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

/** A commit of these documents. */
function updateEvents(db: string, ids: readonly string[]): DatabaseEvent[] {
  const designs = ids.filter((id) => id.startsWith('_design/'))
  return [{ type: 'updated', db }, ...designs.map((id) => ({ type: 'ddoc_updated', db, id }) as const)]
}
