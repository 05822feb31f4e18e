/** The document ids that can pass a test, in the order of their bytes. */
import { partitionIds } from '../../../document/partition.ts'
import type { JsonValue } from '../../../encoding/json/json-value.ts'
import type { ValueTest } from '../../../selectors/condition.ts'
import {
  ANYTHING,
  comparedIntervals,
  EVERYTHING,
  type Intervals,
  point,
  pointsOf,
  type ValueBytes,
} from './intervals.ts'

export function idIntervals(test: ValueTest): Intervals {
  switch (test.operator) {
    case '$lt':
    case '$lte':
    case '$eq':
      return typeof test.argument === 'string' ? compared(test.operator, test.argument) : []
    case '$ne':
    case '$gte':
    case '$gt':
      // Texts are above everything else here.
      return typeof test.argument === 'string' ? compared(test.operator, test.argument) : [EVERYTHING]
    case '$in':
      return idPoints(test.argument.filter((id) => typeof id === 'string'))
    case '$exists':
      return test.argument ? [EVERYTHING] : []
    case '$type':
      return test.argument === 'string' ? [EVERYTHING] : []
    case '$beginsWith':
      return [prefixInterval(test.argument)]
    default:
      return [ANYTHING]
  }
}

/** All ids but those of design documents. */
export const ORDINARY_IDS: Intervals = [
  { ...EVERYTHING, to: Buffer.from('_design/') },
  { ...EVERYTHING, from: Buffer.from('_design0') },
]

export function idsOfPartition(partition: string): Intervals {
  const { first, last } = partitionIds(partition)
  return [{ ...EVERYTHING, from: Buffer.from(first), to: Buffer.from(last), low: first, high: last }]
}

function compared(operator: Parameters<typeof comparedIntervals>[0], id: string): Intervals {
  return comparedIntervals(operator, id, bytesOf(id))
}

function bytesOf(id: JsonValue): ValueBytes {
  const from = Buffer.from(String(id))
  return { from, after: Buffer.concat([from, Buffer.of(0)]) }
}

/** UTF-16 and UTF-8 order characters alike up to the first surrogate. */
const FROM_SURROGATES = /[\ud800-\uffff]/

/** The bytes of all ids lie in one block, and are sorted as texts: a list may be long, and the thread waits for it. */
function idPoints(values: readonly string[]): Intervals {
  if (values.some((id) => FROM_SURROGATES.test(id))) return pointsOf(values, bytesOf)
  const ids = [...new Set(values)].sort()
  const block = Buffer.from(ids.map((id) => `${id}\0`).join(''))
  let at = 0
  return ids.map((id) => {
    const start = at
    at += Buffer.byteLength(id) + 1
    return point(id, { from: block.subarray(start, at - 1), after: block.subarray(start, at) })
  })
}

/** UTF-8 has no byte of this value, so it is above every id with the prefix. */
function prefixInterval(prefix: string) {
  const from = Buffer.from(prefix)
  return { ...EVERYTHING, from, to: Buffer.concat([from, Buffer.of(0xff)]), low: prefix, high: `${prefix}\uffff` }
}
