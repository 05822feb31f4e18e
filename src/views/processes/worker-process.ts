/**
 * An index process, seen from the server: takes jobs, passes their messages on, and reports when the process is gone. A process
 * that does not answer in time is killed.
 */
import type { ChildProcess } from 'node:child_process'
import { privateMb } from '../../functions/sandbox/process-use.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { StoreLease } from '../../storage/leases/store-leases.ts'
import { forgetTenant } from '../../storage/leases/tenancy-lock.ts'
import { MoveFailedError } from '../../storage/storage-error.ts'
import type { UpdateProgress } from '../updating/update-request.ts'
import { idleTimeLeft } from './idle-time.ts'
import {
  decodeError,
  encodeError,
  type FromProcess,
  type IndexJob,
  type ProcessSettings,
  type ToProcess,
} from './index-message.ts'
import { killGroup, startProcess } from './process-start.ts'

export interface JobListener {
  readonly onProgress?: (progress: UpdateProgress) => void
  readonly onShare?: (done: number) => void
}

/** The process ended, and the job was not done. */
export class ProcessEndedError extends Error {
  override readonly name = 'ProcessEndedError'
  /** The signal, or the exit code. */
  readonly how: string
  /** Whether it ended in the middle of the job, and not before. */
  readonly hadStarted: boolean

  constructor(how: string, hadStarted: boolean) {
    super(`The index process ended: ${how}.`)
    this.how = how
    this.hadStarted = hadStarted
  }
}

/** What a job may open. */
export interface JobLeases {
  readonly database: StoreLease
  readonly index: StoreLease
}

interface RunningJob extends JobListener {
  readonly index: string
  readonly leases: JobLeases
  readonly resolve: () => void
  readonly reject: (error: Error) => void
  /** Removes the abort listener. */
  readonly forget: () => void
  hasStarted: boolean
  /** Lets the database be written again, which it is not while the process opens it. */
  resume: (() => void) | undefined
  /** Whether only its files are kept open. */
  isDone: boolean
}

/** A process with jobs that is silent for this long is pinged, and killed if it does not answer. */
const SILENCE_MS = 30_000

const LAST_WORDS = 2000

/** What it works on and by. */
export interface WorkerPlace {
  /** Where the indexes lie. */
  readonly folder: string
  readonly settings: () => ProcessSettings
  /** The idle time after which the last process is ended too. */
  readonly readyMs: () => number
  readonly log: Log
}

/** What its runner decides. */
export interface WorkerOwner {
  /** Called when the process cannot take more work. */
  onEnding(): void
  /** Whether there is no other process for any job. */
  isOnly(): boolean
}

export interface WorkerOptions {
  /** Whether it is kept for one index. */
  readonly isReserved?: boolean
  /** Whether it will call functions soon. */
  readonly withSandbox?: boolean
}

export class WorkerProcess {
  /** Whether it is kept for one index. */
  readonly isReserved: boolean
  readonly #child: ChildProcess
  readonly #folder: string
  readonly #settings: () => ProcessSettings
  readonly #log: Log
  readonly #owner: WorkerOwner
  readonly #readyMs: () => number
  readonly #jobs = new Map<number, RunningJob>()
  /** Pauses that it has not answered yet. */
  readonly #pausing = new Map<number, () => void>()
  #lastPause = 0
  readonly #exited: Promise<void>
  #lastJob = 0
  #isEnding = false
  #isGone = false
  #idle: NodeJS.Timeout | undefined
  #watch: NodeJS.Timeout | undefined
  #silentMs = 0
  #lastWords = ''

  constructor(place: WorkerPlace, owner: WorkerOwner, options: WorkerOptions = {}) {
    const { folder, settings, readyMs, log } = place
    const { isReserved = false, withSandbox = false } = options
    this.isReserved = isReserved
    this.#settings = settings
    this.#log = log
    this.#owner = owner
    this.#readyMs = readyMs
    this.#child = startProcess({ withSandbox })
    this.#folder = folder
    this.#exited = new Promise((resolve) => {
      this.#child.once('error', (error) => {
        // Otherwise it runs, and a signal did not reach it.
        if (this.#child.pid !== undefined) return
        this.#ended(String(error))
        resolve()
      })
      this.#child.once('exit', () => this.#dying())
      // All that it sent was received by then.
      this.#child.once('close', (code, signal) => {
        this.#ended(signal ?? `exit code ${code}`)
        resolve()
      })
    })
    this.#child.on('message', (message: FromProcess) => this.#receive(message))
    this.#child.stderr?.setEncoding('utf8').on('data', (words: string) => {
      this.#lastWords = (this.#lastWords + words).slice(-LAST_WORDS)
    })
    this.send({ type: 'begin', serverPid: process.pid, folder, settings: settings() })
  }

  /** How many jobs it has. */
  get load(): number {
    let load = 0
    for (const { isDone } of this.#jobs.values()) if (!isDone) load++
    return load
  }

  /** Whether it neither works on any index nor has one open. */
  get isFree(): boolean {
    return this.#jobs.size === 0
  }

  /** Or has it open. */
  worksOn(index: string): boolean {
    for (const job of this.#jobs.values()) if (job.index === index) return true
    return false
  }

  /**
   * Resolves when the job is done. Rejects with a `ProcessEndedError` when the process ended before. The leases are released
   * when the process has closed the files, or is gone.
   */
  do(job: IndexJob, leases: JobLeases, signal: AbortSignal, listener: JobListener): Promise<void> {
    const reasons = [signal, leases.database.revoked, leases.index.revoked]
    for (const reason of reasons) reason.throwIfAborted()
    if (this.#isGone) throw new ProcessEndedError('it ended before the job began', false)
    const number = ++this.#lastJob
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let impatience: NodeJS.Timeout | undefined
    const abort = () => {
      const error = reasons.find(({ aborted }) => aborted)?.reason
      this.send({ type: 'abort', job: number, error: encodeError(error) })
      impatience ??= setTimeout(() => this.#kill('An aborted job does not end.'), this.#settings().stopMs)
    }
    const forget = () => {
      clearTimeout(impatience)
      for (const reason of reasons) reason.removeEventListener('abort', abort)
    }
    for (const reason of reasons) reason.addEventListener('abort', abort)
    clearTimeout(this.#idle)
    const index = job.index.name
    leases.index.pauseHolder = this.#leaseOn(index)?.pauseHolder ?? (() => this.#pauseCommits(index))
    const state = { hasStarted: false, isDone: false, resume: undefined }
    this.#jobs.set(number, { ...listener, index, leases, resolve, reject, forget, ...state })
    this.#watchOver()
    this.send({ type: 'start', job: number, ...job })
    return promise
  }

  /** Its sandbox processes may begin to start; if nothing comes of it, it ends after a while. */
  prepare(language: string): void {
    this.send({ type: 'prepare', language })
    this.#startIdleTimer()
  }

  send(message: ToProcess): void {
    // Its exit is reported by the `exit` event.
    if (this.#child.connected) this.#child.send(message, () => {})
  }

  async close(): Promise<void> {
    if (this.#isGone) return
    this.#isEnding = true
    this.#owner.onEnding()
    // Waiting for its end keeps the server alive until then.
    this.#child.ref()
    this.send({ type: 'close' })
    const impatience = setTimeout(() => this.#kill('It did not close in time.'), this.#settings().stopMs)
    await this.#exited
    clearTimeout(impatience)
  }

  #startIdleTimer(): void {
    clearTimeout(this.#idle)
    clearInterval(this.#watch)
    this.#watch = undefined
    if (this.#isGone) return
    if (this.isReserved) void this.close()
    else this.#keepOrEnd(0)
  }

  #keepOrEnd(idleMs: number): void {
    const idle = { idleMs, isOnly: this.#owner.isOnly(), privateMb: privateMb(this.#child.pid) }
    const leftMs = idleTimeLeft(idle, this.#readyMs())
    if (leftMs === 0) void this.close()
    else this.#idle = setTimeout(() => this.#keepOrEnd(idleMs + leftMs), leftMs).unref()
  }

  #watchOver(): void {
    this.#silentMs = 0
    this.#watch ??= setInterval(() => {
      this.#silentMs += SILENCE_MS
      if (this.#silentMs > 2 * SILENCE_MS) this.#kill('It did not answer in time.')
      else this.send({ type: 'ping' })
    }, SILENCE_MS).unref()
  }

  #kill(reason: string): void {
    if (this.#isGone) return
    this.#log.error('An index process was killed.', { pid: this.#child.pid, reason })
    this.#child.kill('SIGKILL')
  }

  #receive(message: FromProcess): void {
    this.#silentMs = 0
    if (message.type === 'started') this.#started(message.job)
    else if (message.type === 'opening') void this.#letOpen(message.job, message.request)
    else if (message.type === 'opened') this.#jobs.get(message.job)?.resume?.()
    else if (message.type === 'paused') this.#paused(message.pause)
    else if (message.type === 'log') this.#log[message.level](message.message, message.details)
    else if (message.type === 'updated') this.#jobs.get(message.job)?.onProgress?.(message.progress)
    else if (message.type === 'compacted') this.#jobs.get(message.job)?.onShare?.(message.share)
    else if (message.type === 'next path') this.#handOut(message.index, message.request)
    else if (message.type === 'moved') void this.#move(message.index, message.path, message.request)
    else if (message.type === 'done') this.#done(message.job, message.error && decodeError(message.error))
    else if (message.type === 'closed') this.#closed(message.job)
  }

  async #pauseCommits(index: string): Promise<() => void> {
    if (this.#isGone) return () => {}
    const pause = ++this.#lastPause
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#pausing.set(pause, resolve)
    this.send({ type: 'pause', index, pause })
    await promise
    return () => this.send({ type: 'resume', pause })
  }

  #paused(pause: number): void {
    this.#pausing.get(pause)?.()
    this.#pausing.delete(pause)
  }

  async #letOpen(number: number, request: number): Promise<void> {
    const job = this.#jobs.get(number)
    if (!job) return
    const resume = await job.leases.database.pauseCommits()
    const late = () => {
      if (job.resume === opened) this.#kill('It does not open a file.')
    }
    // After what has arrived was read: it may be this process that was stopped, or had no processor, for so long.
    const impatience = setTimeout(() => setImmediate(late), this.#settings().openMs)
    const opened = () => {
      clearTimeout(impatience)
      resume()
      job.resume = undefined
    }
    job.resume = opened
    // It may have ended meanwhile.
    if (this.#jobs.get(number) === job) this.send({ type: 'open', request })
    else job.resume()
  }

  #handOut(index: string, request: number): void {
    const path = this.#leaseOn(index)?.nextPath()
    if (path !== undefined) this.send({ type: 'path', request, path })
  }

  /** Readers find the new file from here on; the process goes on when the server has taken it over. */
  async #move(index: string, path: string, request: number): Promise<void> {
    try {
      await this.#leaseOn(index)?.moveTo(path)
    } catch (error) {
      if (error instanceof MoveFailedError) {
        // The job is repeated, with the file that the index still has.
        this.#kill(`${error.message} ${String(error.cause)}`)
        return
      }
      this.#log.error('An old index file could not be removed.', { error: String(error) })
    }
    this.send({ type: 'taken over', request })
  }

  /** Of those jobs that work on an index any has a lease on it. */
  #leaseOn(index: string): StoreLease | undefined {
    for (const job of this.#jobs.values()) if (job.index === index) return job.leases.index
    return undefined
  }

  #started(number: number): void {
    const job = this.#jobs.get(number)
    if (job) job.hasStarted = true
  }

  #done(number: number, error: Error | undefined): void {
    const job = this.#jobs.get(number)
    if (!job) return
    job.isDone = true
    if (error) job.reject(error)
    else job.resolve()
  }

  #closed(number: number): void {
    const job = this.#jobs.get(number)
    if (!job) return
    this.#jobs.delete(number)
    job.forget()
    job.resume?.()
    for (const lease of Object.values(job.leases)) void lease.release()
    if (this.#jobs.size === 0) this.#startIdleTimer()
  }

  #dying(): void {
    if (this.#isGone) return
    this.#isGone = true
    this.#owner.onEnding()
    clearTimeout(this.#idle)
    clearInterval(this.#watch)
    const { pid } = this.#child
    if (pid === undefined) return
    killGroup(pid)
    forgetTenant(this.#folder, pid)
  }

  #ended(how: string): void {
    this.#dying()
    const { pid } = this.#child
    const jobs = [...this.#jobs.values()]
    if (!this.#isEnding || jobs.length > 0) {
      const indexes = jobs.filter(({ isDone }) => !isDone).map(({ index }) => index)
      this.#log.error('An index process ended.', { pid, how, indexes, words: this.#lastWords })
    }
    this.#jobs.clear()
    for (const pause of [...this.#pausing.keys()]) this.#paused(pause)
    for (const { leases, reject, forget, resume, hasStarted } of jobs) {
      forget()
      resume?.()
      // Only then is the job repeated: the files of the dead process are closed.
      Promise.all(Object.values(leases).map((lease) => lease.abandon())).then(
        () => reject(new ProcessEndedError(how, hasStarted)),
        reject,
      )
    }
  }
}
