/** Compacts one database in the background: one run at a time, shown as a task, and stopped when the database closes. */
import type { Log } from '../../runtime/log/log.ts'
import type { TaskRegistry } from '../../runtime/tasks.ts'

import {
  eitherSignal,
  type LeaseProof,
  leased,
  type WorkLease,
  type WorkLeases,
} from '../../storage/leases/work-leases.ts'
import { DatabaseView } from '../database-view.ts'
import type { DatabaseSizes } from '../layout/keys.ts'
import { type CompactedDatabase, compactDatabase } from './compaction.ts'

export interface CompactorOptions extends CompactedDatabase {
  readonly log: Log
  readonly tasks: TaskRegistry
  readonly onCompacted: () => void
  /** Aborted when the database closes. */
  readonly closing: AbortSignal
  readonly sizes: () => Promise<DatabaseSizes>
  /** Keeps the sizes after a compaction with the database, so that the next process knows them. */
  readonly remember: (sizes: DatabaseSizes, lease: LeaseProof | undefined) => Promise<void>
  /** Where other servers may compact it too. */
  readonly leases: WorkLeases | undefined
}

interface Run {
  /** Resolves when it is over, whether it succeeded or not. */
  readonly done: Promise<void>
  readonly cancelling: AbortController
}

export class Compactor {
  readonly #options: CompactorOptions
  #run: Run | undefined

  constructor(options: CompactorOptions) {
    this.#options = options
  }

  get isRunning(): boolean {
    return this.#run !== undefined
  }

  /** Whether this server or another one is compacting the database. */
  async isRunningAnywhere(): Promise<boolean> {
    return this.isRunning || ((await this.#options.leases?.isHeld(this.#lease)) ?? false)
  }

  /** Starts a run in the background, unless there is one. Resolves when every server knows of it. */
  async start(): Promise<void> {
    if (this.#run) return
    const { store, log, closing } = this.#options
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
    const cancelling = new AbortController()
    const signal = AbortSignal.any([cancelling.signal, closing])
    const { leases } = this.#options
    // Another server that is compacting it does all of the work.
    const done = leased(leases, this.#lease, (lease) => {
      begin()
      return this.#compact(eitherSignal(signal, lease), lease)
    })
      .then(() => {})
      .catch((error: unknown) => {
        if (store.dropped) return
        if (signal.aborted) log.info('A compaction was cancelled.', { database: store.name })
        else log.error('A compaction failed.', { database: store.name, error: String(error) })
      })
      .finally(() => {
        begin()
        this.#run = undefined
      })
    this.#run = { done, cancelling }
    await begun
  }

  /** Resolves when no compaction is running. */
  async idle(): Promise<void> {
    await this.#run?.done
  }

  /** Cancels the run, if there is one: the old file stays. Resolves when it is over. */
  async cancel(): Promise<void> {
    const run = this.#run
    run?.cancelling.abort(new Error('The compaction was cancelled.'))
    await run?.done
  }

  get #lease(): string {
    return `compaction of ${this.#options.store.name}`
  }

  async #compact(signal: AbortSignal, lease: WorkLease | undefined): Promise<void> {
    const { store, tasks, sizes } = this.#options
    const total = await this.#documentCount()
    const task = tasks.start({
      type: 'database_compaction',
      database: store.name,
      changes_done: 0,
      total_changes: total,
      progress: 0,
    })
    try {
      const onProgress = (done: number) => {
        task.update({ changes_done: done, progress: total === 0 ? 100 : Math.floor((100 * done) / total) })
      }
      await compactDatabase(this.#options, { total, signal, onProgress, lease: lease?.proof })
      this.#options.onCompacted()
      const { fileBytes, dataBytes } = await sizes()
      await this.#options.remember({ fileBytes, dataBytes }, lease?.proof)
    } finally {
      task.end()
    }
  }

  /** Tombstones included. */
  async #documentCount(): Promise<number> {
    using view = new DatabaseView(this.#options.store.snapshot())
    const { documentCount, deletedCount } = await view.state()
    return documentCount + deletedCount
  }
}
