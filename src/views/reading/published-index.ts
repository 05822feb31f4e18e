/** The state of an index as a query reads it: one snapshot, and the numbers that were committed with it. */
import type { RenewableSnapshot } from '../../storage/snapshots/renewable-snapshot.ts'
import type { Snapshot } from '../../storage/store.ts'
import type { ViewDesign } from '../design/view-design.ts'
import type { IndexState } from '../layout/index-state.ts'
import type { ViewTree } from '../layout/view-trees.ts'
import type { OpenIndex, OpenView } from './open-index.ts'
import { PassingSnapshot } from './passing-snapshot.ts'
import { SameIndexSnapshot } from './same-index-snapshot.ts'

/** Where snapshots go whose readers may take their time. */
export interface SnapshotHolder {
  keep(snapshot: Snapshot): RenewableSnapshot
}

export class PublishedIndex implements OpenIndex {
  readonly signature: string
  readonly updateSequence: number
  readonly purgeSequence: number
  readonly #snapshot: PassingSnapshot
  readonly #holder: SnapshotHolder
  readonly #design: ViewDesign
  readonly #state: IndexState | undefined
  readonly #trees: readonly ViewTree[]

  /** Takes the snapshot over. Without a state, the index was never built: a store may hold rows that are of no use. */
  constructor(
    snapshot: Snapshot,
    holder: SnapshotHolder,
    state: IndexState | undefined,
    { design, trees }: IndexParts,
  ) {
    this.signature = design.signature
    this.updateSequence = state?.updateSequence ?? 0
    this.purgeSequence = state?.purgeSequence ?? 0
    this.#snapshot = new PassingSnapshot(state ? snapshot : emptySnapshot(snapshot))
    this.#holder = holder
    this.#design = design
    this.#state = state
    this.#trees = trees
  }

  view(name: string): OpenView | undefined {
    const named = this.#design.views.get(name)
    const map = named && this.#design.maps[named.number]
    const tree = named && this.#trees[named.number]
    if (!named || !map || !tree) return undefined
    const { lastChange = 0, lastPurge = 0 } = this.#state?.views[named.number] ?? {}
    return {
      number: named.number,
      collation: map.collation,
      reduce: named.reduce === undefined ? undefined : tree.reducer?.reduction(named.reduce),
      lastChange,
      lastPurge,
      snapshot: this.#snapshot,
      ranks: tree.ranks,
    }
  }

  /** Only from here on is the state looked after: most queries end before. */
  letStatePass(): void {
    const state = this.#state
    if (!state) return
    this.#snapshot.pass((snapshot) => new SameIndexSnapshot(this.#holder.keep(snapshot), state.uuid, state.salt))
  }

  release(): void {
    this.#snapshot.release()
  }

  [Symbol.dispose](): void {
    this.release()
  }
}

/** What an index is made of, beside its rows. */
export interface IndexParts {
  readonly design: ViewDesign
  readonly trees: readonly ViewTree[]
}

function emptySnapshot(held: Snapshot): Snapshot {
  return {
    version: () => held.version(),
    get: async () => undefined,
    getMany: async (keys) => keys.map(() => undefined),
    page: (range) => held.page({ ...range, to: range.from ?? Buffer.of(1) }, { rows: 1 }),
    count: async () => 0,
    release: () => held.release(),
    [Symbol.dispose]: () => held.release(),
  }
}
