/** The request of a selector query, parsed and checked. */
import { checkPartition } from '../../document/partition.ts'
import { badRequest, type RequestError } from '../../document/request-error.ts'
import { isObject, type JsonValue } from '../../encoding/json/json-value.ts'
import type { Condition } from '../../selectors/condition.ts'
import { fieldPath } from '../../selectors/field-path.ts'
import { type FieldProjection, fieldProjection } from '../../selectors/field-projection.ts'
import { type SortField, sortFields } from '../../selectors/index-definition.ts'
import { parseSelector } from '../../selectors/parse-selector.ts'
import { selectorError, shown } from '../../selectors/selector-error.ts'
import type { Freshness } from '../reading/open-index.ts'
import { type Bookmark, readBookmark } from './bookmark.ts'
import type { NamedIndex } from './index-choice.ts'

export interface FindRequest {
  /** Documents of this partition alone. */
  readonly partition: string | undefined
  readonly condition: Condition
  readonly limit: number
  readonly skip: number
  readonly sort: readonly SortField[]
  /** Undefined for whole documents. */
  readonly fields: FieldProjection | undefined
  readonly useIndex: NamedIndex | undefined
  readonly allowFallback: boolean
  readonly bookmark: Bookmark | undefined
  /** As it was sent. */
  readonly bookmarkText: string | undefined
  readonly conflicts: boolean
  readonly executionStats: boolean
  readonly freshness: Freshness
  /** Shown by `_explain`. */
  readonly stable: boolean
  readonly r: number
  /** Whether the number of matches is returned too. */
  readonly count: boolean
  /** Counts and sums are wanted instead of documents. */
  readonly groups: GroupRequest | undefined
}

export interface GroupRequest {
  /** Of each group, or of all documents where there are none. */
  readonly fields: readonly string[]
  readonly reduce: {
    readonly name: '_count' | '_sum' | '_stats'
    /** What is summed up; undefined for counts. */
    readonly field: string | undefined
  }
}

/** Defaults of the request, and its path. */
export interface FindDefaults {
  readonly limit: number
  /** The partition of the path. */
  readonly partition: string | undefined
  /** Whether the database has partitions. */
  readonly isPartitioned: boolean
}

const MEMBERS = new Set([
  'selector',
  'limit',
  'skip',
  'sort',
  'fields',
  'use_index',
  'allow_fallback',
  'bookmark',
  'conflicts',
  'execution_stats',
  'stable',
  'update',
  'stale',
  'r',
  'partition',
  'count',
  'reduce',
  'group',
])

export function readFindRequest(body: Readonly<Record<string, unknown>>, defaults: FindDefaults): FindRequest {
  for (const name of Object.keys(body)) {
    if (!MEMBERS.has(name)) throw selectorError('invalid_key', `Invalid key ${shown(name)} for this request.`)
  }
  if (body.selector === undefined) throw missingKey('selector')
  return {
    partition: partitionOf(body.partition, defaults),
    condition: parseSelector(body.selector),
    limit: count(body.limit, defaults.limit),
    skip: count(body.skip, 0),
    sort: sortFields(body.sort ?? []),
    fields: fieldProjection(body.fields ?? []),
    useIndex: namedIndex(body.use_index ?? []),
    allowFallback: flag(body.allow_fallback, true),
    bookmark: readBookmark(body.bookmark ?? ''),
    bookmarkText: typeof body.bookmark === 'string' && body.bookmark !== '' ? body.bookmark : undefined,
    conflicts: flag(body.conflicts, false),
    executionStats: flag(body.execution_stats, false),
    freshness: flag(body.update, true) && !isStale(body.stale) ? 'updated' : 'stale',
    stable: flag(body.stable, false),
    r: positive(body.r, 1),
    count: flag(body.count, false),
    groups: groupRequest(body),
  }
}

/** The partition of the path or of the body; both must be the same. */
function partitionOf(value: unknown = '', { partition, isPartitioned }: FindDefaults): string | undefined {
  if (typeof value !== 'string') throw selectorError('invalid_string', `Invalid string: ${shown(value)}`)
  if (partition !== undefined && value !== '' && value !== partition) {
    throw badRequest('Conflicting value for `partition` in the body')
  }
  const name = partition ?? (value === '' ? undefined : value)
  if (name === undefined) return undefined
  if (!isPartitioned) throw badRequest('`partition` is not supported on this db')
  checkPartition(name)
  return name
}

export function missingKey(name: string): RequestError {
  return selectorError('missing_required_key', `Missing required key: ${name}`)
}

/** Null means absent, as many clients send it. */
function count(value: unknown, otherwise: number): number {
  if (value === undefined || value === null) return otherwise
  if (Number.isInteger(value) && Number(value) >= 0) return Number(value)
  throw selectorError('invalid_non_neg_integer', `${shown(value)} is not an integer greater than or equal to zero`)
}

function positive(value: unknown, otherwise: number): number {
  if (value === undefined) return otherwise
  if (Number.isInteger(value) && Number(value) > 0) return Number(value)
  throw selectorError('invalid_pos_integer', `${shown(value)} is not an integer greater than zero`)
}

function flag(value: unknown, otherwise: boolean): boolean {
  if (value === undefined) return otherwise
  if (typeof value === 'boolean') return value
  throw selectorError('invalid_boolean', `Invalid boolean value: ${shown(value)}`)
}

function isStale(value: unknown): boolean {
  if (value === 'ok') return true
  if (value === undefined || value === false || value === 'false') return false
  throw selectorError('invalid_value', `Invalid value for stale: ${shown(value)}`)
}

/** With what gives documents it makes no sense. */
const NOT_WITH_REDUCE = ['sort', 'fields', 'bookmark', 'conflicts', 'count']

function groupRequest(body: Readonly<Record<string, unknown>>): GroupRequest | undefined {
  const { reduce, group = [] } = body
  if (reduce === undefined) {
    if (body.group === undefined) return undefined
    throw selectorError('invalid_value', '`group` is for queries with `reduce`.')
  }
  for (const name of NOT_WITH_REDUCE) {
    if (body[name] !== undefined)
      throw selectorError('invalid_value', `\`${name}\` is not for queries with \`reduce\`.`)
  }
  const fields = fieldProjection(group)?.names ?? []
  return { fields, reduce: reduction(reduce) }
}

/** `"_count"`, `{"_sum": field}` or `{"_stats": field}`. */
function reduction(reduce: unknown): GroupRequest['reduce'] {
  if (reduce === '_count') return { name: '_count', field: undefined }
  const members = isObject(reduce) ? Object.entries(reduce) : []
  const [[name, field] = []] = members
  if (members.length === 1 && (name === '_sum' || name === '_stats') && typeof field === 'string') {
    return { name, field: fieldPath(field).name }
  }
  throw selectorError('invalid_value', `Invalid value for reduce: ${shown(reduce)}`)
}

const DESIGN = '_design/'

/** `ddoc`, `ddoc/name`, or a list of one or both; `_design/` may be left out. */
function namedIndex(value: unknown): NamedIndex | undefined {
  const parts = typeof value === 'string' ? split(value) : value
  if (Array.isArray(parts) && parts.length === 0) return undefined
  const [design, name]: unknown[] = Array.isArray(parts) ? parts : []
  const isNamed = name === undefined || (typeof name === 'string' && name !== '')
  if (!Array.isArray(parts) || parts.length > 2 || typeof design !== 'string' || design === '' || !isNamed) {
    throw selectorError('invalid_index_name', `Invalid index name: ${shown(value)}`)
  }
  return { design: design.startsWith(DESIGN) ? design : DESIGN + design, name }
}

function split(text: string): string[] {
  const start = text.startsWith(DESIGN) ? DESIGN.length : 0
  const slash = text.indexOf('/', start)
  return slash < 0 ? [text] : [text.slice(0, slash), text.slice(slash + 1)]
}

/** As `_explain` shows it. */
export function useIndexJson(named: NamedIndex | undefined): JsonValue {
  if (!named) return []
  return named.name === undefined ? [named.design] : [named.design, named.name]
}
