/** The frame and the screen that the address names. */
import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useCallback, useState } from 'react'
import { UnreachableError } from '../api/client.ts'
import { readSession, SESSION_KEY, useSession } from '../api/session.ts'
import { Button } from '../parts/button.tsx'
import { EmptyState, ErrorState, Skeleton } from '../parts/states.tsx'
import { Toasts } from '../parts/toast.tsx'
import { DatabasesScreen } from '../screens/databases.tsx'
import { DocumentsScreen } from '../screens/documents.tsx'
import { useKeyboard } from './keyboard.ts'
import { Palette } from './palette.tsx'
import { Place } from './place.tsx'
import { go, link, useRoute } from './route.ts'
import { SessionGuard } from './session-guard.tsx'
import { SideBar } from './side-bar.tsx'
import { FirstAdministratorDialog, SignInPage } from './sign-in.tsx'

export function App() {
  const session = useQuery({ queryKey: SESSION_KEY, queryFn: readSession, staleTime: 60_000, retry: false })
  const { segments } = useRoute()
  const [isPaletteOpen, setPaletteOpen] = useState(false)
  const openPalette = useCallback(() => setPaletteOpen(true), [])
  useKeyboard(openPalette)
  const page = new URLSearchParams(location.search)
  if (location.pathname.endsWith('/session.html')) {
    return <SignInPage reason={page.get('reason') ?? undefined} onDone={() => location.assign(returnPage(page))} />
  }
  if (segments[0] === 'sign-in') return <SignInPage onDone={() => (history.length > 1 ? history.back() : go('#/'))} />
  return (
    <div className="shell">
      <SideBar onPalette={openPalette} />
      <main className="main">
        {session.data ? (
          <>
            <OpenBanner />
            <Screen />
          </>
        ) : session.error ? (
          <NoSession error={session.error} onRetry={() => void session.refetch()} />
        ) : (
          <Skeleton />
        )}
      </main>
      <SessionGuard />
      {isPaletteOpen && <Palette onClose={() => setPaletteOpen(false)} />}
      <Toasts />
    </div>
  )
}

/** Only pages of this server. */
function returnPage(page: URLSearchParams): string {
  const wanted = page.get('return') ?? ''
  return /^\/(?![/\\])/.test(wanted) ? wanted : './'
}

function NoSession({ error, onRetry }: { error: unknown; onRetry(): void }) {
  if (!(error instanceof UnreachableError)) return <ErrorState error={error} onRetry={onRetry} />
  return (
    <EmptyState title="The server does not answer" actions={<Button onClick={onRetry}>Try again</Button>}>
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
        <strong>Open to everybody.</strong> There is no administrator: whoever reaches this server may do everything.
      </p>
      <Button onClick={() => setCreating(true)}>Create the first administrator</Button>
      {isCreating && <FirstAdministratorDialog onClose={() => setCreating(false)} />}
    </div>
  )
}

function Screen(): ReactNode {
  const { segments } = useRoute()
  const [part, database, tab, name] = segments
  if (part === undefined || part === 'databases') return <DatabasesScreen />
  if (part === 'db' && database !== undefined) {
    if (tab === undefined || tab === 'documents') return <DocumentsScreen database={database} id={name} />
  }
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
