/** The rows of a view: all parameters as a form, the query as a sentence, the rows as a table or as bars. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { path, requestText } from '../api/client.ts'
import { type Design, type DesignFunction, indexInformation } from '../api/designs.ts'
import { every } from '../api/polling.ts'
import { queryView, sentenceOf, type ViewParameters, type ViewResult, type ViewRow } from '../api/view-query.ts'
import { jsonError } from '../json/json-text.ts'
import { Button } from '../parts/button.tsx'
import { Check, Field, Segments, Select } from '../parts/field.tsx'
import { bytesText, count, plural } from '../parts/figures.tsx'
import { ActionMenu } from '../parts/menu.tsx'
import { EmptyState, Loaded } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { toast, toastError } from '../parts/toast.tsx'
import { go, link, setQuery, useRoute } from '../shell/route.ts'
import { Cell } from './documents.tsx'

interface ViewResultsProperties {
  readonly database: string
  readonly design: Design
  readonly chosen: DesignFunction
}

const NAMES = [
  'key',
  'keys',
  'startkey',
  'endkey',
  'startkey_docid',
  'endkey_docid',
  'limit',
  'skip',
  'descending',
  'inclusive_end',
  'reduce',
  'group',
  'group_level',
  'include_docs',
  'conflicts',
  'stale',
  'update_seq',
] as const

export function ViewResults({ database, design, chosen }: ViewResultsProperties) {
  const { query: values } = useRoute()
  const parameters = Object.fromEntries(
    NAMES.flatMap((name) => (values.get(name) ? [[name, values.get(name) ?? '']] : [])),
  )
  const look = values.get('look') === 'chart' ? 'chart' : 'table'
  const [isFormOpen, setFormOpen] = useState(false)
  const query = useQuery({
    queryKey: ['view', database, design.name, design.rev, chosen.name, parameters],
    queryFn: ({ signal }) => queryView(database, { design: design.name, view: chosen.name }, parameters, signal),
    placeholderData: keepPreviousData,
    refetchOnWindowFocus: false,
  })
  return (
    <>
      <div className="sentence actions">
        <span style={{ flex: 1 }} className="wrap-anywhere">
          {sentenceOf(parameters, chosen.hasReduce)}
        </span>
        <Segments
          label="Show rows as"
          value={look}
          options={[
            ['table', 'Table'],
            ['chart', 'Chart'],
          ]}
          onChange={(next) => setQuery({ look: next === 'table' ? '' : next })}
        />
        <Button aria-expanded={isFormOpen} onClick={() => setFormOpen(!isFormOpen)}>
          Parameters
        </Button>
      </div>
      {isFormOpen && (
        <ParameterForm key={JSON.stringify(parameters)} parameters={parameters} hasReduce={chosen.hasReduce} />
      )}
      <Loaded query={query}>
        {(result) => (
          <>
            {result.rows.length === 0 ? (
              <EmptyState title="No rows">The query has no results.</EmptyState>
            ) : look === 'chart' ? (
              <BarChart rows={result.rows} />
            ) : (
              <RowTable database={database} rows={result.rows} name={`${database}.${design.name}.${chosen.name}`} />
            )}
            <ResultFoot database={database} design={design.name} result={result} />
          </>
        )}
      </Loaded>
    </>
  )
}

function ParameterForm({ parameters, hasReduce }: { parameters: ViewParameters; hasReduce: boolean }) {
  const [fields, setFields] = useState<ViewParameters>(parameters)
  const set = (name: string, value: string) => setFields({ ...fields, [name]: value })
  const json = (name: string, placeholder: string) => {
    const value = fields[name] ?? ''
    const problem = value === '' ? undefined : jsonError(value) && 'JSON, such as "text" or ["a", 1].'
    return (
      <Field
        label={name}
        isMono
        value={value}
        placeholder={placeholder}
        error={problem}
        onChange={({ target }) => set(name, target.value)}
      />
    )
  }
  const text = (name: string, type = 'text') => (
    <Field
      label={name}
      isMono
      type={type}
      min={type === 'number' ? 0 : undefined}
      value={fields[name] ?? ''}
      onChange={({ target }) => set(name, target.value)}
    />
  )
  const onOff = (name: string) => (
    <Check
      label={name}
      checked={fields[name] === 'true'}
      onChange={({ target }) => set(name, target.checked ? 'true' : '')}
    />
  )
  const off = (name: string) => (
    <Check
      label={name}
      checked={fields[name] !== 'false'}
      onChange={({ target }) => set(name, target.checked ? '' : 'false')}
    />
  )
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const given = Object.fromEntries(NAMES.map((name) => [name, fields[name] ?? '']))
    setQuery(given, { replace: false })
  }
  return (
    <form className="parameters" onSubmit={submit}>
      {json('startkey', '["fish"]')}
      {json('endkey', '["fish", {}]')}
      {json('key', '"fish"')}
      {json('keys', '["fish", "rice"]')}
      {text('startkey_docid')}
      {text('endkey_docid')}
      {text('limit', 'number')}
      {text('skip', 'number')}
      {hasReduce && text('group_level', 'number')}
      <Select
        label="stale"
        value={fields.stale ?? ''}
        options={[
          ['', 'up to date'],
          ['ok', 'as it is (ok)'],
          ['update_after', 'as it is, then update'],
        ]}
        onChange={({ target }) => set('stale', target.value)}
      />
      {onOff('descending')}
      {off('inclusive_end')}
      {hasReduce && off('reduce')}
      {hasReduce && onOff('group')}
      {onOff('include_docs')}
      {onOff('conflicts')}
      {onOff('update_seq')}
      <div className="actions" style={{ alignSelf: 'end' }}>
        <Button kind="primary" type="submit">
          Run
        </Button>
        <Button kind="quiet" onClick={() => setQuery(Object.fromEntries(NAMES.map((name) => [name, ''])))}>
          Clear
        </Button>
      </div>
    </form>
  )
}

export function RowTable({ database, rows, name }: { database: string; rows: readonly ViewRow[]; name: string }) {
  const hasIds = rows.some(({ id }) => id !== undefined)
  const hasDocuments = rows.some(({ doc }) => doc !== undefined)
  const areNumbers = rows.every(({ value }) => isNumber(value))
  const columns: Column<ViewRow>[] = [
    { id: 'key', label: 'Key', cell: ({ key }) => <span className="mono">{shortened(key)}</span> },
    {
      id: 'value',
      label: 'Value',
      isNumber: areNumbers,
      cell: ({ value }) => <span className="mono">{shortened(value)}</span>,
    },
    ...(hasIds
      ? [{ id: 'id', label: 'Document', isMono: true, isHiddenOnPhone: true, cell: ({ id }: ViewRow) => id }]
      : []),
    ...(hasDocuments
      ? [{ id: 'doc', label: 'Its text', isHiddenOnPhone: true, cell: ({ doc }: ViewRow) => <Cell value={doc} /> }]
      : []),
  ]
  return (
    <Table
      label="Rows"
      name={`rows.${name}`}
      rows={rows}
      columns={columns}
      keyOf={({ index, id }) => `${index} ${id ?? ''}`}
      {...(hasIds && {
        onOpen: ({ id }: ViewRow) => id !== undefined && go(link(['db', database, 'documents', id])),
      })}
    />
  )
}

const isNumber = (value: string) => /^-?\d/.test(value)
const shortened = (text: string) => (text.length > 300 ? `${text.slice(0, 300)}…` : text)

const MOST_BARS = 50

/** Rows whose values are numbers, one bar each. */
function BarChart({ rows }: { rows: readonly ViewRow[] }) {
  const numbers = rows.filter(({ value }) => isNumber(value)).slice(0, MOST_BARS)
  if (numbers.length === 0)
    return <EmptyState title="No numbers">A chart needs rows whose values are numbers.</EmptyState>
  const top = Math.max(...numbers.map(({ value }) => Math.abs(Number(value))), 1e-9)
  return (
    <div className="content">
      <div className="bars" role="img" aria-label={`Bars of ${plural(numbers.length, 'row')}`}>
        {numbers.map(({ key, value, index }) => (
          <div key={index} style={{ display: 'contents' }}>
            <span className="mono cut">{shortened(key)}</span>
            <div className="bar" style={{ width: `${(Math.abs(Number(value)) / top) * 100}%` }} />
            <span className="mono number">{value}</span>
          </div>
        ))}
      </div>
      {rows.length > numbers.length && (
        <p className="muted" style={{ padding: '0 16px' }}>
          The first {MOST_BARS} rows with numbers.
        </p>
      )}
    </div>
  )
}

interface ResultFootProperties {
  readonly database: string
  readonly design: string
  readonly result: ViewResult
}

function ResultFoot({ database, design, result }: ResultFootProperties) {
  const { rows, total, offset, next, tookMs } = result
  const index = useQuery({
    queryKey: ['index', database, design],
    queryFn: () => indexInformation(database, design),
    refetchInterval: every(5_000),
  })
  const { view_index } = index.data ?? {}
  const size = view_index?.disk_size ?? view_index?.sizes?.file
  const post = async (resource: string, words: string) => {
    try {
      await requestText(resource, { method: 'POST' })
      toast(words)
    } catch (error) {
      toastError('This could not be done.', error)
    }
  }
  const range =
    total === undefined || offset === undefined || rows.length === 0
      ? plural(rows.length, 'row')
      : `${count(offset + 1)}–${count(offset + rows.length)} of ${plural(total, 'row')}`
  return (
    <div className="foot">
      <span>
        {range} in {Math.round(tookMs)} ms
      </span>
      <span className="tools-space" />
      {size !== undefined && <span className="hide-on-phone">index {bytesText(size)}</span>}
      {view_index?.updater_running && <span className="badge badge-accent">updating</span>}
      {view_index?.compact_running && <span className="badge badge-accent">compacting</span>}
      <ActionMenu
        trigger={<Button kind="quiet" icon="more" aria-label="Actions for this index" />}
        actions={[
          {
            label: 'Compact this index',
            run: () => void post(`${path(database)}/_compact/${path(design)}`, 'The index is being compacted.'),
          },
          {
            label: 'Remove indexes that no design document needs',
            run: () => void post(`${path(database)}/_view_cleanup`, 'Unused indexes are being removed.'),
          },
        ]}
      />
      <Button
        kind="quiet"
        icon="forward"
        aria-label="Next page"
        disabled={next === undefined}
        onClick={() =>
          next && setQuery({ startkey: next.key, startkey_docid: next.id ?? '', key: '', skip: '' }, { replace: false })
        }
      />
    </div>
  )
}
