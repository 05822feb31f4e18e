/** The navigation, and the current user. */
import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { requestJson } from '../api/client.ts'
import { every } from '../api/polling.ts'
import { signOut, useSession, useSessionChange } from '../api/session.ts'
import { Icon, type IconName } from '../parts/icon.tsx'
import { ActionMenu } from '../parts/menu.tsx'
import { toastError } from '../parts/toast.tsx'
import { OPEN_MENU } from './place.tsx'
import { go, link, useRoute } from './route.ts'
import { setTheme } from './theme.ts'

const IS_MAC = /Mac|iP(hone|ad)/.test(navigator.userAgent)

interface Part {
  readonly at: readonly string[]
  readonly label: string
  readonly icon: IconName
  readonly keys?: string
}

export const PARTS: readonly Part[] = [
  { at: [], label: 'Overview', icon: 'overview', keys: 'g o' },
  { at: ['databases'], label: 'Databases', icon: 'databases', keys: 'g d' },
  { at: ['replication'], label: 'Replication', icon: 'replication', keys: 'g r' },
  { at: ['users'], label: 'Users', icon: 'users', keys: 'g u' },
  { at: ['configuration'], label: 'Configuration', icon: 'settings', keys: 'g c' },
  { at: ['log'], label: 'Log', icon: 'log', keys: 'g l' },
]

export function SideBar({ onPalette }: { onPalette(): void }) {
  const { segments } = useRoute()
  const [isOpen, setOpen] = useState(false)
  useEffect(() => {
    const open = () => setOpen(true)
    const close = () => setOpen(false)
    addEventListener(OPEN_MENU, open)
    addEventListener('hashchange', close)
    return () => {
      removeEventListener(OPEN_MENU, open)
      removeEventListener('hashchange', close)
    }
  }, [])
  const here = segments[0] === 'db' ? 'databases' : segments[0]
  return (
    <>
      {isOpen && <div className="veil" aria-hidden="true" onClick={() => setOpen(false)} style={{ zIndex: 14 }} />}
      <nav
        className="side"
        data-open={isOpen}
        aria-label="Server"
        onKeyDown={({ key }) => key === 'Escape' && setOpen(false)}
      >
        <a className="brand" href="#/">
          <Icon name="layers" />
          Settle
        </a>
        {PARTS.map(({ at, label, icon }) => (
          <a key={label} className="side-link" href={link(at)} aria-current={at[0] === here ? 'page' : undefined}>
            <Icon name={icon} />
            {label}
          </a>
        ))}
        <div className="side-foot">
          <Tasks />
          <button type="button" className="side-link" onClick={onPalette}>
            <Icon name="search" />
            Go to…
            <kbd>{IS_MAC ? '⌘K' : 'Ctrl K'}</kbd>
          </button>
          <Account />
        </div>
      </nav>
    </>
  )
}

function Tasks() {
  const { isAdmin } = useSession()
  const tasks = useQuery({
    queryKey: ['tasks'],
    queryFn: () => requestJson<unknown[]>('_active_tasks'),
    enabled: isAdmin,
    refetchInterval: every(5_000),
  })
  const amount = tasks.data?.length ?? 0
  if (amount === 0) return null
  return (
    <a className="side-link" href="#/">
      <Icon name="refresh" />
      {amount === 1 ? '1 task' : `${amount} tasks`}
    </a>
  )
}

function Account() {
  const { name, isAdmin, isOpen } = useSession()
  const changed = useSessionChange()
  const leave = async () => {
    try {
      await signOut()
      await changed()
    } catch (error) {
      toastError('Signing out failed.', error)
    }
  }
  const words = name ?? (isOpen ? 'Everybody' : 'Not signed in')
  return (
    <ActionMenu
      trigger={
        <button type="button" className="side-link" aria-label={`Account: ${words}`}>
          <Icon name="users" />
          <span className="cut">{words}</span>
          {isAdmin && name !== null && <span className="badge">admin</span>}
        </button>
      }
      actions={[
        ...(name === null
          ? [{ label: 'Sign in', icon: 'in' as const, run: () => go(link(['sign-in'], { next: location.hash })) }]
          : [{ label: 'Sign out', icon: 'out' as const, run: () => void leave() }]),
        { label: 'Light', icon: 'sun', run: () => setTheme('light') },
        { label: 'Dark', icon: 'sun', run: () => setTheme('dark') },
        { label: 'Theme of the system', icon: 'sun', run: () => setTheme('system') },
      ]}
    />
  )
}
