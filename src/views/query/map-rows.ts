/**
 * The rows of a view in a range, or of several keys in turn. The rank tree finds their start and their offset, so
 * `skip` is cheap.
 */
import type { JsonValue } from '../../encoding/json/json-value.ts'
import type { PlaceInAll } from '../../storage/rank-tree/rank-tree.ts'
import { ORDERED_KEY_BYTES, rangeAfter } from '../../storage/rows/stored-key.ts'
import { keysAlike, orderedPage } from '../../storage/snapshots/row-page.ts'
import type { KeyRange, Page } from '../../storage/store.ts'
import { ROW_PREFIX_BYTES, rowPrefix } from '../layout/index-layout.ts'
import type { OpenView } from '../reading/open-index.ts'
import {
  boundsOf,
  boundsOfKey,
  boundsOfScope,
  intersection,
  isEmpty,
  type KeyBounds,
  type QueryPlan,
  storeRange,
} from './query-plan.ts'
import { StoredRows } from './row-query.ts'

/** Rows about to be read, with their offset in the direction of reading. */
export interface PlacedRows {
  /** How many rows the view has. */
  readonly total: number
  readonly offset: number
  /** All of them, where they were read on the way. */
  readonly all?: StoredRows | undefined
  /** May be called once. */
  blocks(): AsyncGenerator<StoredRows>
}

export class MapRows {
  readonly #view: OpenView
  readonly #plan: QueryPlan

  constructor(view: OpenView, plan: QueryPlan) {
    this.#view = view
    this.#plan = plan
  }

  async place(): Promise<PlacedRows> {
    const { scope } = this.#plan
    const placed = await this.#place()
    return scope ? this.#withinScope(placed, scope) : placed
  }

  #place(): Promise<PlacedRows> {
    const { keys, skip } = this.#plan
    if (keys) return this.#placeKeys(keys)
    const bounds = boundsOf(this.#plan, this.#view.collation)
    return skip === 0 ? this.#placeRange(bounds) : this.#placeAfterSkipped(bounds)
  }

  /** As if the view had no rows but those of the partition. */
  async #withinScope(placed: PlacedRows, scope: Buffer): Promise<PlacedRows> {
    const { ranks, snapshot } = this.#view
    const { from, to } = boundsOfScope(scope)
    const before = await ranks.rank(snapshot, from)
    const behind = await ranks.rank(snapshot, to)
    const outside = this.#plan.descending ? placed.total - behind : before
    return { ...placed, total: behind - before, offset: Math.max(0, placed.offset - outside) }
  }

  /** The first rows are read at once: often they are all. */
  async #placeRange(bounds: KeyBounds): Promise<PlacedRows> {
    const { limit } = this.#plan
    const placing = this.#placeOf(bounds)
    if (isEmpty(bounds) || limit === 0) {
      const { total, before: offset } = await placing
      return { total, offset, blocks: noBlocks }
    }
    // Read at once: where each read takes a round trip, they share them.
    // Few ranges without an end begin at the last rows.
    const expectsMany = bounds.to === undefined && limit > SHORT_ROWS
    const limits = { rows: Math.min(FIRST_ROWS.rows, limit), bytes: FIRST_ROWS.bytes, expectsMany }
    const first = orderedPage(this.#view.snapshot, this.#range(bounds), limits)
    const [{ total, before: offset }, page] = await Promise.all([placing, first])
    const rows = new StoredRows(page, { limit })
    const all = page.next && rows.length < limit ? undefined : rows
    return { total, offset, all, blocks: () => this.#readOn(page, { limit }) }
  }

  async #placeAfterSkipped(bounds: KeyBounds): Promise<PlacedRows> {
    const { skip, limit } = this.#plan
    const { total, before } = await this.#placeOf(bounds)
    const count = await this.#count(bounds)
    const skipped = Math.min(skip, count)
    const offset = before + skipped
    if (skipped === count) return { total, offset, blocks: noBlocks }
    const rest = await this.#rangeFrom(bounds, offset, total)
    const expectsMany = Math.min(limit, count - skipped) > SHORT_ROWS
    return { total, offset, blocks: () => this.#readFrom(rest, limit, expectsMany) }
  }

  async #placeKeys(keys: readonly JsonValue[]): Promise<PlacedRows> {
    const total = await this.#view.ranks.total(this.#view.snapshot)
    let skip = this.#plan.skip
    for (const [i, key] of keys.entries()) {
      const bounds = boundsOfKey(key, this.#plan, this.#view.collation)
      const count = await this.#countFew(bounds)
      if (count <= skip && i < keys.length - 1) {
        skip -= count
        continue
      }
      const offset = (await this.#placeOf(bounds)).before + Math.min(skip, count)
      if (count <= skip) return { total, offset, blocks: noBlocks }
      const first =
        skip === 0 ? { range: this.#range(bounds), passOver: 0 } : await this.#rangeFrom(bounds, offset, total)
      return { total, offset, blocks: () => this.#readKeys(first, keys.slice(i + 1)) }
    }
    return { total, offset: 0, blocks: noBlocks }
  }

  /** The offset of a range in the direction of reading, and its number of rows. */
  async #placeOf({ from, to }: KeyBounds): Promise<PlaceInAll> {
    const { ranks, snapshot } = this.#view
    const { descending } = this.#plan
    const start = descending ? to : from
    if (!start) return { total: await ranks.total(snapshot), before: 0 }
    const { total, before } = await ranks.place(snapshot, start)
    return { total, before: descending ? total - before : before }
  }

  async #count(bounds: KeyBounds): Promise<number> {
    if (isEmpty(bounds)) return 0
    return this.#view.ranks.countBetween(this.#view.snapshot, bounds.from, bounds.to)
  }

  /** Reading few rows is faster than a lookup in the tree. */
  async #countFew(bounds: KeyBounds): Promise<number> {
    if (isEmpty(bounds)) return 0
    const page = await this.#view.snapshot.page(this.#range(bounds), { rows: FEW_ROWS, keysOnly: true })
    return page.next ? this.#count(bounds) : page.length
  }

  /** What is left of a range from the row on that has so many before it. At least one of the range was skipped. */
  async #rangeFrom(bounds: KeyBounds, offset: number, total: number): Promise<RangeFrom> {
    const { ranks, snapshot, number } = this.#view
    const { descending } = this.#plan
    const range = this.#range(bounds)
    const lastSkipped = await ranks.select(snapshot, descending ? total - offset : offset - 1)
    if (!lastSkipped) return { range, passOver: 0 }
    const key = Buffer.concat([rowPrefix(number), lastSkipped])
    if (!isLong(lastSkipped)) return { range: rangeAfter(range, key), passOver: 0 }
    // The tree has such rows in the order of the store. They are sorted after reading, so all are read.
    const { from, to } = intersection(bounds, boundsOfKeysAlike(key))
    const rest = descending ? { from: bounds.from, to } : { from, to: bounds.to }
    return { range: this.#range(rest), passOver: offset - (await this.#placeOf(rest)).before }
  }

  #range(bounds: KeyBounds): KeyRange {
    return storeRange(this.#view.number, bounds, { reverse: this.#plan.descending })
  }

  /** Undefined where it holds nothing in any case. */
  #rangeUnlessEmpty(bounds: KeyBounds): KeyRange | undefined {
    return isEmpty(bounds) ? undefined : this.#range(bounds)
  }

  async *#read(range: KeyRange | undefined, limit: number, expectsMany = false): AsyncGenerator<StoredRows> {
    let left = limit
    for (let rest = range; rest && left > 0; ) {
      const readsOn = left >= 2 * PAGE.rows
      const limits = { rows: Math.min(PAGE.rows, left), bytes: PAGE.bytes, readsOn, expectsMany }
      const page = await orderedPage(this.#view.snapshot, rest, limits)
      if (page.length > 0) yield new StoredRows(page, { limit: left })
      left -= page.length
      rest = page.next
    }
  }

  async *#readFrom({ range, passOver }: RangeFrom, limit: number, expectsMany = false): AsyncGenerator<StoredRows> {
    let rest: KeyRange | undefined = range
    for (let left = passOver; left > 0 && rest; ) {
      const page: Page = await orderedPage(this.#view.snapshot, rest, PAGE)
      if (page.length > left) return yield* this.#readOn(page, { first: left, limit })
      left -= page.length
      rest = page.next
    }
    yield* this.#read(rest, limit, expectsMany)
  }

  /** The rows of a page that is read, and those after it. */
  async *#readOn(page: Page, { first = 0, limit }: { first?: number; limit: number }): AsyncGenerator<StoredRows> {
    const rows = new StoredRows(page, { first, limit })
    if (rows.length > 0) yield rows
    yield* this.#read(page.next, limit - rows.length)
  }

  /** The ranges of keys are begun several at a time, since most have few rows. */
  async *#readKeys(first: RangeFrom, keys: readonly JsonValue[]): AsyncGenerator<StoredRows> {
    let left = this.#plan.limit
    for await (const rows of this.#readFrom(first, left)) {
      yield rows
      left -= rows.length
    }
    for (let next = 0; next < keys.length && left > 0; next += KEYS_A_TURN) {
      const ranges = keys
        .slice(next, next + KEYS_A_TURN)
        .map((key) => this.#rangeUnlessEmpty(boundsOfKey(key, this.#plan, this.#view.collation)))
      const pages = await Promise.all(ranges.map((range) => this.#firstPage(range)))
      for (const page of pages) {
        if (!page) continue
        for await (const rows of this.#readOn(page, { limit: left })) {
          yield rows
          left -= rows.length
        }
      }
    }
  }

  async #firstPage(range: KeyRange | undefined): Promise<Page | undefined> {
    return range && orderedPage(this.#view.snapshot, range, ROWS_OF_KEY)
  }
}

interface PageSize {
  readonly rows: number
  readonly bytes: number
}

/** About the size of one write; pages are smaller unless a size is given. */
const PAGE: PageSize = { rows: 2_048, bytes: 64 * 1024 }

/** The rows of the first read: small replies are complete with it. */
const FIRST_ROWS: PageSize = { rows: 128, bytes: 16 * 1024 }

/** What is read of each of many keys at first. */
const ROWS_OF_KEY: PageSize = { rows: 16, bytes: 4 * 1024 }
const KEYS_A_TURN = 32

/** So few rows are read in another way than many. */
const SHORT_ROWS = 4

/** Up to this number rows are counted by reading them. */
const FEW_ROWS = 64

/** What is left of a range, and how many rows of it are not wanted. */
interface RangeFrom {
  readonly range: KeyRange
  readonly passOver: number
}

/** Whether rows of such a key may lie in another order than that of their keys. It comes without the view's prefix. */
function isLong(key: Buffer): boolean {
  return key.length + ROW_PREFIX_BYTES > ORDERED_KEY_BYTES
}

function boundsOfKeysAlike(key: Buffer): KeyBounds {
  const { from, to } = keysAlike(key)
  return { from: from.subarray(ROW_PREFIX_BYTES), to: to.subarray(ROW_PREFIX_BYTES) }
}

async function* noBlocks(): AsyncGenerator<StoredRows> {}
