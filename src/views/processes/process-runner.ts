/**
 * Runs index updates in other processes, at most as many as the machine has cores, started on demand. All work on one
 * index is done by one process at a time. If a process crashes, the run is repeated; readers get an error only if that
 * happens repeatedly. Indexes of other languages than the sandbox supports are updated in the server.
 */
import { availableParallelism } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { RequestError } from '../../document/request-error.ts'
import { FairSemaphore } from '../../runtime/fair-semaphore.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { Metrics } from '../../runtime/metrics.ts'
import { SELECTOR_LANGUAGE } from '../../selectors/index-definition.ts'
import type { LmdbEngine } from '../../storage/lmdb/lmdb-engine.ts'
import type { ViewDesign } from '../design/view-design.ts'
import type { IndexPlace, IndexRunner } from '../updating/index-runner.ts'
import type { IndexBehind, UpdateProgress } from '../updating/update-request.ts'
import type { IndexJob, ProcessSettings } from './index-message.ts'
import {
  type JobLeases,
  type JobListener,
  ProcessEndedError,
  type WorkerOptions,
  WorkerProcess,
} from './worker-process.ts'

export interface ProcessRunnerOptions {
  readonly databases: LmdbEngine
  readonly indexes: LmdbEngine
  /** Where the indexes lie. */
  readonly folder: string
  readonly settings: () => ProcessSettings
  /** The idle time after which the last process is ended. */
  readonly readyMs: () => number
  readonly log: Log
  /** Whether functions of this language run in the sandbox. */
  readonly isSandboxed: (language: string) => boolean
  /** For all other languages. */
  readonly local: IndexRunner
  readonly metrics?: Metrics | undefined
}

/** Jobs that a process runs concurrently; others wait. */
const JOBS_A_PROCESS = 8

/** How often a job is repeated after its process ended, unless it made progress. */
const MOST_FALLS = 8
/** The same for processes that end before they begin the job. */
const MOST_FAILED_STARTS = 12
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 5000

/** A job whose process ended this often gets a process of its own: it may have crashed those of others. */
const FALLS_TO_BE_ALONE = 2

export class ProcessRunner implements IndexRunner {
  readonly #options: ProcessRunnerOptions
  readonly #processes = new Set<WorkerProcess>()
  /** How many jobs of an index are done in the server, and how many elsewhere. */
  readonly #localJobs = new Map<string, number>()
  readonly #remoteJobs = new Map<string, number>()
  readonly #places = new FairSemaphore(() => JOBS_A_PROCESS * availableParallelism())
  /** Jobs that need a process of their own run one after the other. */
  readonly #alone = new FairSemaphore(() => 1)
  #isClosed = false

  constructor(options: ProcessRunnerOptions) {
    this.#options = options
    options.metrics?.gauge('settle_index_processes', 'processes that work on indexes', () => this.#processes.size)
    options.metrics?.gauge('settle_index_jobs', 'updates and compactions of indexes that index processes have', () =>
      [...this.#remoteJobs.values()].reduce((sum, jobs) => sum + jobs, 0),
    )
  }

  update(
    place: IndexPlace,
    signal: AbortSignal,
    onProgress: (progress: UpdateProgress) => void,
    behind?: IndexBehind,
  ): Promise<void> {
    if (this.#isLocal(place)) {
      return counted(this.#localJobs, place, () => this.#options.local.update(place, signal, onProgress, behind))
    }
    return counted(this.#remoteJobs, place, () => this.#persist('update', place, signal, { onProgress }))
  }

  compact(place: IndexPlace, signal: AbortSignal, onShare: (done: number) => void): Promise<void> {
    if (this.#isLocal(place)) {
      return counted(this.#localJobs, place, () => this.#options.local.compact(place, signal, onShare))
    }
    return counted(this.#remoteJobs, place, () => this.#persist('compact', place, signal, { onShare }))
  }

  /** Starting a process takes longer than most index updates: one is started in advance. */
  prepare({ language }: ViewDesign): void {
    if (!this.#isRemote(language) || this.#isClosed) return
    const idle = [...this.#processes].find(({ load, isReserved }) => load === 0 && !isReserved)
    try {
      if (idle) idle.prepare(language)
      else if (this.#processes.size === 0)
        this.#start({ withSandbox: language !== SELECTOR_LANGUAGE }).prepare(language)
    } catch (error) {
      this.#options.log.warn('No index process could be started ahead of its first job.', { error: String(error) })
    }
  }

  /** Settings take effect with the next call of a function. */
  settingsChanged(): void {
    for (const worker of this.#processes) worker.send({ type: 'settings', settings: this.#options.settings() })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#processes].map((worker) => worker.close()))
  }

  /** Repeats the job for as long as the process fails, and not the job. */
  async #persist(work: IndexJob['work'], place: IndexPlace, signal: AbortSignal, listener: JobListener): Promise<void> {
    let reached = 0
    let falls = 0
    let failedStarts = 0
    for (;;) {
      try {
        return await this.#do(work, place, signal, falls >= FALLS_TO_BE_ALONE, {
          ...listener,
          onProgress: (progress) => {
            if (progress.updateSequence > reached) {
              falls = 0
              failedStarts = 0
            }
            reached = Math.max(reached, progress.updateSequence)
            listener.onProgress?.(progress)
          },
        })
      } catch (error) {
        if (!(error instanceof ProcessEndedError) || place.store.dropped || this.#isClosed) throw error
        if (error.hadStarted) falls++
        else failedStarts++
        if (falls > MOST_FALLS || failedStarts > MOST_FAILED_STARTS) throw keepsFailing(error)
        // The file may be the cause: then the index is rebuilt.
        if (error.hadStarted && falls === FALLS_TO_BE_ALONE) await this.#options.indexes.examine(place.store.name)
        const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (falls + failedStarts - 1))
        await pause(pauseMs, undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    }
  }

  async #do(
    work: IndexJob['work'],
    place: IndexPlace,
    signal: AbortSignal,
    isAlone: boolean,
    listener: JobListener,
  ): Promise<void> {
    const owner = place.database.name
    const places = isAlone ? this.#alone : this.#places
    await places.acquire({ owner, signal })
    try {
      // In the same turn: a process that gets the job meanwhile would not know of a pause.
      const { done } = await this.#options.indexes.whenUnpaused(place.store.name, () => {
        const leases = this.#lease(place)
        try {
          const job = this.#jobOf(work, place, leases)
          return { done: this.#processFor(place, work, isAlone).do(job, leases, signal, listener) }
        } catch (error) {
          // It was not begun.
          for (const lease of Object.values(leases)) void lease.release()
          throw error
        }
      })
      await done
    } finally {
      places.release(owner)
    }
  }

  /** From here on both files stay where they are until they are released. */
  #lease({ database, store }: IndexPlace): JobLeases {
    const { databases, indexes } = this.#options
    const ofDatabase = databases.lend(database.name)
    try {
      return { database: ofDatabase, index: indexes.lend(store.name, store) }
    } catch (error) {
      void ofDatabase.release()
      throw error
    }
  }

  #jobOf(work: IndexJob['work'], { database, store, design }: IndexPlace, leases: JobLeases): IndexJob {
    const scratchFolder = this.#options.indexes.scratchFolder(store.name)
    return {
      work,
      design,
      database: { name: database.name, path: leases.database.path, uuid: database.uuid },
      index: { name: store.name, path: leases.index.path, scratchFolder },
    }
  }

  #isLocal({ store, design }: IndexPlace): boolean {
    if (this.#localJobs.has(store.name)) return true
    return !this.#remoteJobs.has(store.name) && !this.#isRemote(design.language)
  }

  #isRemote(language: string): boolean {
    return language === SELECTOR_LANGUAGE || this.#options.isSandboxed(language)
  }

  /** The one that has the index open already; else one without work, or a new one, or that with the least. */
  #processFor({ store, design }: IndexPlace, work: IndexJob['work'], isAlone: boolean): WorkerProcess {
    if (this.#isClosed) throw new Error('The server is being closed.')
    const all = [...this.#processes]
    const busyWithIt = all.find((worker) => worker.worksOn(store.name))
    if (busyWithIt) return busyWithIt
    const withSandbox = work === 'update' && design.language !== SELECTOR_LANGUAGE
    if (isAlone) return this.#start({ isReserved: true, withSandbox })
    const free = all.filter(({ isReserved }) => !isReserved)
    const idle = free.find(({ isFree }) => isFree) ?? free.find(({ load }) => load === 0)
    if (idle) return idle
    const least = free.reduce<WorkerProcess | undefined>((a, b) => (a && a.load <= b.load ? a : b), undefined)
    return least && free.length >= availableParallelism() ? least : this.#start({ withSandbox })
  }

  #start(options: WorkerOptions): WorkerProcess {
    try {
      const owner = { onEnding: () => this.#processes.delete(worker), isOnly: () => this.#isOnly(worker) }
      const worker: WorkerProcess = new WorkerProcess(this.#options, owner, options)
      this.#processes.add(worker)
      return worker
    } catch (error) {
      // The system cannot start it now.
      throw new ProcessEndedError(String(error), false)
    }
  }

  #isOnly(worker: WorkerProcess): boolean {
    for (const other of this.#processes) if (other !== worker && !other.isReserved) return false
    return true
  }
}

async function counted(
  jobs: Map<string, number>,
  { store: { name } }: IndexPlace,
  work: () => Promise<void>,
): Promise<void> {
  jobs.set(name, (jobs.get(name) ?? 0) + 1)
  try {
    await work()
  } finally {
    const left = (jobs.get(name) ?? 1) - 1
    if (left === 0) jobs.delete(name)
    else jobs.set(name, left)
  }
}

function keepsFailing({ how }: ProcessEndedError): RequestError {
  return new RequestError('failed', 'os_process_error', `The index process keeps ending: ${how}.`)
}
