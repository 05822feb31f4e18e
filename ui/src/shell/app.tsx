/** The frame, and the screen of the current address. */
import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useCallback, useState } from 'react'
import { UnreachableError } from '../api/client.ts'
import { readSession, SESSION_KEY, useSession } from '../api/session.ts'
import { Button } from '../parts/button.tsx'
import { EmptyState, ErrorState, Skeleton } from '../parts/states.tsx'
import { Toasts } from '../parts/toast.tsx'
import { ChangesScreen } from '../screens/changes.tsx'
import { ConfigurationScreen } from '../screens/configuration.tsx'
import { ConflictsScreen } from '../screens/conflicts.tsx'
import { DatabaseSettingsScreen } from '../screens/database-settings.tsx'
import { DatabasesScreen } from '../screens/databases.tsx'
import { DocumentsScreen } from '../screens/documents.tsx'
import { LogScreen } from '../screens/log.tsx'
import { OverviewScreen } from '../screens/overview.tsx'
import { PartsScreen } from '../screens/parts.tsx'
import { QueryScreen } from '../screens/query.tsx'
import { ReplicationScreen } from '../screens/replication.tsx'
import { RightsScreen } from '../screens/rights.tsx'
import { UsersScreen } from '../screens/users.tsx'
import { ViewsScreen } from '../screens/views.tsx'
import { ConnectionBanner } from './connection.tsx'
import { useKeyboard } from './keyboard.ts'
import { Palette } from './palette.tsx'
import { Place } from './place.tsx'
import { go, link, useRoute } from './route.ts'
import { SessionGuard } from './session-guard.tsx'
import { SideBar } from './side-bar.tsx'
import { FirstAdministratorDialog, SignInPage } from './sign-in.tsx'

export function App() {
  const session = useQuery({ queryKey: SESSION_KEY, queryFn: readSession, staleTime: 60_000, retry: false })
  const { segments, query } = useRoute()
  const [isPaletteOpen, setPaletteOpen] = useState(false)
  const openPalette = useCallback(() => setPaletteOpen(true), [])
  useKeyboard(openPalette)
  const page = new URLSearchParams(location.search)
  if (location.pathname.endsWith('/session.html')) {
    return <SignInPage reason={page.get('reason') ?? undefined} onDone={() => location.assign(returnPage(page))} />
  }
  if (segments[0] === 'sign-in') return <SignInPage onDone={() => go(nextScreen(query), { replace: true })} />
  return (
    <>
      <div className="shell">
        <SideBar onPalette={openPalette} />
        <main className="main">
          {session.data ? (
            <>
              <ConnectionBanner />
              <OpenBanner />
              <Screen />
            </>
          ) : session.error ? (
            <NoSession error={session.error} onRetry={() => void session.refetch()} />
          ) : (
            <Skeleton />
          )}
        </main>
      </div>
      <SessionGuard />
      {isPaletteOpen && <Palette onClose={() => setPaletteOpen(false)} />}
      <Toasts />
    </>
  )
}

/** Only screens of this interface. */
function nextScreen(query: URLSearchParams): string {
  const next = query.get('next') ?? ''
  return next.startsWith('#/') ? next : '#/'
}

/** Only pages of this server. */
function returnPage(page: URLSearchParams): string {
  const wanted = page.get('return') ?? ''
  return /^\/(?![/\\])/.test(wanted) ? wanted : './'
}

function NoSession({ error, onRetry }: { error: unknown; onRetry(): void }) {
  if (!(error instanceof UnreachableError)) return <ErrorState error={error} onRetry={onRetry} />
  return (
    <EmptyState title="The server does not respond" actions={<Button onClick={onRetry}>Try again</Button>}>
      It may have been stopped. This page stays as it is.
    </EmptyState>
  )
}

function OpenBanner() {
  const { isOpen } = useSession()
  const [isCreating, setCreating] = useState(false)
  if (!isOpen) return null
  return (
    <div className="notice notice-warning banner" role="status">
      <p>
        <strong>Open to everybody.</strong> There is no administrator: anybody who can reach this server may do
        everything.
      </p>
      <Button onClick={() => setCreating(true)}>Create the first administrator</Button>
      {isCreating && <FirstAdministratorDialog onClose={() => setCreating(false)} />}
    </div>
  )
}

/** The screens of the server, by the first part of the address. */
const SERVER_SCREENS: Readonly<Record<string, () => ReactNode>> = {
  '': () => <OverviewScreen />,
  databases: () => <DatabasesScreen />,
  replication: () => <ReplicationScreen />,
  users: () => <UsersScreen />,
  configuration: () => <ConfigurationScreen />,
  log: () => <LogScreen />,
  // Not part of the production build.
  ...(import.meta.env.DEV && { parts: () => <PartsScreen /> }),
}

/** The screens of a database, by the third. What follows is for the screen itself. */
const DATABASE_SCREENS: Readonly<Record<string, (database: string, rest: readonly string[]) => ReactNode>> = {
  documents: (database, [id]) => <DocumentsScreen key={database} database={database} id={id} />,
  views: (database, [design, kind, name]) => (
    <ViewsScreen database={database} design={design} kind={kind} name={name} />
  ),
  query: (database) => <QueryScreen key={database} database={database} />,
  changes: (database) => <ChangesScreen database={database} />,
  conflicts: (database) => <ConflictsScreen key={database} database={database} />,
  rights: (database) => <RightsScreen database={database} />,
  settings: (database) => <DatabaseSettingsScreen key={database} database={database} />,
}

function Screen(): ReactNode {
  const { segments } = useRoute()
  const [part = '', database, tab = 'documents', ...rest] = segments
  const ofDatabase = part === 'db' && database !== undefined && Object.hasOwn(DATABASE_SCREENS, tab)
  if (ofDatabase) return DATABASE_SCREENS[tab]?.(database, rest)
  if (segments.length < 2 && Object.hasOwn(SERVER_SCREENS, part)) return SERVER_SCREENS[part]?.()
  return (
    <>
      <Place title="Not found" />
      <EmptyState
        title="There is no such screen"
        actions={<Button onClick={() => go(link([]))}>Go to the start</Button>}
      />
    </>
  )
}
