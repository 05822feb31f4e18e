/**
 * The rows of a reduced query: one for the whole range, or one a group. Groups within a page of the store are made from its
 * rows. For a group that continues beyond its page, the rank tree gives the reduction of the rest. The rows read at its end are
 * where the next group begins, so a jump from group to group takes one read.
 */
import assert from 'node:assert/strict'
import type { RangePart, ReducibleRow } from '../../storage/rank-tree/rank-tree.ts'
import { PlacedRow } from '../../storage/rank-tree/tree-layout.ts'
import { orderedPage } from '../../storage/snapshots/row-page.ts'
import type { Page } from '../../storage/store.ts'
import { endOfKey, ROW_PREFIX_BYTES } from '../layout/index-layout.ts'
import type { OpenView, ViewReduction } from '../reading/open-index.ts'
import { storedRow } from '../reductions/view-reducer.ts'
import { type GroupedKeys, GroupKey, type GroupLevel } from './group-key.ts'
import {
  boundsOf,
  boundsOfKey,
  contains,
  intersection,
  isEmpty,
  type KeyBounds,
  type QueryPlan,
  storeRange,
} from './query-plan.ts'

export class ReducedRows {
  readonly #view: OpenView
  readonly #plan: QueryPlan
  readonly #reduction: ViewReduction
  readonly #keys: GroupedKeys

  constructor(view: OpenView, plan: QueryPlan) {
    assert(view.reduce, 'A view without a reduce function is not reduced.')
    this.#view = view
    this.#plan = plan
    this.#reduction = view.reduce
    this.#keys = { collation: view.collation, scope: plan.scope }
  }

  /** The only row of the answer, or none, if the query reduces a whole range; undefined otherwise. */
  async single(): Promise<string[] | undefined> {
    const { keys, groupLevel, skip, limit } = this.#plan
    if (keys || groupLevel !== 0 || skip > 0 || limit === 0) return undefined
    const groups = await this.#wholeRange(boundsOf(this.#plan, this.#view.collation))
    return groups.length === 0 ? [] : this.#written(groups)
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
      const split = this.#split(rowsOf(page), level, open)
      open = split.open
      range = page.next
      rows = Math.min(rows * 4, MANY_ROWS)
      yield await Promise.all(split.closed.map((group) => this.#close(group)))
      let rest = open && this.#after(open, bounds)
      while (range && open && rest) {
        const jump: Jump | undefined = await this.#jump(open, rest, bounds)
        if (!jump) break
        const next = this.#split(jump.beyond, level, undefined)
        yield [jump.group, ...(await Promise.all(next.closed.map((group) => this.#close(group))))]
        open = next.open
        rest = jump.rest
        range = rest && storeRange(this.#view.number, rest, { reverse })
        rows = FEW_ROWS
        // Reading so few rows is cheaper than a jump.
        if (jump.weight < MANY_TO_SKIP) break
      }
    }
    if (open) yield [await this.#close(open)]
  }

  /** The groups that end among the rows, and the one that the last row belongs to. */
  #split(
    rows: Iterable<ReducibleRow>,
    level: GroupLevel,
    begun: OpenGroup | undefined,
  ): { closed: OpenGroup[]; open?: OpenGroup } {
    const closed: OpenGroup[] = []
    let open = begun
    for (const each of rows) {
      const row = storedRow(each)
      if (!open?.key.has(each.key, row)) {
        if (open) closed.push(open)
        open = new OpenGroup(new GroupKey(level, this.#keys, each.key, row))
      }
      open.add(each)
    }
    return open ? { closed, open } : { closed }
  }

  async #close(group: OpenGroup): Promise<RowGroup> {
    const key = group.key.text.toString()
    const rows = group.rows
    if (!rows) return { key, parts: await this.#reduce(group.bounds(this.#plan)) }
    return { key, parts: [{ kind: 'rows', rows: this.#plan.descending ? rows.toReversed() : rows }] }
  }

  /** What is left of the bounds behind the rows that a group has so far. */
  #after(open: OpenGroup, { from, to }: KeyBounds): KeyBounds {
    const last = open.last
    return this.#plan.descending ? { from, to: last } : { from: Buffer.concat([last, AFTER]), to }
  }

  /**
   * Takes the rest of a group from the tree instead of reading it, if possible. `rest` is the part of the bounds that
   * was not read yet.
   */
  async #jump(open: OpenGroup, rest: KeyBounds, bounds: KeyBounds): Promise<Jump | undefined> {
    const { prefix, text } = open.key
    if (open.isScanned || prefix.length > ORDERED_KEY_BYTES) return undefined
    const reverse = this.#plan.descending
    const whole = { from: prefix, to: endOfKey(prefix) }
    // Rows that are not in the order of their keys are not known to lie before the rest.
    const read = open.isOrdered ? open.rows : undefined
    const { from, to } = intersection(read ? rest : bounds, whole)
    const { parts, weight, beyond, position } = await this.#view.ranks.reduceThrough(this.#view.snapshot, from, to, {
      reverse,
    })
    if (!this.#reduction.isExact(parts) || (read && !this.#reduction.isExact([{ kind: 'rows', rows: read }]))) {
      // Not tried again until the group ends.
      open.isScanned = true
      return undefined
    }
    const group = { key: text.toString(), parts: this.#joined(read, parts) }
    const left = reverse ? { from: bounds.from, to: whole.from } : { from: whole.to, to: bounds.to }
    // Rows that are not in the order of their keys are read again, in that order.
    if (beyond.some(({ key }) => key.length > ORDERED_KEY_BYTES)) {
      return { group, weight, beyond: [], rest: isEmpty(left) ? undefined : left }
    }
    const onward =
      position && intersection(left, reverse ? { from: undefined, to: position } : { from: position, to: undefined })
    return {
      group,
      weight,
      beyond: beyond.filter(({ key }) => contains(left, key)),
      rest: onward && !isEmpty(onward) ? onward : undefined,
    }
  }

  /** Rows in the order of reading and what follows them, in the order of the keys. */
  #joined(read: readonly ReducibleRow[] | undefined, parts: readonly RangePart[]): readonly RangePart[] {
    if (!read) return parts
    if (this.#plan.descending) return [...parts, { kind: 'rows', rows: read.toReversed() }]
    return [{ kind: 'rows', rows: read }, ...parts]
  }
}

/** A group that was taken from the tree, and what was found behind it. */
interface Jump {
  readonly group: RowGroup
  /** How many rows did not have to be read. */
  readonly weight: number
  /** Rows of the next groups. */
  readonly beyond: readonly ReducibleRow[]
  /** What is left of the bounds behind them, if anything is. */
  readonly rest: KeyBounds | undefined
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
  /** Whether the store keeps all of its rows so far in the order of their keys. */
  isOrdered = true

  constructor(key: GroupKey) {
    this.key = key
  }

  add(row: ReducibleRow): void {
    this.#first ??= row.key
    this.#last = row.key
    this.isOrdered &&= row.key.length <= ORDERED_KEY_BYTES
    this.#rows?.push(row)
    // Beyond this many rows the reduction comes from the tree, and the rows are not kept.
    if (this.#rows && this.#rows.length > MANY_ROWS && this.isOrdered) this.#rows = undefined
  }

  /** In the order they were read; undefined when there are too many to keep. */
  get rows(): readonly ReducibleRow[] | undefined {
    return this.#rows
  }

  /** The key of the row that was read last. */
  get last(): Buffer {
    assert(this.#last, 'A group has a row.')
    return this.#last
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

/** The rows of one read: few after a long group, more while groups are short. */
const FEW_ROWS = 16
const MANY_ROWS = 1_024
const PAGE_BYTES = 64 * 1024

/** The number of rows whose reading costs as much as a lookup in the tree. */
const MANY_TO_SKIP = 32

const GROUPS_A_CALL = 256

function rowsOf(page: Page): ReducibleRow[] {
  const rows: ReducibleRow[] = []
  for (let i = 0; i < page.length; i++) {
    const keyAt = page.bounds[3 * i]! + ROW_PREFIX_BYTES
    rows.push(new PlacedRow(page.block, keyAt, page.bounds[3 * i + 1]!, page.bounds[3 * i + 2]!, 1))
  }
  return rows
}
