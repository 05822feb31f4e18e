/** The values of an index column that can pass a test, in the order of views. */
import { collationKey } from '../../../encoding/collation/collation-key.ts'
import type { JsonValue } from '../../../encoding/json/json-value.ts'
import type { ValueTest } from '../../../selectors/condition.ts'
import {
  ANYTHING,
  comparedIntervals,
  EVERYTHING,
  type Interval,
  type Intervals,
  pointsOf,
  union,
  type ValueBytes,
} from './intervals.ts'

/** Above every byte that can follow a sort key. */
const BEYOND = Buffer.of(0xff)

export function columnIntervals(test: ValueTest): Intervals {
  switch (test.operator) {
    case '$lt':
    case '$lte':
    case '$eq':
    case '$ne':
    case '$gte':
    case '$gt':
      return comparedIntervals(test.operator, test.argument, bytesOf(test.argument))
    case '$in':
      return union([valuesOf(test.argument.filter(isNoArray)), [MAYBE_ARRAY]])
    case '$exists':
      return test.argument ? [EVERYTHING] : []
    case '$type':
      return TYPES.get(test.argument) ?? []
    case '$beginsWith':
      return [prefixInterval(test.argument)]
    case '$regex':
      return inexact(TYPES.get('string'))
    case '$mod':
      return inexact(TYPES.get('number'))
    case '$size':
    case '$all':
    case '$elemMatch':
    case '$allMatch':
      return [MAYBE_ARRAY]
    case '$keyMapMatch':
      return inexact(TYPES.get('object'))
    default:
      return [ANYTHING]
  }
}

/** The column `_id`: selectors compare it by its bytes, which is another order. Equal bytes are equal in both. */
export function idColumnIntervals(test: ValueTest): Intervals {
  if (test.operator === '$eq') return inexact(comparedIntervals('$eq', test.argument, bytesOf(test.argument)))
  if (test.operator === '$in') return inexact(valuesOf(test.argument))
  return [ANYTHING]
}

/** More than are used as ranges: other conditions may leave few of them. The sort keys of a very long list would take too long. */
const MOST_POINTS = 5000

/** The values themselves; of a very long list all values of their types. */
function valuesOf(values: readonly JsonValue[]): Intervals {
  return values.length <= MOST_POINTS ? pointsOf(values, bytesOf) : typesOf(values)
}

function typesOf(values: readonly JsonValue[]): Intervals {
  const types = new Set(values.map(typeOf))
  return union([...types].map((type) => inexact(TYPES.get(type))))
}

/** In place of a list that is not looked at value by value: all values of its types. */
export function listTypeIntervals(values: readonly JsonValue[]): Intervals {
  return union([typesOf(values), [MAYBE_ARRAY]])
}

function typeOf(value: JsonValue): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

function bytesOf(value: JsonValue): ValueBytes {
  const from = collationKey(value)
  return { from, after: Buffer.concat([from, BEYOND]) }
}

/** `$in` also matches elements of an array. */
function isNoArray(value: JsonValue): boolean {
  return !Array.isArray(value)
}

const tagOf = (value: JsonValue) => collationKey(value).subarray(0, 1)
const nextTag = (value: JsonValue) => Buffer.of(collationKey(value)[0]! + 1)

function ofType(first: JsonValue, last: JsonValue): Intervals {
  return [{ ...EVERYTHING, from: tagOf(first), to: nextTag(last), low: first, high: last }]
}

const TYPES: ReadonlyMap<string, Intervals> = new Map([
  ['null', ofType(null, null)],
  ['boolean', ofType(false, true)],
  ['number', ofType(-1, 1)],
  ['string', ofType('', '')],
  ['array', ofType([], [])],
  ['object', ofType({}, {})],
])

const MAYBE_ARRAY: Interval = { ...EVERYTHING, isExact: false, from: tagOf([]), to: nextTag([]), low: [], high: {} }

function inexact(intervals: Intervals = []): Intervals {
  return intervals.map((interval) => ({ ...interval, isExact: false }))
}

/** The highest character there is. */
const HIGHEST = '\uffff'

/**
 * Texts with a prefix sort between the prefix and the prefix followed by the highest character. This holds if no
 * character of it forms a contraction with the next one; texts with other prefixes may be anywhere.
 */
function prefixInterval(prefix: string): Interval {
  const low = prefix === '' || !/^[\x20-\x7e]*$/.test(prefix) ? '' : prefix
  const from = low === '' ? tagOf('') : collationKey(low)
  const to = low === '' ? nextTag('') : Buffer.concat([collationKey(low + HIGHEST), BEYOND])
  return { ...EVERYTHING, isExact: prefix === '', from, to, low, high: low + HIGHEST }
}
