/**
 * Updates an index: reads changes, maps them, and commits rows, reductions and progress together. Every commit is a
 * state that can be read; after a crash the update resumes after the last one.
 */

import { type DatabaseState, purgeKey } from '../../database/layout/keys.ts'
import { type LeaseProof, leased, shown, type WorkLease } from '../../storage/leases/work-leases.ts'
import { LeaseLostError } from '../../storage/storage-error.ts'
import type { Snapshot, Store } from '../../storage/store.ts'
import { buildIndex } from '../building/first-build.ts'
import { documentKey, STATE_KEY } from '../layout/index-layout.ts'
import { encodeState, type IndexState, newState, readState, type ViewTree, viewTrees } from '../layout/index-state.ts'
import { BatchReader, type MappedBatch } from './batch-reader.ts'
import { ExpectedSnapshot, KnownRows } from './expected-snapshot.ts'
import { type CommittedReach, commitRows, OutrunError, TooManyRowsError } from './index-commit.ts'
import { documentsOf, type MappedDocument } from './mapped-documents.ts'
import { type PlannedRows, planRows } from './row-changes.ts'
import type { IndexBehind, UpdateRequest } from './update-request.ts'

/** Changes of one commit, unless a request says how many. */
const BATCH_CHANGES = 1000
const BATCH_BYTES = 8 * 1024 * 1024

/** Purged documents whose rows go in one commit. */
const PURGED_A_COMMIT = 1000

/** So many may take a while: observers are notified at once how many there are. */
const CHANGES_WORTH_TELLING = 100

/** Changes that are worth a lease, where several servers could bring the index up to date. */
const LEASED_CHANGES = BATCH_CHANGES

/** Of more documents it is read with the commit which rows they have. */
const DOCUMENTS_READ_AHEAD = 100

/** So often another server may be faster. */
const MOST_TRIES = 1000

/**
 * Resolves when the index has reached what the database had come to at the call. Of several servers one does a long update; the
 * others wait for what it commits. A short one is done by whoever needs it: the store takes the first commit alone.
 */
export async function updateIndex(request: UpdateRequest): Promise<void> {
  const { leases, store } = request
  const name = updateLease(store)
  let needsLease = false
  // What is known from before counts for the first try.
  let { behind } = request
  for (let outrun = 0; ; behind = undefined) {
    try {
      if (!needsLease) return await shown(leases, name, () => runUpdate({ ...request, behind }, undefined))
      const done = await leased(leases, name, (lease) => runUpdate({ ...request, behind }, lease))
      if (done) return
      await updatedElsewhere(request)
      needsLease = false
    } catch (error) {
      if (error instanceof LeaseNeededError) needsLease = true
      else if (!isOvertaken(error, request) || ++outrun === MOST_TRIES) throw error
    }
  }
}

/** The name of the lease of a server that updates an index. */
export function updateLease({ name }: Store): string {
  return `index ${name}`
}

async function runUpdate(request: UpdateRequest, lease: WorkLease | undefined): Promise<void> {
  const { run } = request
  const signal = lease && run.signal ? AbortSignal.any([lease.signal, run.signal]) : (lease?.signal ?? run.signal)
  const update = new IndexUpdate({ ...request, run: { ...run, signal } }, lease?.proof)
  try {
    await update.run()
  } finally {
    await update.stop()
  }
}

/** Another server works on the same index, or has taken the lease: this one goes on from where that one got to. */
function isOvertaken(error: unknown, { run }: UpdateRequest): boolean {
  return !run.signal?.aborted && (error instanceof OutrunError || error instanceof LeaseLostError)
}

/** Resolves when the server that has the lease has committed, or has given it up. */
async function updatedElsewhere({ store, leases, run }: UpdateRequest): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const stop = store.sharing?.watch(resolve)
  const timer = setTimeout(resolve, (leases?.durationMs ?? 0) / WAITS_A_LEASE)
  run.signal?.addEventListener('abort', () => resolve(), { once: true })
  try {
    await promise
    run.signal?.throwIfAborted()
  } finally {
    stop?.()
    clearTimeout(timer)
  }
}

/** How often the lease is asked for again while it lasts. */
const WAITS_A_LEASE = 8

/** So much is to be done that no other server should do it at the same time. */
class LeaseNeededError extends Error {
  override readonly name = 'LeaseNeededError'
}

class IndexUpdate {
  readonly #request: UpdateRequest
  readonly #lease: LeaseProof | undefined
  readonly #reader: BatchReader
  readonly #commitChanges: number
  #target = 0
  #changesDone = 0
  #totalChanges = 0
  /** Of the store when the state was read or committed. */
  #version: number | undefined
  /** Of that version. */
  #snapshot: Snapshot | undefined
  /** Whether there was nothing in its store at the beginning. */
  #isBlank = false
  #knownRows: Promise<KnownRows> | undefined
  #trees: { readonly salt: string; readonly trees: readonly ViewTree[] } | undefined

  constructor(request: UpdateRequest, lease: LeaseProof | undefined) {
    this.#request = request
    this.#lease = lease
    this.#commitChanges = request.commitChanges ?? BATCH_CHANGES
    const limits = { changes: this.#commitChanges, bytes: BATCH_BYTES }
    this.#reader = new BatchReader({ ...request, limits })
  }

  async run(): Promise<void> {
    const { database, state: found, version } = await this.#begin()
    this.#target = database.updateSequence
    this.#version = version
    let state = found && isUsable(found, database) ? found : undefined
    const since = state?.updateSequence ?? 0
    this.#totalChanges = Math.min(this.#target - since, database.documentCount + database.deletedCount)
    if (this.#totalChanges >= CHANGES_WORTH_TELLING) this.#tell(state ?? NOTHING_REACHED)
    const { leases } = this.#request
    if (leases && !this.#lease && this.#totalChanges > LEASED_CHANGES) throw new LeaseNeededError()
    while (!state || state.updateSequence < this.#target) {
      state = state ? await this.#advance(state) : await this.#build()
      if (state) this.#tell(state)
    }
  }

  async stop(): Promise<void> {
    this.#snapshot?.release()
    await this.#reader.stop()
  }

  /** The states that it begins with. The first changes are read in that of the database. */
  async #begin(): Promise<Pick<IndexBehind, 'database' | 'state' | 'version'>> {
    const { store, source, behind } = this.#request
    if (behind) {
      const { view, database, snapshot, changes } = behind
      this.#snapshot = snapshot
      const onChanges = (ids: readonly Buffer[]) => this.#readDocumentRows(ids)
      this.#reader.beginIn({ view, state: Promise.resolve(database), onChanges, ...changes })
      this.#isBlank = !behind.state && (await isBlank(snapshot))
      return behind
    }
    const view = source.view()
    const databaseState = view.state()
    this.#reader.beginIn({ view, state: databaseState })
    // In one turn: where other servers write too, both are read in one transaction, and the index is not ahead.
    using snapshot = store.snapshot()
    const [database, state, version] = await Promise.all([
      databaseState,
      readState(snapshot, source.uuid),
      snapshot.version(),
    ])
    this.#isBlank = !state && (await isBlank(snapshot))
    return { database, state, version }
  }

  /** Which rows the documents of the first batch have in the index, read together with their bodies if they are few. */
  #readDocumentRows(ids: readonly Buffer[]): void {
    const snapshot = this.#snapshot
    this.#snapshot = undefined
    if (!snapshot) return
    const keys = ids.length <= DOCUMENTS_READ_AHEAD ? ids.map(documentKey) : []
    this.#knownRows = snapshot.getMany(keys).then((values) => {
      snapshot.release()
      const known = new KnownRows()
      known.add(keys, values)
      return known
    })
    // A failure is reported when it is awaited.
    this.#knownRows.catch(() => snapshot.release())
  }

  /** One commit further; undefined when that is not possible and the index must be rebuilt. */
  async #advance(state: IndexState): Promise<IndexState | undefined> {
    const batch = await this.#reader.next(state.updateSequence)
    if (!isNear(state, batch)) return undefined
    const current = state.purgeSequence === batch.purgeSequence ? state : await this.#removePurged(state)
    return current && this.#commitBatch(current, batch, { isFirst: false })
  }

  /** What is too much for one commit is read again in smaller batches; undefined where one document is too much. */
  async #commitBatch(
    state: IndexState,
    batch: MappedBatch,
    { isFirst }: { readonly isFirst: boolean },
  ): Promise<IndexState | undefined> {
    try {
      const committed = await this.#commit(state, batch.calls.flatMap(documentsOf), batch, { isFirst })
      this.#changesDone += batch.changes
      return committed
    } catch (error) {
      if (!(error instanceof TooManyRowsError)) throw error
      if (batch.changes === 1) return undefined
      await this.#reader.shrink(Math.ceil(batch.changes / 8))
      return state
    }
  }

  /**
   * Takes the rows of purged documents, in as many commits as they need: the index has followed the purge with the last
   * of them. Undefined where one document is too much for a commit, or where nobody knows any more what was purged.
   */
  async #removePurged(state: IndexState): Promise<IndexState | undefined> {
    const purge = state.purgeSequence + 1
    const documents = await this.#purgedDocuments(purge)
    if (!documents) return undefined
    let current = state
    let portion = PURGED_A_COMMIT
    let done = 0
    do {
      this.#request.run.signal?.throwIfAborted()
      const some = documents.slice(done, done + portion)
      const isLast = done + portion >= documents.length
      const { updateSequence } = state
      const purgeSequence = isLast ? purge : state.purgeSequence
      try {
        current = await this.#commit(current, some, { updateSequence, purgeSequence, purge }, { isFirst: false })
        done += portion
      } catch (error) {
        if (!(error instanceof TooManyRowsError)) throw error
        if (some.length <= 1) return undefined
        portion = Math.ceil(portion / 8)
      }
    } while (done < documents.length)
    return current
  }

  /**
   * Those that are gone altogether: of which something is left come again among the changes. Undefined where the database
   * has forgotten the purge: a compaction keeps the last ones alone, and others may have come since.
   */
  async #purgedDocuments(purge: number): Promise<MappedDocument[] | undefined> {
    using view = this.#request.source.view()
    const stored = await view.snapshot.get(purgeKey(purge))
    if (!stored) return undefined
    const purged: Record<string, unknown> = JSON.parse(stored.toString())
    const records = await view.records(Object.keys(purged))
    return records.filter(({ record }) => !record).map(({ id }) => withoutRows(id))
  }

  /** From nothing. What fits into one batch needs no more than a commit, where there is nothing in its way. */
  async #build(): Promise<IndexState | undefined> {
    const { source, design } = this.#request
    this.#changesDone = 0
    if (this.#totalChanges <= BATCH_CHANGES && this.#isBlank) {
      const batch = await this.#reader.next(0)
      const state = newState(source.uuid, design.maps.length, batch.purgeSequence)
      const committed = await this.#commitBatch(state, batch, { isFirst: true })
      if (committed !== state && committed) return committed
    }
    await this.stop()
    this.#snapshot = undefined
    this.#version = undefined
    this.#knownRows = undefined
    const onRead = (changes: number) => {
      this.#changesDone += changes
      this.#tell(NOTHING_REACHED)
    }
    return buildIndex(this.#request, { target: this.#target, onRead, lease: this.#lease })
  }

  async #commit(
    state: IndexState,
    documents: readonly MappedDocument[],
    reached: CommittedReach,
    { isFirst }: { readonly isFirst: boolean },
  ): Promise<IndexState> {
    const { store, design } = this.#request
    const [version, knownRows] = [this.#version, await this.#knownRows]
    this.#knownRows = undefined
    if (store.sharing && version !== undefined && knownRows) {
      using expected = new ExpectedSnapshot(store, version, knownRows)
      const rows = await planRows(expected, documents, design)
      return await this.#commitRows(expected, state, rows, reached)
    }
    using snapshot = store.snapshot()
    // The rows are made for this very state of the index. The commit would not be refused if another server changed it before
    // the snapshot was taken.
    const [isCurrent, rows] = await Promise.all([
      !store.sharing || this.#isStored(snapshot, isFirst ? undefined : state),
      planRows(snapshot, documents, design),
    ])
    if (!isCurrent) throw new OutrunError()
    return await this.#commitRows(snapshot, state, rows, reached)
  }

  async #commitRows(
    snapshot: Snapshot,
    state: IndexState,
    rows: PlannedRows,
    reached: CommittedReach,
  ): Promise<IndexState> {
    const index = { trees: this.#treesOf(state), lease: this.#lease }
    const committed = await commitRows(this.#request.store, snapshot, state, index, rows, reached)
    this.#version = committed.version
    return committed.state
  }

  /** Read again only if something was committed since. */
  async #isStored(snapshot: Snapshot, state: IndexState | undefined): Promise<boolean> {
    if ((await snapshot.version()) === this.#version) return true
    const stored = await snapshot.get(STATE_KEY)
    return state && stored ? stored.equals(encodeState(state)) : !state && !stored
  }

  #treesOf({ salt }: IndexState): readonly ViewTree[] {
    const { design, functions, run, memory } = this.#request
    if (this.#trees?.salt !== salt) this.#trees = { salt, trees: viewTrees(design, salt, functions, run, memory) }
    return this.#trees.trees
  }

  #tell({ updateSequence, purgeSequence }: Pick<IndexState, 'updateSequence' | 'purgeSequence'>): void {
    const changesDone = Math.min(this.#changesDone, this.#totalChanges)
    this.#request.onProgress({ updateSequence, purgeSequence, changesDone, totalChanges: this.#totalChanges })
  }
}

const NOTHING_REACHED = { updateSequence: 0, purgeSequence: 0 }

async function isBlank(snapshot: Snapshot): Promise<boolean> {
  return (await snapshot.page({}, { rows: 1, keysOnly: true })).length === 0
}

/** Otherwise the index must be built from the beginning. */
function isUsable(state: IndexState, database: DatabaseState): boolean {
  return state.updateSequence <= database.updateSequence && isNear(state, database)
}

/** After one purge that the index has not followed, it is known which rows to remove; after several it is rebuilt. */
function isNear(state: IndexState, { purgeSequence }: { readonly purgeSequence: number }): boolean {
  const purges = purgeSequence - state.purgeSequence
  return purges === 0 || purges === 1
}

function withoutRows(id: string): MappedDocument {
  return { document: { id: Buffer.from(id), quotedId: Buffer.from(JSON.stringify(id)), text: undefined }, rows: [] }
}
