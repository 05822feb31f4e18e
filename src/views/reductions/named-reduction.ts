/** Finds the reduction of a `reduce` member: a built-in one, recognized by its prefix, or a function. */
import { notFound, RequestError } from '../../document/request-error.ts'
import { collationKey } from '../../encoding/collation/collation-key.ts'
import type { JsonValue } from '../../encoding/json/json-value.ts'
import type { Functions, ReduceInput, ReduceProgram } from '../../functions/functions.ts'
import type { Run } from '../../runtime/fair-semaphore.ts'
import { SELECTOR_LANGUAGE } from '../../selectors/index-definition.ts'
import type { StoredRow } from '../layout/index-layout.ts'
import { distinctCount } from './distinct-count.ts'
import { numbers } from './numbers.ts'
import { type NativeReduction, native, type Reduction, textOf } from './reduction.ts'
import { statistics } from './statistics.ts'
import { sum } from './sum.ts'

/** An invalid reduction is returned too: it fails when there is something to reduce. */
export function namedReduction(source: string, language: string, functions: Functions, run: Run): Reduction {
  if (source === '') return failing(notFound('missing function'))
  return nativeReduction(source, language) ?? custom(functions, { language, source }, run)
}

/** A built-in reduction; undefined for a function of a design document. */
export function nativeReduction(source: string, language: string): Reduction | undefined {
  if (language === SELECTOR_LANGUAGE) return native(numbers)
  if (!source.startsWith('_')) return undefined
  try {
    return native(builtin(source))
  } catch (error) {
    return failing(error)
  }
}

/** What follows a name does not matter. */
function builtin(source: string): NativeReduction {
  if (source.startsWith('_sum')) return sum
  if (source.startsWith('_count')) return count
  if (source.startsWith('_stats')) return statistics
  if (source.startsWith('_approx_count_distinct')) return distinctCount
  if (source.startsWith('_first')) return first
  if (source.startsWith('_last')) return last
  if (source.startsWith('_top_')) return ranking('top', source.slice('_top_'.length).trim())
  if (source.startsWith('_bottom_')) return ranking('bottom', source.slice('_bottom_'.length).trim())
  throw new RequestError('failed', 'invalid_value', `\`${source}\` is not a supported reduce function.`)
}

function failing(error: unknown): Reduction {
  return {
    reduce: () => Promise.reject(error),
    rereduce: () => Promise.reject(error),
    result: () => 'null',
  }
}

/** Small built-in reductions: `_count`, `_first` and `_last`, `_top_N` and `_bottom_N`. */
export const count: NativeReduction = {
  reduce: (rows) => Buffer.from(String(rows.length)),
  rereduce: (reductions) => Buffer.from(String(reductions.reduce((sum, each) => sum + Number(textOf(each)), 0))),
  result: textOf,
}

/** The value of the first, or last, row in the order of keys and ids. */
export const first: NativeReduction = edge((list) => list[0])
const last: NativeReduction = edge((list) => list.at(-1))

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
function ranking(order: 'top' | 'bottom', size: string): NativeReduction {
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

/** A reduce function of a design document. Its reductions are the JSON text that it returned. */
function custom(functions: Functions, program: ReduceProgram, run: Run): Reduction {
  return {
    reduce: async (groups) => {
      const inputs = groups.map((rows) => rows.map(inputOf))
      return (await functions.reduce(program, inputs, run)).map(asBytes)
    },
    rereduce: async (groups) => {
      const inputs = groups.map((reductions) => reductions.map(textOf))
      return (await functions.rereduce(program, inputs, run)).map(asBytes)
    },
    result: textOf,
  }
}

function inputOf(row: StoredRow): ReduceInput {
  return { key: row.key.toString(), id: JSON.parse(row.id.toString()), value: row.value.toString() }
}

function asBytes(text: string): Buffer {
  return Buffer.from(text)
}
