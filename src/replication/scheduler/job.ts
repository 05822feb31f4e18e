/**
 * A job of the scheduler: one replication, its state and its history. The scheduler runs it any number of times, each
 * time as a new attempt.
 */
import type { ReplicationProgress, ReplicationResult } from '../replication.ts'

/** One run of a replication, from its logs to its end. */
export interface Attempt {
  /** Resolves when everything is replicated; rejects where that failed, or with the reason of the signal. */
  run(signal: AbortSignal): Promise<ReplicationResult>
  /** Where it is now, as `_active_tasks` and `_scheduler` show it. */
  progress(): ReplicationProgress
  /** Called when both databases are open and it begins to read changes. */
  onStarted: (() => void) | undefined
  /** Called when its progress changed: often. */
  onProgress: (() => void) | undefined
}

/** The document that a job was made of. */
export interface DocumentPlace {
  readonly database: string
  readonly id: string
}

/** The description of a job. Passwords in URLs are masked. */
export interface JobSubject {
  /** The full replication id. */
  readonly id: string
  readonly source: string
  readonly target: string
  readonly isContinuous: boolean
  readonly checkpointIntervalMs: number
  /** As whom it runs. */
  readonly user: string | null
  /** Undefined for one that a request asked for. */
  readonly document: DocumentPlace | undefined
}

/** Receives the events of a job. Called synchronously; must not throw. */
export interface JobListener {
  /** A run has opened both databases and reads changes. */
  started?(): void
  /** A run failed. The scheduler tries again, after a while. */
  crashed?(error: unknown): void
  /** The job is done, and no longer with the scheduler. */
  completed?(result: ReplicationResult): void
  /** The job failed for good, and is no longer with the scheduler. */
  failed?(error: unknown): void
  /** The job was removed before it was done. */
  removed?(): void
}

export interface JobOptions {
  readonly subject: JobSubject
  attempt(): Attempt
  readonly listener?: JobListener
  /** Whether a failed run is followed by another one. */
  readonly isRetried: boolean
  readonly historyLimit: () => number
}

export type JobState = 'pending' | 'running' | 'crashing'

/** Why a run is being stopped. */
export type StopCause = 'turn is over' | 'removed'

export class Job {
  readonly subject: JobSubject
  readonly isRetried: boolean
  readonly history: JobHistory
  readonly #attempt: () => Attempt
  readonly #listeners = new Set<JobListener>()
  state: JobState = 'pending'
  /** When the scheduler got it, in milliseconds since 1970. */
  addedMs = 0
  /** Failures in a row. */
  errorCount = 0
  lastError: string | undefined
  /** Of the run that is under way. */
  run: JobRun | undefined
  /** Until it is tried again. */
  waiting: NodeJS.Timeout | undefined
  /** What the last run reached. */
  #lastProgress: ReplicationProgress | undefined

  constructor({ subject, attempt, listener, isRetried, historyLimit }: JobOptions) {
    this.subject = subject
    if (listener) this.#listeners.add(listener)
    this.isRetried = isRetried
    this.history = new JobHistory(historyLimit)
    this.#attempt = attempt
  }

  /** Who it is for, when slots are short. */
  get owner(): string {
    return this.subject.user ?? ''
  }

  /** Subscribes to its events; returns how to unsubscribe. */
  listen(listener: JobListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  tell(call: (listener: JobListener) => void): void {
    for (const listener of [...this.#listeners]) call(listener)
  }

  get progress(): ReplicationProgress | undefined {
    return this.run?.attempt.progress() ?? this.#lastProgress
  }

  begin(startedMs: number): JobRun {
    this.run = new JobRun(this.#attempt(), startedMs)
    return this.run
  }

  end(): void {
    this.#lastProgress = this.progress
    this.run = undefined
  }
}

/** A run that is under way. */
export class JobRun {
  readonly attempt: Attempt
  /** By `performance.now()`. */
  readonly startedMs: number
  readonly #controller = new AbortController()
  #stopCause: StopCause | undefined
  /** Resolves when it is over, whatever became of it. */
  done: Promise<void> = Promise.resolve()
  /** Of its entry among the tasks. */
  pid: string | undefined
  /** Whether both databases are open. */
  isStarted = false

  constructor(attempt: Attempt, startedMs: number) {
    this.attempt = attempt
    this.startedMs = startedMs
  }

  get stopCause(): StopCause | undefined {
    return this.#stopCause
  }

  start(): Promise<ReplicationResult> {
    return this.attempt.run(this.#controller.signal)
  }

  /** A removal overrides other reasons. */
  stop(cause: StopCause): void {
    if (this.#stopCause !== 'removed') this.#stopCause = cause
    this.#controller.abort(new Error('The replication was stopped.'))
  }
}

/** The last events of a job, newest first. */
export type JobEvent =
  | { readonly type: 'added' | 'started' | 'stopped'; readonly timestamp: string }
  | { readonly type: 'crashed'; readonly timestamp: string; readonly reason: string }

class JobHistory {
  readonly #limit: () => number
  readonly #events: JobEvent[] = []

  constructor(limit: () => number) {
    this.#limit = limit
  }

  get events(): readonly JobEvent[] {
    return this.#events
  }

  /** When the last of them happened. */
  get lastTimestamp(): string | undefined {
    return this.#events[0]?.timestamp
  }

  add(event: JobEvent): void {
    this.#events.unshift(event)
    if (this.#events.length > this.#limit()) this.#events.length = this.#limit()
  }
}

/** In the format of CouchDB: to the second, in UTC. */
export function timestampOf(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(0, 19)}Z`
}
