/**
 * One document of the replicator database and the job that it asks for. What becomes of the job is written into the
 * document; what becomes of the document counts for the job. Everything about one document is done in turn.
 */
import type { Clock } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { ReplicationProgress } from '../replication.ts'
import { cancelled } from '../replication-error.ts'
import { type Attempt, type DocumentPlace, Job, type JobSubject } from '../scheduler/job.ts'
import type { Scheduler } from '../scheduler/scheduler.ts'
import { backOffMs, type SchedulerSettings } from '../scheduler/scheduler-settings.ts'
import {
  type Members,
  membersOf,
  type ReplicationDocument,
  requestText,
  type StateMembers,
  stateOf,
} from './replication-document.ts'

/** A replication that a document asks for, ready to be run. */
export interface PreparedReplication {
  readonly subject: Omit<JobSubject, 'document'>
  /** The replication id without what follows a plus sign. */
  readonly baseId: string
  attempt(): Attempt
}

/** What a document asks for cannot be done, however often it is tried. */
export class UnusableDocumentError extends Error {
  override readonly name = 'UnusableDocumentError'
}

export interface DocumentJobSurroundings {
  readonly scheduler: Scheduler
  readonly settings: () => SchedulerSettings
  readonly clock: Clock
  readonly log: Log
  /** Reads what is needed to know the replication. Throws `UnusableDocumentError` where there is no sense in it. */
  prepare(members: Members, signal: AbortSignal): Promise<PreparedReplication>
  /** Writes state members; undefined when the document was changed meanwhile. */
  write(document: ReplicationDocument, state: StateMembers): Promise<ReplicationDocument | undefined>
  reasonOf(error: unknown): string
}

/** What `_scheduler/docs` tells of the document, beside what its job tells. */
export type DocumentStatus =
  | { readonly state: 'initializing' | 'completed' }
  | { readonly state: 'error' | 'failed'; readonly reason: string; readonly errorCount: number }
  /** Another document, or a request, asked for the same replication before. */
  | { readonly state: 'duplicate'; readonly reason: string; readonly replicationId: string }
  | { readonly state: 'scheduled'; readonly job: Job }

export class DocumentJob {
  readonly place: DocumentPlace
  readonly #surroundings: DocumentJobSurroundings
  #document: ReplicationDocument
  #status: DocumentStatus = { state: 'initializing' }
  /** When the server took it up, in this form. */
  startedMs: number
  /** When its status changed last. */
  updatedMs: number
  /** What was written last, or would have been. */
  #written: StateMembers = {}
  /** Ends what is being done for the present form of the document. */
  #stopping = new AbortController()
  #retryTimer: NodeJS.Timeout | undefined
  #turn: Promise<void> = Promise.resolve()

  constructor(database: string, document: ReplicationDocument, surroundings: DocumentJobSurroundings) {
    this.place = { database, id: document.id }
    this.#surroundings = surroundings
    this.#document = document
    this.startedMs = surroundings.clock.nowMs()
    this.updatedMs = this.startedMs
  }

  get status(): DocumentStatus {
    return this.#status
  }

  /** Whether nothing is left to be done, and its document says so. */
  get isOver(): boolean {
    return this.#status.state === 'completed'
  }

  start({ delayMs = 0 } = {}): void {
    this.#inTurn(() => this.#prepare({ delayMs, failures: 0 }))
  }

  /** The document is another one now, or the server's own write has come back. */
  update(document: ReplicationDocument): Promise<void> {
    return this.#inTurn(async () => {
      if (document.revision === this.#document.revision) return
      const before = this.#document
      this.#document = document
      const state = stateOf(membersOf(document))
      const isSame = requestText(document) === requestText(before) && state === stateOf(membersOf(before))
      // The state that was to be written may have been lost to this revision.
      if (isSame) return await this.#write(this.#written)
      await this.#halt()
      if (state === 'completed') this.#set({ state: 'completed' })
      else await this.#prepare({ delayMs: 0, failures: 0 })
    })
  }

  /** What stood in its way is gone. */
  retryDuplicate(): void {
    this.#inTurn(async () => {
      if (this.#status.state === 'duplicate') await this.#prepare({ delayMs: 0, failures: 0 })
    })
  }

  /** Stops its job; resolves when nothing of it runs. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#inTurn(() => this.#halt())
  }

  async #prepare({ delayMs, failures }: { delayMs: number; failures: number }): Promise<void> {
    const { prepare, scheduler } = this.#surroundings
    const { signal } = this.#stopping
    if (signal.aborted) return
    this.#set({ state: 'initializing' })
    let prepared: PreparedReplication
    try {
      prepared = await prepare(membersOf(this.#document), signal)
    } catch (error) {
      if (!signal.aborted) await this.#preparationFailed(error, failures + 1)
      return
    }
    if (signal.aborted) return
    const other = scheduler.job(prepared.subject.id)
    if (other) await this.#findDuplicate(other, prepared)
    else this.#schedule(prepared, delayMs)
  }

  async #preparationFailed(error: unknown, failures: number): Promise<void> {
    const { settings, reasonOf, log } = this.#surroundings
    const { retryLimit, backOff } = settings()
    const reason = reasonOf(error)
    const isFinal = error instanceof UnusableDocumentError || failures > retryLimit
    this.#set({ state: isFinal ? 'failed' : 'error', reason, errorCount: failures })
    log.error('A replication document cannot be used.', { document: this.place.id, reason })
    if (!isFinal) {
      const retry = () => this.#inTurn(() => this.#prepare({ delayMs: 0, failures }))
      this.#retryTimer = setTimeout(retry, backOffMs(backOff, failures)).unref()
    }
    await this.#write({
      _replication_state: 'error',
      _replication_state_reason: reason,
      _replication_id: null,
    })
  }

  async #findDuplicate({ subject }: Job, { baseId }: PreparedReplication): Promise<void> {
    const by = subject.document ? `the document ${JSON.stringify(subject.document.id)}` : 'a request'
    const reason = `The replication ${subject.id} was triggered by ${by} before.`
    this.#set({ state: 'duplicate', reason, replicationId: subject.id })
    this.#surroundings.log.warn('Two documents ask for one replication.', { document: this.place.id, reason })
    await this.#write({ _replication_id: baseId })
  }

  #schedule({ subject, baseId, attempt }: PreparedReplication, delayMs: number): void {
    const { scheduler, settings, reasonOf } = this.#surroundings
    const { signal } = this.#stopping
    /** The job may outlive this form of the document by a moment: it has no say then. */
    const tell = (work: () => Promise<void>) =>
      this.#inTurn(async () => {
        if (!signal.aborted) await work()
      })
    const errorState = (error: unknown): StateMembers => ({
      _replication_state: 'error',
      _replication_state_reason: reasonOf(error),
      _replication_id: baseId,
    })
    const job: Job = new Job({
      subject: { ...subject, document: this.place },
      attempt,
      isRetried: true,
      historyLimit: () => settings().maxHistory,
      listener: {
        started: () => {
          tell(() => this.#write({ ...TRIGGERED, _replication_id: baseId }))
        },
        crashed: (error) => {
          tell(() => this.#write(errorState(error)))
        },
        failed: (error) => {
          tell(async () => {
            this.#set({ state: 'failed', reason: reasonOf(error), errorCount: job.errorCount })
            await this.#write(errorState(error))
          })
        },
        completed: ({ progress }) => {
          tell(async () => {
            await this.#write({ ...COMPLETED, _replication_id: baseId, _replication_stats: statistics(progress) })
            this.#set({ state: 'completed' })
          })
        },
        removed: () => {
          tell(async () => {
            this.#set({ state: 'failed', reason: reasonOf(cancelled()), errorCount: 0 })
            await this.#write(errorState(cancelled()))
          })
        },
      },
    })
    this.#set({ state: 'scheduled', job })
    scheduler.add(job, { delayMs })
  }

  async #write(state: StateMembers): Promise<void> {
    this.#written = state
    try {
      const written = await this.#surroundings.write(this.#document, state)
      // Where it was changed meanwhile the feed brings what it is now.
      if (written) this.#document = written
    } catch (error) {
      const { log } = this.#surroundings
      log.error('The state of a replication was not written.', { document: this.place.id, error: String(error) })
    }
  }

  async #halt(): Promise<void> {
    clearTimeout(this.#retryTimer)
    const status = this.#status
    const wasStopped = this.#stopping.signal.aborted
    this.#stopping.abort()
    if (!wasStopped) this.#stopping = new AbortController()
    this.#written = {}
    this.#set({ state: 'initializing' })
    this.startedMs = this.updatedMs
    if (status.state === 'scheduled') await this.#surroundings.scheduler.remove(status.job)
  }

  #set(status: DocumentStatus): void {
    this.#status = status
    this.updatedMs = this.#surroundings.clock.nowMs()
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#turn = this.#turn.then(work).catch((error: unknown) => {
      const { log } = this.#surroundings
      log.error('A replication document was not followed.', { document: this.place.id, error: String(error) })
    })
    return this.#turn
  }
}

const TRIGGERED: StateMembers = {
  _replication_state: 'triggered',
  _replication_state_reason: null,
  _replication_stats: null,
}

const COMPLETED: StateMembers = { _replication_state: 'completed', _replication_state_reason: null }

function statistics(progress: ReplicationProgress): object {
  const { revisions_checked, missing_revisions_found, docs_read, docs_written, doc_write_failures } = progress
  const { checkpointed_source_seq } = progress
  return {
    revisions_checked,
    missing_revisions_found,
    docs_read,
    docs_written,
    doc_write_failures,
    checkpointed_source_seq,
  }
}
