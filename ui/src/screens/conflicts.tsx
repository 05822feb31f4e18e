/** Every document of a database that has conflicts, found by reading the changes, not the documents. */
import { useEffect, useRef, useState } from 'react'
import { path, requestJson } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { count, Progress, plural } from '../parts/figures.tsx'
import { EmptyState } from '../parts/states.tsx'
import { Table } from '../parts/table.tsx'
import { toastError } from '../parts/toast.tsx'
import { DatabasePlace } from '../shell/place.tsx'
import { go, link } from '../shell/route.ts'

interface Conflicted {
  readonly id: string
  readonly conflicts: number
}

interface Scan {
  readonly found: readonly Conflicted[]
  readonly looked: number
  readonly total: number
  readonly isOver: boolean
}

const PAGE = 2_000
const MOST_FOUND = 1_000

interface ChangesReply {
  readonly results: readonly { readonly id: string; readonly changes: readonly unknown[]; readonly deleted?: boolean }[]
  readonly last_seq: number | string
}

interface DocumentsReply {
  readonly rows: readonly { readonly id?: string; readonly doc?: { readonly _conflicts?: readonly string[] } | null }[]
}

async function* scan(database: string, signal: AbortSignal): AsyncGenerator<Scan> {
  const { doc_count, doc_del_count } = await requestJson<{ doc_count: number; doc_del_count: number }>(path(database))
  const total = doc_count + doc_del_count
  let since: number | string = 0
  let looked = 0
  const found: Conflicted[] = []
  while (found.length < MOST_FOUND) {
    const { results, last_seq }: ChangesReply = await requestJson(`${path(database)}/_changes`, {
      query: { style: 'all_docs', limit: PAGE, since },
      signal,
    })
    // Deleted leaves are not conflicts.
    const keys = results.filter(({ changes, deleted }) => changes.length > 1 && !deleted).map(({ id }) => id)
    if (keys.length > 0) {
      const { rows }: DocumentsReply = await requestJson(`${path(database)}/_all_docs`, {
        method: 'POST',
        json: { keys },
        signal,
        query: { include_docs: true, conflicts: true },
      })
      for (const { id, doc } of rows) {
        if (id !== undefined && doc?._conflicts) found.push({ id, conflicts: doc._conflicts.length })
      }
    }
    looked += results.length
    since = last_seq
    const isOver = results.length < PAGE
    yield { found: [...found], looked, total, isOver }
    if (isOver) return
  }
}

export function ConflictsScreen({ database }: { database: string }) {
  const [state, setState] = useState<Scan>()
  const [isRunning, setRunning] = useState(false)
  const abort = useRef<AbortController>(undefined)
  useEffect(() => () => abort.current?.abort(), [])
  const run = async () => {
    const controller = new AbortController()
    abort.current = controller
    setRunning(true)
    try {
      for await (const next of scan(database, controller.signal)) setState(next)
    } catch (error) {
      if (!controller.signal.aborted) toastError('The search failed.', error)
    } finally {
      setRunning(false)
    }
  }
  return (
    <>
      <DatabasePlace database={database} />
      <div className="tools">
        <span className="muted" role="status">
          {state ? `${plural(state.found.length, 'document')} with conflicts; ${count(state.looked)} searched` : ''}
        </span>
        <span className="tools-space" />
        {isRunning ? (
          <Button onClick={() => abort.current?.abort()}>Stop</Button>
        ) : (
          <Button kind="primary" onClick={() => void run()}>
            {state ? 'Search again' : 'Search for conflicts'}
          </Button>
        )}
      </div>
      {isRunning && state && <Progress value={state.looked / Math.max(state.total, 1)} label="Documents searched" />}
      {!state ? (
        <EmptyState title="Conflicts">
          When two places change a document before they replicate, both versions are kept. The search goes through the
          list of changes, some thousands at a time.
        </EmptyState>
      ) : state.found.length === 0 ? (
        <EmptyState title={state.isOver ? 'No conflicts' : isRunning ? 'Searching…' : 'Stopped'}>
          {state.isOver ? 'Every document has one version.' : 'None so far.'}
        </EmptyState>
      ) : (
        <Table
          label="Documents with conflicts"
          name="conflicts"
          rows={state.found}
          keyOf={({ id }) => id}
          onOpen={({ id }) => go(link(['db', database, 'documents', id], { tab: 'history' }))}
          columns={[
            { id: 'id', label: 'Document', isMono: true, cell: ({ id }) => <bdi>{id}</bdi> },
            {
              id: 'conflicts',
              label: 'Conflicts',
              isNumber: true,
              width: 110,
              cell: ({ conflicts }) => count(conflicts),
            },
          ]}
        />
      )}
    </>
  )
}
