/**
 * The jobs of one replicator database: each document that asks for a replication has one, from the moment that it is
 * there, or the server starts, until it is deleted or the replication complete.
 */
import type { Database } from '../../database/database.ts'
import type { Log } from '../../runtime/log/log.ts'
import { type DocumentChange, DocumentFeed } from './document-feed.ts'
import { DocumentJob, type DocumentJobSurroundings } from './document-job.ts'
import { membersOf, type ReplicationDocument, stateOf } from './replication-document.ts'

/** At a start the jobs begin spread over this time for each of them, up to the limit of the settings. */
const JITTER_PER_JOB_MS = 10

export interface DocumentJobsSurroundings extends DocumentJobSurroundings {
  readonly log: Log
}

/** The documents of a replicator database, with the jobs that this server has for them. */
export interface FollowedDocuments {
  readonly database: Database
  /** Whether another server has the jobs: what the documents say is all that is known of them here. */
  readonly isElsewhere: boolean
  /** Undefined for a document that has none: it is complete, or not yet read. */
  job(id: string): DocumentJob | undefined
}

export class DocumentJobs implements FollowedDocuments {
  readonly database: Database
  readonly isElsewhere = false
  readonly #surroundings: DocumentJobsSurroundings
  readonly #jobs = new Map<string, DocumentJob>()
  readonly #feed: DocumentFeed
  readonly #stopListening: (() => void)[]
  #purgeSequence = 0
  #isStarting = true
  #isClosed = false
  #reading: Promise<void> | undefined
  #isBehind = false

  /** Begins to follow the documents. `onGone` is called when the database is. */
  constructor(database: Database, surroundings: DocumentJobsSurroundings, onGone: () => void) {
    this.database = database
    this.#surroundings = surroundings
    this.#feed = new DocumentFeed(database)
    this.#stopListening = [
      database.changes.subscribe(() => {
        if (database.isDeleted) onGone()
        else this.#follow()
      }),
      surroundings.scheduler.onRemoved((id) => this.#retryDuplicates(id)),
    ]
    this.#follow()
  }

  /** Undefined for a document that has none: it is complete, or not yet read. */
  job(id: string): DocumentJob | undefined {
    return this.#jobs.get(id)
  }

  /** Stops all of them; resolves when none runs. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const stop of this.#stopListening) stop()
    await this.#reading
    await Promise.all([...this.#jobs.values()].map((job) => job.stop()))
    this.#jobs.clear()
  }

  #follow(): void {
    this.#isBehind = true
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
      if (this.#isBehind && !this.#isClosed) this.#follow()
    })
  }

  async #read(): Promise<void> {
    try {
      while (this.#isBehind && !this.#isClosed) {
        this.#isBehind = false
        await this.#readAll()
      }
    } catch (error) {
      if (this.#isClosed || this.database.isDeleted) return
      this.#surroundings.log.error('The replicator database cannot be read.', { error: String(error) })
    }
  }

  async #readAll(): Promise<void> {
    for (let changes = await this.#feed.next(); changes.length > 0; changes = await this.#feed.next()) {
      if (this.#isClosed) return
      for (const change of changes) this.#apply(change)
    }
    this.#isStarting = false
    await this.#dropPurged()
  }

  /** A document that is purged leaves no change behind. */
  async #dropPurged(): Promise<void> {
    const { purgeSequence } = await this.database.latestState()
    if (purgeSequence === this.#purgeSequence) return
    this.#purgeSequence = purgeSequence
    using view = this.database.view()
    const ids = [...this.#jobs.keys()]
    const found = await view.records(ids)
    for (const [i, id] of ids.entries()) if (!found[i]?.record) this.#remove(id)
  }

  #apply(change: DocumentChange): void {
    if (change.deleted) this.#remove(change.id)
    else this.#changed(change.document)
  }

  #changed(document: ReplicationDocument): void {
    const known = this.#jobs.get(document.id)
    if (known) this.#update(known, document)
    else if (stateOf(membersOf(document)) !== 'completed') this.#add(document)
  }

  #add(document: ReplicationDocument): void {
    const job = new DocumentJob(this.database.name, document, this.#surroundings)
    this.#jobs.set(document.id, job)
    const { startupJitterMs } = this.#surroundings.settings()
    const spreadMs = Math.min(startupJitterMs, JITTER_PER_JOB_MS * this.#jobs.size)
    job.start({ delayMs: this.#isStarting ? Math.random() * spreadMs : 0 })
  }

  #update(job: DocumentJob, document: ReplicationDocument): void {
    job.update(document).then(() => {
      // Not before its last revision came by: an older one would restart it.
      if (job.isOver && this.#jobs.get(document.id) === job) this.#jobs.delete(document.id)
    })
  }

  #remove(id: string): void {
    const job = this.#jobs.get(id)
    this.#jobs.delete(id)
    job?.stop()
  }

  #retryDuplicates(replicationId: string): void {
    const waiting = this.#jobs.values().find(({ status }) => {
      return status.state === 'duplicate' && status.replicationId === replicationId
    })
    waiting?.retryDuplicate()
  }
}
