/**
 * Follows the replicator database, whichever it is now: its documents become jobs, and their states are written back.
 * When the setting that names it changes, or it is deleted, all jobs of its documents end. Where several servers have the
 * database, the one that holds the lease has the jobs; the others wait for it.
 */
import type { SystemDatabase } from '../../auth/rights/system-database.ts'
import type { SettingChange } from '../../config/configuration.ts'
import type { Database } from '../../database/database.ts'
import type { NewRevisionEdit } from '../../database/writing/edit.ts'
import { scanDocument } from '../../encoding/json/json-text.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { LeaseProof, LeasesOf, WorkLease, WorkLeases } from '../../storage/leases/work-leases.ts'
import { EngineUnavailableError } from '../../storage/storage-error.ts'
import type { DocumentJobSurroundings, PreparedReplication } from './document-job.ts'
import { DocumentJobs, type FollowedDocuments } from './document-jobs.ts'
import { type Members, type ReplicationDocument, type StateMembers, withState } from './replication-document.ts'

export interface ReplicatorSurroundings extends Omit<DocumentJobSurroundings, 'write' | 'prepare'> {
  /** The database that the settings name. */
  readonly system: Pick<SystemDatabase, 'get'>
  readonly configuration: { onChange(listener: (change: SettingChange) => void | Promise<void>): () => void }
  readonly clock: Clock
  readonly log: Log
  /** Where other servers have the database too. */
  readonly leases?: LeasesOf | undefined
  prepare(members: Members, signal: AbortSignal, lease: LeaseProof | undefined): Promise<PreparedReplication>
}

/** How often a server that waits for the lease asks for it while one lasts. */
const TRIES_A_LEASE = 4
/** The pause before a database is opened again whose engine could not be reached. */
const RETRY_MS = 2000

export class Replicator {
  readonly #surroundings: ReplicatorSurroundings
  #forget: (() => void) | undefined
  #jobs: DocumentJobs | undefined
  /** Where another server has the jobs. */
  #elsewhere: FollowedDocuments | undefined
  #lease: WorkLease | undefined
  #waiting: NodeJS.Timeout | undefined
  #retrying: NodeJS.Timeout | undefined
  /** Why the database could not be opened the last time. */
  #lastProblem: string | undefined
  #isClosed = false
  /** One change of the database at a time. */
  #turn: Promise<void> = Promise.resolve()

  constructor(surroundings: ReplicatorSurroundings) {
    this.#surroundings = surroundings
  }

  /** Begins to follow the database; resolves before its documents were read. */
  async start(): Promise<void> {
    const { configuration } = this.#surroundings
    this.#forget = configuration.onChange(async (change) => {
      if (mayRename(change)) await this.#reopen()
    })
    await this.#reopen()
  }

  /** The documents with their jobs; undefined where there is no database. */
  get documents(): FollowedDocuments | undefined {
    return this.#jobs ?? this.#elsewhere
  }

  /** Stops all jobs; resolves when none runs. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#forget?.()
    clearInterval(this.#waiting)
    clearTimeout(this.#retrying)
    await this.#turn
    await this.#end()
  }

  /** Follows the database that counts now, unless it is the one that is being followed. */
  #reopen(): Promise<void> {
    this.#turn = this.#turn.then(() => this.#follow())
    return this.#turn
  }

  async #follow(): Promise<void> {
    const database = this.#isClosed ? undefined : await this.#database()
    const leases = database && this.#surroundings.leases?.(database.name)
    if (leases) this.#askAgain(leases)
    const isHeld = !this.#elsewhere && (!leases || this.#lease?.signal.aborted === false)
    if (database?.uuid === this.#jobs?.database.uuid && isHeld) return
    if (this.#jobs || !database) await this.#end()
    if (!database || this.#isClosed) return
    this.#lease = await this.#takeLease(leases, database.name)
    this.#elsewhere = leases && !this.#lease ? { database, isElsewhere: true, job: () => undefined } : undefined
    if (this.#elsewhere) return
    this.#lease?.signal.addEventListener('abort', () => void this.#reopen(), { once: true })
    const { system: _system, configuration: _configuration, leases: _leases, ...surroundings } = this.#surroundings
    const proof = this.#lease?.proof
    const written = database.under(proof)
    this.#jobs = new DocumentJobs(
      database,
      {
        ...surroundings,
        prepare: (members, signal) => surroundings.prepare(members, signal, proof),
        write: (document, state) => this.#write(written, document, state),
      },
      () => this.#reopen(),
    )
  }

  /** Stops all jobs, and leaves them to another server. */
  async #end(): Promise<void> {
    await this.#jobs?.close()
    this.#jobs = undefined
    this.#elsewhere = undefined
    await this.#lease?.release()
    this.#lease = undefined
  }

  #retry(): void {
    clearTimeout(this.#retrying)
    if (!this.#isClosed) this.#retrying = setTimeout(() => void this.#reopen(), RETRY_MS).unref()
  }

  #askAgain({ durationMs }: WorkLeases): void {
    if (this.#isClosed) return
    this.#waiting ??= setInterval(() => void this.#reopen(), durationMs / TRIES_A_LEASE).unref()
  }

  async #takeLease(leases: WorkLeases | undefined, database: string): Promise<WorkLease | undefined> {
    const { log } = this.#surroundings
    try {
      return await leases?.take(`replications of ${database}`)
    } catch (error) {
      log.warn('It is not known which server runs the replications.', { error: String(error) })
      return undefined
    }
  }

  async #database(): Promise<Database | undefined> {
    try {
      const database = await this.#surroundings.system.get()
      this.#lastProblem = undefined
      return database
    } catch (error) {
      const problem = String(error)
      if (problem !== this.#lastProblem) {
        this.#surroundings.log.error('The replicator database is not followed.', { error: problem })
      }
      this.#lastProblem = problem
      if (error instanceof EngineUnavailableError) this.#retry()
      return undefined
    }
  }

  /** As the server itself: the rules for owners and for documents in use are not for it. */
  async #write(
    database: Database,
    document: ReplicationDocument,
    state: StateMembers,
  ): Promise<ReplicationDocument | undefined> {
    const text = withState(document, state, this.#surroundings.clock.nowMs())
    if (!text) return document
    const { body, term } = scanDocument(text)
    const { id, revision: parent } = document
    const attachments = document.attachments.map((attachment) => ({ ...attachment, puts: [] }))
    const edit: NewRevisionEdit = { kind: 'interactive', id, parent, deleted: false, body, term, attachments }
    const [outcome] = await database.write([edit])
    if (outcome?.outcome === 'written') return { ...document, revision: outcome.revision, body }
    if (outcome?.error.kind === 'conflict') return undefined
    throw outcome?.error ?? new Error('A write has no outcome.')
  }
}

/** A name that the users' database takes is free for no other. */
function mayRename({ section, key }: SettingChange): boolean {
  return (section === 'replicator' && key === 'db') || (section === 'service_httpd_auth' && key === 'authentication_db')
}
