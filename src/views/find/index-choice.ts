/** Which index answers a query, and why the others do not. */
import { RequestError } from '../../document/request-error.ts'
import type { Condition, ValueTest } from '../../selectors/condition.ts'
import type { SortField } from '../../selectors/index-definition.ts'
import { conjunctsOf } from './ranges/index-ranges.ts'
import type { SelectorIndex } from './selector-indexes.ts'

/** One index, or the list of all documents. */
export type IndexOrAll = SelectorIndex | 'all documents'

export type Reason =
  | 'scope_mismatch'
  | 'is_partial'
  | 'field_mismatch'
  | 'sort_order_mismatch'
  | 'excluded_by_user'
  | 'unfavored_type'
  | 'less_overlap'
  | 'too_many_fields'
  | 'alphabetically_comes_after'

export interface Candidate {
  readonly index: IndexOrAll
  readonly isUsable: boolean
  readonly reasons: readonly Reason[]
}

export interface NamedIndex {
  readonly design: string
  readonly name: string | undefined
}

export interface ChoiceRequest {
  readonly partition: string | undefined
  readonly condition: Condition
  readonly sort: readonly SortField[]
  readonly useIndex: NamedIndex | undefined
  readonly allowFallback: boolean
}

export interface Choice {
  /** Undefined where none can be used. */
  readonly index: IndexOrAll | undefined
  /** All but the one that is used, the best first. */
  readonly others: readonly Candidate[]
  /** The index that the client named and that was not used. */
  readonly unused: NamedIndex | undefined
  readonly refusal: RequestError | undefined
}

export function chooseIndex(indexes: readonly SelectorIndex[], request: ChoiceRequest): Choice {
  const { useIndex, allowFallback } = request
  const judged = [...indexes.map((index) => judge(index, request)), judgeAll(request)]
  const usable = judged.filter(({ problem }) => problem === undefined).map(({ index }) => index)
  const named = useIndex ? usable.filter((index) => isNamed(index, useIndex)) : []
  const isFallback = useIndex !== undefined && named.length === 0
  const remaining = named.length > 0 ? named : isFallback && !allowFallback ? [] : usable
  const ranked = remaining.toSorted((a, b) => compare(a, b, request))
  const [index] = ranked
  const others = judged.filter((each) => each.index !== index).map((each) => candidate(each, index, ranked, request))
  const refusal = refusalOf(index, isFallback, request)
  return { index: refusal ? undefined : index, others, unused: isFallback ? useIndex : undefined, refusal }
}

interface Judged {
  readonly index: IndexOrAll
  /** Why it cannot be used; undefined where it can. */
  readonly problem: Reason | undefined
}

function refusalOf(
  index: IndexOrAll | undefined,
  isFallback: boolean,
  request: ChoiceRequest,
): RequestError | undefined {
  const { useIndex, allowFallback } = request
  if (isFallback && !allowFallback && useIndex) {
    const { design, name } = useIndex
    const named = name === undefined ? design : `${design}, ${name}`
    return invalidIndex(`${named} specified by \`use_index\` could not be found or it is not suitable.`)
  }
  if (index === undefined) {
    const reason = 'No index exists for this sort, try indexing by the sort fields.'
    return new RequestError('invalid', 'no_usable_index', reason)
  }
  if (!allowFallback && !useIndex && index === 'all documents') {
    return invalidIndex('You must specify an index with the `use_index` parameter.')
  }
  return undefined
}

export function invalidIndex(reason: string): RequestError {
  return new RequestError('invalid', 'invalid_index', reason)
}

function isNamed(index: IndexOrAll, { design, name }: NamedIndex): boolean {
  if (index === 'all documents') return false
  return index.design.id === design && (name === undefined || index.name === name)
}

/** Its columns must exist in every matching document, and its order must be that of the sort. */
function judge(index: SelectorIndex, { condition, sort, useIndex, partition }: ChoiceRequest): Judged {
  const { definition, columns, design } = index
  if (design.isPartitioned !== (partition !== undefined)) return { index, problem: 'scope_mismatch' }
  const isAskedFor = useIndex !== undefined && isNamed(index, useIndex)
  if (definition.partialFilter !== undefined && !isAskedFor) return { index, problem: 'is_partial' }
  const sorted = new Set(sort.map(({ name }) => name))
  const needed = columns.filter((name) => !sorted.has(name) && name !== '_id' && name !== '_rev')
  if (!needed.every((name) => requires(condition, name))) return { index, problem: 'field_mismatch' }
  if (!givesOrder(columns, sort, condition)) return { index, problem: 'sort_order_mismatch' }
  return { index, problem: undefined }
}

function judgeAll({ condition, sort }: ChoiceRequest): Judged {
  const index = 'all documents'
  if (sort.length === 0) return { index, problem: undefined }
  const isById = sort.length === 1 && sort[0]?.name === '_id' && hasRange(condition, '_id')
  return { index, problem: isById ? undefined : 'sort_order_mismatch' }
}

/** Whether every document that matches has the field. */
function requires(condition: Condition, name: string): boolean {
  if (condition.kind === 'everything') return false
  if (condition.kind === 'field') return condition.field.name === name && !isAbsence(condition.test)
  if (condition.kind === 'all') return condition.parts.some((part) => requires(part, name))
  return condition.parts.length > 0 && condition.parts.every((part) => requires(part, name))
}

function isAbsence(test: ValueTest): boolean {
  return test.operator === '$exists' && !test.argument
}

/** The fields of the sort come first, after columns that have one value. */
function givesOrder(columns: readonly string[], sort: readonly SortField[], condition: Condition): boolean {
  if (sort.length === 0) return true
  let first = 0
  while (first < columns.length && columns[first] !== sort[0]?.name && isFixed(condition, columns[first]!)) first++
  return sort.every(({ name }, i) => columns[first + i] === name)
}

function isFixed(condition: Condition, name: string): boolean {
  return conjunctsOf(condition).some(
    (each) => each.kind === 'field' && each.field.name === name && each.test.operator === '$eq',
  )
}

const RANGE_OPERATORS = new Set(['$lt', '$lte', '$eq', '$gte', '$gt', '$beginsWith', '$exists'])
/** They give ranges as well, and break ties. */
const FURTHER_OPERATORS = new Set([...RANGE_OPERATORS, '$in', '$type'])

function hasRange(condition: Condition, name: string, operators: ReadonlySet<string> = RANGE_OPERATORS): boolean {
  return conjunctsOf(condition).some(
    (each) => each.kind === 'field' && each.field.name === name && operators.has(each.test.operator),
  )
}

/** How many of the first columns a range is known for. */
function overlap(index: SelectorIndex, condition: Condition, operators: ReadonlySet<string>): number {
  const end = index.columns.findIndex((name) => !hasRange(condition, name, operators))
  return end < 0 ? index.columns.length : end
}

/** The better one first. */
function compare(a: IndexOrAll, b: IndexOrAll, request: ChoiceRequest): number {
  const difference = firstDifference(a, b, request)
  return difference?.order ?? 0
}

interface Difference {
  /** Below zero where the first one is better. */
  readonly order: number
  /** Why the other one is not. */
  readonly reason: Reason
}

function firstDifference(a: IndexOrAll, b: IndexOrAll, { condition }: ChoiceRequest): Difference | undefined {
  if (a === 'all documents' || b === 'all documents') {
    return { order: Number(a === 'all documents') - Number(b === 'all documents'), reason: 'unfavored_type' }
  }
  for (const operators of [RANGE_OPERATORS, FURTHER_OPERATORS]) {
    const more = overlap(b, condition, operators) - overlap(a, condition, operators)
    if (more !== 0) return { order: more, reason: 'less_overlap' }
  }
  const columns = a.columns.length - b.columns.length
  if (columns !== 0) return { order: columns, reason: 'too_many_fields' }
  const [first, second] = [`${a.design.id}\0${a.name}`, `${b.design.id}\0${b.name}`]
  return { order: first < second ? -1 : 1, reason: 'alphabetically_comes_after' }
}

function candidate(
  { index, problem }: Judged,
  chosen: IndexOrAll | undefined,
  ranked: readonly IndexOrAll[],
  request: ChoiceRequest,
): Candidate {
  if (problem !== undefined) return { index, isUsable: false, reasons: [problem] }
  if (chosen === undefined || !ranked.includes(index)) return { index, isUsable: true, reasons: ['excluded_by_user'] }
  const difference = firstDifference(chosen, index, request)
  return { index, isUsable: true, reasons: difference ? [difference.reason] : [] }
}
