/** What a view query answers, worked out the slow and obvious way from all rows of the view. */
import type { JsonValue } from '../../../src/encoding/json/json-value.ts'
import { compareRawValues, compareValues } from '../../encoding/naive-collation.ts'

export interface NaiveRow {
  id: string
  key: JsonValue
  value: JsonValue
}

/** The parameters as a client gives them; what is undefined is not given. */
export interface NaiveParameters {
  key?: JsonValue
  keys?: JsonValue[]
  startkey?: JsonValue
  endkey?: JsonValue
  startkey_docid?: string
  endkey_docid?: string
  inclusive_end?: boolean
  descending?: boolean
  skip?: number
  limit?: number
  reduce?: boolean
  group?: boolean
  group_level?: number
}

export interface NaiveAnswer {
  total_rows?: number
  offset?: number
  rows: unknown[]
}

export interface NaiveView {
  rows: readonly NaiveRow[]
  collation?: 'raw' | 'unicode'
  reduce?: (rows: readonly NaiveRow[]) => JsonValue
}

export function naiveQuery(view: NaiveView, parameters: NaiveParameters): NaiveAnswer {
  const list = ordered(view)
  const direction = parameters.descending ? -1 : 1
  if (direction < 0) list.reverse()
  const ranges = rangesOf(view, list, parameters)
  const { skip = 0, limit = Number.POSITIVE_INFINITY } = parameters
  const { reduce } = view
  if (reduce && parameters.reduce !== false) {
    const groups = ranges.flatMap(({ first, end }) => groupsOf(list.slice(first, end), parameters))
    const rows = groups.map(({ key, rows }) => ({ key, value: reduce(direction < 0 ? rows.toReversed() : rows) }))
    return { rows: rows.slice(skip, skip + limit) }
  }
  const places = ranges.flatMap(({ first, end }) => Array.from({ length: end - first }, (_, i) => first + i))
  const left = places.slice(skip)
  return {
    total_rows: list.length,
    offset: left[0] ?? ranges.at(-1)?.end ?? 0,
    rows: left.slice(0, limit).map((place) => list[place]),
  }
}

/** Key, then id, then the value in raw order. */
function ordered({ rows, collation }: NaiveView): NaiveRow[] {
  const compare = collation === 'raw' ? compareRawValues : compareValues
  return [...rows].sort((a, b) => compare(a.key, b.key) || compareIds(a.id, b.id) || compareRawValues(a.value, b.value))
}

function compareIds(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** Places of the list: one range, or one a key. */
function rangesOf({ collation }: NaiveView, list: readonly NaiveRow[], parameters: NaiveParameters) {
  const compare = collation === 'raw' ? compareRawValues : compareValues
  const { keys, key, startkey_docid: startId, endkey_docid: endId, inclusive_end: inclusive = true } = parameters
  const direction = parameters.descending ? -1 : 1
  const range = (start: JsonValue | undefined, end: JsonValue | undefined) => {
    const isBefore = (row: NaiveRow) => {
      if (start === undefined) return false
      const order = direction * compare(row.key, start)
      if (order !== 0 || startId === undefined) return order < 0
      return direction * compareIds(row.id, startId) < 0
    }
    const isBeyond = (row: NaiveRow) => {
      if (end === undefined) return false
      const order = direction * compare(row.key, end)
      if (order !== 0) return order > 0
      if (endId === undefined) return !inclusive
      const idOrder = direction * compareIds(row.id, endId)
      return idOrder > 0 || (idOrder === 0 && !inclusive)
    }
    const first = list.filter(isBefore).length
    const within = list.slice(first).findIndex(isBeyond)
    return { first, end: within < 0 ? list.length : first + within }
  }
  if (keys) return keys.map((each) => range(each, each))
  const { startkey = key, endkey = key } = parameters
  return [range(startkey, endkey)]
}

/** Neighbours with equal values of what counts of their keys. */
function groupsOf(rows: readonly NaiveRow[], { group, group_level: level = 0 }: NaiveParameters) {
  const groups: { key: JsonValue; rows: NaiveRow[] }[] = []
  for (const row of rows) {
    const key = group ? row.key : level === 0 ? null : cut(row.key, level)
    const last = groups.at(-1)
    if (last && JSON.stringify(last.key) === JSON.stringify(key)) last.rows.push(row)
    else groups.push({ key, rows: [row] })
  }
  return groups
}

function cut(key: JsonValue, level: number): JsonValue {
  return Array.isArray(key) ? key.slice(0, level) : key
}
