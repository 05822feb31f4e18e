/**
 * The writer of one database. Edits that arrive while a commit is under way are decided and committed together, so one fsync
 * serves them all. An edit is answered when its commit is on disk. Work that needs the database to itself, such as a purge,
 * waits its turn in the same queue.
 */
import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { isDesignId } from '../../document/ids.ts'
import { RequestError } from '../../document/request-error.ts'
import { freeBytes } from '../../encoding/bytes/byte-sink.ts'
import { Metrics } from '../../runtime/metrics.ts'
import type { LeaseProof } from '../../storage/leases/work-leases.ts'
import type { RankTree } from '../../storage/rank-tree/rank-tree.ts'
import { freeRows, operationCount } from '../../storage/rows/packed-rows.ts'
import {
  EngineUnavailableError,
  LeaseLostError,
  StorageError,
  ValueTooLargeError,
} from '../../storage/storage-error.ts'
import { type Changes, COMMIT_OPERATIONS_LIMIT, type Put, type Snapshot, type Store } from '../../storage/store.ts'
import { type DatabaseState, encodeState, STATE_KEY, stateOf } from '../layout/keys.ts'
import { type DocumentEdit, type EditOutcome, TooManyOperationsError, writeInPortions } from './edit.ts'
import { planBatch } from './edit-batch.ts'

/** The plan of exclusive work: what to commit, and its result. */
export interface ExclusivePlan<T> {
  readonly changes: Changes
  readonly state: DatabaseState
  readonly result: T
  /** The ids of changed documents; omitted where the work is not about documents. */
  readonly written?: readonly string[]
  /** The numbers of attachments that new revisions refer to. */
  readonly attachments?: readonly number[]
  /** Contents of attachments among the changes. Nobody else uses them: their memory is freed when they are on disk. */
  readonly contents?: readonly Uint8Array[]
}

/** Called before a commit with the numbers of attachments that its revisions refer to. */
export type ReferenceListener = (attachments: readonly number[]) => void

export type ReferenceCheck = (snapshot: Snapshot, attachments: readonly number[], puts: readonly Put[]) => Promise<void>

/** Called after a commit, with the ids of the documents if it wrote any. */
export type CommitListener = (state: DatabaseState, written: readonly string[] | undefined) => void

/** Called with a state that another server committed, before edits are decided on it. */
export type OthersListener = (state: DatabaseState) => void

/** Whether the checks made before the edits were queued hold in the state that they are decided on. */
export type StillHolds = (snapshot: Snapshot, state: DatabaseState) => boolean | Promise<boolean>

/** Called with a state of the database; may be called again with a newer one. */
export type ExclusiveWork<T> = (snapshot: Snapshot, state: DatabaseState) => Promise<ExclusivePlan<T>>

/** How edits are to be written. */
export interface WriteOptions {
  /** Of the work that they belong to: once another server has it, nothing is written. */
  readonly lease?: LeaseProof | undefined
  /**
   * Called when the edits are decided and the disk is all that is waited for, so that the processor has time to prepare
   * the next ones. Called again if edits are decided again or in portions, and not at all if nothing is to be written.
   */
  readonly onFlushing?: (() => void) | undefined
}

interface CommitOptions extends WriteOptions {
  /** Whether the plan may be made for a state that turns out to be an old one: it is then dropped, and made again. */
  readonly plansEarly?: boolean
  /** Called when the state is there and the plan is about to be made: it may take in what came meanwhile. */
  readonly onPlanning?: (() => void) | undefined
}

interface WaitingEdits {
  readonly kind: 'edits'
  readonly edits: readonly DocumentEdit[]
  readonly bytes: number
  readonly stillHolds: StillHolds | undefined
  readonly options: WriteOptions
  readonly resolve: (outcomes: EditOutcome[] | 'outdated') => void
  readonly reject: (error: unknown) => void
}

interface WaitingExclusive {
  readonly kind: 'exclusive'
  readonly run: () => Promise<void>
}

/** Limits on one batch beyond its first request. Several queued bulk requests share a flush. */
const BATCH_DOCUMENTS = 4000
const BATCH_BYTES = 16 * 1024 * 1024

/** Limit on all queued edits; beyond it writes get 503. */
const WAITING_BYTES = 512 * 1024 * 1024

/** Attempts of a commit while other servers commit first. */
const STALE_RETRIES = 100
const LONGEST_PAUSE_MS = 30
/** Commits in turns after one in which another server was met. */
const TURNS_AFTER_MEETING = 8

export interface WriteQueueOptions {
  readonly onCommitted: CommitListener
  readonly onReference?: ReferenceListener
  /** Where other servers may have removed attachments: throws where one that a revision refers to is missing. */
  readonly checkReferences?: ReferenceCheck | undefined
  /** Given where other servers write too. */
  readonly onOthers?: OthersListener | undefined
  /** Shared by all databases. */
  readonly metrics?: WriteMetrics | undefined
}

export class WriteQueue {
  readonly #store: Store
  readonly #ranks: RankTree
  readonly #metrics: WriteMetrics
  readonly #onCommitted: CommitListener
  readonly #onReference: ReferenceListener
  readonly #checkReferences: ReferenceCheck | undefined
  readonly #onOthers: OthersListener | undefined
  readonly #waiting: (WaitingEdits | WaitingExclusive)[] = []
  #waitingBytes = 0
  #running: Promise<void> | undefined
  /** The state after the last commit from here. A commit of another server makes another version of the store. */
  #last: { readonly version: number; readonly state: DatabaseState } | undefined
  /** How many commits are still to be made in turns with other servers, until one of them is met again. */
  #turns = 0

  constructor(store: Store, ranks: RankTree, options: WriteQueueOptions) {
    const { onCommitted, onReference = () => {}, onOthers, metrics } = options
    this.#store = store
    this.#ranks = ranks
    this.#onCommitted = onCommitted
    this.#onReference = onReference
    this.#checkReferences = options.checkReferences
    this.#onOthers = onOthers
    this.#metrics = metrics ?? new WriteMetrics()
  }

  /** Resolves, when they are on disk, to the outcomes of the edits in their order. */
  write(edits: readonly DocumentEdit[], options: WriteOptions = {}): Promise<EditOutcome[]> {
    return writeInPortions(edits, async (portion) => {
      const written = await this.#enqueue(portion, undefined, options)
      assert(written !== 'outdated')
      return written
    })
  }

  /** The same for one portion. Writes nothing if `stillHolds` returns false when its turn comes. */
  writeIf(
    edits: readonly DocumentEdit[],
    stillHolds: StillHolds,
    options: WriteOptions = {},
  ): Promise<EditOutcome[] | 'outdated'> {
    return this.#enqueue(edits, stillHolds, options)
  }

  #enqueue(
    edits: readonly DocumentEdit[],
    stillHolds: StillHolds | undefined,
    options: WriteOptions,
  ): Promise<EditOutcome[] | 'outdated'> {
    if (edits.length === 0) return Promise.resolve([])
    const bytes = edits.reduce((sum, { body }) => sum + body.length, 0)
    if (this.#waitingBytes > 0 && this.#waitingBytes + bytes > WAITING_BYTES) return Promise.reject(tooManyWaiting())
    this.#waitingBytes += bytes
    this.#metrics.waiting++
    this.#metrics.waitingBytes += bytes
    return new Promise((resolve, reject) => {
      this.#waiting.push({ kind: 'edits', edits, bytes, stillHolds, options, resolve, reject })
      this.#running ??= this.#run()
    })
  }

  /** Runs alone: no other write is between the state it sees and its commit. */
  async exclusive<T>(work: ExclusiveWork<T>, lease?: LeaseProof): Promise<T> {
    return new Promise((resolve, reject) => {
      const run = () => this.#commit(work, { lease }).then(resolve, reject)
      this.#waiting.push({ kind: 'exclusive', run })
      this.#running ??= this.#run()
    })
  }

  /** Resolves when everything queued so far is done. */
  async idle(): Promise<void> {
    await this.#running
  }

  async #run(): Promise<void> {
    // Requests that arrive in this turn of the event loop belong to the first batch.
    await Promise.resolve()
    for (let next = this.#waiting[0]; next; next = this.#waiting[0]) {
      if (next.kind === 'exclusive') {
        this.#waiting.shift()
        await next.run()
      } else {
        const batch: WaitingEdits[] = []
        this.#gather(batch)
        await this.#writeTogether(batch, () => this.#gather(batch))
        for (const { bytes } of batch) this.#done(bytes)
      }
    }
    this.#running = undefined
  }

  #done(bytes: number): void {
    this.#waitingBytes -= bytes
    this.#metrics.waiting--
    this.#metrics.waitingBytes -= bytes
  }

  /** Adds to a batch what waits and belongs to it, as much as there is room for. */
  #gather(batch: WaitingEdits[]): void {
    let documents = batch.reduce((sum, { edits }) => sum + edits.length, 0)
    let bytes = batch.reduce((sum, each) => sum + each.bytes, 0)
    for (let next = this.#waiting[0]; next?.kind === 'edits'; next = this.#waiting[0]) {
      documents += next.edits.length
      bytes += next.bytes
      const [first] = batch
      // Edits under another lease are committed, or refused, in a batch of their own.
      if (first && !isSameLease(next.options.lease, first.options.lease)) return
      if (first && (documents > BATCH_DOCUMENTS || bytes > BATCH_BYTES)) return
      batch.push(next)
      this.#waiting.shift()
    }
  }

  /** Never throws: errors go to the callers. */
  async #writeTogether(batch: readonly WaitingEdits[], onPlanning?: () => void): Promise<void> {
    const onFlushing = () => {
      for (const { options } of batch) options.onFlushing?.()
    }
    try {
      const outcomes = await this.#commit(
        async (snapshot, state) => {
          const holding: boolean[] = []
          for (const { stillHolds } of batch) {
            const answer = stillHolds?.(snapshot, state) ?? true
            holding.push(typeof answer === 'boolean' ? answer : await answer)
          }
          const requests = batch.map(({ edits }, i) => (holding[i] ? edits : []))
          const plan = await planBatch(snapshot, state, requests, this.#ranks)
          return { ...plan, result: plan.outcomes.map((each, i) => (holding[i] ? each : 'outdated')) }
        },
        { lease: batch[0]?.options.lease, onFlushing, plansEarly: this.#store.sharing !== undefined, onPlanning },
      )
      for (const [i, { resolve }] of batch.entries()) resolve(outcomes[i]!)
    } catch (error) {
      // The failure may be due to one request: the others are tried alone. A failing disk fails them all.
      const isOfOne = error instanceof LeaseLostError || error instanceof ValueTooLargeError
      if (batch.length > 1 && (isOfOne || !(error instanceof StorageError)))
        for (const each of batch) await this.#writeTogether([each])
      else for (const { reject } of batch) reject(error)
    }
  }

  async #commit<T>(plan: ExclusiveWork<T>, options: CommitOptions): Promise<T> {
    const { lease, onFlushing, plansEarly, onPlanning } = options
    for (let tries = 0; tries < STALE_RETRIES; tries++) {
      // Not the optimistic way where others commit too: what is decided would be refused again and again.
      using turn = this.#turns > 0 ? this.#store.sharing?.turn?.() : undefined
      // A random pause keeps servers that write at the same time from colliding again and again.
      if (tries > 2 && !turn) await pause(Math.random() * Math.min(LONGEST_PAUSE_MS, 2 ** tries))
      const beganMs = performance.now()
      using snapshot = turn?.snapshot ?? this.#store.snapshot()
      const last = this.#last
      // Nearly always the last commit was made from here. The plan is then begun with the read of the version, not after it.
      const early = plansEarly && !turn && last && tries === 0 ? plan(snapshot, last.state) : undefined
      early?.catch(() => {})
      const [version, read] = await Promise.all([snapshot.version(), turn && readState(snapshot)])
      const before = last?.version === version ? last.state : (read ?? (await readState(snapshot)))
      if (last?.version !== version) this.#onOthers?.(before)
      this.#turns = last && last.version !== version ? TURNS_AFTER_MEETING : Math.max(0, this.#turns - 1)
      if (turn) onPlanning?.()
      const planning = (last?.version === version ? early : undefined) ?? plan(snapshot, before)
      const { changes, state: planned, result, written, attachments, contents = [] } = await planning
      const state = written?.some(isDesignId) ? { ...planned, designsAt: planned.updateSequence } : planned
      const operations = operationCount(changes)
      if (operations === 0 && state === before) return result
      // One operation is left for the state of the database.
      if (operations >= COMMIT_OPERATIONS_LIMIT) throw new TooManyOperationsError()
      if (attachments && attachments.length > 0)
        await this.#checkReferences?.(snapshot, attachments, changes.puts ?? [])
      // In a turn the commit is made where the state was read.
      if (!turn) snapshot.release()
      // Before the commit, not after it: a commit that fails may still be on disk.
      if (attachments && attachments.length > 0) this.#onReference(attachments)
      const puts = [...(changes.puts ?? []), [STATE_KEY, encodeState(state)] as const]
      const flushBeganMs = performance.now()
      const committing = (turn ?? this.#store).commit({ ...changes, puts, expected: version, lease })
      onFlushing?.()
      const committed = await committing.catch((error: unknown) => {
        if (!this.#store.dropped && !(error instanceof LeaseLostError)) this.#metrics.failed(error, this.#store.name)
        throw error
      })
      if (changes.packed && !this.#store.keepsValues) freeRows(changes.packed)
      if (committed.outcome === 'committed') {
        if (!this.#store.keepsValues) for (const content of contents) freeBytes(content)
        this.#last = { version: committed.version, state }
        this.#metrics.committed(written?.length ?? 0, beganMs, flushBeganMs)
        this.#onCommitted(state, written)
        return result
      }
      this.#metrics.refused.add()
      this.#turns = TURNS_AFTER_MEETING
    }
    throw new RequestError(
      'unavailable',
      'service_unavailable',
      'Other servers kept committing first; try again later.',
    )
  }
}

async function readState(snapshot: Snapshot): Promise<DatabaseState> {
  return stateOf(await snapshot.get(STATE_KEY))
}

/** Numbers of grants are those of an engine. */
function isSameLease(a: LeaseProof | undefined, b: LeaseProof | undefined): boolean {
  return a?.fence === b?.fence && a?.engine === b?.engine
}

function tooManyWaiting(): RequestError {
  return new RequestError('unavailable', 'service_unavailable', 'Too many writes are waiting; try again later.')
}

/** What the write queues of all databases measure together. */
export class WriteMetrics {
  readonly commits
  readonly failures
  readonly refused
  readonly documents
  readonly commitTimes
  readonly flushTimes
  /** Requests that wait for their commit, including the one under way, and the bytes of their documents. */
  waiting = 0
  waitingBytes = 0
  /**
   * Whether the last commit failed, and when: a disk that is full fails them all. Not where its value was too large, nor where
   * the engine was away, which is found out by asking it.
   */
  lastFailure: { readonly reason: string; readonly atMs: number } | undefined
  readonly #countsFor: (database: string) => boolean

  /** `countsFor` is false for databases whose failures say nothing of the server itself. */
  constructor(metrics: Metrics = new Metrics(), countsFor: (database: string) => boolean = () => true) {
    this.#countsFor = countsFor
    this.commits = metrics.counter('couchdb_commits_total', 'commits of databases')
    this.failures = metrics.counter('settle_commit_failures_total', 'commits of databases that failed')
    this.refused = metrics.counter(
      'settle_commit_conflicts_total',
      'commits of databases that were decided again, since another server committed first',
    )
    this.documents = metrics.counter('couchdb_document_writes_total', 'documents that commits of databases wrote')
    this.commitTimes = metrics.histogram(
      'settle_commit_duration_seconds',
      'time of a commit: read what is there, decide, write, flush',
    )
    this.flushTimes = metrics.histogram('settle_flush_duration_seconds', 'time until a commit is on disk')
    metrics.gauge('settle_write_queue_requests', 'writes that wait for their commit', () => this.waiting)
    metrics.gauge('settle_write_queue_bytes', 'bytes of documents that wait for their commit', () => this.waitingBytes)
  }

  committed(documents: number, beganMs: number, flushBeganMs: number): void {
    const nowMs = performance.now()
    this.commits.add()
    this.documents.add(documents)
    this.commitTimes.observe(nowMs - beganMs)
    this.flushTimes.observe(nowMs - flushBeganMs)
    this.lastFailure = undefined
  }

  failed(error: unknown, database: string): void {
    this.failures.add()
    const isOfOne = error instanceof ValueTooLargeError || error instanceof EngineUnavailableError
    if (isOfOne || !this.#countsFor(database)) return
    this.lastFailure = { reason: error instanceof Error ? error.message : String(error), atMs: performance.now() }
  }
}
