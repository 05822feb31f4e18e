/**
 * The plan of a view query, made before anything is read: its parameters, with the defaults of the design document, checked for
 * invalid combinations; and the range of keys that it reads, as bytes, in either direction.
 */

import { checkPartition } from '../../document/partition.ts'
import { queryParseError } from '../../document/request-error.ts'
import {
  type Collation,
  collationKey,
  deepestNesting,
  rawCollationKey,
} from '../../encoding/collation/collation-key.ts'
import { digestOf, isJsonValue, type JsonValue } from '../../encoding/json/json-value.ts'
import type { KeyRange } from '../../storage/store.ts'
import { endOfId, endOfKey, rowPrefix, scopeOfPartition, startOfId } from '../layout/index-layout.ts'
import {
  type GivenParameter,
  isParameter,
  jsonParameter,
  readParameters,
  type ViewParameters,
} from './view-parameters.ts'

export interface QueryPlan extends ViewParameters {
  /** Whether rows are reduced; they are then never sent themselves. */
  readonly isReduced: boolean
  readonly keys: readonly JsonValue[] | undefined
  /** Where the rows of its partition lie, in an index by partition. */
  readonly scope: Buffer | undefined
}

/** How the queried rows relate to partitions. */
export type Partitioning =
  /** The database has none. */
  | 'none'
  /** Its rows are of all partitions. */
  | 'global'
  /** Its rows lie by partition: one must be named. */
  | 'by partition'
  /** The list of all documents: one may be named. */
  | 'either'

export interface Queried {
  readonly hasReduce: boolean
  readonly partitioning: Partitioning
}

/** Defaults of the design document come first, so that what is given wins over them. */
export function planQuery(
  given: readonly GivenParameter[],
  options: Readonly<Record<string, unknown>>,
  { hasReduce, partitioning }: Queried,
): QueryPlan {
  let defaults = defaultsOf(options)
  for (;;) {
    const parameters = readParameters([...defaults, ...given])
    const refusal = refusalOf(parameters, hasReduce)
    if (!refusal) {
      const { partition } = parameters
      checkPartitioning(partition, partitioning)
      const scope = partition === undefined || partitioning !== 'by partition' ? undefined : scopeOfPartition(partition)
      return { ...parameters, keys: keyList(parameters.keys), isReduced: isReduced(parameters, hasReduce), scope }
    }
    const culprit = culpritOf(refusal, defaults)
    if (!culprit) throw queryParseError(refusal.reason)
    // A default of the design document never makes a request fail.
    defaults = defaults.filter((each) => each !== culprit)
  }
}

/** Everything that the answer depends on, as one text for the ETag: serializing the whole plan would be slow. */
export function planText(plan: QueryPlan): string {
  const { startKey, startId, endKey, endId, keys, partition } = plan
  const { inclusiveEnd, descending, skip, limit, reduce, groupLevel, updateSequence, freshness } = plan
  const { includeDocs, conflicts, attachments, encodingInfo } = plan
  const ofRange = `${inclusiveEnd} ${descending} ${skip} ${limit} ${reduce} ${groupLevel} ${updateSequence} ${freshness}`
  const ofDocuments = `${includeDocs} ${conflicts} ${attachments} ${encodingInfo}`
  const ofKeys = keys && (digestOf(keys) ?? keys)
  return `${ofRange} ${ofDocuments} ${JSON.stringify({ startKey, startId, endKey, endId, keys: ofKeys, partition })}`
}

/** The members of the options that are parameters of the right type. */
function defaultsOf(options: Readonly<Record<string, unknown>>): GivenParameter[] {
  return Object.entries(options).flatMap(([name, value]) => {
    if (!isParameter(name) || name === 'partition' || !isJsonValue(value)) return []
    const parameter = jsonParameter(name, value)
    return isReadable(parameter) ? [parameter] : []
  })
}

function isReadable(parameter: GivenParameter): boolean {
  try {
    const { keys } = readParameters([parameter])
    return keys === undefined || isList(keys)
  } catch {
    return false
  }
}

function checkPartitioning(partition: string | undefined, partitioning: Partitioning): void {
  if (partition === undefined) {
    if (partitioning !== 'by partition') return
    throw queryParseError('`partition` parameter is mandatory for queries to this view.')
  }
  if (partitioning === 'none') throw queryParseError('`partition` parameter is not supported on this db')
  if (partitioning === 'global') throw queryParseError('`partition` parameter is not supported in this design doc')
  checkPartition(partition)
}

interface Refusal {
  readonly reason: string
  /** The parameters that cause it; if some of them are defaults, the first of these is dropped. */
  readonly parameters: readonly string[]
}

function culpritOf({ parameters }: Refusal, defaults: readonly GivenParameter[]): GivenParameter | undefined {
  return parameters.flatMap((each) => defaults.filter(({ name }) => name === each))[0]
}

function isReduced({ reduce }: ViewParameters, hasReduce: boolean): boolean {
  return hasReduce && reduce !== false
}

function keyList(keys: JsonValue | undefined): readonly JsonValue[] | undefined {
  return keys !== undefined && isList(keys) ? keys : undefined
}

function isList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value)
}

/** The first invalid combination, in the order in which they are reported. */
function refusalOf(parameters: ViewParameters, hasReduce: boolean): Refusal | undefined {
  const { reduce, keys, startKey, endKey, groupLevel, includeDocs, conflicts } = parameters
  const reduced = isReduced(parameters, hasReduce)
  if (reduce === true && !hasReduce) {
    return { reason: 'Reduce is invalid for map-only views.', parameters: ['reduce'] }
  }
  if (reduced && keys !== undefined && groupLevel !== 'exact') {
    const reason = 'Multi-key fetchs for reduce views must use `group=true`'
    return { reason, parameters: ['keys', 'group_level', 'group', 'reduce'] }
  }
  if (keys !== undefined && !isList(keys)) {
    return { reason: '`keys` must be an array of strings.', parameters: ['keys'] }
  }
  if (keys !== undefined && keys.length > 0 && (startKey !== undefined || endKey !== undefined)) {
    const reason = '`keys` is incompatible with `key`, `start_key` and `end_key`'
    return { reason, parameters: ['keys', 'key', 'startkey', 'endkey'] }
  }
  if (!reduced && groupLevel !== 0) {
    return { reason: 'Invalid use of grouping on a map view.', parameters: ['group', 'group_level', 'reduce'] }
  }
  if (reduced && includeDocs) {
    return { reason: '`include_docs` is invalid for reduce', parameters: ['include_docs'] }
  }
  if (reduced && conflicts !== undefined) {
    return { reason: '`conflicts` is invalid for reduce views.', parameters: ['conflicts'] }
  }
  return undefined
}

/** Keys of rows without their prefix: from `from` (inclusive) to `to` (exclusive); an absent bound is open. */
export interface KeyBounds {
  readonly from: Buffer | undefined
  readonly to: Buffer | undefined
}

/** The ends in the direction of reading. */
export interface KeyEnds {
  readonly startKey: JsonValue | undefined
  readonly startId: string | undefined
  readonly endKey: JsonValue | undefined
  readonly endId: string | undefined
  readonly inclusiveEnd: boolean
  readonly descending: boolean
  /** Of the partition that rows must be of, where there is one. */
  readonly scope: Buffer | undefined
}

/** An id counts only together with its key. */
export function boundsOf(ends: KeyEnds, collation: Collation): KeyBounds {
  const { startKey, endKey, descending, scope } = ends
  const startSortKey = startKey === undefined ? undefined : scopedKeyOf(startKey, collation, scope)
  // `key` sets both ends.
  const endSortKey =
    endKey === startKey ? startSortKey : endKey === undefined ? undefined : scopedKeyOf(endKey, collation, scope)
  const start = startSortKey && startBound(startSortKey, ends)
  const end = endSortKey && endBound(endSortKey, ends)
  const [from, to] = descending ? [end, start] : [start, end]
  if (!scope) return { from, to }
  const whole = boundsOfScope(scope)
  return { from: from ?? whole.from, to: to ?? whole.to }
}

/** All rows of a partition. */
export function boundsOfScope(scope: Buffer): { readonly from: Buffer; readonly to: Buffer } {
  return { from: scope, to: endOfKey(scope) }
}

/** The rows of one key within the range. */
export function boundsOfKey(key: JsonValue, ends: KeyEnds, collation: Collation): KeyBounds {
  return boundsOf({ ...ends, startKey: key, endKey: key }, collation)
}

/** Whether both ends are given and the end lies before the start, in the direction of reading. */
export function runsBackwards({ startKey, endKey, descending }: KeyEnds, collation: Collation): boolean {
  if (startKey === undefined || endKey === undefined) return false
  const order = Buffer.compare(sortKeyOf(startKey, collation), sortKeyOf(endKey, collation))
  return descending ? order < 0 : order > 0
}

/** Whether no row can lie between the bounds, for example if they are reversed. */
export function isEmpty({ from, to }: KeyBounds): boolean {
  return from !== undefined && to !== undefined && Buffer.compare(from, to) >= 0
}

export function contains({ from, to }: KeyBounds, key: Buffer): boolean {
  return (!from || Buffer.compare(from, key) <= 0) && (!to || Buffer.compare(key, to) < 0)
}

/** What both have in common. */
export function intersection(a: KeyBounds, b: KeyBounds): KeyBounds {
  return {
    from: a.from && b.from ? (Buffer.compare(a.from, b.from) > 0 ? a.from : b.from) : (a.from ?? b.from),
    to: a.to && b.to ? (Buffer.compare(a.to, b.to) < 0 ? a.to : b.to) : (a.to ?? b.to),
  }
}

/** The rows of a view between the bounds, as the store knows them. */
export function storeRange(
  view: number,
  { from, to }: KeyBounds,
  { reverse }: { readonly reverse: boolean },
): KeyRange {
  const prefix = rowPrefix(view)
  return {
    from: from ? Buffer.concat([prefix, from]) : prefix,
    to: to ? Buffer.concat([prefix, to]) : endOfKey(prefix),
    reverse,
  }
}

function scopedKeyOf(key: JsonValue, collation: Collation, scope: Buffer | undefined): Buffer {
  const sortKey = sortKeyOf(key, collation)
  return scope ? Buffer.concat([scope, sortKey]) : sortKey
}

function sortKeyOf(key: JsonValue, collation: Collation): Buffer {
  try {
    return collation === 'raw' ? rawCollationKey(key) : collationKey(key)
  } catch (error) {
    if (error instanceof RangeError) throw queryParseError(`A key is nested deeper than ${deepestNesting} levels.`)
    throw error
  }
}

/** Rows at the start belong to the range, all of its key or those from the id on. */
function startBound(sortKey: Buffer, { startId, descending }: KeyEnds): Buffer {
  if (startId === undefined) return descending ? endOfKey(sortKey) : sortKey
  return descending ? endOfId(sortKey, startId) : startOfId(sortKey, startId)
}

/** Rows at the end belong to the range or not: all of its key, or those of the id. */
function endBound(sortKey: Buffer, { endId, inclusiveEnd, descending }: KeyEnds): Buffer {
  const isAfter = inclusiveEnd !== descending
  if (endId === undefined) return isAfter ? endOfKey(sortKey) : sortKey
  return isAfter ? endOfId(sortKey, endId) : startOfId(sortKey, endId)
}
