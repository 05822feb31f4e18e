/**
 * A snapshot of a store. It costs nothing until the first read, when it joins a transaction that is about to begin. Commits of
 * this server wait for snapshots that were taken before them, so a snapshot never shows a later commit.
 */
import { isCut, isWhole, storedKey, storedRange, wholeValue } from '../rows/stored-key.ts'
import { PageBuilder, pageOf } from '../snapshots/row-page.ts'
import { StorageError, StoreGoneError } from '../storage-error.ts'
import {
  type KeyRange,
  type Moment,
  PAGE_BYTES,
  PAGE_ROWS,
  type Page,
  type PageLimits,
  type SharedSnapshot,
} from '../store.ts'
import type { PackedPage, PageRequest, ReadTransaction, ReadTransactions } from './read-transaction.ts'
import type { StoreState } from './row-lookup.ts'

/** What a snapshot needs from its store. */
export interface SnapshotSource {
  readonly id: number
  readonly name: string
  /** Where its rows were last seen. */
  readonly space: number
  readonly transactions: Pick<ReadTransactions, 'join'>
  /** Its rows are there now. */
  seenAt(space: number): void
  /** Throws where it was dropped. */
  assertThere(): void
  /** Another server dropped it. */
  lost(): void
}

/** Above every stored key. */
const AFTER_ALL = Buffer.alloc(2001, 0xff)

/** The state that snapshots share. */
export class FrozenState {
  readonly #source: SnapshotSource
  readonly #onBegun: (state: FrozenState) => void
  #transaction: ReadTransaction | undefined
  #state: Promise<StoreState> | undefined
  #known: StoreState | undefined
  #users = 1

  /**
   * `onBegun` is called when its transaction has begun: commits need not wait for it any more. One that has begun already is
   * joined at once.
   */
  constructor(source: SnapshotSource, onBegun: (state: FrozenState) => void, begun?: ReadTransaction) {
    this.#source = source
    this.#onBegun = onBegun
    this.#transaction = begun
    begun?.enter()
  }

  get transaction(): ReadTransaction | undefined {
    return this.#transaction
  }

  share(): void {
    this.#users++
  }

  release(): void {
    if (--this.#users > 0) return
    this.#onBegun(this)
    this.#transaction?.leave()
  }

  /** Begins the transaction, unless it has begun. */
  async begin(): Promise<StoreState> {
    if (this.#state) return this.#state
    this.#transaction ??= this.#source.transactions.join()
    this.#state = this.#read(this.#transaction)
    this.#state.catch(() => {})
    return this.#state
  }

  /** Reads from the space that holds the rows; which one that is may have to be read first, in the same statement. */
  async read<T>(work: (transaction: ReadTransaction, space: number) => Promise<T>): Promise<T> {
    if (this.#known && this.#transaction) return work(this.#transaction, this.#known.space)
    const guess = this.#source.space
    const begun = this.begin()
    const transaction = this.#transaction!
    const [{ space }, first] = await Promise.all([begun, work(transaction, guess)])
    return space === guess ? first : work(transaction, space)
  }

  /** A page of a state that was read from, asked for at once. */
  async readAhead(request: Omit<PageRequest, 'space'>): Promise<PackedPage> {
    const { space } = this.#known!
    return this.#transaction!.pageAhead({ space, ...request })
  }

  async #read(transaction: ReadTransaction): Promise<StoreState> {
    const { id, name } = this.#source
    try {
      const state = await transaction.state(id)
      if (!state) {
        this.#source.lost()
        throw new StoreGoneError(name)
      }
      this.#source.seenAt(state.space)
      this.#known = state
      return state
    } finally {
      this.#onBegun(this)
    }
  }
}

export class PostgresSnapshot implements SharedSnapshot {
  readonly #state: FrozenState
  /** The page that follows the one that was read last, and whether any such page was not asked for. */
  #ahead: PageAhead | undefined
  #wasInVain = false
  #released = false

  /** Takes over one reference to the state. */
  constructor(state: FrozenState) {
    this.#state = state
  }

  share(): PostgresSnapshot {
    this.#assertHeld()
    this.#state.share()
    return new PostgresSnapshot(this.#state)
  }

  get moment(): Moment | undefined {
    return this.#released ? undefined : this.#state.transaction
  }

  async version(): Promise<number> {
    this.#assertHeld()
    return (await this.#state.begin()).version
  }

  async get(key: Uint8Array): Promise<Buffer | undefined> {
    this.#assertHeld()
    const stored = storedKey(key)
    const value = await this.#state.read((transaction, space) => transaction.get(space, stored))
    return value && !isWhole(key) ? wholeValue(value) : value
  }

  async getMany(keys: readonly Uint8Array[]): Promise<(Buffer | undefined)[]> {
    this.#assertHeld()
    const stored = keys.map(storedKey)
    const values = await this.#state.read((transaction, space) => transaction.getMany(space, stored))
    return values.map((value, i) => (value && !isWhole(keys[i]!) ? wholeValue(value) : value))
  }

  async page(range: KeyRange, limits: PageLimits = {}): Promise<Page> {
    this.#assertHeld()
    const page = await (this.#takeAhead(range, limits) ??
      this.#readPage(range, limits, (request) =>
        this.#state.read((transaction, space) => transaction.page({ space, ...request })),
      ))
    if (limits.readsOn && page.next) this.#readAhead(page.next, limits)
    return page
  }

  async count(range: KeyRange): Promise<number> {
    const stored = storedRange(range)
    if (stored.contains) return this.#countByPages(range)
    this.#assertHeld()
    const { from, to = AFTER_ALL } = stored
    return this.#state.read((transaction, space) => transaction.count(space, from, to))
  }

  release(): void {
    if (this.#released) return
    this.#released = true
    this.#ahead = undefined
    this.#state.release()
  }

  [Symbol.dispose](): void {
    this.release()
  }

  /** One page at most: a reader that stalls has no more than that in memory. */
  #readAhead(range: KeyRange, limits: PageLimits): void {
    if (this.#released || this.#wasInVain) return
    const page = this.#readPage(range, limits, (request) => this.#state.readAhead(request))
    // Who asks for the page gets the error.
    page.catch(() => {})
    this.#ahead = { range, limits, page }
  }

  #takeAhead(range: KeyRange, limits: PageLimits): Promise<Page> | undefined {
    const ahead = this.#ahead
    if (!ahead) return undefined
    this.#ahead = undefined
    if (ahead.range === range && isAlike(ahead.limits, limits)) return ahead.page
    this.#wasInVain = true
    return undefined
  }

  async #readPage(
    range: KeyRange,
    limits: PageLimits,
    read: (request: Omit<PageRequest, 'space'>) => Promise<PackedPage>,
  ): Promise<Page> {
    const { resume, reverse = false } = range
    const stored = storedRange(range)
    const rows = Math.max(1, limits.rows ?? PAGE_ROWS)
    const bytes = limits.bytes ?? PAGE_BYTES
    const from = resume && !reverse ? Buffer.concat([resume, ZERO]) : stored.from
    const to = (resume && reverse ? resume : stored.to) ?? AFTER_ALL
    const { keysOnly = false } = limits
    const found = await read({ from, to, rows, bytes, reverse, keysOnly })
    const { length } = found.keySizes
    const isFull = length === rows || (length > 0 && found.block.length >= bytes)
    if (stored.contains || found.keySizes.some(isCut)) return sortedOut(found, { range, limits, isFull })
    const bounds = boundsOf(found)
    const last = length === 0 ? undefined : found.block.subarray(bounds[3 * length - 3], bounds[3 * length - 2])
    const next = isFull && last ? { ...range, resume: Buffer.from(last) } : undefined
    return pageOf({ length, block: found.block, bounds }, next)
  }

  /** For ranges of long keys: whether a row belongs to the range depends on its whole key. */
  async #countByPages(range: KeyRange): Promise<number> {
    let count = 0
    for (let rest: KeyRange | undefined = range; rest; ) {
      const page: Page = await this.page(rest, { keysOnly: true })
      count += page.length
      rest = page.next
    }
    return count
  }

  #assertHeld(): void {
    if (this.#released) throw new StorageError('The snapshot was released.')
  }
}

const ZERO = Buffer.of(0)

/** A page that is being read before it is asked for. */
interface PageAhead {
  readonly range: KeyRange
  readonly limits: PageLimits
  readonly page: Promise<Page>
}

function isAlike(one: PageLimits, other: PageLimits): boolean {
  return one.rows === other.rows && one.bytes === other.bytes && one.keysOnly === other.keysOnly
}

interface Sorting {
  readonly range: KeyRange
  readonly limits: PageLimits
  readonly isFull: boolean
}

/** A page that has long keys, or whose bounds are long. */
function sortedOut(found: PackedPage, { range, limits, isFull }: Sorting): Page {
  const { keySizes, valueSizes, block } = found
  const builder = new PageBuilder(range, storedRange(range), limits)
  let at = 0
  let key: Buffer | undefined
  for (const [i, keySize] of keySizes.entries()) {
    const end = at + keySize + valueSizes[i]!
    key = block.subarray(at, at + keySize)
    const value = block.subarray(at + keySize, end)
    builder.add(key, 0, key.length, value, value.length)
    at = end
    if (builder.full) return builder.build(Buffer.from(key))
  }
  return builder.build(isFull && key ? Buffer.from(key) : undefined)
}

function boundsOf({ keySizes, valueSizes }: PackedPage): Uint32Array {
  const bounds = new Uint32Array(3 * keySizes.length)
  let at = 0
  for (let i = 0; i < keySizes.length; i++) {
    bounds[3 * i] = at
    at += keySizes[i]!
    bounds[3 * i + 1] = at
    at += valueSizes[i]!
    bounds[3 * i + 2] = at
  }
  return bounds
}
