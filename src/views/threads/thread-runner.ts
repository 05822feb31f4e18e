/**
 * Does the work of indexes in other threads, as many as the machine has cores, started when they are needed. All work on
 * one index is done by one thread at a time: what one writes another would not take into account. Threads run the
 * functions of the sandbox only; indexes of other languages are worked on in this thread.
 */
import { getCompileCacheDir } from 'node:module'
import { availableParallelism } from 'node:os'
import { dirname, extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { FairPlaces } from '../../functions/fair-places.ts'
import type { Log } from '../../runtime/log.ts'
import type { LmdbEngine } from '../../storage/lmdb-engine.ts'
import { StoreGoneError } from '../../storage/storage-error.ts'
import type { IndexPlace, IndexRunner } from '../index-runner.ts'
import type { UpdateProgress } from '../index-update.ts'
import type { ViewDesign } from '../view-design.ts'
import {
  type FromThread,
  heard,
  type IndexJob,
  type ThreadData,
  type ThreadSettings,
  type ToThread,
  told,
} from './index-message.ts'

export interface ThreadRunnerOptions extends ThreadSurroundings {
  /** Whether functions of this language run in the sandbox. */
  readonly isSandboxed: (language: string) => boolean
  /** For all other languages. */
  readonly local: IndexRunner
}

interface ThreadSurroundings {
  readonly databases: LmdbEngine
  readonly indexes: LmdbEngine
  readonly settings: () => ThreadSettings
  readonly log: Log
}

/** How often an update is begun anew because the file of the database was replaced in the moment it began. */
const MOST_TRIES = 5

/** Jobs that a thread takes turns with; of more, some wait. */
const JOBS_A_THREAD = 8

/** A thread that had nothing to do for so long is ended. */
const IDLE_MS = 60_000

export class ThreadRunner implements IndexRunner {
  readonly #options: ThreadRunnerOptions
  readonly #threads = new Set<Thread>()
  /** How many jobs of an index are done in this thread. */
  readonly #localJobs = new Map<string, number>()
  readonly #places = new FairPlaces(() => JOBS_A_THREAD * availableParallelism())

  constructor(options: ThreadRunnerOptions) {
    this.#options = options
  }

  async update(place: IndexPlace, signal: AbortSignal, onProgress: (progress: UpdateProgress) => void): Promise<void> {
    if (this.#isLocal(place)) return this.#locally(place, (local) => local.update(place, signal, onProgress))
    for (let tries = 1; ; tries++) {
      try {
        return await this.#do('update', place, signal, { onProgress })
      } catch (error) {
        // Gone is the file, not the database: a compaction put another one in its place.
        const isMoved = error instanceof StoreGoneError && this.#options.databases.has(place.database.name)
        if (!isMoved || tries === MOST_TRIES || place.store.dropped) throw error
      }
    }
  }

  async compact(place: IndexPlace, signal: AbortSignal, onShare: (done: number) => void): Promise<void> {
    if (this.#isLocal(place)) return this.#locally(place, (local) => local.compact(place, signal, onShare))
    await this.#do('compact', place, signal, { onShare })
  }

  /** A thread takes longer to start than most work on an index: it is there when that comes. */
  prepare({ language }: ViewDesign): void {
    if (!this.#options.isSandboxed(language)) return
    const idle = [...this.#threads].find(({ load }) => load === 0)
    if (idle) idle.prepare(language)
    else if (this.#threads.size === 0) this.#start().prepare(language)
  }

  /** Settings count from the next call of a function on. */
  settingsChanged(): void {
    for (const thread of this.#threads) thread.send({ type: 'settings', settings: this.#options.settings() })
  }

  async close(): Promise<void> {
    await Promise.all([...this.#threads].map((thread) => thread.close()))
  }

  async #do(work: IndexJob['work'], place: IndexPlace, signal: AbortSignal, listener: JobListener): Promise<void> {
    const owner = place.database.name
    await this.#places.take({ owner, signal })
    try {
      await this.#threadFor(place.store.name).do(this.#jobOf(work, place), signal, listener)
    } finally {
      this.#places.giveBack(owner)
    }
  }

  #jobOf(work: IndexJob['work'], { database, store: { name }, design }: IndexPlace): IndexJob {
    const { databases, indexes } = this.#options
    return {
      work,
      design,
      database: { name: database.name, path: databases.pathOf(database.name), uuid: database.uuid },
      index: { name, path: indexes.pathOf(name), scratchFolder: indexes.scratchFolder(name) },
    }
  }

  #isLocal({ store, design }: IndexPlace): boolean {
    if (this.#localJobs.has(store.name)) return true
    if ([...this.#threads].some((thread) => thread.worksOn(store.name))) return false
    return !this.#options.isSandboxed(design.language)
  }

  async #locally({ store: { name } }: IndexPlace, work: (local: IndexRunner) => Promise<void>): Promise<void> {
    this.#localJobs.set(name, (this.#localJobs.get(name) ?? 0) + 1)
    try {
      await work(this.#options.local)
    } finally {
      const left = (this.#localJobs.get(name) ?? 1) - 1
      if (left === 0) this.#localJobs.delete(name)
      else this.#localJobs.set(name, left)
    }
  }

  /** The one that works on the index already; else one without work, or a new one, or that with the least. */
  #threadFor(index: string): Thread {
    const threads = [...this.#threads]
    const busyWithIt = threads.find((thread) => thread.worksOn(index))
    if (busyWithIt) return busyWithIt
    const least = threads.reduce<Thread | undefined>((a, b) => (a && a.load <= b.load ? a : b), undefined)
    if (least && (least.load === 0 || threads.length >= availableParallelism())) return least
    return this.#start()
  }

  #start(): Thread {
    const thread = new Thread(this.#options, () => this.#threads.delete(thread))
    this.#threads.add(thread)
    return thread
  }
}

interface JobListener {
  readonly onProgress?: (progress: UpdateProgress) => void
  readonly onShare?: (done: number) => void
}

interface RunningJob extends JobListener {
  readonly index: string
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

class Thread {
  readonly #options: ThreadSurroundings
  readonly #worker: Worker
  readonly #jobs = new Map<number, RunningJob>()
  readonly #exited: Promise<void>
  #lastJob = 0
  #idle: NodeJS.Timeout | undefined
  /** Files change their places in the order in which that is told. */
  #moving: Promise<void> = Promise.resolve()

  readonly #onEnding: () => void

  /** Calls back when it can be given no more work. */
  constructor(options: ThreadSurroundings, onEnding: () => void) {
    this.#options = options
    this.#onEnding = onEnding
    const workerData: ThreadData = {
      databases: options.databases.place,
      indexes: options.indexes.place,
      settings: options.settings(),
      compiledFolder: compiledFolder(),
    }
    const file = new URL(`./index-thread${extname(import.meta.url)}`, import.meta.url)
    this.#worker = new Worker(file, { workerData, name: 'indexes' })
    this.#worker.unref()
    this.#worker.on('message', (message: FromThread) => this.#receive(message))
    this.#worker.on('error', (error) => {
      options.log.error('A thread of the indexes failed.', { error: String(error) })
    })
    this.#exited = new Promise((resolve) => {
      this.#worker.on('exit', () => {
        onEnding()
        clearTimeout(this.#idle)
        for (const { reject } of this.#jobs.values()) reject(new Error('The thread of the index ended.'))
        this.#jobs.clear()
        resolve()
      })
    })
  }

  get load(): number {
    return this.#jobs.size
  }

  worksOn(index: string): boolean {
    for (const job of this.#jobs.values()) if (job.index === index) return true
    return false
  }

  async do(job: IndexJob, signal: AbortSignal, listener: JobListener): Promise<void> {
    const number = ++this.#lastJob
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const giveUp = () => this.send({ type: 'abort', job: number, error: told(signal.reason) })
    signal.addEventListener('abort', giveUp)
    clearTimeout(this.#idle)
    this.#jobs.set(number, { ...listener, index: job.index.name, resolve, reject })
    this.send({ type: 'start', job: number, ...job })
    try {
      await promise
    } finally {
      signal.removeEventListener('abort', giveUp)
      this.#jobs.delete(number)
      if (this.#jobs.size === 0) this.#rest()
    }
  }

  /** Its processes may begin to start; if nothing comes of it, it ends after a while. */
  prepare(language: string): void {
    this.send({ type: 'prepare', language })
    this.#rest()
  }

  #rest(): void {
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => this.close(), IDLE_MS).unref()
  }

  send(message: ToThread): void {
    this.#worker.postMessage(message)
  }

  async close(): Promise<void> {
    this.#onEnding()
    // Who waits for its end keeps the process alive until then.
    this.#worker.ref()
    this.send({ type: 'close' })
    await this.#exited
  }

  #receive(message: FromThread): void {
    if (message.type === 'log') this.#options.log[message.level](message.message, message.details)
    else if (message.type === 'moved') this.#move(message.name, message.path)
    else if (message.type === 'updated') this.#jobs.get(message.job)?.onProgress?.(message.progress)
    else if (message.type === 'compacted') this.#jobs.get(message.job)?.onShare?.(message.share)
    else void this.#moving.then(() => this.#end(message.job, message.error && heard(message.error)))
  }

  /** Readers find the new file from here on; the old one goes in its own time. */
  #move(name: string, path: string): void {
    const moved = this.#options.indexes.moveTo(name, path)
    this.#moving = Promise.all([this.#moving, moved]).then(
      () => {},
      (error: unknown) => this.#options.log.error('An old file of an index stays.', { error: String(error) }),
    )
  }

  #end(job: number, error: Error | undefined): void {
    const running = this.#jobs.get(job)
    if (error) running?.reject(error)
    else running?.resolve()
  }
}

/** The library makes a folder for each of its versions inside of the one that it is given. */
function compiledFolder(): string | undefined {
  const folder = getCompileCacheDir()
  return folder && dirname(folder)
}
