/**
 * One database: what is read goes through a view of one state, what is written through one queue. Everything else in
 * this folder is behind this face.
 */
import { randomBytes } from 'node:crypto'
import { isDesignId } from '../document/document-id.ts'
import type { Functions } from '../functions/functions.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log/log.ts'
import type { TaskRegistry } from '../runtime/tasks.ts'
import { randomUuid } from '../runtime/uuids.ts'
import { RankTree, SALT_BYTES } from '../storage/rank-tree/rank-tree.ts'
import { HeldStates } from '../storage/snapshots/held-states.ts'
import { FileDamagedError } from '../storage/storage-error.ts'
import type { Store } from '../storage/store.ts'
import { AttachmentStore } from './attachments/attachment-store.ts'
import { ChangesHub } from './changes/changes-hub.ts'
import { compactDatabase } from './compaction/compaction.ts'
import { type DatabaseEvent, type DatabaseEventListener, updateEvents } from './database-event.ts'
import { DatabaseView, LastingView } from './database-view.ts'
import { DesignCache, type DesignDocument } from './design/design-document.ts'
import type { DocumentAccess, ReadingAccess, WriteTarget } from './document-access.ts'
import { type DatabaseState, encodeState, INITIAL_STATE } from './layout/database-state.ts'
import { weightOfRecord } from './layout/document-record.ts'
import { DOCUMENT_PREFIX, IDENTITY_KEY, RANK_PREFIX, SECURITY_KEY, STATE_KEY } from './layout/keys.ts'
import type { UserContext } from './user-context.ts'
import { BatchedWrites } from './writing/batched-writes.ts'
import type { DocumentEdit, EditOutcome } from './writing/edit.ts'
import { type Purged, type PurgeRequest, planPurge } from './writing/purge.ts'
import { Validation } from './writing/validation.ts'
import { Validators } from './writing/validators.ts'
import { type CommitListener, WriteQueue } from './writing/write-queue.ts'

export interface DatabaseSurroundings {
  readonly clock: Clock
  readonly log: Log
  readonly tasks: TaskRegistry
  /** Told of updates and compactions. */
  readonly onEvent?: DatabaseEventListener
  /** Runs the validation functions of users' writes. */
  readonly functions?: Functions
  /** Shared by all databases. */
  readonly designs?: DesignCache
}

export interface DatabaseInformation extends DatabaseState {
  readonly name: string
  readonly isCompacting: boolean
  readonly fileBytes: number
  readonly dataBytes: number
  /** The sizes right after the last compaction, if there was one since the database was opened. */
  readonly compactedTo: DatabaseSizes | undefined
  readonly openedUs: number
}

export interface DatabaseSizes {
  readonly fileBytes: number
  readonly dataBytes: number
}

/** What a database knows of itself and nobody can change. */
interface Identity {
  readonly uuid: string
  /** Decides which ids are boundaries in the rank tree. */
  readonly salt: Buffer
}

/** What all who use a database share. */
interface DatabaseParts {
  readonly store: Store
  readonly uuid: string
  readonly designs: DesignCache
  /** Another object after each commit of a design document. */
  designsMark: object
  /** As of the last commit; undefined until it is asked for. */
  latestState: DatabaseState | undefined
  readonly held: HeldStates
  readonly surroundings: DatabaseSurroundings
  readonly openedUs: number
  readonly ranks: RankTree
  readonly attachments: AttachmentStore
  readonly queue: WriteQueue
  readonly validation: Validation
  readonly batched: BatchedWrites
  readonly listeners: Set<(updateSequence: number) => void>
  readonly changes: ChangesHub
  securityChanges: number
  readonly stopping: AbortController
  compaction: RunningCompaction | undefined
  compactedTo: DatabaseSizes | undefined
}

interface RunningCompaction {
  /** Resolves when it is over, whatever became of it. */
  readonly done: Promise<void>
  readonly cancelling: AbortController
}

export class Database {
  readonly name: string
  /** Tells it from every other database, those that had its name included. */
  readonly uuid: string
  /** In microseconds since 1970. */
  readonly openedUs: number
  readonly ranks: RankTree
  readonly attachments: AttachmentStore
  /** What those who follow its changes share. */
  readonly changes: ChangesHub
  readonly #store: Store
  readonly #queue: WriteQueue
  readonly #batched: BatchedWrites
  readonly #surroundings: DatabaseSurroundings
  readonly #parts: DatabaseParts
  /** Undefined for the server itself, whose writes need no validation. */
  readonly #user: UserContext | undefined
  /** What its user may do, where that is not everything. */
  readonly #access: DocumentAccess | undefined
  /** As it was last given to a user: in open mode that is the same one with every request. */
  #lastUsed: Database | undefined

  /** Writes what a new database begins with into an empty store. */
  static async create(store: Store, surroundings: DatabaseSurroundings): Promise<Database> {
    const identity = { uuid: randomUuid(), salt: randomBytes(SALT_BYTES) }
    const stored = JSON.stringify({ uuid: identity.uuid, salt: identity.salt.toString('hex') })
    await store.commit({
      puts: [
        [IDENTITY_KEY, Buffer.from(stored)],
        [STATE_KEY, encodeState(INITIAL_STATE)],
      ],
    })
    return new Database(partsOf(store, identity, surroundings))
  }

  static async open(store: Store, surroundings: DatabaseSurroundings): Promise<Database> {
    using snapshot = store.snapshot()
    const stored = await snapshot.get(IDENTITY_KEY)
    if (!stored) {
      // With rows in it, it was a database once. To begin anew here would give up what may still be there.
      if (!(await store.isEmpty())) throw new FileDamagedError(store.name, 'It does not say which database it is.')
      // A crash between the creation of the store and its first commit: nobody was told that it exists.
      return await Database.create(store, surroundings)
    }
    const { uuid, salt }: { uuid: string; salt: string } = JSON.parse(stored.toString())
    return new Database(partsOf(store, { uuid, salt: Buffer.from(salt, 'hex') }, surroundings))
  }

  private constructor(parts: DatabaseParts, user?: UserContext, access?: DocumentAccess) {
    this.name = parts.store.name
    this.uuid = parts.uuid
    this.openedUs = parts.openedUs
    this.ranks = parts.ranks
    this.attachments = parts.attachments
    this.changes = parts.changes
    this.#store = parts.store
    this.#queue = parts.queue
    this.#batched = parts.batched
    this.#surroundings = parts.surroundings
    this.#parts = parts
    this.#user = user
    this.#access = access
  }

  /** The same database for a user: what is written is validated, and within what access allows. */
  usedBy(user: UserContext, access?: DocumentAccess): Database {
    const last = this.#lastUsed
    if (last && last.#user === user && last.#access === access) return last
    this.#lastUsed = new Database(this.#parts, user, access)
    return this.#lastUsed
  }

  /** What its user may see, where that is not everything. */
  get reading(): ReadingAccess | undefined {
    return this.#access?.reading
  }

  /** The largest body of a request that its user may send, where that is less than usual. */
  get largestRequest(): number | undefined {
    return this.#access?.largestRequest
  }

  /** Throws where its user may not write a document, whatever it says: to be asked before its body is read. */
  checkTarget(id: string, what: WriteTarget): void {
    this.#access?.checkTarget?.(id, what)
  }

  /** The state as of now; must be released. */
  view(): DatabaseView {
    return new DatabaseView(this.#store.snapshot(), this.#access?.reading)
  }

  /** The state as of now, for a reply that lasts as long as its client takes; must be released. */
  lastingView(): LastingView {
    return new LastingView(this.#parts.held.snapshot(), this.#access?.reading)
  }

  /** A design document in a view of this database, for who calls its functions. Throws when there is none. */
  design({ snapshot }: DatabaseView, id: string): Promise<DesignDocument> {
    // As it is: its functions are the same, whoever may call them.
    return this.#parts.designs.open(new DatabaseView(snapshot), this.uuid, id)
  }

  /** The same as it is now, at hand unless design documents were written since it was last asked for. */
  currentDesign(id: string): DesignDocument | Promise<DesignDocument> {
    const { designs, designsMark } = this.#parts
    const known = this.#store.dropped ? undefined : designs.known(this.uuid, id, designsMark)
    return known ?? this.#readDesign(id)
  }

  /** Its numbers as of the last commit. */
  async latestState(): Promise<DatabaseState> {
    return this.knownState ?? this.#readState()
  }

  /** The same, where they are at hand: from the second time on. */
  get knownState(): DatabaseState | undefined {
    return this.#store.dropped ? undefined : this.#parts.latestState
  }

  async information(): Promise<DatabaseInformation> {
    using view = this.view()
    const [state, { fileBytes }] = await Promise.all([view.state(), this.#store.sizes()])
    return {
      ...state,
      name: this.name,
      isCompacting: this.#parts.compaction !== undefined,
      fileBytes,
      dataBytes: Math.min(fileBytes, state.bodyBytes),
      compactedTo: this.#parts.compactedTo,
      openedUs: this.openedUs,
    }
  }

  /** Resolves, when they are on disk, to the outcomes of the edits in their order. */
  write(edits: readonly DocumentEdit[]): Promise<EditOutcome[]> {
    if (this.#access) return this.#access.write(edits, (allowed) => this.#commit(allowed))
    return this.#commit(edits)
  }

  /** Takes an edit to be written soon, together with others; a failure is only logged. */
  writeLater(edit: DocumentEdit): void {
    // The contents of its attachments must be there when it is written: no compaction may take them for lost.
    const { attachments = [] } = edit.kind === 'local' ? {} : edit
    const leases = attachments.map(({ number }) => this.attachments.use(number))
    const release = () => {
      for (const each of leases) each()
    }
    if (this.#access) this.#batched.follow(edit, this.write([edit]), release)
    else this.#batched.add(edit, (some) => this.#commit(some), release)
  }

  /** Resolves when everything that was accepted so far is on disk. */
  async flush(): Promise<void> {
    await this.#batched.flush()
    await this.#queue.idle()
  }

  purge(request: PurgeRequest): Promise<Purged> {
    return this.#queue.solo((snapshot, state) => planPurge(snapshot, state, request, this.ranks))
  }

  setRevisionLimit(revisionLimit: number): Promise<void> {
    return this.#queue.solo(async (_, state) => ({
      changes: {},
      state: { ...state, revisionLimit, updateSequence: state.updateSequence + 1 },
      result: undefined,
    }))
  }

  async setSecurity(text: Buffer): Promise<void> {
    await this.#queue.solo(async (_, state) => ({
      changes: { puts: [[SECURITY_KEY, text]] },
      state: { ...state, updateSequence: state.updateSequence + 1 },
      result: undefined,
    }))
    this.#parts.securityChanges++
    this.changes.wake()
  }

  /** How often its security object was set since it was opened. */
  get securityChanges(): number {
    return this.#parts.securityChanges
  }

  /** Whether it was deleted: it never comes back, one that is created later under its name is another. */
  get isDeleted(): boolean {
    return this.#store.dropped
  }

  /** Begins to compact in the background, unless it is being done. */
  compact(): void {
    const parts = this.#parts
    if (parts.compaction) return
    const cancelling = new AbortController()
    const signal = AbortSignal.any([cancelling.signal, parts.stopping.signal])
    const done = this.#compact(signal)
      .catch((error: unknown) => {
        if (this.#store.dropped) return
        const { log } = this.#surroundings
        if (signal.aborted) log.info('A compaction was given up.', { database: this.name })
        else log.error('A compaction failed.', { database: this.name, error: String(error) })
      })
      .finally(() => {
        parts.compaction = undefined
      })
    parts.compaction = { done, cancelling }
  }

  /** Resolves when no compaction is running. */
  async compacted(): Promise<void> {
    await this.#parts.compaction?.done
  }

  /** Gives up the compaction that is running, if any; what it did not replace stays. Resolves when it is over. */
  async cancelCompaction(): Promise<void> {
    const { compaction } = this.#parts
    compaction?.cancelling.abort(new Error('The compaction is given up.'))
    await compaction?.done
  }

  /** Calls back with the newest sequence after each commit of documents; returns how to stop that. */
  onUpdate(listener: (updateSequence: number) => void): () => void {
    const { listeners } = this.#parts
    listeners.add(listener)
    return () => listeners.delete(listener)
  }

  /** Writes what waits and lets compaction go; the store is closed by its engine. */
  async close(): Promise<void> {
    this.#parts.stopping.abort(new Error('The database is being closed.'))
    await this.flush()
    await this.compacted()
  }

  #commit(edits: readonly DocumentEdit[]): Promise<EditOutcome[]> {
    if (!this.#user) return this.#queue.write(edits)
    return this.#parts.validation.write(edits, { user: this.#user, enforced: this.#access?.enforced })
  }

  async #readDesign(id: string): Promise<DesignDocument> {
    // Taken before the view: what is written meanwhile must not count as read.
    const { designs, designsMark } = this.#parts
    using view = new DatabaseView(this.#store.snapshot())
    return await designs.open(view, this.uuid, id, designsMark)
  }

  async #readState(): Promise<DatabaseState> {
    using view = this.view()
    const state = await view.state()
    // A commit that came meanwhile knows better.
    this.#parts.latestState ??= state
    return state
  }

  async #compact(signal: AbortSignal): Promise<void> {
    using view = this.view()
    const { documentCount, deletedCount } = await view.state()
    view.release()
    const total = documentCount + deletedCount
    const task = this.#surroundings.tasks.start({
      type: 'database_compaction',
      database: this.name,
      changes_done: 0,
      total_changes: total,
      progress: 0,
    })
    try {
      await compactDatabase(this.#store, this.#queue, this.ranks, this.attachments, total, signal, (done) => {
        task.update({ changes_done: done, progress: total === 0 ? 100 : Math.floor((100 * done) / total) })
      })
      this.#surroundings.onEvent?.({ type: 'compacted', db: this.name })
      const { fileBytes, dataBytes } = await this.information()
      this.#parts.compactedTo = { fileBytes, dataBytes }
    } finally {
      task.end()
    }
  }
}

function tellEvents({ onEvent }: DatabaseSurroundings, events: Iterable<DatabaseEvent>): void {
  for (const event of events) onEvent?.(event)
}

function partsOf(store: Store, { uuid, salt }: Identity, surroundings: DatabaseSurroundings): DatabaseParts {
  const failed = (error: unknown) => {
    surroundings.log.error('A listener of a database failed.', { database: store.name, error: String(error) })
  }
  const changes = new ChangesHub(failed)
  const listeners = new Set([(updateSequence: number) => changes.updated(updateSequence)])
  const ranks = new RankTree({
    rowPrefix: DOCUMENT_PREFIX,
    nodePrefix: RANK_PREFIX,
    salt,
    weightOf: weightOfRecord,
  })
  const designs = surroundings.designs ?? new DesignCache()
  const view = () => new DatabaseView(store.snapshot())
  const validators = new Validators(uuid, designs, view)
  const attachments = new AttachmentStore(store)
  const committed: CommitListener = (state, written) => {
    parts.latestState = state
    if (written?.some(isDesignId)) {
      parts.designsMark = {}
      validators.designsWritten()
    }
    // The commit is on disk: whatever becomes of those who are told of it, its writer is answered.
    const told = (tell: () => void) => {
      try {
        tell()
      } catch (error) {
        failed(error)
      }
    }
    for (const listener of listeners) told(() => listener(state.updateSequence))
    if (written) told(() => tellEvents(surroundings, updateEvents(store.name, written)))
  }
  const queue = new WriteQueue(store, ranks, committed, (numbers) => attachments.refer(numbers))
  const { functions } = surroundings
  const parts: DatabaseParts = {
    store,
    uuid,
    designs,
    designsMark: {},
    latestState: undefined,
    validation: new Validation({ name: store.name, queue, validators, view, functions }),
    held: new HeldStates(store),
    surroundings,
    openedUs: surroundings.clock.nowUs(),
    ranks,
    attachments,
    queue,
    batched: new BatchedWrites(surroundings.log),
    listeners,
    changes,
    securityChanges: 0,
    stopping: new AbortController(),
    compaction: undefined,
    compactedTo: undefined,
  }
  return parts
}
