/** The documents of a database: as a table of their fields, as JSON, or as ids and revisions; in pages by keys. */
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { type KeyboardEvent, type ReactNode, useMemo, useState } from 'react'
import { TooLargeError } from '../api/client.ts'
import {
  type DocumentPage,
  deleteDocuments,
  type ListedDocument,
  listDocuments,
  previousPageStart,
} from '../api/documents.ts'
import { memberText, topLevelMembers } from '../json/json-text.ts'
import { Button } from '../parts/button.tsx'
import { Confirm } from '../parts/dialog.tsx'
import { SearchField, Segments } from '../parts/field.tsx'
import { bytesText, count, plural } from '../parts/figures.tsx'
import { JsonView } from '../parts/json-view.tsx'
import { ChoiceMenu } from '../parts/menu.tsx'
import { useRemembered } from '../parts/remembered.ts'
import { SplitPane } from '../parts/split-pane.tsx'
import { EmptyState, Loaded } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { toast, toastError } from '../parts/toast.tsx'
import { DatabasePlace } from '../shell/place.tsx'
import { go, link, setQuery, useQueryValue, useRoute } from '../shell/route.ts'
import { DocumentPane } from './document.tsx'

const PAGE_ROWS = 50
/** Of one page; where documents are larger, only their ids are listed. */
const PAGE_LIMIT_BYTES = 4 * 1024 * 1024
const MOST_COLUMNS = 12
const USUAL_COLUMNS = 6
/** Beside an open document. */
const FEW_COLUMNS = 2

type Look = 'table' | 'json' | 'meta'

export function DocumentsScreen({ database, id }: { database: string; id: string | undefined }) {
  const { query: values } = useRoute()
  const [lookText, setLook] = useQueryValue('view', 'table')
  const look: Look = lookText === 'json' || lookText === 'meta' ? lookText : 'table'
  const prefix = values.get('prefix') ?? ''
  const from = values.get('from') ?? ''
  const isNew = values.get('new') === '1'
  const [checked, setChecked] = useState<ReadonlySet<string>>(new Set())
  const [isDeleting, setDeleting] = useState(false)
  const queries = useQueryClient()
  const page = useQuery({
    queryKey: ['documents', database, look !== 'meta', prefix, from],
    queryFn: ({ signal }) => pageOf(database, { prefix, from, withDocuments: look !== 'meta' }, signal),
    placeholderData: keepPreviousData,
  })
  const open = (document: string) => go(link(['db', database, 'documents', document], { ...keptValues(values) }))
  const close = () => go(link(['db', database, 'documents'], keptValues(values)))
  const pane = isNew ? (
    <DocumentPane key="new" database={database} id={undefined} onClose={close} />
  ) : id === undefined ? undefined : (
    <DocumentPane key={id} database={database} id={id} onClose={close} />
  )
  const turn = (to: string) => {
    setChecked(new Set())
    setQuery({ from: to }, { replace: false })
  }
  return (
    <>
      <DatabasePlace database={database} />
      <div className="tools" data-behind={pane !== undefined}>
        <DocumentSearch key={`${database} ${prefix}`} database={database} prefix={prefix} onOpen={open} />
        <Segments
          label="Show documents as"
          value={look}
          options={[
            ['table', 'Table'],
            ['json', 'JSON'],
            ['meta', 'Metadata'],
          ]}
          onChange={setLook}
        />
        <span className="tools-space" />
        {checked.size > 0 && (
          <Button kind="danger" onClick={() => setDeleting(true)}>
            Delete {plural(checked.size, 'document')}…
          </Button>
        )}
        <Button
          kind="primary"
          icon="plus"
          onClick={() => go(link(['db', database, 'documents'], { ...keptValues(values), new: '1' }))}
        >
          New document
        </Button>
      </div>
      <SplitPane
        list={
          <Loaded query={page}>
            {(data) => (
              <>
                <DocumentList
                  database={database}
                  look={look}
                  page={data}
                  prefix={prefix}
                  openId={id}
                  checked={checked}
                  onCheck={setChecked}
                  onOpen={open}
                />
                <Pager
                  page={data}
                  columns={
                    look === 'table' && !data.isWithoutBodies && <ColumnChoice database={database} page={data} />
                  }
                  hasPrevious={from !== ''}
                  onNext={() => turn(data.next ?? '')}
                  onPrevious={() => {
                    const first = data.documents[0]?.id ?? from
                    previousPageStart(database, { prefix, first, size: PAGE_ROWS }).then(turn, (error: unknown) =>
                      toastError('The previous page could not be loaded.', error),
                    )
                  }}
                />
              </>
            )}
          </Loaded>
        }
        detail={pane}
      />
      {isDeleting && page.data && (
        <Confirm
          title={`Delete ${plural(checked.size, 'document')}?`}
          action={`Delete ${plural(checked.size, 'document')}`}
          onClose={() => setDeleting(false)}
          onConfirm={async () => {
            const chosen = page.data.documents.filter((document) => checked.has(document.id))
            const { done, failures } = await deleteDocuments(database, chosen)
            setChecked(new Set(failures.map((failure) => failure.id)))
            await queries.invalidateQueries({ queryKey: ['documents', database] })
            if (failures.length === 0) toast(`${plural(done, 'document')} deleted.`)
            else throw new Error(`${plural(done, 'document')} deleted, ${failures.length} not: ${failures[0]?.reason}`)
          }}
        >
          <p>
            Their latest revisions become deletions, which replicate. The old revisions stay until the next compaction.
          </p>
        </Confirm>
      )}
    </>
  )
}

/** The query of the address that is kept when another document is opened. */
function keptValues(values: URLSearchParams): Record<string, string> {
  const { new: _new, tab: _tab, rev: _rev, ...kept } = Object.fromEntries(values)
  return kept
}

interface Page extends DocumentPage {
  /** Documents were left out since they are large. */
  readonly isWithoutBodies: boolean
}

async function pageOf(
  database: string,
  request: { prefix: string; from: string; withDocuments: boolean },
  signal: AbortSignal,
): Promise<Page> {
  const common = { ...request, size: PAGE_ROWS }
  try {
    const page = await listDocuments(database, { ...common, limitBytes: PAGE_LIMIT_BYTES }, signal)
    return { ...page, isWithoutBodies: false }
  } catch (error) {
    if (!(error instanceof TooLargeError) || !request.withDocuments) throw error
    const limitBytes = Number.POSITIVE_INFINITY
    const page = await listDocuments(database, { ...common, withDocuments: false, limitBytes }, signal)
    return { ...page, isWithoutBodies: true }
  }
}

interface DocumentSearchProperties {
  readonly database: string
  readonly prefix: string
  onOpen(id: string): void
}

function DocumentSearch({ database, prefix, onOpen }: DocumentSearchProperties) {
  const [text, setText] = useState(prefix)
  const onKeyDown = ({ key }: KeyboardEvent) => {
    if (key !== 'Enter' || text === '') return
    if (text.trimStart().startsWith('{')) go(link(['db', database, 'query'], { selector: text }))
    else onOpen(text)
  }
  return (
    <SearchField
      label="Search documents by the beginning of the id; Enter opens an id"
      placeholder="Id begins with…  Enter opens it"
      value={text}
      onChange={({ target }) => {
        setText(target.value)
        if (!target.value.trimStart().startsWith('{')) setQueryLater(target.value)
      }}
      onKeyDown={onKeyDown}
    />
  )
}

const TYPING_MS = 200
let typing: number | undefined

/** The list follows when typing pauses. */
function setQueryLater(prefix: string): void {
  clearTimeout(typing)
  const { hash } = location
  typing = window.setTimeout(() => {
    // Not if the user has left the screen.
    if (location.hash === hash) setQuery({ prefix, from: '' })
  }, TYPING_MS)
}

interface DocumentListProperties {
  readonly database: string
  readonly look: Look
  readonly page: Page
  readonly prefix: string
  readonly openId: string | undefined
  readonly checked: ReadonlySet<string>
  onCheck(keys: ReadonlySet<string>): void
  onOpen(id: string): void
}

function DocumentList(properties: DocumentListProperties) {
  const { database, look, page, prefix, openId, checked, onCheck, onOpen } = properties
  const { documents } = page
  const { shown } = useColumns(database, documents)
  const columnsShown = openId === undefined ? shown : shown.slice(0, FEW_COLUMNS)
  if (documents.length === 0) {
    if (prefix !== '') return <EmptyState title="No such document">No id begins with “{prefix}”.</EmptyState>
    return (
      <EmptyState
        title="No documents yet"
        actions={
          <Button kind="primary" onClick={() => setQuery({ new: '1' }, { replace: false })}>
            Create the first one
          </Button>
        }
      >
        Documents are JSON objects. Write one here, or send one: <code>PUT /{database}/first</code>
      </EmptyState>
    )
  }
  if (look === 'json' && !page.isWithoutBodies) {
    return (
      <div className="content">
        <div className="doc-cards">
          {documents.map(({ id, text }) => (
            <section className="doc-card" key={id} data-open={id === openId} aria-label={id}>
              <div className="doc-card-head">
                <button type="button" className="link-button mono cut" onClick={() => onOpen(id)}>
                  {id}
                </button>
              </div>
              {text !== undefined && <JsonView text={text} />}
            </section>
          ))}
        </div>
      </div>
    )
  }
  const showsFields = look === 'table' && !page.isWithoutBodies
  return (
    <>
      {page.isWithoutBodies && (
        <div className="notice banner">
          <p>These documents are larger than {bytesText(PAGE_LIMIT_BYTES)} together, so only their ids are listed.</p>
        </div>
      )}
      <Table
        label={`Documents of ${database}`}
        name={`documents.${database}`}
        rows={documents}
        columns={[
          idColumn,
          ...(showsFields ? columnsShown.map((field, index) => fieldColumn(field, index > 0)) : [revisionColumn]),
        ]}
        keyOf={({ id }) => id}
        openKey={openId}
        checked={checked}
        onCheck={onCheck}
        onOpen={({ id }) => onOpen(id)}
      />
    </>
  )
}

/** The fields of the documents, those of most documents first. */
function fieldsOf(documents: readonly ListedDocument[]): string[] {
  const counts = new Map<string, number>()
  // Design documents have fields of their own, which say nothing about the others.
  const ordinary = documents.filter(({ id }) => !id.startsWith('_design/'))
  for (const { text } of ordinary.length > 0 ? ordinary : documents) {
    for (const { name } of text === undefined ? [] : topLevelMembers(text)) {
      if (!name.startsWith('_')) counts.set(name, (counts.get(name) ?? 0) + 1)
    }
  }
  return [...counts].sort(([, a], [, b]) => b - a).map(([name]) => name)
}

const idColumn: Column<ListedDocument> = {
  id: '_id',
  label: '_id',
  isMono: true,
  cell: ({ id, text }) => (
    <>
      <bdi title={id}>{id}</bdi>{' '}
      {text?.includes('"_conflicts"') && memberText(text, '_conflicts') !== undefined && (
        <span className="badge badge-warning">conflict</span>
      )}
    </>
  ),
}

const revisionColumn: Column<ListedDocument> = {
  id: '_rev',
  label: '_rev',
  isMono: true,
  cell: ({ rev }) => rev,
}

function fieldColumn(name: string, isHiddenOnPhone: boolean): Column<ListedDocument> {
  return { id: name, label: name, isHiddenOnPhone, cell: ({ text }) => <Cell value={memberText(text ?? '{}', name)} /> }
}

/** Texts without their quotes, numbers with their digits, the rest as JSON. */
export function Cell({ value }: { value: string | undefined }) {
  if (value === undefined) return <span className="muted">—</span>
  if (value.startsWith('"')) return <bdi title={shortened(JSON.parse(value))}>{shortened(JSON.parse(value))}</bdi>
  return <span className="mono">{shortened(value)}</span>
}

const CELL_CHARACTERS = 200

function shortened(text: string): string {
  return text.length > CELL_CHARACTERS ? `${text.slice(0, CELL_CHARACTERS)}…` : text
}

/** The fields that are columns: the most frequent ones, until the user chooses. */
function useColumns(database: string, documents: readonly ListedDocument[]) {
  const fields = useMemo(() => fieldsOf(documents), [documents])
  const [chosen, setChosen] = useRemembered<string[] | null>(`columns.${database}`, null)
  const shown = (chosen ?? fields.slice(0, USUAL_COLUMNS)).slice(0, MOST_COLUMNS)
  return { fields, shown, setChosen }
}

function ColumnChoice({ database, page }: { database: string; page: DocumentPage }) {
  const { fields, shown, setChosen } = useColumns(database, page.documents)
  return (
    <ChoiceMenu
      trigger={
        <Button kind="quiet" icon="columns">
          Columns
        </Button>
      }
      label="Fields of the documents on this page"
      options={[...new Set([...fields, ...shown])]}
      chosen={shown}
      onChange={setChosen}
    />
  )
}

interface PagerProperties {
  readonly page: DocumentPage
  readonly columns: ReactNode
  readonly hasPrevious: boolean
  onNext(): void
  onPrevious(): void
}

function Pager({ page, columns, hasPrevious, onNext, onPrevious }: PagerProperties) {
  const { documents, offset, total, next } = page
  return (
    <nav className="foot" aria-label="Pages">
      <span>
        {documents.length === 0
          ? `0 of ${count(total)}`
          : `${count(offset + 1)}–${count(offset + documents.length)} of ${count(total)}`}
      </span>
      <span className="tools-space" />
      {columns}
      <Button kind="quiet" icon="back" aria-label="Previous page" disabled={!hasPrevious} onClick={onPrevious} />
      <Button kind="quiet" icon="forward" aria-label="Next page" disabled={next === undefined} onClick={onNext} />
    </nav>
  )
}
