/**
 * A database as one user sees it: what is read is what the user may see, what is written is validated. Without a user it
 * is the database as the server itself uses it. The work is done by `DatabaseEngine`, which all users share.
 */
import { checkPartitionedId } from '../document/partition.ts'
import type { LeaseProof } from '../storage/leases/work-leases.ts'
import type { RankTree } from '../storage/rank-tree/rank-tree.ts'
import type { Snapshot, Store } from '../storage/store.ts'
import type { AttachmentStore } from './attachments/attachment-store.ts'
import type { DatabaseCommit } from './cache-invalidation.ts'
import type { ChangesHub } from './changes/changes-hub.ts'
import { DatabaseEngine, type DatabaseInformation } from './database-engine.ts'
import type { DatabaseOptions } from './database-identity.ts'
import type { DatabaseServices } from './database-services.ts'
import { DatabaseView, type LastingView, LatestView } from './database-view.ts'
import type { DesignDocument } from './design/design-document.ts'
import type { DatabaseState } from './layout/keys.ts'
import type { DocumentAccess, ReadingAccess, UserContext, WriteTarget } from './user-context.ts'
import type { DocumentEdit, EditOutcome } from './writing/edit.ts'
import type { Purged, PurgeRequest } from './writing/purge.ts'
import { partitionRefusal } from './writing/validation.ts'
import type { ExclusiveWork } from './writing/write-queue.ts'

export class Database {
  readonly name: string
  /** Differs from that of every other database, those that had its name included. */
  readonly uuid: string
  /** Whether the ids of its documents are `partition:id`. */
  readonly isPartitioned: boolean
  /** In microseconds since 1970. */
  readonly openedUs: number
  readonly ranks: RankTree
  readonly attachments: AttachmentStore
  /** Shared by all who follow its changes. */
  readonly changes: ChangesHub
  readonly #engine: DatabaseEngine
  /** Undefined for the server itself, whose writes need no validation. */
  readonly #user: UserContext | undefined
  /** What its user may do, where that is not everything. */
  readonly #access: DocumentAccess | undefined
  /** Of the work that writes belong to, where one server of all does it. */
  readonly #lease: LeaseProof | undefined
  /** The last result of `usedBy`: in open mode it is the same with every request. */
  #lastUsed: Database | undefined

  /** Makes a new database in an empty store. */
  static async create(store: Store, services: DatabaseServices, options?: DatabaseOptions): Promise<Database> {
    return new Database(await DatabaseEngine.create(store, services, options))
  }

  static async open(store: Store, services: DatabaseServices): Promise<Database> {
    return new Database(await DatabaseEngine.open(store, services))
  }

  private constructor(engine: DatabaseEngine, user?: UserContext, access?: DocumentAccess, lease?: LeaseProof) {
    this.name = engine.name
    this.uuid = engine.uuid
    this.isPartitioned = engine.isPartitioned
    this.openedUs = engine.openedUs
    this.ranks = engine.ranks
    this.attachments = engine.attachments
    this.changes = engine.changes
    this.#engine = engine
    this.#user = user
    this.#access = access
    this.#lease = lease
  }

  /** The same database for a user: what is written is validated, and within what access allows. */
  usedBy(user: UserContext, access?: DocumentAccess): Database {
    const last = this.#lastUsed
    if (last && last.#user === user && last.#access === access) return last
    this.#lastUsed = new Database(this.#engine, user, access)
    return this.#lastUsed
  }

  /** The same database for work under a lease: once another server has that, nothing of the work is written any more. */
  under(lease: LeaseProof | undefined): Database {
    return lease ? new Database(this.#engine, this.#user, this.#access, lease) : this
  }

  /** What its user may see, where that is not everything. */
  get reading(): ReadingAccess | undefined {
    return this.#access?.reading
  }

  /** The largest request body that its user may send, where that is less than usual. */
  get largestRequest(): number | undefined {
    return this.#access?.largestRequest
  }

  /** Throws where the document cannot be written, or not by this user. Called before the body is read. */
  checkTarget(id: string, what: WriteTarget): void {
    if (this.isPartitioned) checkPartitionedId(id)
    this.#access?.checkTarget?.(id, what)
  }

  /** Another number after the server was started or restarted: its file may have been put back to an older state. */
  get epochUs(): number {
    return this.#engine.epochUs
  }

  /** The current state, or beside another snapshot the one that it had when that was taken; must be released. */
  view(beside?: Snapshot): DatabaseView {
    return new DatabaseView(this.#engine.store.snapshot(beside?.moment), this.#access?.reading)
  }

  /** For single documents, where the engine has a way that costs less than a view. */
  get latest(): LatestView | undefined {
    const { latest } = this.#engine.store
    return latest && new LatestView(latest, this.#access?.reading)
  }

  /**
   * The current state, for a reply that lasts as long as its client takes; must be released. Beside a snapshot of an index it may
   * be the state that the database had when that was taken.
   */
  lastingView(beside?: Snapshot): LastingView {
    return this.#engine.lastingView(this.#access?.reading, beside)
  }

  /** A design document in a view of this database, for calls of its functions. Throws when there is none. */
  design(view: DatabaseView, id: string): Promise<DesignDocument> {
    return this.#engine.design(view, id)
  }

  /** The same as it is now, cached until some design document of the database is written. */
  currentDesign(id: string): DesignDocument | Promise<DesignDocument> {
    return this.#engine.currentDesign(id)
  }

  /** The state as of the last commit. */
  async latestState(): Promise<DatabaseState> {
    return this.#engine.knownState ?? this.#engine.readState()
  }

  /** The same in a view that was taken just now. */
  stateIn(view: DatabaseView): Promise<DatabaseState> {
    return this.#engine.readState(view)
  }

  /** The same, where it need not be read: from the second time on. */
  get knownState(): DatabaseState | undefined {
    return this.#engine.knownState
  }

  /** The newest state that was read or written here, which may be an old one: for statistics. */
  get lastState(): DatabaseState | undefined {
    return this.#engine.lastState
  }

  /** As it is now, or in a view that was taken just now. */
  information(view?: DatabaseView): Promise<DatabaseInformation> {
    return this.#engine.information(view)
  }

  /**
   * Resolves, when they are on disk, to the outcomes of the edits in their order. `onFlushing` is called when the disk is
   * all that is waited for.
   */
  write(edits: readonly DocumentEdit[], onFlushing?: () => void): Promise<EditOutcome[]> {
    for (const edit of edits) {
      if (partitionRefusal(edit, this.isPartitioned)) return this.#writeAllowed(edits, onFlushing)
    }
    return this.#write(edits, onFlushing)
  }

  /**
   * Takes an edit to be written soon, together with others; a failure is only logged. Where other servers write the database
   * too it is written at once, and resolves then: nobody else would know of it.
   */
  async writeLater(edit: DocumentEdit): Promise<void> {
    // Compaction must not remove the bytes of its attachments before it is written.
    const { attachments = [] } = edit.kind === 'local' ? {} : edit
    const leases = attachments.map(({ number }) => this.attachments.use(number))
    const release = () => {
      for (const each of leases) each()
    }
    const { batched } = this.#engine
    const refusal = partitionRefusal(edit, this.isPartitioned)
    if (refusal) {
      release()
      throw refusal
    }
    if (this.#engine.store.sharing) {
      const writing = this.write([edit])
      batched.follow(edit, writing, release)
      await writing
    } else if (this.#access) batched.follow(edit, this.write([edit]), release)
    else batched.add(edit, (some) => this.#commit(some), release)
  }

  /** Resolves when everything that was accepted so far is on disk. */
  flush(): Promise<void> {
    return this.#engine.flush()
  }

  purge(request: PurgeRequest): Promise<Purged> {
    return this.#engine.purge(request, this.#lease)
  }

  /** Work of the server itself, with no other write between the state that it sees and its commit. */
  exclusive<T>(work: ExclusiveWork<T>): Promise<T> {
    return this.#engine.exclusive(work, this.#lease)
  }

  /** Commits a change of the state alone. */
  changeState(change: (state: DatabaseState) => DatabaseState): Promise<void> {
    return this.#engine.changeState(change, this.#lease)
  }

  setRevisionLimit(revisionLimit: number): Promise<void> {
    return this.#engine.setRevisionLimit(revisionLimit)
  }

  setPurgeLimit(purgeLimit: number): Promise<void> {
    return this.#engine.setPurgeLimit(purgeLimit)
  }

  setSecurity(text: Buffer): Promise<void> {
    return this.#engine.setSecurity(text)
  }

  /** Another object after each commit of a design document. */
  get designsMark(): object {
    return this.#engine.designsMark
  }

  /** How often its security object was set since it was opened. */
  get securityChanges(): number {
    return this.#engine.securityChanges
  }

  /** Whether it was deleted. A database that is created later under the same name is another one. */
  get isDeleted(): boolean {
    return this.#engine.store.dropped
  }

  /** Starts compaction in the background, unless it is running. Resolves when every server knows of it. */
  compact(): Promise<void> {
    return this.#engine.compactor.start()
  }

  /** Resolves when no compaction is running. */
  compacted(): Promise<void> {
    return this.#engine.compactor.idle()
  }

  /** Cancels the compaction that is running, if any: the old file stays. Resolves when it is over. */
  cancelCompaction(): Promise<void> {
    return this.#engine.compactor.cancel()
  }

  /** Another node wrote the database, or may have: caches of its state are stale. */
  changedElsewhere(change: Omit<DatabaseCommit, 'database'>): void {
    this.#engine.changedElsewhere(change)
  }

  /** Commits of another node may have been missed: reads the update sequence and notifies readers that wait for changes. */
  catchUp(): Promise<void> {
    return this.#engine.catchUp()
  }

  /** Whether other nodes or servers write it too: this process learns of their commits later, or not at all. */
  get hasOtherWriters(): boolean {
    return this.#engine.hasOtherWriters
  }

  /** Calls back with the newest sequence after each commit; returns how to unsubscribe. */
  onUpdate(listener: (updateSequence: number) => void): () => void {
    return this.#engine.onUpdate(listener)
  }

  /** Flushes accepted writes and stops compaction. The store is closed by its engine. */
  close(): Promise<void> {
    return this.#engine.close()
  }

  #write(edits: readonly DocumentEdit[], onFlushing: (() => void) | undefined): Promise<EditOutcome[]> {
    if (this.#access) return this.#access.write(edits, (allowed) => this.#commit(allowed, onFlushing))
    return this.#commit(edits, onFlushing)
  }

  /** Some edits do not fit the partitioning. Replicated ones are refused one by one; any other one fails the whole request. */
  async #writeAllowed(edits: readonly DocumentEdit[], onFlushing: (() => void) | undefined): Promise<EditOutcome[]> {
    const refusals = edits.map((edit) => partitionRefusal(edit, this.isPartitioned))
    const first = refusals.find((refusal, i) => refusal && edits[i]?.kind !== 'replicated')
    if (first) throw first
    const others = edits.filter((_, i) => !refusals[i])
    const outcomes = (others.length > 0 ? await this.#write(others, onFlushing) : []).values()
    return refusals.map((error) => (error ? { outcome: 'refused', error } : outcomes.next().value!))
  }

  #commit(edits: readonly DocumentEdit[], onFlushing?: () => void): Promise<EditOutcome[]> {
    const options = { lease: this.#lease, onFlushing }
    const writer = this.#user && { user: this.#user, enforced: this.#access?.enforced, options }
    return this.#engine.commit(edits, writer, options)
  }
}
