/** The top bar: a title, the tabs of a database, and the menu button on a phone. */
import { type ReactNode, useEffect, useRef } from 'react'
import { Button } from '../parts/button.tsx'
import { link, useRoute } from './route.ts'

/** Opens the side bar on a phone. */
export const OPEN_MENU = 'settle:menu'

export function Place({ title, children }: { title: string; children?: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Settle`
  }, [title])
  return (
    <header className="place">
      <Button
        className="menu-button"
        kind="quiet"
        icon="menu"
        aria-label="Menu"
        onClick={() => dispatchEvent(new Event(OPEN_MENU))}
      />
      <h1 title={title}>{title}</h1>
      {children}
    </header>
  )
}

const TABS = [
  ['documents', 'Documents'],
  ['views', 'Views'],
  ['query', 'Query'],
  ['changes', 'Changes'],
  ['conflicts', 'Conflicts'],
  ['rights', 'Rights'],
  ['settings', 'Settings'],
] as const

export function DatabasePlace({ database, children }: { database: string; children?: ReactNode }) {
  const { segments } = useRoute()
  const tabs = useRef<HTMLElement>(null)
  const current = segments[2]
  // On a phone not all tabs are visible.
  useEffect(() => {
    if (current === undefined) return
    tabs.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [current])
  return (
    <Place title={database}>
      <nav ref={tabs} className="tabs" aria-label="Parts of the database">
        {TABS.map(([tab, label]) => (
          <a
            key={tab}
            className="tab"
            href={link(['db', database, tab])}
            aria-current={current === tab ? 'page' : undefined}
          >
            {label}
          </a>
        ))}
      </nav>
      {children}
    </Place>
  )
}
