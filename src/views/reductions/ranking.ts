/** `_top_N` and `_bottom_N`: the N greatest, or least, different values in the order of keys. */
import { RequestError } from '../../document/request-error.ts'
import { collationKey } from '../../encoding/collation/collation-key.ts'
import type { JsonValue } from '../../encoding/json/json-value.ts'
import { type NativeReduction, textOf } from './reduction.ts'

const LARGEST_RANKING = 100

/** Takes what follows the name: how many values are wanted. */
export function ranking(order: 'top' | 'bottom', size: string): NativeReduction {
  const limit = /^\d{1,3}$/.test(size) ? Number(size) : 0
  if (limit < 1 || limit > LARGEST_RANKING) throw new RequestError('failed', 'invalid_value', 'invalid rank reducer')
  const rank = (values: readonly JsonValue[]) => Buffer.from(JSON.stringify(ranked(values, order, limit)))
  return {
    reduce: (rows) => rank(rows.map(({ value }): JsonValue => JSON.parse(value.toString()))),
    rereduce: (reductions) => rank(reductions.flatMap((each): JsonValue[] => JSON.parse(textOf(each)))),
    result: textOf,
  }
}

function ranked(values: readonly JsonValue[], order: 'top' | 'bottom', limit: number): JsonValue[] {
  const sign = order === 'top' ? -1 : 1
  const keyed = values.map((value) => ({ value, key: collationKey(value) }))
  keyed.sort((a, b) => sign * Buffer.compare(a.key, b.key))
  const different = keyed.filter(({ key }, i) => i === 0 || !key.equals(keyed[i - 1]!.key))
  return different.slice(0, limit).map(({ value }) => value)
}
