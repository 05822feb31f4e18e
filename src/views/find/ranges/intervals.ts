/**
 * Sets of values of one field, as intervals of sort keys. A condition becomes such a set; it may be wider than the
 * condition, never narrower.
 */
import type { JsonValue } from '../../../encoding/json/json-value.ts'
import type { Condition, ValueTest } from '../../../selectors/condition.ts'

export interface Interval {
  /** Inclusive. */
  readonly from: Buffer
  /** Exclusive. */
  readonly to: Buffer
  /** Whether all values in it have the same bytes. */
  readonly isPoint: boolean
  /** Whether the condition holds for all values in it. */
  readonly isExact: boolean
  /** The bounds for `_explain`; undefined if open. */
  readonly low: JsonValue | undefined
  readonly high: JsonValue | undefined
}

/** In their order, without overlaps. */
export type Intervals = readonly Interval[]

const START = Buffer.alloc(0)
const END = Buffer.of(0xff)

export const EVERYTHING: Interval = {
  from: START,
  to: END,
  isPoint: false,
  isExact: true,
  low: undefined,
  high: undefined,
}

/** The set for a condition that cannot be expressed in intervals. */
export const ANYTHING: Interval = { ...EVERYTHING, isExact: false }

/** The set of one test of the field. */
export type TestIntervals = (test: ValueTest) => Intervals

/** What a condition says about one field. Other fields may take any value. */
export function intervalsOf(condition: Condition, name: string, ofTest: TestIntervals): Intervals {
  if (condition.kind === 'everything') return [EVERYTHING]
  if (condition.kind === 'field') return condition.field.name === name ? ofTest(condition.test) : [ANYTHING]
  const parts = condition.parts.map((part) => intervalsOf(part, name, ofTest))
  if (parts.length === 0) return [EVERYTHING]
  return condition.kind === 'all' ? intersectionOf(parts) : union(parts)
}

/** Whether there is no condition. */
export function isEverything(intervals: Intervals): boolean {
  const [only] = intervals
  return intervals.length === 1 && only!.isExact && only!.from.length === 0 && only!.to.equals(END)
}

export function intersection(a: Intervals, b: Intervals): Intervals {
  const result: Interval[] = []
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const [left, right] = [a[i]!, b[j]!]
    const lower = Buffer.compare(left.from, right.from) >= 0 ? left : right
    const upper = Buffer.compare(left.to, right.to) <= 0 ? left : right
    if (Buffer.compare(lower.from, upper.to) < 0) {
      result.push({
        from: lower.from,
        to: upper.to,
        isPoint: left.isPoint || right.isPoint,
        isExact: left.isExact && right.isExact,
        low: lower.low,
        high: upper.high,
      })
    }
    if (upper === left) i++
    else j++
  }
  return result
}

/** The intersection of many sets, the smaller ones first, which is cheaper. */
export function intersectionOf(sets: readonly Intervals[]): Intervals {
  const [first = [EVERYTHING], second] = sets
  if (!second) return first
  const middle = sets.length >> 1
  return intersection(intersectionOf(sets.slice(0, middle)), intersectionOf(sets.slice(middle)))
}

export function union(sets: readonly Intervals[]): Intervals {
  const all = sets.flat().sort((a, b) => Buffer.compare(a.from, b.from) || Buffer.compare(a.to, b.to))
  const result: Interval[] = []
  for (const each of all) {
    const last = result.at(-1)
    if (!last || Buffer.compare(last.to, each.from) <= 0) result.push(each)
    else result[result.length - 1] = joined(last, each)
  }
  return result
}

/** Of two that overlap, of which the first one begins first. */
function joined(first: Interval, second: Interval): Interval {
  const isSame = first.from.equals(second.from) && first.to.equals(second.to)
  const upper = Buffer.compare(first.to, second.to) >= 0 ? first : second
  return {
    from: first.from,
    to: upper.to,
    isPoint: isSame && first.isPoint,
    // Where one of two equal sets is exact, all of it passes.
    isExact: isSame ? first.isExact || second.isExact : first.isExact && second.isExact,
    low: first.low,
    high: upper.high,
  }
}

/** The bytes of a value and nothing beyond it. */
export interface ValueBytes {
  readonly from: Buffer
  /** The first bytes that are after it. */
  readonly after: Buffer
}

export function point(value: JsonValue, { from, after }: ValueBytes): Interval {
  return { from, to: after, isPoint: true, isExact: true, low: value, high: value }
}

export function pointsOf(values: readonly JsonValue[], bytesOf: (value: JsonValue) => ValueBytes): Intervals {
  return union(values.map((value) => [point(value, bytesOf(value))]))
}

/** The interval of values that compare with a value in this way. */
export function comparedIntervals(
  operator: '$lt' | '$lte' | '$eq' | '$ne' | '$gte' | '$gt',
  value: JsonValue,
  bytes: ValueBytes,
): Intervals {
  const below: Interval = { ...EVERYTHING, to: bytes.from, high: value }
  const above: Interval = { ...EVERYTHING, from: bytes.after, low: value }
  switch (operator) {
    case '$lt':
      return [below]
    case '$lte':
      return [{ ...below, to: bytes.after }]
    case '$gt':
      return [above]
    case '$gte':
      return [{ ...above, from: bytes.from }]
    case '$eq':
      return [point(value, bytes)]
    case '$ne':
      return [below, above].filter(({ from, to }) => Buffer.compare(from, to) < 0)
  }
}
