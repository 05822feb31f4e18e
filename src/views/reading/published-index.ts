/**
 * The state of an index as a query reads it: one snapshot, and the numbers that were committed with it. Once a query knows
 * where it begins, the snapshot may be replaced by one that continues with newer states of the same index.
 */
import type { RenewableSnapshot } from '../../storage/snapshots/renewable-snapshot.ts'
import type { KeyRange, Moment, Page, PageLimits, SharedSnapshot, Snapshot } from '../../storage/store.ts'
import type { ViewDesign } from '../design/view-design.ts'
import { type IndexState, readState, type ViewTree } from '../layout/index-state.ts'
import type { OpenIndex, OpenView } from './open-index.ts'

/** Holds the snapshots of slow readers. */
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

  /** Takes ownership of the snapshot. Without a state, the index was never built: rows in the store are ignored. */
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

  /** Only from here on is the snapshot renewed: most queries end before. */
  releaseEarly(): void {
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
    get moment() {
      return held.moment
    },
    version: () => held.version(),
    get: async () => undefined,
    getMany: async (keys) => keys.map(() => undefined),
    page: (range) => held.page({ ...range, to: range.from ?? Buffer.of(1) }, { rows: 1 }),
    count: async () => 0,
    release: () => held.release(),
    [Symbol.dispose]: () => held.release(),
  }
}

/** A snapshot that another one can replace while it is in use. Its readers need not know. */
class PassingSnapshot implements Snapshot {
  #snapshot: Snapshot
  #hasPassed = false

  /** Takes ownership of the snapshot. */
  constructor(snapshot: Snapshot) {
    this.#snapshot = snapshot
  }

  get moment(): Moment | undefined {
    return this.#snapshot.moment
  }

  /** Reads go to what is made of the snapshot from now on. Once; afterwards it stays as it is. */
  pass(successor: (snapshot: Snapshot) => Snapshot): void {
    if (this.#hasPassed) return
    this.#hasPassed = true
    this.#snapshot = successor(this.#snapshot)
  }

  version(): Promise<number> {
    return this.#snapshot.version()
  }

  get(key: Uint8Array): Promise<Buffer | undefined> {
    return this.#snapshot.get(key)
  }

  getMany(keys: readonly Uint8Array[]): Promise<(Buffer | undefined)[]> {
    return this.#snapshot.getMany(keys)
  }

  page(range: KeyRange, limits?: PageLimits): Promise<Page> {
    return this.#snapshot.page(range, limits)
  }

  count(range: KeyRange): Promise<number> {
    return this.#snapshot.count(range)
  }

  release(): void {
    this.#snapshot.release()
  }

  [Symbol.dispose](): void {
    this.release()
  }
}

/**
 * A snapshot of one index for slow clients. It may continue with newer states of that index, but not with a rebuilt
 * one: such a query fails.
 */
class SameIndexSnapshot implements Snapshot {
  readonly #snapshot: RenewableSnapshot
  readonly #databaseUuid: string
  readonly #salt: string
  #checked: number

  /** The salt identifies one build of an index. */
  constructor(snapshot: RenewableSnapshot, databaseUuid: string, salt: string) {
    this.#snapshot = snapshot
    this.#databaseUuid = databaseUuid
    this.#salt = salt
    this.#checked = snapshot.renewals
  }

  get moment(): Moment | undefined {
    return this.#snapshot.moment
  }

  version(): Promise<number> {
    return this.#reading((snapshot) => snapshot.version())
  }

  get(key: Uint8Array): Promise<Buffer | undefined> {
    return this.#reading((snapshot) => snapshot.get(key))
  }

  getMany(keys: readonly Uint8Array[]): Promise<(Buffer | undefined)[]> {
    return this.#reading((snapshot) => snapshot.getMany(keys))
  }

  page(range: KeyRange, limits?: PageLimits): Promise<Page> {
    return this.#reading((snapshot) => snapshot.page(range, limits))
  }

  count(range: KeyRange): Promise<number> {
    return this.#reading((snapshot) => snapshot.count(range))
  }

  release(): void {
    this.#snapshot.release()
  }

  [Symbol.dispose](): void {
    this.release()
  }

  async #reading<T>(read: (snapshot: Snapshot) => Promise<T>): Promise<T> {
    using _pin = this.#snapshot.pin()
    const { renewals } = this.#snapshot
    if (renewals !== this.#checked) {
      const state = await readState(this.#snapshot, this.#databaseUuid)
      if (state?.salt !== this.#salt) throw new Error('The index was rebuilt while it was read.')
      this.#checked = renewals
    }
    return await read(this.#snapshot)
  }
}

/** Held this short, it hardly keeps pages of the file from being reused. */
const KEPT_MS = 20

export interface ReadState {
  readonly snapshot: SharedSnapshot
  readonly state: IndexState
}

/** The state that was read last, kept for a moment: queries that follow each other closely share it. */
export class RecentState {
  #read: ReadState | undefined
  #forgetting: NodeJS.Timeout | undefined

  get current(): ReadState | undefined {
    return this.#read
  }

  /** Takes ownership of the snapshot. */
  keep(read: ReadState): void {
    this.forget()
    this.#read = read
    this.#forgetting = setTimeout(() => this.forget(), KEPT_MS).unref()
  }

  forget(): void {
    clearTimeout(this.#forgetting)
    this.#read?.snapshot.release()
    this.#read = undefined
  }
}
