/** All databases with their counts and sizes: search, sort, create, delete. */
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { useDeferredValue, useState } from 'react'
import { createDatabase, deleteDatabase, type ListedDatabase, listDatabases, nameProblem } from '../api/databases.ts'
import { useSession } from '../api/session.ts'
import { Button } from '../parts/button.tsx'
import { Confirm, FormDialog } from '../parts/dialog.tsx'
import { Field, SearchField } from '../parts/field.tsx'
import { Bytes, count, plural } from '../parts/figures.tsx'
import { ActionMenu } from '../parts/menu.tsx'
import { EmptyState, Loaded } from '../parts/states.tsx'
import { type Column, type Sort, Table } from '../parts/table.tsx'
import { toast } from '../parts/toast.tsx'
import { Place } from '../shell/place.tsx'
import { go, link, useQueryValue } from '../shell/route.ts'

/** Longer lists are not polled; they are loaded when the screen is opened. */
const MOST_REFRESHED = 200
const REFRESH_MS = 15_000

const NUMBERS: Readonly<Record<string, (row: ListedDatabase) => number>> = {
  documents: ({ information }) => information?.doc_count ?? -1,
  deleted: ({ information }) => information?.doc_del_count ?? -1,
  data: ({ information }) => information?.data_size ?? -1,
  disk: ({ information }) => information?.disk_size ?? -1,
  sequence: ({ information }) => sequenceNumber(information?.update_seq),
}

export function DatabasesScreen() {
  const { isAdmin, name } = useSession()
  const [search, setSearch] = useQueryValue('search')
  const [sortText, setSortText] = useQueryValue('sort', 'name')
  const [dialog, setDialog] = useState<'create' | { delete: string }>()
  const prefix = useDeferredValue(search)
  const query = useQuery({
    queryKey: ['databases', prefix, isAdmin, name],
    queryFn: () => listDatabases(prefix, isAdmin),
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => ((state.data?.databases.length ?? 0) > MOST_REFRESHED ? false : REFRESH_MS),
  })
  const sort: Sort = { column: sortText.replace(/^-/, ''), isDescending: sortText.startsWith('-') }
  return (
    <>
      <Place title="Databases" />
      <div className="tools">
        <SearchField
          label="Search databases by the beginning of the name"
          placeholder="Name begins with…"
          value={search}
          onChange={({ target }) => setSearch(target.value)}
        />
        <span className="tools-space" />
        {isAdmin && (
          <Button kind="primary" icon="plus" onClick={() => setDialog('create')}>
            New database
          </Button>
        )}
      </div>
      <Loaded query={query}>
        {({ databases, isCut }) =>
          databases.length === 0 ? (
            <NoDatabases search={search} isAdmin={isAdmin} onCreate={() => setDialog('create')} />
          ) : (
            <>
              <Table
                label="Databases"
                name="databases"
                rows={sorted(databases, sort)}
                columns={columns(isAdmin, (database) => setDialog({ delete: database }))}
                keyOf={(row) => row.name}
                sort={sort}
                onSort={({ column, isDescending }) => setSortText(`${isDescending ? '-' : ''}${column}`)}
                onOpen={(row) => go(link(['db', row.name, 'documents']))}
              />
              <div className="foot">
                {isCut
                  ? `The first ${plural(databases.length, 'database')}; search to see others`
                  : plural(databases.length, 'database')}
              </div>
            </>
          )
        }
      </Loaded>
      {dialog === 'create' && <CreateDialog onClose={() => setDialog(undefined)} />}
      {typeof dialog === 'object' && <DeleteDialog name={dialog.delete} onClose={() => setDialog(undefined)} />}
    </>
  )
}

function columns(isAdmin: boolean, onDelete: (name: string) => void): Column<ListedDatabase>[] {
  const number = (id: string, label: string, isHiddenOnPhone = true): Column<ListedDatabase> => ({
    id,
    label,
    isNumber: true,
    width: 120,
    isHiddenOnPhone,
    canSort: true,
    cell: (row) => (row.information ? count(NUMBERS[id]?.(row) ?? 0) : '—'),
  })
  const size = (id: 'data' | 'disk', label: string): Column<ListedDatabase> => ({
    ...number(id, label, id === 'data'),
    width: 96,
    cell: (row) => (row.information ? <Bytes value={NUMBERS[id]?.(row) ?? 0} /> : '—'),
  })
  return [
    {
      id: 'name',
      label: 'Name',
      canSort: true,
      cell: ({ name, problem, information }) => (
        <>
          <a href={link(['db', name, 'documents'])} tabIndex={-1}>
            {name}
          </a>{' '}
          {problem !== undefined && (
            <span className="badge badge-warning" title={problem}>
              no access
            </span>
          )}
          {information?.compact_running && <span className="badge badge-accent">compacting</span>}
        </>
      ),
    },
    { ...number('documents', 'Documents', false), width: 104 },
    number('deleted', 'Deleted'),
    number('sequence', 'Sequence'),
    size('data', 'Data'),
    size('disk', 'On disk'),
    ...(isAdmin
      ? [
          {
            id: 'actions',
            label: 'Actions',
            isLabelHidden: true,
            width: 52,
            cell: ({ name }: ListedDatabase) => (
              <ActionMenu
                trigger={<Button kind="quiet" icon="more" aria-label={`Actions for ${name}`} />}
                actions={[
                  { label: 'Open', run: () => go(link(['db', name, 'documents'])) },
                  { label: 'Settings and compaction', run: () => go(link(['db', name, 'settings'])) },
                  { label: 'Delete…', isDangerous: true, run: () => onDelete(name) },
                ]}
              />
            ),
          },
        ]
      : []),
  ]
}

function sorted(databases: readonly ListedDatabase[], { column, isDescending }: Sort): ListedDatabase[] {
  const number = NUMBERS[column]
  const compare = number
    ? (a: ListedDatabase, b: ListedDatabase) => number(a) - number(b)
    : (a: ListedDatabase, b: ListedDatabase) => (a.name < b.name ? -1 : 1)
  return [...databases].sort((a, b) => (isDescending ? -compare(a, b) : compare(a, b)))
}

/** Sequences may be texts that begin with a number. */
function sequenceNumber(sequence: number | string | undefined): number {
  return typeof sequence === 'number' ? sequence : Number.parseInt(sequence ?? '0', 10)
}

interface NoDatabasesProperties {
  readonly search: string
  readonly isAdmin: boolean
  onCreate(): void
}

function NoDatabases({ search, isAdmin, onCreate }: NoDatabasesProperties) {
  if (search !== '') return <EmptyState title="No such database">No name begins with “{search}”.</EmptyState>
  return (
    <EmptyState
      title="No databases yet"
      actions={
        isAdmin && (
          <Button kind="primary" onClick={onCreate}>
            Create the first one
          </Button>
        )
      }
    >
      {isAdmin
        ? 'A database holds documents: JSON objects with an id and a revision.'
        : 'Only server administrators can create databases.'}
    </EmptyState>
  )
}

function CreateDialog({ onClose }: { onClose(): void }) {
  const [name, setName] = useState('')
  const queries = useQueryClient()
  const problem = nameProblem(name)
  return (
    <FormDialog
      title="New database"
      action="Create database"
      isReady={name !== '' && problem === undefined}
      onClose={onClose}
      onSubmit={async () => {
        await createDatabase(name)
        toast(`Database ${name} created.`)
        await queries.invalidateQueries({ queryKey: ['databases'] })
        go(link(['db', name, 'documents']))
      }}
    >
      <Field
        label="Name"
        isMono
        autoFocus
        value={name}
        error={problem}
        onChange={({ target }) => setName(target.value)}
      />
    </FormDialog>
  )
}

export function DeleteDialog({ name, onClose }: { name: string; onClose(): void }) {
  const queries = useQueryClient()
  return (
    <Confirm
      title={`Delete the database ${name}?`}
      action={`Delete ${name}`}
      name={name}
      onClose={onClose}
      onConfirm={async () => {
        await deleteDatabase(name)
        toast(`Database ${name} deleted.`)
        await queries.invalidateQueries({ queryKey: ['databases'] })
        go(link(['databases']))
      }}
    >
      <p>All of its documents, their attachments and its indexes are deleted. This cannot be undone.</p>
    </Confirm>
  )
}
