/**
 * The work inside an index process: it opens files under leases of the server, has sandbox processes of its own for
 * user functions, and reports progress.
 */
import { DatabaseView } from '../../database/database-view.ts'
import { IDENTITY_KEY } from '../../database/layout/keys.ts'
import { createFunctions } from '../../functions/create-functions.ts'
import type { Log, MessageLevel } from '../../runtime/log/log.ts'
import { type BorrowedStore, BorrowedStores } from '../../storage/leases/borrowed-stores.ts'
import { StoreGoneError } from '../../storage/storage-error.ts'
import type { Store } from '../../storage/store.ts'
import { RunFiles } from '../building/run-files.ts'
import { updateIndex } from '../updating/index-update.ts'
import type { UpdateProgress } from '../updating/update-request.ts'
import {
  decodeError,
  encodeError,
  type FromProcess,
  type IndexJob,
  type ProcessSettings,
  type ToProcess,
} from './index-message.ts'

/** An index in use: an update and a compaction of one go through the same store. */
interface UsedIndex {
  readonly borrowed: BorrowedStore
  /** Jobs that work on it, and with those whose files are only kept open. */
  active: number
  users: number
}

/** The files of a job, kept open after it. */
interface Lingering {
  readonly index: string
  readonly end: () => void
}

/** How long files stay open: clients that write and query in turn find them open. */
const LINGER_MS = 1000
const MOST_LINGERING = 32

/** What is written between two queries mostly goes in one commit: a flush takes as long as some hundred changes. */
const COMMIT_CHANGES = 4000

/** How often progress without a new state is reported. */
const PROGRESS_MS = 100

export class IndexWork {
  #settings: ProcessSettings
  readonly #send: (message: FromProcess) => void
  readonly #databases = new BorrowedStores({ isReadOnly: true })
  readonly #indexes = new BorrowedStores()
  readonly #functions
  readonly #aborting = new Map<number, AbortController>()
  readonly #inUse = new Map<string, UsedIndex>()
  readonly #jobs = new Set<Promise<void>>()
  /** Resolve to what ends them. */
  readonly #pauses = new Map<number, Promise<() => void>>()
  /** In the order in which the jobs were done. */
  readonly #lingering = new Set<Lingering>()
  /** Requests to the server that are not answered yet. */
  readonly #asked = new Map<number, (path: string) => void>()
  #lastRequest = 0

  constructor(settings: ProcessSettings, send: (message: FromProcess) => void) {
    this.#settings = settings
    this.#send = send
    this.#functions = createFunctions({ settings: () => this.#settings.functions, log: logThrough(send) })
  }

  follow(message: Exclude<ToProcess, { readonly type: 'begin' | 'close' }>): void {
    if (message.type === 'start') this.#start(message.job, message)
    else if (message.type === 'abort') this.#aborting.get(message.job)?.abort(decodeError(message.error))
    else if (message.type === 'prepare') this.#functions.prepare(message.language)
    else if (message.type === 'settings') this.#settings = message.settings
    else if (message.type === 'pause') void this.#pause(message.index, message.pause)
    else if (message.type === 'resume') void this.#resume(message.pause)
    else if (message.type === 'ping') this.#send({ type: 'alive' })
    else this.#answered(message.request, message.type === 'path' ? message.path : '')
  }

  /** Ends all jobs and closes everything. */
  async close(): Promise<void> {
    for (const aborting of this.#aborting.values()) aborting.abort(new Error('The server is being closed.'))
    await Promise.all(this.#jobs)
    await this.#functions.close()
    await this.#indexes.close()
    await this.#databases.close()
  }

  #start(number: number, job: IndexJob): void {
    this.#send({ type: 'started', job: number })
    // It starts while files are opened and documents read.
    if (job.work === 'update') this.#functions.prepare(job.design.language)
    const aborting = new AbortController()
    this.#aborting.set(number, aborting)
    const work = this.#run(number, job, aborting.signal).finally(() => {
      this.#aborting.delete(number)
      this.#jobs.delete(work)
      this.#send({ type: 'closed', job: number })
    })
    this.#jobs.add(work)
  }

  #fail(job: number, error: unknown, signal: AbortSignal): void {
    const message = encodeError(error)
    // An unexpected error: its stack is only known here.
    if (message.kind === 'other' && !signal.aborted && error instanceof Error) {
      this.#send({ type: 'log', level: 'error', message: 'Work on an index failed.', details: { error: error.stack } })
    }
    this.#send({ type: 'done', job, error: message })
  }

  async #run(number: number, job: IndexJob, signal: AbortSignal): Promise<void> {
    try {
      const used = this.#use(job)
      await using _index = { [Symbol.asyncDispose]: () => this.#release(job.index.name, used) }
      await using database = await this.#openDatabase(number, job)
      // Files that other jobs kept open can be closed.
      for (const each of this.#lingering) if (each.index === job.index.name) each.end()
      used.active++
      try {
        await this.#work(number, job, used.borrowed.store, database.store, signal)
      } finally {
        used.active--
      }
      this.#send({ type: 'done', job: number })
      await this.#linger(job.index.name, signal)
    } catch (error) {
      this.#fail(number, error, signal)
    }
  }

  async #openDatabase(number: number, { database: { name, path } }: IndexJob): Promise<BorrowedStore> {
    if (this.#databases.isOpen(path)) return this.#databases.open(name, path)
    await this.#ask((request) => ({ type: 'opening', job: number, request }))
    try {
      return this.#databases.open(name, path)
    } finally {
      this.#send({ type: 'opened', job: number })
    }
  }

  /** The server starts no job on an index while it is paused. */
  async #pause(index: string, number: number): Promise<void> {
    const pausing = this.#inUse.get(index)?.borrowed.pauseCommits()
    if (pausing) this.#pauses.set(number, pausing)
    await pausing
    this.#send({ type: 'paused', pause: number })
  }

  async #resume(number: number): Promise<void> {
    const pausing = this.#pauses.get(number)
    this.#pauses.delete(number)
    const resume = await pausing
    resume?.()
  }

  async #work(number: number, job: IndexJob, index: Store, database: Store, signal: AbortSignal): Promise<void> {
    if (job.work === 'update') return this.#update(number, job, index, database, signal)
    await index.compact({
      signal,
      onProgress: (share) => this.#send({ type: 'compacted', job: number, share }),
    })
  }

  async #linger(index: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const lingering = { index, end: resolve }
    this.#lingering.add(lingering)
    const [first] = this.#lingering
    if (this.#lingering.size > MOST_LINGERING) first?.end()
    const timer = setTimeout(resolve, LINGER_MS)
    signal.addEventListener('abort', () => resolve(), { once: true })
    await promise
    clearTimeout(timer)
    this.#lingering.delete(lingering)
  }

  async #update(
    number: number,
    { database, index, design }: IndexJob,
    store: Store,
    source: Store,
    signal: AbortSignal,
  ): Promise<void> {
    await checkIdentity(source, database.uuid)
    await updateIndex({
      source: { uuid: database.uuid, view: () => new DatabaseView(source.snapshot()) },
      store,
      runs: new RunFiles(index.scratchFolder),
      sortBytes: this.#settings.sortBytes,
      commitChanges: COMMIT_CHANGES,
      design,
      functions: this.#functions,
      run: { owner: database.name, signal },
      onProgress: progressSender((progress) => this.#send({ type: 'updated', job: number, progress })),
    })
  }

  #use({ index: { name, path } }: IndexJob): UsedIndex {
    let used = this.#inUse.get(name)
    // While a job is moving it the server may not know the new path yet. Otherwise the path of the server counts.
    if (!used || (used.active === 0 && used.borrowed.path !== path)) {
      const borrowed = this.#indexes.open(name, path, {
        nextPath: () => this.#ask((request) => ({ type: 'next path', index: name, request })),
        moved: async (moved) => {
          await this.#ask((request) => ({ type: 'moved', index: name, request, path: moved }))
        },
      })
      used = { borrowed, active: 0, users: 0 }
      this.#inUse.set(name, used)
    }
    used.users++
    return used
  }

  async #release(name: string, used: UsedIndex): Promise<void> {
    if (--used.users > 0) return
    if (this.#inUse.get(name) === used) this.#inUse.delete(name)
    await used.borrowed[Symbol.asyncDispose]()
  }

  #ask(question: (request: number) => FromProcess): Promise<string> {
    const request = ++this.#lastRequest
    return new Promise((resolve) => {
      this.#asked.set(request, resolve)
      this.#send(question(request))
    })
  }

  #answered(request: number, path: string): void {
    this.#asked.get(request)?.(path)
    this.#asked.delete(request)
  }
}

/**
 * Passes progress on: each new state of the index at once, since readers may wait for it, other progress at intervals.
 * A message interrupts both processes.
 */
function progressSender(send: (progress: UpdateProgress) => void): (progress: UpdateProgress) => void {
  let lastAt = performance.now()
  let reached = 0
  return (progress) => {
    const now = performance.now()
    if (progress.updateSequence <= reached && now - lastAt < PROGRESS_MS) return
    lastAt = now
    reached = progress.updateSequence
    send(progress)
  }
}

/** The file must be that of the database. */
async function checkIdentity(store: Store, uuid: string): Promise<void> {
  using snapshot = store.snapshot()
  const stored = await snapshot.get(IDENTITY_KEY)
  if (!stored || JSON.parse(stored.toString()).uuid !== uuid) throw new StoreGoneError(store.name)
}

function logThrough(send: (message: FromProcess) => void): Log {
  const write = (level: MessageLevel) => (message: string, details?: object) =>
    send({ type: 'log', level, message, ...(details && { details }) })
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}
