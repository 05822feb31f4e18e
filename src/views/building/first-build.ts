/**
 * Builds an index from scratch: maps all documents, sorts their rows in runs and merges the runs once, in key order, into a new
 * store, with its rank trees. Until that is done readers see the previous state.
 */
import { hash } from 'node:crypto'
import { DatabaseView } from '../../database/database-view.ts'
import type { DatabaseState } from '../../database/layout/keys.ts'
import { SELECTOR_LANGUAGE } from '../../selectors/index-definition.ts'
import type { LeaseProof } from '../../storage/leases/work-leases.ts'
import type { TreeBuilder } from '../../storage/rank-tree/rank-tree.ts'
import type { PackedRows, Put, Snapshot } from '../../storage/store.ts'
import { indexFormat } from '../design/view-design.ts'
import { ROW_PREFIX_BYTES, STATE_KEY, viewOfRowKey } from '../layout/index-layout.ts'
import { encodeState, type IndexState, newState, type ViewTree, viewTrees } from '../layout/index-state.ts'
import { BatchReader, type IndexSource } from '../updating/batch-reader.ts'
import type { UpdateRequest } from '../updating/update-request.ts'
import { GatheredRows } from './gathered-rows.ts'
import { mergedRuns } from './merged-runs.ts'
import { MappedBatches, type RowBatches, SelectorBatches } from './row-batches.ts'
import type { SortedRun } from './sorted-runs.ts'

/** Documents that are mapped together. */
const BATCH_CHANGES = 1000
const BATCH_BYTES = 8 * 1024 * 1024

export interface BuildOptions {
  /** The sequence that must be reached at least. */
  readonly target: number
  /** Called with the number of changes read. */
  readonly onRead: (changes: number) => void
  /** How many changes are mapped together, for tests. */
  readonly batchChanges?: number
  /** Where one server of all builds it. */
  readonly lease?: LeaseProof | undefined
}

/** Resolves to the state of the index; undefined when something was purged meanwhile, and all must be done again. */
export async function buildIndex(request: UpdateRequest, options: BuildOptions): Promise<IndexState | undefined> {
  const { source, store, design, functions, run } = request
  const { purgeSequence } = await stateOf(source)
  const gathered = await gather(request, options, purgeSequence)
  if (!gathered) return undefined
  const { runs, reached } = gathered
  const begun = newState(source.uuid, design.maps.length, purgeSequence)
  const rows = new BuiltRows(viewTrees(design, begun.salt, functions, run), run.signal)
  await store.replace(
    rows.portions(mergedRuns(runs, design), () => finished(begun, reached, rows)),
    options.lease,
  )
  // A store in memory keeps the bytes that it is given.
  if (!store.keepsValues) gathered.last?.release()
  await request.runs.clear()
  return finished(begun, reached, rows)
}

interface Gathered {
  readonly runs: readonly SortedRun[]
  /** The rows of the last run, where they are only in memory. */
  readonly last: GatheredRows | undefined
  readonly reached: number
}

/** Maps and sorts everything up to the target. */
async function gather(
  request: UpdateRequest,
  { target, onRead, batchChanges = BATCH_CHANGES }: BuildOptions,
  purgeSequence: number,
): Promise<Gathered | undefined> {
  const { source, runs: keeper, sortBytes } = request
  const mark = hash('md5', JSON.stringify([source.uuid, indexFormat, purgeSequence])).slice(0, 16)
  const runs = await keeper.resume(mark)
  let reached = runs.at(-1)?.through ?? 0
  let last: GatheredRows | undefined
  if (reached > (await stateOf(source)).updateSequence) {
    // The database was put back to an older state.
    await keeper.clear()
    runs.length = 0
    reached = 0
  }
  for (let isLast = false; !isLast && reached < target; ) {
    const rows = new GatheredRows(request.design)
    const since = reached
    // One state for all of a run: no document comes twice in it.
    using view = source.view()
    if ((await view.state()).purgeSequence !== purgeSequence) return undefined
    const batches = batchesOf(request, view, batchChanges)
    try {
      while (!isLast && rows.bytes < sortBytes && !rows.isFull) {
        const batch = await batches.addNext(reached, rows)
        reached = batch.updateSequence
        isLast = batch.isLast
        onRead(batch.changes)
      }
    } finally {
      await batches.stop()
    }
    view.release()
    const isWorthKeeping = !isLast || rows.bytes >= sortBytes
    if (isWorthKeeping) runs.push(await keeper.keep(mark, since, reached, rows))
    else {
      runs.push({ since, through: reached, portions: () => rows.sorted() })
      last = rows
    }
  }
  return { runs, last, reached }
}

function batchesOf(request: UpdateRequest, view: DatabaseView, changes: number): RowBatches {
  const { source, design, run } = request
  if (design.language === SELECTOR_LANGUAGE) return new SelectorBatches(view, design, changes, run.signal)
  const limits = { changes, bytes: BATCH_BYTES }
  return new MappedBatches(new BatchReader({ ...request, source: lending(source, view.snapshot), limits }))
}

/** A source of one state, which belongs to its holder. */
function lending({ uuid }: IndexSource, snapshot: Snapshot): IndexSource {
  const lent: Snapshot = {
    version: () => snapshot.version(),
    get: (key) => snapshot.get(key),
    getMany: (keys) => snapshot.getMany(keys),
    page: (range, limits) => snapshot.page(range, limits),
    count: (range) => snapshot.count(range),
    release: () => {},
    [Symbol.dispose]: () => {},
  }
  return { uuid, view: () => new DatabaseView(lent) }
}

async function stateOf(source: IndexSource): Promise<DatabaseState> {
  using view = source.view()
  return await view.state()
}

function finished(begun: IndexState, updateSequence: number, rows: BuiltRows): IndexState {
  const views = begun.views.map((view, number) =>
    rows.isEmpty(number) ? view : { ...view, lastChange: updateSequence },
  )
  return { ...begun, updateSequence, views }
}

/** Rows on their way into the store: the nodes of their trees join them. */
class BuiltRows {
  readonly #trees: readonly ViewTree[]
  readonly #filled = new Set<number>()
  readonly #signal: AbortSignal | undefined

  constructor(trees: readonly ViewTree[], signal: AbortSignal | undefined) {
    this.#trees = trees
    this.#signal = signal
  }

  isEmpty(view: number): boolean {
    return !this.#filled.has(view)
  }

  /** The state goes in last, when everything is known. */
  async *portions(
    sorted: AsyncIterable<PackedRows>,
    state: () => IndexState,
  ): AsyncGenerator<readonly Put[] | PackedRows> {
    let view: number | undefined
    let builder: TreeBuilder | undefined
    for await (const portion of sorted) {
      this.#signal?.throwIfAborted()
      const rows = withoutEmpty(portion)
      yield rows
      const { length, block, bounds } = rows
      for (let row = 0; row < length; row++) {
        const keyAt = bounds[3 * row]!
        const itsView = viewOfRowKey(block, keyAt)
        if (itsView === undefined) continue
        if (itsView !== view) {
          if (builder) yield await builder.finish()
          builder = this.#begin(itsView)
          view = itsView
        }
        builder?.addWithin(block, keyAt + ROW_PREFIX_BYTES, bounds[3 * row + 1]!, bounds[3 * row + 2]!)
      }
      const nodes = await builder?.drain()
      if (nodes && nodes.length > 0) yield nodes
    }
    if (builder) yield await builder.finish()
    yield [[STATE_KEY, encodeState(state())]]
  }

  #begin(view: number): TreeBuilder | undefined {
    this.#filled.add(view)
    return this.#trees[view]?.ranks.builder()
  }
}

/** Only a document that made no rows has no value: it need not be known. */
function withoutEmpty(rows: PackedRows): PackedRows {
  const { block, bounds } = rows
  let length = 0
  while (length < rows.length && bounds[3 * length + 1] !== bounds[3 * length + 2]) length++
  if (length === rows.length) return rows
  const kept = bounds.slice()
  for (let row = length + 1; row < rows.length; row++) {
    if (bounds[3 * row + 1] === bounds[3 * row + 2]) continue
    kept.copyWithin(3 * length++, 3 * row, 3 * row + 3)
  }
  return { length, block, bounds: kept }
}
