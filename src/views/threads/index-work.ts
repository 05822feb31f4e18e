/**
 * What a thread of the indexes does: it opens the files of databases and indexes itself, has processes of its own for user
 * functions, and tells how far it is.
 */
import { DatabaseView } from '../../database/database-view.ts'
import { IDENTITY_KEY } from '../../database/keys.ts'
import { createFunctions } from '../../functions/create-functions.ts'
import type { Log, MessageLevel } from '../../runtime/log.ts'
import { SharedStores } from '../../storage/shared-stores.ts'
import { StoreGoneError } from '../../storage/storage-error.ts'
import type { Store } from '../../storage/store.ts'
import { RunFiles } from '../building/run-files.ts'
import { updateIndex } from '../index-update.ts'
import {
  type FromThread,
  heard,
  type IndexJob,
  type ThreadData,
  type ThreadSettings,
  type ToThread,
  told,
} from './index-message.ts'

export class IndexWork {
  #settings: ThreadSettings
  readonly #tell: (message: FromThread) => void
  readonly #databases: SharedStores
  readonly #indexes: SharedStores
  readonly #functions
  readonly #aborting = new Map<number, AbortController>()
  /** Indexes in use: an update and a compaction of one go through the same store. */
  readonly #inUse = new Map<string, { readonly store: Store; readonly close: () => void; users: number }>()
  readonly #jobs = new Set<Promise<void>>()

  constructor({ databases, indexes, settings }: ThreadData, tell: (message: FromThread) => void) {
    this.#tell = tell
    this.#databases = new SharedStores(databases, () => {})
    this.#indexes = new SharedStores(indexes, (name, path) => tell({ type: 'moved', name, path }))
    this.#settings = settings
    this.#functions = createFunctions({ settings: () => this.#settings.functions, log: logThrough(tell) })
  }

  follow(message: Exclude<ToThread, { readonly type: 'close' }>): void {
    if (message.type === 'start') this.#start(message.job, message)
    else if (message.type === 'abort') this.#aborting.get(message.job)?.abort(heard(message.error))
    else if (message.type === 'prepare') this.#functions.prepare(message.language)
    else this.#settings = message.settings
  }

  #start(number: number, job: IndexJob): void {
    // It starts while files are opened and documents read.
    if (job.work === 'update') this.#functions.prepare(job.design.language)
    const aborting = new AbortController()
    this.#aborting.set(number, aborting)
    const work = this.#run(number, job, aborting.signal)
      .then(
        () => this.#tell({ type: 'done', job: number }),
        (error: unknown) => this.#fail(number, error, aborting.signal),
      )
      .finally(() => {
        this.#aborting.delete(number)
        this.#jobs.delete(work)
      })
    this.#jobs.add(work)
  }

  /** Ends all jobs and closes everything. */
  async close(): Promise<void> {
    for (const aborting of this.#aborting.values()) aborting.abort(new Error('The server is being closed.'))
    await Promise.all(this.#jobs)
    await this.#functions.close()
    await this.#indexes.close()
    await this.#databases.close()
  }

  #fail(job: number, error: unknown, signal: AbortSignal): void {
    const message = told(error)
    // What nobody foresaw: where it happened can be told here only.
    if (message.kind === 'other' && !signal.aborted && error instanceof Error) {
      this.#tell({ type: 'log', level: 'error', message: 'Work on an index failed.', details: { error: error.stack } })
    }
    this.#tell({ type: 'done', job, error: message })
  }

  async #run(number: number, job: IndexJob, signal: AbortSignal): Promise<void> {
    const { store, release } = this.#use(job)
    try {
      if (job.work === 'update') await this.#update(number, job, store, signal)
      else {
        const onProgress = (share: number) => this.#tell({ type: 'compacted', job: number, share })
        await store.compact({ signal, onProgress })
      }
    } finally {
      release()
    }
  }

  async #update(
    number: number,
    { database, index, design }: IndexJob,
    store: Store,
    signal: AbortSignal,
  ): Promise<void> {
    using opened = this.#databases.open(database.name, database.path)
    await checkIdentity(opened.store, database.uuid)
    await updateIndex({
      source: { uuid: database.uuid, view: () => new DatabaseView(opened.store.snapshot()) },
      store,
      runs: new RunFiles(index.scratchFolder),
      sortBytes: this.#settings.sortBytes,
      design,
      functions: this.#functions,
      run: { owner: database.name, signal },
      onProgress: (progress) => this.#tell({ type: 'updated', job: number, progress }),
    })
  }

  #use({ index: { name, path } }: IndexJob): { readonly store: Store; release(): void } {
    let used = this.#inUse.get(name)
    if (!used) {
      const shared = this.#indexes.open(name, path)
      used = { store: shared.store, close: () => shared[Symbol.dispose](), users: 0 }
      this.#inUse.set(name, used)
    }
    const { store } = used
    used.users++
    return { store, release: () => this.#release(name) }
  }

  #release(name: string): void {
    const used = this.#inUse.get(name)
    if (!used || --used.users > 0) return
    this.#inUse.delete(name)
    used.close()
  }
}

/** The file may be that of another database by now, or an empty one. */
async function checkIdentity(store: Store, uuid: string): Promise<void> {
  using snapshot = store.snapshot()
  const stored = await snapshot.get(IDENTITY_KEY)
  if (!stored || JSON.parse(stored.toString()).uuid !== uuid) throw new StoreGoneError(store.name)
}

function logThrough(tell: (message: FromThread) => void): Log {
  const write = (level: MessageLevel) => (message: string, details?: object) =>
    tell({ type: 'log', level, message, ...(details && { details }) })
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}
