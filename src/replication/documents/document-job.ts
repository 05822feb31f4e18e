/**
 * One document of the replicator database and its job. The state of the job is written to the document, and changes of
 * the document are applied to the job. Operations on one document are serialized.
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

/** The replication of a document, ready to run. */
export interface PreparedReplication {
  readonly subject: Omit<JobSubject, 'document'>
  /** The replication id without what follows a plus sign. */
  readonly baseId: string
  attempt(): Attempt
}

/** The document is not valid, and retrying does not help. */
export class UnusableDocumentError extends Error {
  override readonly name = 'UnusableDocumentError'
}

export interface DocumentJobSurroundings {
  readonly scheduler: Scheduler
  readonly settings: () => SchedulerSettings
  readonly clock: Clock
  readonly log: Log
  /** Reads the replication of the document. Throws `UnusableDocumentError` if it is not valid. */
  prepare(members: Members, signal: AbortSignal): Promise<PreparedReplication>
  /** Writes state members; undefined if the document was changed in the meantime. */
  write(document: ReplicationDocument, state: StateMembers): Promise<ReplicationDocument | undefined>
  reasonOf(error: unknown): string
}

/** The state of the document in `_scheduler/docs`, beside that of its job. */
export type DocumentStatus =
  | { readonly state: 'initializing' | 'completed' }
  | { readonly state: 'error' | 'failed'; readonly reason: string; readonly errorCount: number }
  /** The same replication was started by another document or by a request. */
  | { readonly state: 'duplicate'; readonly reason: string; readonly replicationId: string }
  | { readonly state: 'scheduled'; readonly job: Job }

export class DocumentJob {
  readonly place: DocumentPlace
  readonly #surroundings: DocumentJobSurroundings
  #document: ReplicationDocument
  /** Revisions that were replaced from here, and may still come out of the feed. */
  readonly #replaced = new Set<string>()
  #status: DocumentStatus = { state: 'initializing' }
  /** When the server read it in this form. */
  startedMs: number
  /** When its status changed last. */
  updatedMs: number
  /** What was written last, or would have been. */
  #written: StateMembers = {}
  /** Aborts work for the current form of the document. */
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

  /** The document has changed, or the server's own write has arrived in the feed. */
  update(document: ReplicationDocument): Promise<void> {
    return this.#inTurn(async () => {
      // The feed may have read it before it was replaced from here: to go back to it would run the replication again.
      if (this.#replaced.has(document.revision)) return
      this.#replaced.clear()
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

  /** The replication that blocked it is gone. */
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
    log.error('A replication document is not valid.', { document: this.place.id, reason })
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
    this.#surroundings.log.warn('Two documents define the same replication.', { document: this.place.id, reason })
    // It may be the other document that ran before the server was restarted.
    await this.#write({ _replication_id: baseId, _replication_state: null, _replication_state_reason: null })
  }

  #schedule({ subject, baseId, attempt }: PreparedReplication, delayMs: number): void {
    const { scheduler, settings, reasonOf } = this.#surroundings
    const { signal } = this.#stopping
    /** The job may end shortly after this form of the document: its state is then ignored. */
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
      // If it was changed in the meantime, the feed delivers the new form.
      if (!written || written.revision === this.#document.revision) return
      this.#replaced.add(this.#document.revision)
      this.#document = written
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
      log.error('A replication document could not be processed.', { document: this.place.id, error: String(error) })
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
