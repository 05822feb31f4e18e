/** The reply of a selector query: its documents, the bookmark, and warnings. */
import type { FindPlan } from './find-plan.ts'
import { isIndex } from './find-plan.ts'
import type { FindFigures, FindQuery } from './find-query.ts'
import { SEPARATOR } from './found-texts.ts'
import type { NamedIndex } from './index-choice.ts'

export interface ReplySettings {
  /** The number of examined documents for each result that causes a warning; 0 for never. */
  readonly warningThreshold: number
  /** The time at which the request came in, from `performance.now`. */
  readonly begunMs: number
  /** How many documents match, where that is asked for. */
  readonly count: number | undefined
}

/** In pieces, as fast as they are taken. */
export async function* findReply(query: FindQuery, plan: FindPlan, settings: ReplySettings): AsyncGenerator<Buffer> {
  let isFirst = true
  for await (const texts of query.results()) {
    if (isFirst) yield BEFORE_FIRST
    yield isFirst ? texts.subarray(SEPARATOR.length) : texts
    isFirst = false
  }
  const tail = JSON.stringify(members(query, plan, settings)).slice(1)
  const beforeTail = tail === '}' ? '' : ','
  const begun = isFirst ? '{"docs":[' : '\r\n'
  yield Buffer.from(`${begun}]${beforeTail}${tail}\n`)
}

const BEFORE_FIRST = Buffer.from('{"docs":[\r\n')

function members(query: FindQuery, plan: FindPlan, { warningThreshold, begunMs, count }: ReplySettings): object {
  const { bookmark, figures } = query
  const warnings = warningsOf(plan, figures, warningThreshold)
  return {
    ...(bookmark !== undefined && { bookmark }),
    ...(count !== undefined && { count }),
    ...(warnings.length > 0 && bookmark !== undefined && { warning: warnings.join('\n') }),
    ...(plan.request.executionStats && {
      execution_stats: {
        total_keys_examined: figures.keysExamined,
        total_docs_examined: figures.documentsExamined,
        total_quorum_docs_examined: 0,
        results_returned: figures.results,
        execution_time_ms: Math.round((performance.now() - begunMs) * 1000) / 1000,
      },
    }),
  }
}

function warningsOf({ choice, index }: FindPlan, figures: FindFigures, threshold: number): string[] {
  const warnings: string[] = []
  if (choice.unused) warnings.push(unusedWarning(choice.unused))
  if (!isIndex(index)) warnings.push('No matching index found, create an index to optimize query time.')
  const ratio = figures.documentsExamined / Math.max(1, figures.results)
  if (threshold > 0 && ratio > threshold) warnings.push(SCAN_WARNING)
  return warnings
}

const SCAN_WARNING =
  'The number of documents examined is high in proportion to the number of results returned. Consider adding a more specific index to improve this.'

function unusedWarning({ design, name }: NamedIndex): string {
  if (name === undefined) return `${design} was not used because it does not contain a valid index for this query.`
  return `${design}, ${name} was not used because it is not a valid index for this query.`
}
