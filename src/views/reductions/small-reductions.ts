/** Small built-in reductions: `_count`, `_first` and `_last`, `_top_N` and `_bottom_N`. */

import { RequestError } from '../../document/request-error.ts'
import { collationKey } from '../../encoding/collation/collation-key.ts'
import type { JsonValue } from '../../encoding/json/json-value.ts'
import { type NativeReduction, textOf } from './reduction.ts'

export const count: NativeReduction = {
  reduce: (rows) => Buffer.from(String(rows.length)),
  rereduce: (reductions) => Buffer.from(String(reductions.reduce((sum, each) => sum + Number(textOf(each)), 0))),
  result: textOf,
}

/** The value of the first, or last, row in the order of keys and ids. */
export const first: NativeReduction = edge((list) => list[0])
export const last: NativeReduction = edge((list) => list.at(-1))

function edge(choose: <T>(list: readonly T[]) => T | undefined): NativeReduction {
  return {
    reduce: (rows) => choose(rows)?.value ?? NULL,
    rereduce: (reductions) => choose(reductions) ?? NULL,
    result: textOf,
  }
}

const NULL = Buffer.from('null')

const LARGEST_RANKING = 100

/** The N greatest, or least, different values in collation order. `size` is what follows the name. */
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
