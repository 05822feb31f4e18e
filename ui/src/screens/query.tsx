/** Selector queries, with completion of fields, the plan in words, and a button that creates the missing index. */
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { ApiError, path, requestJson, requestText, sentenceOf } from '../api/client.ts'
import { listDocuments } from '../api/documents.ts'
import { CodeEditor } from '../editor/lazy-editor.tsx'
import { arrayItems, jsonError, memberText, stringOf, topLevelMembers } from '../json/json-text.ts'
import { Button } from '../parts/button.tsx'
import { Field } from '../parts/field.tsx'
import { plural } from '../parts/figures.tsx'
import { EmptyState, ErrorState, Skeleton } from '../parts/states.tsx'
import { Table } from '../parts/table.tsx'
import { toast, toastError } from '../parts/toast.tsx'
import { DatabasePlace } from '../shell/place.tsx'
import { go, link, setQuery, useRoute } from '../shell/route.ts'
import { Cell } from './documents.tsx'

const EXAMPLE = '{\n  "_id": { "$gt": null }\n}'
const LIMIT = 50
const SAMPLE = 25
const LIMIT_BYTES = 8 * 1024 * 1024

const OPERATORS = [
  '$eq',
  '$ne',
  '$gt',
  '$gte',
  '$lt',
  '$lte',
  '$in',
  '$nin',
  '$exists',
  '$type',
  '$regex',
  '$and',
  '$or',
  '$not',
  '$nor',
  '$all',
  '$elemMatch',
  '$size',
  '$mod',
]

interface FoundRow {
  readonly id: string
  readonly text: string
}

interface Found {
  readonly rows: readonly FoundRow[]
  readonly warning: string | undefined
  readonly bookmark: string | undefined
  readonly tookMs: number
}

interface Request {
  readonly selector: string
  readonly sort: string
  readonly bookmark: string
}

function bodyOf({ selector, sort, bookmark }: Request): string {
  const parts = [
    `"selector":${selector}`,
    `"limit":${LIMIT}`,
    ...(sort === '' ? [] : [`"sort":${sort}`]),
    ...(bookmark === '' ? [] : [`"bookmark":${JSON.stringify(bookmark)}`]),
  ]
  return `{${parts.join(',')}}`
}

async function find(database: string, request: Request, signal: AbortSignal): Promise<Found> {
  const begunMs = performance.now()
  const text = await requestText(`${path(database)}/_find`, {
    method: 'POST',
    jsonText: bodyOf(request),
    signal,
    limitBytes: LIMIT_BYTES,
  })
  const rows = arrayItems(memberText(text, 'docs') ?? '[]').map((document) => ({
    id: stringOf(memberText(document, '_id')) ?? '',
    text: document,
  }))
  const bookmark = stringOf(memberText(text, 'bookmark'))
  return {
    rows,
    warning: stringOf(memberText(text, 'warning')),
    bookmark: rows.length === LIMIT && bookmark !== 'nil' ? bookmark : undefined,
    tookMs: performance.now() - begunMs,
  }
}

export function QueryScreen({ database }: { database: string }) {
  const { query: values } = useRoute()
  const asked = {
    selector: values.get('selector') ?? '',
    sort: values.get('sort') ?? '',
    bookmark: values.get('bookmark') ?? '',
  }
  const [selector, setSelector] = useState(asked.selector === '' ? EXAMPLE : asked.selector)
  const [sort, setSort] = useState(asked.sort)
  const fields = useFields(database)
  const problem = jsonError(selector) ?? (sort === '' ? undefined : jsonError(sort))
  const result = useQuery({
    queryKey: ['find', database, asked],
    queryFn: ({ signal }) => find(database, asked, signal),
    enabled: asked.selector !== '' && jsonError(asked.selector) === undefined,
    placeholderData: keepPreviousData,
    retry: false,
  })
  const run = () => {
    if (problem !== undefined) return
    setQuery({ selector, sort, bookmark: '' }, { replace: false })
    void result.refetch()
  }
  return (
    <>
      <DatabasePlace database={database} />
      <div className="page" style={{ maxWidth: 'none', gap: 8 }}>
        <div className="editor-box" style={{ height: 150 }}>
          <CodeEditor
            label="Selector"
            language="json"
            value={selector}
            words={[...fields, ...OPERATORS]}
            onChange={setSelector}
            onSave={run}
          />
        </div>
        <div className="form-row">
          <Field
            label="Sort"
            isMono
            value={sort}
            placeholder='[{"title": "asc"}]'
            onChange={({ target }) => setSort(target.value)}
          />
          <div className="actions">
            {problem !== undefined && <span className="field-error">{problem}</span>}
            <Button kind="primary" disabled={problem !== undefined} onClick={run}>
              Run query
            </Button>
          </div>
        </div>
      </div>
      {asked.selector !== '' && !isMissing(result.error) && <Plan database={database} request={asked} />}
      {result.error ? (
        isMissing(result.error) ? (
          <EmptyState title="No selector queries here">
            This server does not answer them: {sentenceOf(result.error)}
          </EmptyState>
        ) : (
          <ErrorState error={result.error} onRetry={() => void result.refetch()} />
        )
      ) : result.data ? (
        <Rows database={database} found={result.data} />
      ) : asked.selector !== '' ? (
        <Skeleton />
      ) : (
        <EmptyState title="Query documents">
          A selector says what their fields are like, such as <code>{'{"servings": {"$gte": 4}}'}</code>. Ctrl-Enter
          runs it.
        </EmptyState>
      )}
    </>
  )
}

function isMissing(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.status === 405 || error.status === 501)
}

/** Names of fields, from a few documents. */
function useFields(database: string): readonly string[] {
  const { data } = useQuery({
    queryKey: ['fields', database],
    queryFn: ({ signal }) =>
      listDocuments(
        database,
        { prefix: '', from: '', size: SAMPLE, withDocuments: true, limitBytes: 1024 * 1024 },
        signal,
      ),
    retry: false,
    staleTime: 60_000,
  })
  return [
    ...new Set((data?.documents ?? []).flatMap(({ text }) => topLevelMembers(text ?? '{}').map(({ name }) => name))),
  ]
}

function Rows({ database, found }: { database: string; found: Found }) {
  const { rows, bookmark, tookMs } = found
  if (rows.length === 0) return <EmptyState title="No documents">No document matches.</EmptyState>
  const names = [...new Set(rows.flatMap(({ text }) => topLevelMembers(text).map(({ name }) => name)))]
  const columns = names.filter((name) => !name.startsWith('_')).slice(0, 6)
  return (
    <>
      <Table
        label="Documents found"
        name={`find.${database}`}
        rows={rows}
        keyOf={({ id }) => id}
        onOpen={({ id }) => go(link(['db', database, 'documents', id]))}
        columns={[
          { id: '_id', label: '_id', isMono: true, cell: ({ id }) => id },
          ...columns.map((name, index) => ({
            id: name,
            label: name,
            isHiddenOnPhone: index > 0,
            cell: ({ text }: FoundRow) => <Cell value={memberText(text, name)} />,
          })),
        ]}
      />
      <div className="foot">
        <span>
          {plural(rows.length, 'document')}
          {bookmark !== undefined && ' of more'} in {Math.round(tookMs)} ms
        </span>
        <span className="tools-space" />
        <Button
          kind="quiet"
          icon="forward"
          aria-label="Next page"
          disabled={bookmark === undefined}
          onClick={() => setQuery({ bookmark }, { replace: false })}
        />
      </div>
    </>
  )
}

interface Explanation {
  readonly index?: {
    readonly name?: string | null
    readonly type?: string
    readonly def?: { readonly fields?: unknown[] }
  }
}

/** Which index serves the query, and the offer of a better one. */
function Plan({ database, request }: { database: string; request: Request }) {
  const queries = useQueryClient()
  const plan = useQuery({
    queryKey: ['explain', database, request],
    queryFn: () =>
      requestJson<Explanation>(`${path(database)}/_explain`, { method: 'POST', jsonText: bodyOf(request) }),
    retry: false,
  })
  const fields = topLevelMembers(request.selector)
    .map(({ name }) => name)
    .filter((name) => !name.startsWith('$') && name !== '_id')
  const index = plan.data?.index
  if (!index) return null
  const isSpecial = index.type === 'special'
  const create = async () => {
    try {
      await requestText(`${path(database)}/_index`, { method: 'POST', json: { index: { fields }, type: 'json' } })
      toast(`An index of ${fields.join(', ')} is being built.`)
      await queries.invalidateQueries({ queryKey: ['explain', database] })
    } catch (error) {
      toastError('The index was not created.', error)
    }
  }
  return (
    <div className="sentence actions">
      <span style={{ flex: 1 }}>
        {isSpecial
          ? 'No index fits: every document is scanned.'
          : `Served by the index ${index.name ?? ''} of ${JSON.stringify(index.def?.fields ?? [])}.`}
      </span>
      {isSpecial && fields.length > 0 && (
        <Button onClick={() => void create()}>Create an index of {fields.join(', ')}</Button>
      )}
    </div>
  )
}
