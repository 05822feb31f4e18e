/**
 * Long lists of document ids in a selector. They are sorted in time slices, and the range of an id is created when it is
 * read: all ranges at once would block the event loop.
 */
import type { JsonValue } from '../../../encoding/json/json-value.ts'
import { TimeSlice } from '../../../runtime/clock.ts'
import type { Condition } from '../../../selectors/condition.ts'
import type { FindRange, RangeList } from './find-range.ts'
import type { Intervals } from './intervals.ts'

/** The values of a condition that holds for listed ids only; undefined for other conditions. */
export function listedIds(condition: Condition): readonly JsonValue[] | undefined {
  if (condition.kind === 'field') {
    if (condition.field.name !== '_id') return undefined
    const { operator, argument } = condition.test
    if (operator === '$in') return argument
    return operator === '$eq' ? [argument] : undefined
  }
  if (condition.kind !== 'any' || condition.parts.length === 0) return undefined
  const lists: (readonly JsonValue[])[] = []
  for (const part of condition.parts) {
    const list = listedIds(part)
    if (!list) return undefined
    lists.push(list)
  }
  return lists.flat()
}

/** The listed ids that lie in the intervals. */
export async function idsWithin(values: readonly JsonValue[], intervals: Intervals): Promise<string[]> {
  const ids = await sortedIds(values)
  return intervals.flatMap(({ from, to }) => ids.slice(firstFrom(ids, from), firstFrom(ids, to)))
}

export class IdRanges implements RangeList {
  readonly #ids: readonly string[]
  readonly areExact: boolean

  /** The ids are in the order of their bytes. */
  constructor(ids: readonly string[], areExact: boolean) {
    this.#ids = ids
    this.areExact = areExact
  }

  get length(): number {
    return this.#ids.length
  }

  at(ordinal: number): FindRange {
    const id = this.#ids[ordinal]!
    const to = Buffer.from(`${id}\0`)
    return { from: to.subarray(0, -1), to, isExact: this.areExact, low: [id], high: [id] }
  }
}

/** Ids that are sorted at once. */
const SORTED_TOGETHER = 1000

/** Sorted by their bytes, each id once. */
async function sortedIds(values: readonly JsonValue[]): Promise<string[]> {
  const slice = new TimeSlice()
  let sorted: string[][] = []
  for (let start = 0; start < values.length; start += SORTED_TOGETHER) {
    const ids = values.slice(start, start + SORTED_TOGETHER).filter((value) => typeof value === 'string')
    // Lone surrogates have no bytes of their own.
    sorted.push([...new Set(ids.map((id) => id.toWellFormed()))].sort(compareIds))
    if (slice.isOverNow) await slice.pause()
  }
  while (sorted.length > 1) {
    const merged: string[][] = []
    for (let i = 0; i < sorted.length; i += 2) merged.push(await mergedIds(sorted[i]!, sorted[i + 1] ?? [], slice))
    sorted = merged
  }
  return sorted[0] ?? []
}

async function mergedIds(left: readonly string[], right: readonly string[], slice: TimeSlice): Promise<string[]> {
  const merged: string[] = []
  let [i, j] = [0, 0]
  while (i < left.length && j < right.length) {
    const order = compareIds(left[i]!, right[j]!)
    merged.push(order <= 0 ? left[i]! : right[j]!)
    if (order <= 0) i++
    if (order >= 0) j++
    if (slice.isOver) await slice.pause()
  }
  while (i < left.length) merged.push(left[i++]!)
  while (j < right.length) merged.push(right[j++]!)
  return merged
}

/** The ordinal of the first id that is not before a key. */
function firstFrom(ids: readonly string[], key: Buffer): number {
  let first = 0
  for (let end = ids.length; first < end; ) {
    const middle = (first + end) >> 1
    if (Buffer.compare(Buffer.from(ids[middle]!), key) < 0) first = middle + 1
    else end = middle
  }
  return first
}

/** The order of the UTF-8 bytes of two texts. */
function compareIds(a: string, b: string): number {
  const end = Math.min(a.length, b.length)
  for (let at = 0; at < end; at++) {
    const left = a.charCodeAt(at)
    const right = b.charCodeAt(at)
    if (left !== right) return rankOfUnit(left) - rankOfUnit(right)
  }
  return a.length - b.length
}

/** Characters that take two units of UTF-16 come after all others in UTF-8. */
function rankOfUnit(unit: number): number {
  if (unit < 0xd800) return unit
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800
}
