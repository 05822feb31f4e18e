/** Which ranges of an index a selector needs, and whether all of their rows match. */
import { collationKey } from '../../../encoding/collation/collation-key.ts'
import type { JsonValue } from '../../../encoding/json/json-value.ts'
import type { Condition } from '../../../selectors/condition.ts'
import { scopeOfPartition } from '../../layout/index-layout.ts'
import { columnIntervals, idColumnIntervals } from './column-intervals.ts'
import { idIntervals, idsOfPartition, ORDINARY_IDS } from './id-intervals.ts'
import {
  EVERYTHING,
  type Interval,
  type Intervals,
  intersection,
  intersectionOf,
  intervalsOf,
  isEverything,
} from './intervals.ts'

/** Rows from one key (inclusive) up to another (exclusive). */
export interface FindRange {
  readonly from: Buffer
  readonly to: Buffer
  /** Rows up to this one were given already. */
  readonly after?: Buffer | undefined
  /** The same, as the store says it. */
  readonly resume?: Uint8Array | undefined
  /** Whether every document of it matches the selector. */
  readonly isExact: boolean
  /** What it begins and ends with, column by column; undefined from where on it is open. */
  readonly low: readonly (JsonValue | undefined)[]
  readonly high: readonly (JsonValue | undefined)[]
}

/** More ranges would cost more to open than they save. */
const MOST_RANGES = 1000

/** Of the rows of an index, in their order. None where nothing can match. In an index by partition those of one. */
export function indexRanges(
  condition: Condition,
  columns: readonly string[],
  partition: string | undefined,
): FindRange[] {
  const conjuncts = conjunctsOf(condition)
  const sets = columns.map((name) => intersectionOf(conjuncts.map((each) => setOf(each, name))))
  const isCovered = conjuncts.every((each) => isOfOneColumn(each, columns))
  if (sets.some((set) => set.length === 0)) return []
  const ranges = rangesOf(sets, isCovered).sort((a, b) => Buffer.compare(a.from, b.from))
  return partition === undefined ? ranges : withinScope(ranges, scopeOfPartition(partition))
}

function withinScope(ranges: readonly FindRange[], scope: Buffer): FindRange[] {
  return ranges.map((range) => ({
    ...range,
    from: Buffer.concat([scope, range.from]),
    to: Buffer.concat([scope, range.to]),
  }))
}

/** Of the ids of documents, or of those of a partition. */
export function idRanges(condition: Condition, partition: string | undefined): FindRange[] {
  const conjuncts = conjunctsOf(condition)
  const isCovered = conjuncts.every((each) => isOfOneColumn(each, ['_id']))
  const sets = conjuncts
    .filter((each) => fieldsOf(each).has('_id'))
    .map((each) => intervalsOf(each, '_id', idIntervals))
  const ids = partition === undefined ? ORDINARY_IDS : idsOfPartition(partition)
  return intersection(ids, intersectionOf(sets)).map(({ from, to, isExact, low, high }) => ({
    from,
    to,
    isExact: isExact && isCovered,
    low: [low],
    high: [high],
  }))
}

/** The part of a range after the row of a key, in the direction of reading; undefined if it is empty. */
export function rangeBehind(range: FindRange, key: Buffer, reverse: boolean): FindRange | undefined {
  const behind = Buffer.concat([key, Buffer.of(0)])
  const rest = { ...range, after: undefined, resume: undefined }
  const left = reverse ? { ...rest, to: lesser(range.to, key) } : { ...rest, from: greater(range.from, behind) }
  if (Buffer.compare(left.from, left.to) >= 0) return undefined
  // Rows with keys that are too long to be ordered are skipped one by one.
  return left.from === behind || left.to === key ? { ...left, after: key } : left
}

function lesser(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) <= 0 ? a : b
}

function greater(a: Buffer, b: Buffer): Buffer {
  return Buffer.compare(a, b) >= 0 ? a : b
}

/** What must all hold. */
export function conjunctsOf(condition: Condition): readonly Condition[] {
  return condition.kind === 'all' ? condition.parts.flatMap(conjunctsOf) : [condition]
}

/** The fields that a condition looks at. */
export function fieldsOf(condition: Condition): ReadonlySet<string> {
  if (condition.kind === 'everything') return new Set()
  if (condition.kind === 'field') return new Set([condition.field.name])
  return new Set(condition.parts.flatMap((part) => [...fieldsOf(part)]))
}

function setOf(conjunct: Condition, column: string): Intervals {
  if (!fieldsOf(conjunct).has(column)) return [EVERYTHING]
  return intervalsOf(conjunct, column, column === '_id' ? idColumnIntervals : columnIntervals)
}

function isOfOneColumn(conjunct: Condition, columns: readonly string[]): boolean {
  const fields = [...fieldsOf(conjunct)]
  return fields.length === 0 || (fields.length === 1 && columns.includes(fields[0]!))
}

/** The beginning of a range, all of whose columns so far have one value. */
interface Beginning {
  readonly bytes: Buffer
  readonly isExact: boolean
  readonly values: readonly (JsonValue | undefined)[]
}

const ARRAY = collationKey([]).subarray(0, 1)

/** A column with one value leads to the ranges of the next one; the first other column ends a range. */
function rangesOf(sets: readonly Intervals[], isCovered: boolean): FindRange[] {
  const ranges: FindRange[] = []
  let beginnings: Beginning[] = [{ bytes: ARRAY, isExact: isCovered, values: [] }]
  for (const [column, set] of sets.entries()) {
    const isTooMany = ranges.length + beginnings.length * set.length > MOST_RANGES
    const used = isTooMany ? [bounding(set)] : set
    const isRestFree = sets.slice(column + 1).every(isEverything)
    const next: Beginning[] = []
    for (const beginning of beginnings) {
      for (const interval of used) {
        if (interval.isPoint) next.push(extended(beginning, interval))
        else ranges.push(closed(beginning, interval, isRestFree))
      }
    }
    beginnings = next
  }
  return [...ranges, ...beginnings.map((beginning) => closed(beginning, EVERYTHING, true))]
}

function bounding(set: Intervals): Interval {
  const [first, last] = [set[0]!, set.at(-1)!]
  return { from: first.from, to: last.to, isPoint: false, isExact: false, low: first.low, high: last.high }
}

function extended({ bytes, isExact, values }: Beginning, interval: Interval): Beginning {
  return {
    bytes: Buffer.concat([bytes, interval.from]),
    isExact: isExact && interval.isExact,
    values: [...values, interval.low],
  }
}

function closed({ bytes, isExact, values }: Beginning, interval: Interval, isRestFree: boolean): FindRange {
  return {
    from: Buffer.concat([bytes, interval.from]),
    to: Buffer.concat([bytes, interval.to]),
    isExact: isExact && interval.isExact && isRestFree,
    low: [...values, interval.low],
    high: [...values, interval.high],
  }
}
