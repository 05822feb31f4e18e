/** A query of a view: its parameters as the server takes them, as a sentence, and its rows as texts. */
import { arrayItems, memberText, stringOf } from '../json/json-text.ts'
import { documentPath, path, requestText } from './client.ts'

/** As texts of the form; empty ones are not sent. */
export type ViewParameters = Readonly<Record<string, string>>

export const JSON_PARAMETERS = ['key', 'startkey', 'endkey'] as const
export const TEXT_PARAMETERS = ['startkey_docid', 'endkey_docid'] as const
export const SWITCHES = ['descending', 'group', 'include_docs', 'conflicts', 'update_seq'] as const

export interface ViewRow {
  /** Of the row within the page. */
  readonly index: number
  readonly id: string | undefined
  readonly key: string
  readonly value: string
  readonly doc: string | undefined
}

export interface ViewResult {
  readonly rows: readonly ViewRow[]
  /** Where the next page begins. */
  readonly next: ViewRow | undefined
  readonly total: number | undefined
  readonly offset: number | undefined
  readonly updateSequence: string | undefined
  readonly tookMs: number
}

const LIMIT_BYTES = 8 * 1024 * 1024

export async function queryView(
  database: string,
  { design, view }: { design: string; view: string },
  parameters: ViewParameters,
  signal?: AbortSignal,
): Promise<ViewResult> {
  const size = Number(parameters.limit ?? '') || 100
  const resource = `${documentPath(database, `_design/${design}`)}/_view/${path(view)}`
  const { keys, ...rest } = parameters
  const query = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== ''))
  const begunMs = performance.now()
  const text = await requestText(resource, {
    query: { ...query, limit: size + 1 },
    limitBytes: LIMIT_BYTES,
    ...(signal && { signal }),
    ...(keys !== undefined && keys !== '' && { method: 'POST', jsonText: `{"keys":${keys}}` }),
  })
  return resultOf(text, size, performance.now() - begunMs)
}

/** Runs on all documents, without an index: for small databases only. */
export async function tryView(
  database: string,
  source: { map: string; reduce: string },
  query: { limit: number; group?: boolean; reduce?: boolean },
  signal: AbortSignal,
): Promise<ViewResult> {
  const begunMs = performance.now()
  const json = { map: source.map, ...(source.reduce !== '' && { reduce: source.reduce }) }
  const text = await requestText(`${path(database)}/_temp_view`, {
    method: 'POST',
    json,
    query,
    signal,
    limitBytes: LIMIT_BYTES,
  })
  return resultOf(text, query.limit, performance.now() - begunMs)
}

/** What a map function logged, or threw, with one document. */
export interface TrialLine {
  readonly kind: 'log' | 'error'
  readonly id: string
  readonly text: string
}

const LINES_A_DOCUMENT = 20

/**
 * Captures the lines of `log()` and errors: the function runs on the server, wrapped in another one that emits both
 * instead of rows.
 */
export async function tryLog(
  database: string,
  source: string,
  limit: number,
  signal: AbortSignal,
): Promise<readonly TrialLine[]> {
  const text = await requestText(`${path(database)}/_temp_view`, {
    method: 'POST',
    json: { map: logging(source) },
    query: { limit },
    signal,
    limitBytes: LIMIT_BYTES,
  })
  return resultOf(text, limit, 0).rows.map(({ id = '', key, value }) => ({
    kind: key.includes('"error"') ? 'error' : 'log',
    id,
    text: stringOf(value) ?? value,
  }))
}

function logging(source: string): string {
  return `function (doc) {
  var lines = []
  var add = function (kind, text) { if (lines.length < ${LINES_A_DOCUMENT}) lines.push([kind, text]) }
  var map = (function (emit, log) {
    var own = ${source}
    ;return own
  })(function () {}, function (text) { add('log', typeof text === 'string' ? text : String(JSON.stringify(text))) })
  try { map(doc) } catch (error) { add('error', error && error.message ? error.name + ': ' + error.message : String(error)) }
  for (var i = 0; i < lines.length; i++) emit([lines[i][0], i], lines[i][1])
}`
}

function resultOf(text: string, size: number, tookMs: number): ViewResult {
  const rows = arrayItems(memberText(text, 'rows') ?? '[]').map(
    (row, index): ViewRow => ({
      index,
      id: stringOf(memberText(row, 'id')),
      key: memberText(row, 'key') ?? 'null',
      value: memberText(row, 'value') ?? 'null',
      doc: memberText(row, 'doc'),
    }),
  )
  const number = (name: string) => {
    const value = memberText(text, name)
    return value === undefined || value === 'null' ? undefined : Number(value)
  }
  return {
    rows: rows.slice(0, size),
    next: rows[size],
    total: number('total_rows'),
    offset: number('offset'),
    updateSequence: memberText(text, 'update_seq'),
    tookMs,
  }
}

/** The range in words. */
export function sentenceOf(parameters: ViewParameters, hasReduce: boolean): string {
  const { key, keys, startkey, endkey, descending, group, group_level, reduce, skip, stale } = parameters
  const range = keys
    ? `rows of the keys ${keys}`
    : key
      ? `rows with the key ${key}`
      : startkey && endkey
        ? `rows from ${startkey} to ${endkey}`
        : startkey
          ? `rows from ${startkey} on`
          : endkey
            ? `rows up to ${endkey}`
            : 'all rows'
  const isReduced = hasReduce && reduce !== 'false'
  const grouped = group_level
    ? `, grouped by the first ${group_level === '1' ? 'part' : `${group_level} parts`} of the key`
    : group === 'true'
      ? ', grouped by key'
      : ''
  const parts = [
    isReduced ? `The reduction of ${range}${grouped}` : `${range[0]?.toUpperCase()}${range.slice(1)}`,
    descending === 'true' && 'the highest key first',
    parameters.inclusive_end === 'false' && 'without the end key',
    skip && `after the first ${skip}`,
    parameters.include_docs === 'true' && 'with documents',
    stale === 'ok' && 'as the index is now',
    stale === 'update_after' && 'as the index is now, brought up to date afterwards',
  ]
  return `${parts.filter(Boolean).join(', ')}.`
}
