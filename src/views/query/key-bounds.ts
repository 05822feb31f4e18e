/** Ranges of keys as bytes: which rows of a view are between two keys, in either direction. */
import { queryParseError } from '../../document/request-error.ts'
import {
  type Collation,
  collationKey,
  deepestNesting,
  rawCollationKey,
} from '../../encoding/collation/collation-key.ts'
import type { JsonValue } from '../../encoding/json/json-value.ts'
import type { KeyRange } from '../../storage/store.ts'
import { endOfId, endOfKey, rowPrefix, startOfId } from '../layout/index-layout.ts'

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
}

/** An id counts only together with its key. */
export function boundsOf(ends: KeyEnds, collation: Collation): KeyBounds {
  const { startKey, endKey, descending } = ends
  const startSortKey = startKey === undefined ? undefined : sortKeyOf(startKey, collation)
  // Whoever asks for one key gives it for both ends.
  const endSortKey =
    endKey === startKey ? startSortKey : endKey === undefined ? undefined : sortKeyOf(endKey, collation)
  const start = startSortKey && startBound(startSortKey, ends)
  const end = endSortKey && endBound(endSortKey, ends)
  return descending ? { from: end, to: start } : { from: start, to: end }
}

/** The rows of one key: what else bounds the range stays. */
export function boundsOfKey(key: JsonValue, ends: KeyEnds, collation: Collation): KeyBounds {
  return boundsOf({ ...ends, startKey: key, endKey: key }, collation)
}

/** Whether both ends are given and the end lies before the start, in the direction of reading. */
export function runsBackwards({ startKey, endKey, descending }: KeyEnds, collation: Collation): boolean {
  if (startKey === undefined || endKey === undefined) return false
  const order = Buffer.compare(sortKeyOf(startKey, collation), sortKeyOf(endKey, collation))
  return descending ? order < 0 : order > 0
}

/** Whether no row can lie between the bounds, as where they run against the direction. */
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
