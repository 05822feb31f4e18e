/**
 * Runs the replications of a server: a limited number at a time, the others in turn. A failed job is retried with
 * backoff. While there are slots for all jobs the scheduler is idle and has no timer.
 */
import type { Clock } from '../../runtime/clock.ts'
import { FairQueue } from '../../runtime/fair-semaphore.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { Metrics } from '../../runtime/metrics.ts'
import type { TaskRegistry } from '../../runtime/tasks.ts'
import type { ReplicationProgress, ReplicationResult } from '../replication.ts'
import { type Job, type JobRun, type JobState, timestampOf } from './job.ts'
import { ReplicationTask } from './replication-task.ts'
import { backOffMs, type SchedulerSettings } from './scheduler-settings.ts'

const FIGURES = ['docs_read', 'docs_written', 'doc_write_failures'] as const

export interface SchedulerSurroundings {
  readonly settings: () => SchedulerSettings
  readonly tasks: TaskRegistry
  readonly clock: Clock
  readonly log: Log
  readonly metrics?: Metrics | undefined
  readonly random?: () => number
  /** The text of an error, without passwords. */
  reasonOf(error: unknown): string
}

export class Scheduler {
  readonly #surroundings: SchedulerSurroundings
  readonly #jobs = new Map<string, Job>()
  readonly #pending = new FairQueue<Job>()
  /** Those that have run longest come first. */
  readonly #running = new Map<Job, JobRun>()
  readonly #onRemoved = new Set<(id: string) => void>()
  /** What the runs that have ended did. */
  readonly #done = { docs_read: 0, docs_written: 0, doc_write_failures: 0 }
  #turnTimer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(surroundings: SchedulerSurroundings) {
    this.#surroundings = surroundings
    if (surroundings.metrics) this.#measure(surroundings.metrics)
  }

  /** In the order in which they were added. */
  get jobs(): Job[] {
    return [...this.#jobs.values()]
  }

  /** By the full id of the replication. */
  job(id: string): Job | undefined {
    return this.#jobs.get(id)
  }

  /** Runs it as soon as there is a slot and the delay is over. Its id must be new. */
  add(job: Job, { delayMs = 0 } = {}): void {
    const { id } = job.subject
    if (this.#isClosed) throw new Error('The scheduler is closed.')
    if (this.#jobs.has(id)) throw new Error(`There is a job ${id} already.`)
    this.#jobs.set(id, job)
    job.addedMs = this.#surroundings.clock.nowMs()
    job.history.add({ type: 'added', timestamp: this.#timestamp() })
    if (delayMs > 0) this.#enqueueAfter(job, delayMs)
    else this.#enqueue(job)
  }

  /** A job that waits for its next attempt is requested again: it runs at once. */
  retryNow(job: Job): void {
    if (job.waiting === undefined) return
    clearTimeout(job.waiting)
    this.#enqueue(job)
  }

  /** Stops and removes it. Resolves when it no longer runs and its id is free. */
  async remove(job: Job): Promise<void> {
    const { run } = job
    if (!run) {
      if (this.#jobs.get(job.subject.id) === job) this.#removed(job)
      return
    }
    run.stop('removed')
    await run.done
  }

  /** Calls back with the id when a job is removed; returns how to unsubscribe. */
  onRemoved(listener: (id: string) => void): () => void {
    this.#onRemoved.add(listener)
    return () => this.#onRemoved.delete(listener)
  }

  /** To be called when the settings changed. */
  settingsChanged(): void {
    clearTimeout(this.#turnTimer)
    this.#turnTimer = undefined
    const { maxJobs } = this.#surroundings.settings()
    this.#stopSome(this.#running.size - maxJobs, () => true)
    this.#fillSlots()
  }

  /** Stops all jobs; resolves when none runs. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#turnTimer)
    await Promise.all(this.jobs.map((job) => this.remove(job)))
  }

  #measure(metrics: Metrics): void {
    const jobs = (state: JobState) => this.jobs.filter((job) => job.state === state).length
    metrics.gauge('couchdb_couch_replicator_jobs_running', 'running replications', () => jobs('running'))
    metrics.gauge('couchdb_couch_replicator_jobs_pending', 'replications that wait for a slot', () => jobs('pending'))
    metrics.gauge('couchdb_couch_replicator_jobs_crashed', 'replications that failed and wait for a retry', () =>
      jobs('crashing'),
    )
    metrics.gauge('couchdb_couch_replicator_jobs_total', 'replications known to the scheduler', () => this.#jobs.size)
    metrics.gauge(
      'settle_replication_changes_pending',
      'changes of sources that running replications have not seen',
      () => this.#sumOfRuns((progress) => progress.changes_pending ?? 0),
    )
    for (const [name, help] of [
      ['docs_read', 'documents that replications read'],
      ['docs_written', 'documents that replications wrote'],
      ['doc_write_failures', 'documents that targets of replications refused'],
    ] as const) {
      metrics.total(`settle_replication_${name}_total`, help, () => {
        return this.#done[name] + this.#sumOfRuns((progress) => progress[name])
      })
    }
  }

  #sumOfRuns(figure: (progress: ReplicationProgress) => number): number {
    return [...this.#running.values()].reduce((sum, { attempt }) => sum + figure(attempt.progress()), 0)
  }

  #forget(job: Job): void {
    const { id } = job.subject
    clearTimeout(job.waiting)
    this.#pending.remove(job.owner, job)
    if (this.#jobs.get(id) !== job) return
    this.#jobs.delete(id)
    for (const listener of this.#onRemoved) listener(id)
  }

  #enqueueAfter(job: Job, delayMs: number): void {
    job.waiting = setTimeout(() => this.#enqueue(job), delayMs).unref()
  }

  #enqueue(job: Job): void {
    job.waiting = undefined
    job.state = 'pending'
    this.#pending.push(job.owner, job)
    this.#fillSlots()
  }

  #fillSlots(): void {
    const { maxJobs, intervalMs } = this.#surroundings.settings()
    while (this.#running.size < maxJobs) {
      const job = this.#pending.shift()
      if (!job) return
      this.#start(job)
    }
    if (this.#pending.size === 0 || this.#turnTimer || this.#isClosed) return
    this.#turnTimer = setTimeout(() => this.#endTurns(), intervalMs).unref()
  }

  /** The jobs that have run longest yield their slots to waiting ones. */
  #endTurns(): void {
    this.#turnTimer = undefined
    const { maxChurn, intervalMs } = this.#surroundings.settings()
    // By the monotonic clock: with the wall clock, a step back would prolong every turn.
    const nowMs = performance.now()
    // A job that started in the middle of an interval keeps its slot for a full one. Timers may fire slightly early.
    const hadTurn = ({ startedMs }: JobRun) => nowMs - startedMs >= intervalMs / 2
    this.#stopSome(Math.min(maxChurn, this.#pending.size), hadTurn)
    this.#fillSlots()
  }

  /** One-shot replications keep their slot until they are done. */
  #stopSome(count: number, isDue: (run: JobRun) => boolean): void {
    let left = count
    for (const [job, run] of this.#running) {
      if (left <= 0) return
      if (!job.subject.isContinuous || run.stopCause || !isDue(run)) continue
      run.stop('turn is over')
      left--
    }
  }

  #start(job: Job): void {
    job.state = 'running'
    job.history.add({ type: 'started', timestamp: this.#timestamp() })
    const run = job.begin(performance.now())
    this.#running.set(job, run)
    this.#surroundings.log.info('A replication was started.', about(job))
    run.done = this.#run(job, run)
  }

  async #run(job: Job, run: JobRun): Promise<void> {
    const task = new ReplicationTask(this.#surroundings.tasks, job.subject, run.attempt)
    run.pid = task.pid
    run.attempt.onProgress = () => task.update()
    run.attempt.onStarted = () => {
      run.isStarted = true
      if (!run.stopCause) job.tell((listener) => listener.started?.())
    }
    const outcome: Outcome = await run.start().then(
      (result) => ({ result }),
      (error: unknown) => ({ error }),
    )
    run.attempt.onProgress = undefined
    run.attempt.onStarted = undefined
    task.end()
    this.#running.delete(job)
    const progress = run.attempt.progress()
    for (const name of FIGURES) this.#done[name] += progress[name]
    this.#settle(job, run, outcome)
    job.end()
    if (!this.#isClosed) this.#fillSlots()
  }

  #settle(job: Job, run: JobRun, outcome: Outcome): void {
    if (run.stopCause === 'removed') this.#removed(job)
    else if ('result' in outcome) this.#complete(job, outcome.result)
    else if (run.stopCause !== undefined) this.#stopped(job)
    else this.#crashed(job, run, outcome.error)
  }

  #removed(job: Job): void {
    this.#forget(job)
    job.tell((listener) => listener.removed?.())
  }

  #complete(job: Job, result: ReplicationResult): void {
    this.#forget(job)
    this.#surroundings.log.info('A replication is complete.', about(job))
    job.tell((listener) => listener.completed?.(result))
  }

  #stopped(job: Job): void {
    job.history.add({ type: 'stopped', timestamp: this.#timestamp() })
    job.state = 'pending'
    this.#pending.push(job.owner, job)
  }

  #crashed(job: Job, run: JobRun, error: unknown): void {
    const { settings, log, random, reasonOf } = this.#surroundings
    const { healthThresholdMs, retryLimit, backOff } = settings()
    const reason = reasonOf(error)
    // A run that went well for a while shows that the failures before it are over.
    if (performance.now() - run.startedMs >= healthThresholdMs) job.errorCount = 0
    job.errorCount++
    job.lastError = reason
    job.history.add({ type: 'crashed', timestamp: this.#timestamp(), reason })
    if (!job.isRetried || job.errorCount > retryLimit) {
      this.#forget(job)
      log.error('A replication failed and will not be retried.', { ...about(job), reason })
      job.tell((listener) => listener.failed?.(error))
      return
    }
    const delayMs = backOffMs(backOff, job.errorCount, random)
    log.warn('A replication failed and will be retried.', { ...about(job), reason, delayMs })
    job.state = 'crashing'
    this.#enqueueAfter(job, delayMs)
    job.tell((listener) => listener.crashed?.(error))
  }

  #timestamp(): string {
    return timestampOf(this.#surroundings.clock.nowMs())
  }
}

type Outcome = { readonly result: ReplicationResult } | { readonly error: unknown }

function about({ subject: { id, source, target, document } }: Job): object {
  return { replication: id, source, target, ...(document && { document: document.id }) }
}
