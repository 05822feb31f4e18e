/**
 * One index and the readers that wait for it. If the index is recent enough a reader takes it as it is. All others share one
 * update run, and each is served with the first state that is recent enough. If the run fails, they all fail.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { DatabaseView } from '../database/database-view.ts'
import type { DatabaseState } from '../database/layout/keys.ts'
import { isDesignId } from '../document/ids.ts'
import type { Functions } from '../functions/functions.ts'
import type { Log } from '../runtime/log/log.ts'
import type { TaskRegistry } from '../runtime/tasks.ts'
import { SALT_BYTES } from '../storage/rank-tree/rank-tree.ts'
import { HeldStates } from '../storage/snapshots/renewable-snapshot.ts'
import { StoreGoneError, StoreMissingError } from '../storage/storage-error.ts'
import type { SharedSnapshot, Snapshot } from '../storage/store.ts'
import type { ViewDesign } from './design/view-design.ts'
import { type IndexState, StateReader, type ViewTree, viewTrees } from './layout/index-state.ts'
import type { Client, Freshness, IndexInformation, IndexSizes, OpenIndex } from './reading/open-index.ts'
import { PublishedIndex, RecentState } from './reading/published-index.ts'
import { hasReached, isAtLeast, isSame, type Reached } from './reading/reached.ts'
import type { ReadChanges } from './updating/batch-reader.ts'
import { firstChanges } from './updating/changed-documents.ts'
import type { IndexPlace, IndexRunner } from './updating/index-runner.ts'
import type { IndexBehind, UpdateProgress } from './updating/update-request.ts'

export interface IndexServices {
  readonly runner: IndexRunner
  readonly functions: Functions
  readonly tasks: TaskRegistry
  readonly log: Log
}

/** An index as it was read, to be released. */
interface ReadIndex {
  readonly snapshot: SharedSnapshot
  readonly state: IndexState | undefined
  readonly version: number
}

interface Waiter {
  readonly required: Reached
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

const NO_SALT = Buffer.alloc(SALT_BYTES).toString('hex')

export class ViewIndex {
  readonly place: IndexPlace
  readonly #services: IndexServices
  readonly #held: HeldStates
  readonly #waiting = new Set<Waiter>()
  readonly #ending = new AbortController()
  readonly #state: StateReader
  readonly #recent = new RecentState()
  #running: { readonly done: Promise<void>; readonly cancelling: AbortController } | undefined
  /** Whether it is worked on for those alone who wait for it: no design document has it. */
  #isDetached = false
  /** What a run that begins now has to do, as far as the last reader knew. */
  #changesToCome = 0
  #compacting: { readonly done: Promise<void>; readonly cancelling: AbortController } | undefined
  /** The sizes right after the last compaction, if there was one. */
  #compactedTo: IndexSizes | undefined
  /** What it had reached when it was last read. */
  #lastSequence: number | undefined
  #trees: { readonly salt: string; readonly trees: readonly ViewTree[] } | undefined

  constructor(place: IndexPlace, services: IndexServices) {
    this.place = place
    this.#services = services
    this.#held = new HeldStates(place.store)
    this.#state = new StateReader(place.database.uuid)
  }

  /** The state that was read last, if that is fresh enough: nothing has to be read for it. */
  atHand(freshness: Freshness): OpenIndex | undefined {
    const { store, database } = this.place
    const recent = this.#recent.current
    if (!recent || store.dropped || this.#ending.signal.aborted) return undefined
    if (freshness !== 'stale') {
      const latest = database.knownState
      if (!latest || !isSame(recent.state, latest)) return undefined
    }
    return this.#publishedAs(recent.snapshot.share(), recent.state)
  }

  /** Of the design document that it was opened for. */
  get id(): string {
    return this.place.design.id
  }

  /** Changes of the database that it does not have, as far as is known without reading; undefined before its first use. */
  get lag(): number | undefined {
    const latest = this.place.database.lastState
    if (!latest || this.#lastSequence === undefined) return undefined
    return Math.max(0, latest.updateSequence - this.#lastSequence)
  }

  get isUpdating(): boolean {
    return this.#running !== undefined
  }

  get isBusy(): boolean {
    return this.isUpdating || this.#compacting !== undefined
  }

  async open(freshness: Freshness, client?: Client): Promise<OpenIndex> {
    if (freshness === 'stale') return this.#published()
    using held = new DisposableStack()
    const { store, database } = this.place
    const view = store.sharing ? held.use(database.view()) : undefined
    const changes = view && this.#changesIn(view)
    const [required, first] = await this.#compared(view)
    for (let read = first; ; read = await this.#read()) {
      let index = this.#publishedAs(read.snapshot, read.state)
      let latest: Reached = required
      const isOfOneMoment = view && read === first
      // It is ahead of what was asked for; of the database it cannot be, unless that was put back to an older state.
      if (!isOfOneMoment && index.updateSequence > required.updateSequence) {
        ;[latest, index] = await this.#besideDatabase(index)
      }
      if (hasReached(index, required, latest)) return index
      this.#changesToCome = changesBetween(index, required)
      const behind = isOfOneMoment
        ? { ...read, snapshot: read.snapshot.share(), view, database: required, changes }
        : undefined
      // From now on the run has them.
      if (behind) held.move()
      if (freshness === 'update after') {
        this.#startRun(behind)
        return index
      }
      index.release()
      await this.#reach(required, client?.signal, behind)
    }
  }

  async information(): Promise<IndexInformation> {
    const { design } = this.place
    using index = await this.#published()
    const elsewhere = await this.#services.runner.workElsewhere?.(this.place)
    return {
      signature: design.signature,
      language: design.language,
      updateSequence: index.updateSequence,
      purgeSequence: index.purgeSequence,
      ...(await this.#sizes()),
      compactedTo: this.#compactedTo,
      isUpdating: this.isUpdating || (elsewhere?.isUpdating ?? false),
      isCompacting: this.#compacting !== undefined || (elsewhere?.isCompacting ?? false),
      waitingClients: this.#waiting.size,
    }
  }

  /** Begins to compact in the background, unless it is being done. Resolves when every server knows of it. */
  async compact(): Promise<void> {
    if (this.#compacting) return
    const cancelling = new AbortController()
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
    const done = this.#compact(AbortSignal.any([cancelling.signal, this.#ending.signal]), begin).finally(() => {
      begin()
      this.#compacting = undefined
    })
    this.#compacting = { done, cancelling }
    if (this.place.store.sharing) await begun
  }

  /** Resolves when no compaction is running. */
  async compacted(): Promise<void> {
    await this.#compacting?.done
  }

  /** Gives up the compaction that is running, if any. Resolves when it is over. */
  async cancelCompaction(): Promise<void> {
    this.#compacting?.cancelling.abort(new Error('The compaction was cancelled.'))
    await this.compacted()
  }

  /** No design document has it any more, or none ever had: it is not brought up to date unless somebody waits for that. */
  detach(): void {
    this.#isDetached = true
    this.#stopIfUnwanted()
  }

  get isDetached(): boolean {
    return this.#isDetached
  }

  /** A design document has it. */
  attach(): void {
    this.#isDetached = false
  }

  /** Resolves when nobody waits for the index and nothing is being done with it. */
  async idle(): Promise<void> {
    while (this.isBusy) {
      await Promise.all([this.#running?.done, this.compacted()])
      // Who waited goes on first, and may ask for more.
      await nextTurn()
    }
  }

  /** Everybody who waits gets the error; resolves when all work is over. */
  async end(error: Error): Promise<void> {
    this.#ending.abort(error)
    this.#fail(error)
    await Promise.all([this.#running?.done, this.compacted()])
  }

  async #sizes(): Promise<IndexSizes> {
    const { fileBytes, usedBytes } = await this.place.store.sizes()
    return { fileBytes, dataBytes: Math.min(usedBytes, fileBytes) }
  }

  /** With a view both states are of one moment: what is read in one turn is read in one transaction. */
  async #compared(view: DatabaseView | undefined): Promise<[DatabaseState, ReadIndex]> {
    const { database } = this.place
    if (!view) return [await database.latestState(), await this.#read()]
    const reading = this.#read()
    try {
      return await Promise.all([database.stateIn(view), reading])
    } catch (error) {
      reading.then(
        ({ snapshot }) => snapshot.release(),
        () => {},
      )
      throw error
    }
  }

  /** Where it is known that the index is behind, changes are read together with the states. */
  #changesIn({ snapshot }: DatabaseView): ReadChanges | undefined {
    const since = this.#lastSequence
    if (!this.lag || since === undefined || this.#running) return undefined
    const firstPage = firstChanges(snapshot, since)
    // Who needs them gets the error.
    firstPage.catch(() => {})
    return { since, firstPage }
  }

  async #published(): Promise<PublishedIndex> {
    const { snapshot, state } = await this.#read()
    return this.#publishedAs(snapshot, state)
  }

  /** Its snapshot must be released. */
  async #read(): Promise<ReadIndex> {
    const { store } = this.place
    this.#ending.signal.throwIfAborted()
    const snapshot = store.snapshot()
    try {
      const state = await this.#state.read(snapshot)
      // Everybody who comes soon counts in it.
      const version = await snapshot.version()
      this.#ending.signal.throwIfAborted()
      this.#lastSequence = state?.updateSequence ?? 0
      // Where others write too, nobody knows without looking whether a state is recent.
      if (state && !store.sharing) this.#recent.keep({ snapshot: snapshot.share(), state })
      return { snapshot, state, version }
    } catch (error) {
      snapshot.release()
      throw error
    }
  }

  #publishedAs(snapshot: Snapshot, state: IndexState | undefined): PublishedIndex {
    const trees = this.#treesOf(state?.salt ?? NO_SALT)
    return new PublishedIndex(snapshot, this.#held, state, { design: this.place.design, trees })
  }

  /** Kept from query to query: they learn where boundaries are. */
  #treesOf(salt: string): readonly ViewTree[] {
    const { design, database, memory } = this.place
    const { functions } = this.#services
    if (this.#trees?.salt !== salt) {
      this.#trees = { salt, trees: viewTrees(design, salt, functions, { owner: database.name }, memory) }
    }
    return this.#trees.trees
  }

  /** How far the database is beside an index. Where a state takes a connection, nobody waits for one while they have another. */
  async #besideDatabase(index: PublishedIndex): Promise<[Reached, PublishedIndex]> {
    const { store, database } = this.place
    if (!store.sharing) return [await releasedOnError(index, () => database.latestState()), index]
    index.release()
    using view = database.view()
    const [latest, { snapshot, state }] = await this.#compared(view)
    return [latest, this.#publishedAs(snapshot, state)]
  }

  /** Resolves when a state may be new enough. */
  async #reach(required: Reached, signal: AbortSignal | undefined, behind: IndexBehind | undefined): Promise<void> {
    if (signal?.aborted || this.#ending.signal.aborted) release(behind)
    signal?.throwIfAborted()
    this.#ending.signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiter: Waiter = { required, resolve, reject }
    const giveUp = () => reject(signal?.reason)
    signal?.addEventListener('abort', giveUp)
    this.#waiting.add(waiter)
    this.#startRun(behind)
    try {
      await promise
    } finally {
      this.#waiting.delete(waiter)
      signal?.removeEventListener('abort', giveUp)
      if (signal?.aborted) this.#stopIfUnwanted()
    }
  }

  #stopIfUnwanted(): void {
    const isForWaiters = this.#isDetached || this.#services.runner.isElsewhere
    if (isForWaiters && this.#waiting.size === 0) {
      this.#running?.cancelling.abort(new Error('No client waits for the index.'))
    }
  }

  /** Takes ownership of what was found behind. */
  #startRun(behind?: IndexBehind): void {
    if (this.#running) {
      release(behind)
      return
    }
    const cancelling = new AbortController()
    const done = this.#run(cancelling.signal, behind).finally(() => {
      this.#running = undefined
      // These came while the run was at its end.
      if (this.#waiting.size > 0) this.#startRun()
    })
    this.#running = { done, cancelling }
  }

  async #run(cancelled: AbortSignal, behind: IndexBehind | undefined): Promise<void> {
    const { runner, tasks, log } = this.#services
    const { database, design } = this.place
    const about = { database: database.name, design_document: nameOf(design) }
    const changes = { changes_done: 0, total_changes: this.#changesToCome }
    const task = tasks.start({ type: 'indexer', ...about, ...changes, progress: 0 })
    try {
      const onProgress = (progress: UpdateProgress) => {
        task.update(taskFields(progress))
        this.#serve(progress)
      }
      await runner.update(this.place, AbortSignal.any([cancelled, this.#ending.signal]), onProgress, behind)
      this.#serve(await this.#reached())
    } catch (error) {
      // Who came meanwhile is served by the next run.
      if (cancelled.aborted && !this.#ending.signal.aborted) return
      if (!this.#ending.signal.aborted) log.info('An index update failed.', { ...about, error: String(error) })
      this.#fail(error)
    } finally {
      task.end()
      release(behind)
    }
  }

  async #reached(): Promise<Reached> {
    using index = await this.#published()
    return { updateSequence: index.updateSequence, purgeSequence: index.purgeSequence }
  }

  #serve(reached: Reached): void {
    this.#recent.forget()
    for (const { required, resolve } of this.#waiting) if (isAtLeast(reached, required)) resolve()
  }

  #fail(error: unknown): void {
    for (const { reject } of this.#waiting) reject(this.#ending.signal.aborted ? this.#ending.signal.reason : error)
    this.#waiting.clear()
  }

  async #compact(signal: AbortSignal, onBegun: () => void): Promise<void> {
    const { runner, tasks, log } = this.#services
    const { database, design } = this.place
    const about = { database: database.name, design_document: nameOf(design) }
    const task = tasks.start({ type: 'view_compaction', ...about, changes_done: 0, total_changes: 0, progress: 0 })
    try {
      await runner.compact(this.place, signal, (done) => {
        onBegun()
        task.update({ progress: Math.floor(100 * done) })
      })
      this.#compactedTo = await this.#sizes()
    } catch (error) {
      // Its database was deleted meanwhile, or somebody gave it up: nothing is wrong then.
      if (signal.aborted || isGone(error)) return
      log.error('The compaction of an index failed.', { ...about, error: String(error) })
    } finally {
      task.end()
    }
  }
}

function release(behind: IndexBehind | undefined): void {
  behind?.view.release()
  behind?.snapshot.release()
}

/** Of an index that nobody gets if the work fails. */
async function releasedOnError<T>(index: OpenIndex, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    index.release()
    throw error
  }
}

/** How many documents changed since the index was brought up to date: what a run will have to read. */
function changesBetween({ updateSequence }: OpenIndex, database: DatabaseState): number {
  const behind = Math.max(0, database.updateSequence - updateSequence)
  return Math.min(behind, database.documentCount + database.deletedCount)
}

function isGone(error: unknown): boolean {
  return error instanceof StoreGoneError || error instanceof StoreMissingError
}

/** A temporary view has no document: it is named by its signature. */
function nameOf({ id, signature }: ViewDesign): string {
  return isDesignId(id) ? id : signature
}

function taskFields({ changesDone, totalChanges }: UpdateProgress) {
  const progress = totalChanges === 0 ? 100 : Math.floor((100 * changesDone) / totalChanges)
  return { changes_done: changesDone, total_changes: totalChanges, progress }
}
