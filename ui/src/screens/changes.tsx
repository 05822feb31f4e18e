/** The changes of a database, live: pause, filter, open. */
import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { path, requestJson, urlOf } from '../api/client.ts'
import { listDesigns } from '../api/designs.ts'
import { Button } from '../parts/button.tsx'
import { SearchField, Select } from '../parts/field.tsx'
import { plural } from '../parts/figures.tsx'
import { EmptyState, ErrorState, Skeleton } from '../parts/states.tsx'
import { Table } from '../parts/table.tsx'
import { DatabasePlace } from '../shell/place.tsx'
import { go, link, useQueryValue } from '../shell/route.ts'

interface Change {
  readonly seq: number | string
  readonly id: string
  readonly deleted?: boolean
  readonly changes: readonly { readonly rev: string }[]
}

/** Older ones are dropped. */
const MOST_CHANGES = 1_000
const RECENT = 100

interface Feed {
  readonly changes: readonly Change[]
  readonly state: 'loading' | 'live' | 'reconnecting'
  readonly error: unknown
  /** Those that came while paused. */
  readonly waiting: number
}

export function ChangesScreen({ database }: { database: string }) {
  const [isPaused, setPaused] = useState(false)
  const [search, setSearch] = useQueryValue('search')
  const [filter, setFilter] = useQueryValue('filter')
  const feed = useFeed(database, filter, isPaused)
  const designs = useQuery({ queryKey: ['designs', database], queryFn: () => listDesigns(database) })
  const filters = (designs.data ?? []).flatMap(({ name, functions }) =>
    functions.filter(({ kind }) => kind === 'filters').map((one) => `${name}/${one.name}`),
  )
  const shown = feed.changes.filter(({ id }) => id.includes(search))
  return (
    <>
      <DatabasePlace database={database} />
      <div className="tools">
        <SearchField
          label="Changes whose id contains"
          placeholder="Id contains…"
          value={search}
          onChange={({ target }) => setSearch(target.value)}
        />
        <Select
          label="Filter"
          isLabelHidden
          value={filter}
          options={[
            ['', 'All documents'],
            ['_design', 'Design documents'],
            ...filters.map((one) => [one, one] as const),
          ]}
          onChange={({ target }) => setFilter(target.value)}
        />
        <span className="tools-space" />
        <span className="muted" role="status">
          {isPaused ? `Paused${feed.waiting > 0 ? `, ${feed.waiting} waiting` : ''}` : STATES[feed.state]}
        </span>
        <Button icon={isPaused ? 'play' : 'pause'} onClick={() => setPaused(!isPaused)}>
          {isPaused ? 'Resume' : 'Pause'}
        </Button>
      </div>
      {feed.error !== undefined ? (
        <ErrorState error={feed.error} />
      ) : feed.state === 'loading' ? (
        <Skeleton />
      ) : shown.length === 0 ? (
        <EmptyState title="No changes yet">They appear here as soon as a document is written or deleted.</EmptyState>
      ) : (
        <>
          <Table
            label={`Changes of ${database}`}
            name="changes"
            rows={shown}
            keyOf={({ seq, id }) => `${seq} ${id}`}
            onOpen={({ id }) => go(link(['db', database, 'documents', id]))}
            columns={[
              {
                id: 'seq',
                label: 'Sequence',
                isNumber: true,
                width: 110,
                cell: ({ seq }) => String(seq).split('-')[0],
              },
              {
                id: 'id',
                label: 'Document',
                isMono: true,
                cell: ({ id, deleted, changes }) => (
                  <>
                    <bdi>{id}</bdi> {deleted && <span className="badge badge-danger">deleted</span>}
                    {changes.length > 1 && <span className="badge badge-warning">{changes.length} leaves</span>}
                  </>
                ),
              },
              {
                id: 'rev',
                label: 'Revision',
                isMono: true,
                isHiddenOnPhone: true,
                cell: ({ changes }) => changes[0]?.rev,
              },
            ]}
          />
          <div className="foot">The latest {plural(shown.length, 'change')}, newest first</div>
        </>
      )}
    </>
  )
}

const STATES = { loading: 'Loading', live: 'Live', reconnecting: 'Reconnecting…' }

function useFeed(database: string, filter: string, isPaused: boolean): Feed {
  const [feed, setFeed] = useState<Feed & { held: readonly Change[] }>(EMPTY)
  useEffect(() => {
    let source: EventSource | undefined
    let isOver = false
    setFeed(EMPTY)
    const query = { style: 'all_docs', filter: filter === '' ? undefined : filter }
    const resource = `${path(database)}/_changes`
    const begin = async () => {
      const { results, last_seq } = await requestJson<{ results: Change[]; last_seq: number | string }>(resource, {
        query: { ...query, descending: true, limit: RECENT },
      })
      if (isOver) return
      setFeed({ ...EMPTY, state: 'live', changes: results })
      const since = results[0]?.seq ?? (filter === '' ? last_seq : 'now')
      source = new EventSource(urlOf(resource, { ...query, feed: 'eventsource', since, heartbeat: 20_000 }))
      source.onopen = () => setFeed((before) => ({ ...before, state: 'live' }))
      source.onerror = () => setFeed((before) => ({ ...before, state: 'reconnecting' }))
      source.onmessage = ({ data }) => {
        const change: Change = JSON.parse(data)
        setFeed((before) => ({ ...before, held: [change, ...before.held].slice(0, MOST_CHANGES) }))
      }
    }
    begin().catch((error: unknown) => !isOver && setFeed({ ...EMPTY, error }))
    return () => {
      isOver = true
      source?.close()
    }
  }, [database, filter])
  const held = feed.held.length
  useEffect(() => {
    if (isPaused || held === 0) return
    setFeed(({ held: waiting, changes, ...rest }) => {
      const ids = new Set(waiting.map(({ id }) => id))
      // Only the latest change of a document is one.
      const others = changes.filter(({ id }) => !ids.has(id))
      return { ...rest, held: [], changes: [...waiting, ...others].slice(0, MOST_CHANGES) }
    })
  }, [isPaused, held])
  return { ...feed, waiting: held }
}

const EMPTY: Feed & { held: readonly Change[] } = {
  changes: [],
  state: 'loading',
  error: undefined,
  waiting: 0,
  held: [],
}
