/**
 * The rows of a reduced query: one of a whole range, or one a group. Groups that a page of the store holds are made of
 * its rows; of one that goes on beyond its page, however far, the rank tree tells what it reduces to and where the next
 * one begins.
 */
import assert from 'node:assert/strict'
import { orderedPage } from '../../storage/ordered-page.ts'
import type { RangePart, ReducibleRow } from '../../storage/rank-tree/rank-tree.ts'
import type { Page } from '../../storage/store.ts'
import { endOfKey, ROW_PREFIX_BYTES, StoredRow } from '../index-layout.ts'
import type { OpenView, ViewReduction } from '../open-index.ts'
import { GroupKey, type GroupLevel } from './group-key.ts'
import { boundsOf, boundsOfKey, intersection, isEmpty, type KeyBounds, storeRange } from './key-bounds.ts'
import type { QueryPlan } from './query-plan.ts'

export class ReducedRows {
  readonly #view: OpenView
  readonly #plan: QueryPlan
  readonly #reduction: ViewReduction

  constructor(view: OpenView, plan: QueryPlan) {
    assert(view.reduce, 'A view without a reduce function is not reduced.')
    this.#view = view
    this.#plan = plan
    this.#reduction = view.reduce
  }

  /** Reduce functions are called for many groups at once. */
  async *blocks(): AsyncGenerator<string[]> {
    let { skip, limit: left } = this.#plan
    if (left === 0) return
    let waiting: RowGroup[] = []
    for await (const groups of this.#groups()) {
      for (const group of groups) {
        if (skip > 0) skip--
        else if (waiting.length < left) waiting.push(group)
      }
      if (waiting.length < Math.min(left, GROUPS_A_CALL)) continue
      yield await this.#written(waiting)
      left -= waiting.length
      waiting = []
      if (left === 0) return
    }
    if (waiting.length > 0) yield await this.#written(waiting)
  }

  async #written(groups: readonly RowGroup[]): Promise<string[]> {
    const values = await this.#reduction.combine(groups.map(({ parts }) => parts))
    return groups.map(({ key }, i) => `{"key":${key},"value":${values[i]}}`)
  }

  async *#groups(): AsyncGenerator<RowGroup[]> {
    const { keys, groupLevel } = this.#plan
    const { collation } = this.#view
    if (keys) for (const key of keys) yield* this.#groupsIn(boundsOfKey(key, this.#plan, collation), groupLevel)
    else if (groupLevel === 0) yield this.#wholeRange(boundsOf(this.#plan, collation))
    else yield* this.#groupsIn(boundsOf(this.#plan, collation), groupLevel)
  }

  async #wholeRange(bounds: KeyBounds): Promise<RowGroup[]> {
    const parts = await this.#reduce(bounds)
    return parts.length === 0 ? [] : [{ key: 'null', parts }]
  }

  async #reduce(bounds: KeyBounds): Promise<RangePart[]> {
    if (isEmpty(bounds)) return []
    return this.#view.ranks.reduceRange(this.#view.snapshot, bounds.from, bounds.to)
  }

  async *#groupsIn(bounds: KeyBounds, level: GroupLevel): AsyncGenerator<RowGroup[]> {
    const reverse = this.#plan.descending
    let open: OpenGroup | undefined
    let rows = FEW_ROWS
    let range = isEmpty(bounds) ? undefined : storeRange(this.#view.number, bounds, { reverse })
    while (range) {
      const page: Page = await orderedPage(this.#view.snapshot, range, { rows, bytes: PAGE_BYTES })
      const split = this.#split(page, level, open)
      const closed = await Promise.all(split.closed.map((group) => this.#close(group)))
      open = split.open
      range = page.next
      rows = Math.min(rows * 4, MANY_ROWS)
      const jump = range && open && (await this.#jump(open, bounds))
      if (jump) {
        closed.push(jump.group)
        open = undefined
        range = isEmpty(jump.rest) ? undefined : storeRange(this.#view.number, jump.rest, { reverse })
        rows = FEW_ROWS
      }
      yield closed
    }
    if (open) yield [await this.#close(open)]
  }

  /** The groups that end in the page, and the one that its last row belongs to. */
  #split(page: Page, level: GroupLevel, begun: OpenGroup | undefined): { closed: OpenGroup[]; open?: OpenGroup } {
    const closed: OpenGroup[] = []
    let open = begun
    for (let i = 0; i < page.length; i++) {
      const key = page.key(i).subarray(ROW_PREFIX_BYTES)
      const value = page.value(i)
      const row = new StoredRow(value)
      if (!open?.key.has(key, row)) {
        if (open) closed.push(open)
        open = new OpenGroup(new GroupKey(level, this.#view.collation, key, row))
      }
      open.add({ key, value })
    }
    return open ? { closed, open } : { closed }
  }

  async #close(group: OpenGroup): Promise<RowGroup> {
    const key = group.key.text.toString()
    const rows = group.rows
    if (!rows) return { key, parts: await this.#reduce(group.bounds(this.#plan)) }
    return { key, parts: [{ kind: 'rows', rows: this.#plan.descending ? rows.toReversed() : rows }] }
  }

  /** What is left after a group, where that can be told without reading all of it. */
  async #jump(open: OpenGroup, bounds: KeyBounds): Promise<{ group: RowGroup; rest: KeyBounds } | undefined> {
    const { prefix, text } = open.key
    if (open.isScanned || prefix.length > ORDERED_KEY_BYTES) return undefined
    const end = endOfKey(prefix)
    const parts = await this.#reduce(intersection(bounds, { from: prefix, to: end }))
    if (!this.#reduction.isExact(parts)) {
      // Not asked again: it stays so until the group ends.
      open.isScanned = true
      return undefined
    }
    const rest = this.#plan.descending ? { from: bounds.from, to: prefix } : { from: end, to: bounds.to }
    return { group: { key: text.toString(), parts }, rest }
  }
}

/** A row of the answer, before it is reduced. */
interface RowGroup {
  /** As JSON text. */
  readonly key: string
  readonly parts: readonly RangePart[]
}

/** A group that is being read. */
class OpenGroup {
  readonly key: GroupKey
  /** Whether it must be read to its end, since rows of other groups may lie among its own. */
  isScanned = false
  #rows: ReducibleRow[] | undefined = []
  #first: Buffer | undefined
  #last: Buffer | undefined
  #isOrdered = true

  constructor(key: GroupKey) {
    this.key = key
  }

  add(row: ReducibleRow): void {
    this.#first ??= row.key
    this.#last = row.key
    this.#isOrdered &&= row.key.length <= ORDERED_KEY_BYTES
    this.#rows?.push(row)
    // The tree knows what so many reduce to, and nobody must keep them.
    if (this.#rows && this.#rows.length > MANY_ROWS && this.#isOrdered) this.#rows = undefined
  }

  /** In the order they were read; undefined when there are too many to keep. */
  get rows(): readonly ReducibleRow[] | undefined {
    return this.#rows
  }

  /** From the first to the last row. */
  bounds({ descending }: QueryPlan): KeyBounds {
    assert(this.#first && this.#last, 'A group has a row.')
    const [from, last] = descending ? [this.#last, this.#first] : [this.#first, this.#last]
    return { from, to: Buffer.concat([last, AFTER]) }
  }
}

/** The first key after another begins with it and has this at its end. */
const AFTER = Buffer.of(0)

/** The store keeps rows in the order of their keys up to this length; among those that agree so far it may be another. */
const ORDERED_KEY_BYTES = 1_900

/** What is read at a time: little where the last group was long, more as long as groups are short. */
const FEW_ROWS = 16
const MANY_ROWS = 1_024
const PAGE_BYTES = 64 * 1024

const GROUPS_A_CALL = 256
