/** The document ids that can pass a test, in the order of their bytes. */
import { partitionIds } from '../../../document/partition.ts'
import type { JsonValue } from '../../../encoding/json/json-value.ts'
import type { ValueTest } from '../../../selectors/condition.ts'
import { ANYTHING, comparedIntervals, EVERYTHING, type Intervals, pointsOf, type ValueBytes } from './intervals.ts'

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
      return pointsOf(
        test.argument.filter((id) => typeof id === 'string'),
        bytesOf,
      )
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

/** UTF-8 has no byte of this value, so it is above every id with the prefix. */
function prefixInterval(prefix: string) {
  const from = Buffer.from(prefix)
  return { ...EVERYTHING, from, to: Buffer.concat([from, Buffer.of(0xff)]), low: prefix, high: `${prefix}\uffff` }
}
