/** Which ranges of an index a selector needs, and whether all of their rows match. */
import { collationKey } from '../../../encoding/collation/collation-key.ts'
import type { JsonValue } from '../../../encoding/json/json-value.ts'
import type { Condition } from '../../../selectors/condition.ts'
import { scopeOfPartition } from '../../layout/index-layout.ts'
import { columnIntervals, idColumnIntervals, listTypeIntervals } from './column-intervals.ts'
import { type FindRange, type RangeList, rangeList } from './find-range.ts'
import { idIntervals, idsOfPartition, ORDINARY_IDS } from './id-intervals.ts'
import {
  ANYTHING,
  EVERYTHING,
  type Interval,
  type Intervals,
  intersection,
  intersectionOf,
  intervalsOf,
  isEverything,
  type TestIntervals,
} from './intervals.ts'
import { IdRanges, idsWithin, listedIds } from './listed-ids.ts'

/** More ranges would cost more to open than they save. */
const MOST_RANGES = 1000

/** Values of all lists of a selector that are looked at one by one: it takes some microseconds for each. */
const MOST_LISTED = 10_000
/** Longer lists of ids become ranges one by one. */
const FEW_IDS = 1000

/** Of the rows of an index, in their order. None where nothing can match. In an index by partition those of one. */
export function indexRanges(
  condition: Condition,
  columns: readonly string[],
  partition: string | undefined,
): FindRange[] {
  const conjuncts = conjunctsOf(condition)
  const isLong = listedValues(condition) > MOST_LISTED
  const sets = columns.map((name) => intersectionOf(conjuncts.map((each) => setOf(each, name, isLong))))
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
export async function idRanges(condition: Condition, partition: string | undefined): Promise<RangeList> {
  const conjuncts = conjunctsOf(condition)
  const isCovered = conjuncts.every((each) => isOfOneColumn(each, ['_id']))
  const list = listedConjunct(conjuncts)
  const others = conjuncts.filter((each) => each !== list?.conjunct && fieldsOf(each).has('_id'))
  const values = others.reduce((sum, each) => sum + listedValues(each), 0)
  const ofTest = values > MOST_LISTED ? withoutLists(idIntervals) : idIntervals
  const sets = others.map((each) => intervalsOf(each, '_id', ofTest))
  const ids = partition === undefined ? ORDINARY_IDS : idsOfPartition(partition)
  const intervals = intersection(ids, intersectionOf(sets))
  if (list) {
    const areExact = isCovered && intervals.every(({ isExact }) => isExact)
    return new IdRanges(await idsWithin(list.ids, intervals), areExact)
  }
  const ranges = intervals.map(({ from, to, isExact, low, high }) => ({
    from,
    to,
    isExact: isExact && isCovered,
    low: [low],
    high: [high],
  }))
  return rangeList(ranges)
}

/** The shortest list of ids that all documents must be in, where even that one is long. */
function listedConjunct(conjuncts: readonly Condition[]): ListedConjunct | undefined {
  let shortest: ListedConjunct | undefined
  for (const conjunct of conjuncts) {
    const ids = listedIds(conjunct)
    if (ids && (!shortest || ids.length < shortest.ids.length)) shortest = { conjunct, ids }
  }
  return shortest && shortest.ids.length > FEW_IDS ? shortest : undefined
}

interface ListedConjunct {
  readonly conjunct: Condition
  readonly ids: readonly JsonValue[]
}

function listedValues(condition: Condition): number {
  if (condition.kind === 'everything') return 0
  if (condition.kind === 'field') return condition.test.operator === '$in' ? condition.test.argument.length : 0
  return condition.parts.reduce((sum, part) => sum + listedValues(part), 0)
}

function withTypesOfLists(ofTest: TestIntervals): TestIntervals {
  return (test) => (test.operator === '$in' ? listTypeIntervals(test.argument) : ofTest(test))
}

function withoutLists(ofTest: TestIntervals): TestIntervals {
  return (test) => (test.operator === '$in' ? [ANYTHING] : ofTest(test))
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

function setOf(conjunct: Condition, column: string, isLong: boolean): Intervals {
  if (!fieldsOf(conjunct).has(column)) return [EVERYTHING]
  const ofTest = column === '_id' ? idColumnIntervals : columnIntervals
  return intervalsOf(conjunct, column, isLong ? withTypesOfLists(ofTest) : ofTest)
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
