/** The reply of `_explain`: the plan of a query, and why other indexes are not used. */
import type { JsonValue } from '../../encoding/json/json-value.ts'
import { type Condition, conditionJson } from '../../selectors/condition.ts'
import { NO_BOOKMARK } from './bookmark.ts'
import { isCovered } from './covered-rows.ts'
import { isIndex, planWith } from './find-plan.ts'
import { type FindRequest, useIndexJson } from './find-request.ts'
import type { Candidate, Choice, IndexOrAll } from './index-choice.ts'
import type { FindRange } from './ranges/find-range.ts'
import { fieldsOf } from './ranges/index-ranges.ts'
import { ALL_DOCUMENTS_LISTING, indexListing } from './selector-indexes.ts'

/** Shown for a range with an open end. */
const OPEN_END = '<MAX>'

export async function explanation(database: string, request: FindRequest, choice: Choice): Promise<JsonValue> {
  const { index } = choice
  const { condition, limit, skip } = request
  return {
    dbname: database,
    index: index ? listing(index) : null,
    partitioned: request.partition !== undefined,
    selector: conditionJson(condition),
    opts: options(request),
    limit,
    skip,
    fields: request.fields ? [...request.fields.names] : [],
    mrargs: index ? await viewArguments(request, choice, index) : null,
    covering: index !== undefined && isIndex(index) && isCovered(request, index),
    index_candidates: choice.others.map((each, i) => candidateJson(each, i + 1, request)),
    selector_hints: [
      { type: 'json', indexable_fields: indexable(condition, true), unindexable_fields: indexable(condition, false) },
    ],
  }
}

function listing(index: IndexOrAll): JsonValue {
  return isIndex(index) ? indexListing(index) : ALL_DOCUMENTS_LISTING
}

function options(request: FindRequest): JsonValue {
  return {
    use_index: useIndexJson(request.useIndex),
    bookmark: request.bookmarkText ?? NO_BOOKMARK,
    limit: request.limit,
    skip: request.skip,
    sort: Object.fromEntries(request.sort.map(({ name, direction }) => [name, direction])),
    fields: request.fields ? [...request.fields.names] : [],
    partition: request.partition ?? '',
    r: request.r,
    conflicts: request.conflicts,
    stale: request.freshness === 'stale' ? 'ok' : '',
    update: request.freshness === 'updated',
    stable: request.stable,
    execution_stats: request.executionStats,
    allow_fallback: request.allowFallback,
  }
}

async function viewArguments(request: FindRequest, choice: Choice, index: IndexOrAll): Promise<JsonValue> {
  const { reverse, ranges } = await planWith(request, choice, index)
  const isEmpty = ranges.length === 0
  const [first, last] = isEmpty ? [] : [ranges.at(0), ranges.at(ranges.length - 1)]
  const covering = isIndex(index) && isCovered(request, index)
  return {
    include_docs: !covering,
    view_type: 'map',
    reduce: false,
    partition: request.partition ?? null,
    start_key: first ? keyJson(first, reverse ? 'high' : 'low') : null,
    end_key: last ? keyJson(last, reverse ? 'low' : 'high') : null,
    direction: reverse ? 'rev' : 'fwd',
    ranges: ranges.length,
    stable: request.stable,
    update: request.freshness === 'updated',
    conflicts: request.conflicts,
  }
}

/** As far as columns are bounded; an open end comes after all of them. */
function keyJson(range: FindRange, end: 'low' | 'high'): JsonValue {
  const values = range[end]
  const open = values.indexOf(undefined)
  const bounded = (open < 0 ? values : values.slice(0, open)).flatMap((value) => (value === undefined ? [] : [value]))
  return end === 'low' ? bounded : [...bounded, OPEN_END]
}

function candidateJson({ index, isUsable, reasons }: Candidate, ranking: number, request: FindRequest): JsonValue {
  return {
    index: listing(index),
    analysis: {
      usable: isUsable,
      reasons: reasons.map((name) => ({ name })),
      ranking,
      covering: isIndex(index) ? isCovered(request, index) : null,
    },
  }
}

const INDEXABLE = new Set(['$lt', '$lte', '$eq', '$gte', '$gt', '$in', '$beginsWith', '$exists', '$type'])

/** The fields of the selector that an index covers, or those that it does not. */
function indexable(condition: Condition, isWanted: boolean): string[] {
  const can = new Set(tested(condition))
  return [...fieldsOf(condition)].filter((name) => can.has(name) === isWanted)
}

function tested(condition: Condition): string[] {
  if (condition.kind === 'everything') return []
  if (condition.kind === 'field') return INDEXABLE.has(condition.test.operator) ? [condition.field.name] : []
  return condition.parts.flatMap(tested)
}
