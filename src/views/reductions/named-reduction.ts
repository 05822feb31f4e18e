/** Finds what a `reduce` member asks for: one of the server's own reductions, told by how it begins, or a function. */
import { notFound, RequestError } from '../../document/request-error.ts'
import type { Functions } from '../../functions/functions.ts'
import type { Run } from '../../runtime/fair-semaphore.ts'
import { SELECTOR_LANGUAGE } from '../../selectors/index-definition.ts'
import { custom } from './custom.ts'
import { distinctCount } from './distinct-count.ts'
import { numbers } from './numbers.ts'
import { type NativeReduction, native, type Reduction } from './reduction.ts'
import { count, first, last, ranking } from './small-reductions.ts'
import { statistics } from './statistics.ts'
import { sum } from './sum.ts'

/** A reduction that cannot be is found all the same: it fails when there is something to reduce. */
export function namedReduction(source: string, language: string, functions: Functions, run: Run): Reduction {
  if (source === '') return failing(notFound('missing function'))
  if (language === SELECTOR_LANGUAGE) return native(numbers)
  if (!source.startsWith('_')) return custom(functions, { language, source }, run)
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
