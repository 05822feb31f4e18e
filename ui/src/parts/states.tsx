/** What is shown instead of data: empty, loading and error states. */
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { ApiError, sentenceOf, UnreachableError } from '../api/client.ts'
import { useSession } from '../api/session.ts'
import { go, link } from '../shell/route.ts'
import { Button } from './button.tsx'

interface EmptyProperties {
  readonly title: string
  readonly children?: ReactNode
  readonly actions?: ReactNode
}

export function EmptyState({ title, children, actions }: EmptyProperties) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children !== undefined && <div>{children}</div>}
      {actions !== undefined && <div className="actions">{actions}</div>}
    </div>
  )
}

/** Says what was tried, what the server said, and what to do. */
export function ErrorState({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { name } = useSession()
  const isRefused = error instanceof ApiError && (error.status === 401 || error.status === 403)
  if (isMissingDatabase(error)) return <MissingDatabase />
  const request = error instanceof ApiError || error instanceof UnreachableError ? error.request : undefined
  return (
    <div className="empty" role="alert">
      <h2>{isRefused ? 'You may not see this' : 'This could not be loaded'}</h2>
      <p className="wrap-anywhere">{sentenceOf(error)}</p>
      {isRefused && (
        <p>
          {name === null ? 'You are not signed in.' : `You are signed in as ${name}.`} A server administrator, or an
          administrator of the database, can give you the right.
        </p>
      )}
      {request !== undefined && <code className="muted wrap-anywhere">{request}</code>}
      <div className="actions">
        {isRefused && name === null && (
          <Button kind="primary" onClick={() => go(link(['sign-in'], { next: location.hash }))}>
            Sign in
          </Button>
        )}
        {onRetry && <Button onClick={onRetry}>Try again</Button>}
      </div>
    </div>
  )
}

/** The two texts of CouchDB servers for it. */
function isMissingDatabase(error: unknown): boolean {
  if (!(error instanceof ApiError) || error.status !== 404) return false
  return error.reason === 'no_db_file' || error.reason === 'Database does not exist.'
}

function MissingDatabase() {
  const actions = <Button onClick={() => go(link(['databases']))}>Show all databases</Button>
  return (
    <EmptyState title="There is no such database" actions={actions}>
      It may have been deleted, or it has another name.
    </EmptyState>
  )
}

export function Skeleton({ rows = 6 }: { rows?: number }) {
  return (
    <div className="skeleton-list" aria-busy="true" role="status">
      <span className="visually-hidden">Loading</span>
      {Array.from({ length: rows }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows without anything in them.
        <div key={index} className="skeleton" style={{ width: `${90 - ((index * 17) % 50)}%` }} />
      ))}
    </div>
  )
}

/** Old data stays while new data is loaded; at first a skeleton is shown. */
export function Loaded<T>({ query, children }: { query: UseQueryResult<T>; children: (data: T) => ReactNode }) {
  if (query.data !== undefined) return children(query.data)
  if (query.error) return <ErrorState error={query.error} onRetry={() => void query.refetch()} />
  return <Skeleton />
}
