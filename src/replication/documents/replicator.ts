/**
 * Follows the replicator database, whichever it is now: its documents become jobs, and their states are written back.
 * When the setting that names it changes, or it is deleted, all jobs of its documents end.
 */
import type { SystemDatabase } from '../../auth/rights/system-database.ts'
import type { SettingChange } from '../../config/configuration.ts'
import type { Database } from '../../database/database.ts'
import type { NewRevisionEdit } from '../../database/writing/edit.ts'
import { scanDocument } from '../../encoding/json/json-text.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { DocumentJobSurroundings } from './document-job.ts'
import { DocumentJobs } from './document-jobs.ts'
import { type ReplicationDocument, type StateMembers, withState } from './replication-document.ts'

export interface ReplicatorSurroundings extends Omit<DocumentJobSurroundings, 'write'> {
  /** The database that the settings name. */
  readonly system: Pick<SystemDatabase, 'get'>
  readonly configuration: { onChange(listener: (change: SettingChange) => void | Promise<void>): () => void }
  readonly clock: Clock
  readonly log: Log
}

export class Replicator {
  readonly #surroundings: ReplicatorSurroundings
  #forget: (() => void) | undefined
  #jobs: DocumentJobs | undefined
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

  /** The jobs of the documents; undefined where there is no database. */
  get jobs(): DocumentJobs | undefined {
    return this.#jobs
  }

  /** Stops all jobs; resolves when none runs. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#forget?.()
    await this.#turn
    await this.#jobs?.close()
  }

  /** Follows the database that counts now, unless it is the one that is being followed. */
  #reopen(): Promise<void> {
    this.#turn = this.#turn.then(() => this.#follow())
    return this.#turn
  }

  async #follow(): Promise<void> {
    const database = this.#isClosed ? undefined : await this.#database()
    if (database?.uuid === this.#jobs?.database.uuid) return
    await this.#jobs?.close()
    this.#jobs = undefined
    if (!database || this.#isClosed) return
    const { system: _system, configuration: _configuration, ...surroundings } = this.#surroundings
    const write = (document: ReplicationDocument, state: StateMembers) => this.#write(database, document, state)
    this.#jobs = new DocumentJobs(database, { ...surroundings, write }, () => this.#reopen())
  }

  async #database(): Promise<Database | undefined> {
    try {
      return await this.#surroundings.system.get()
    } catch (error) {
      this.#surroundings.log.error('The replicator database is not followed.', { error: String(error) })
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
