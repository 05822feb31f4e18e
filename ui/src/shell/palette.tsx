/** Goes anywhere: parts of the server, databases by their names, and a document by its id. */
import { useQuery } from '@tanstack/react-query'
import { Dialog as Primitive } from 'radix-ui'
import { type KeyboardEvent, useId, useState } from 'react'
import { requestJson } from '../api/client.ts'
import { Icon, type IconName } from '../parts/icon.tsx'
import { go, link, useRoute } from './route.ts'
import { PARTS } from './side-bar.tsx'

interface Target {
  readonly label: string
  readonly note: string
  readonly icon: IconName
  readonly to: string
}

const MOST_TARGETS = 12

export function Palette({ onClose }: { onClose(): void }) {
  const [text, setText] = useState('')
  const [index, setIndex] = useState(0)
  const { segments } = useRoute()
  const listId = useId()
  const names = useQuery({
    queryKey: ['database names', text],
    queryFn: () =>
      requestJson<string[]>('_all_dbs', {
        query: { limit: 50, startkey: text === '' ? undefined : JSON.stringify(text) },
      }),
  })
  const database = segments[0] === 'db' ? segments[1] : undefined
  const targets = targetsFor(text, names.data ?? [], database).slice(0, MOST_TARGETS)
  const chosen = Math.min(index, targets.length - 1)
  const open = (target: Target | undefined) => {
    if (!target) return
    onClose()
    go(target.to)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') setIndex((chosen + 1) % targets.length)
    else if (event.key === 'ArrowUp') setIndex((chosen + targets.length - 1) % targets.length)
    else if (event.key === 'Enter') open(targets[chosen])
    else return
    event.preventDefault()
  }
  return (
    <Primitive.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Primitive.Portal>
        <Primitive.Overlay className="veil" />
        <Primitive.Content className="dialog" aria-describedby={undefined}>
          <Primitive.Title className="visually-hidden">Go to</Primitive.Title>
          <div className="dialog-body">
            <input
              className="input"
              placeholder="Database, screen or id of a document"
              aria-label="Go to"
              role="combobox"
              aria-expanded="true"
              aria-controls={listId}
              aria-activedescendant={targets[chosen] ? `${listId}-${chosen}` : undefined}
              autoComplete="off"
              spellCheck={false}
              value={text}
              onChange={({ target }) => {
                setText(target.value)
                setIndex(0)
              }}
              onKeyDown={onKeyDown}
            />
            <div className="palette-list" role="listbox" id={listId} aria-label="Results">
              {targets.map((target, at) => (
                // biome-ignore lint/a11y/useFocusableInteractive: the focus stays in the field.
                // biome-ignore lint/a11y/useKeyWithClickEvents: the field hears the keys.
                <div
                  key={`${target.note} ${target.label}`}
                  id={`${listId}-${at}`}
                  role="option"
                  aria-selected={at === chosen}
                  className="palette-item"
                  onClick={() => open(target)}
                >
                  <Icon name={target.icon} />
                  <span className="cut">{target.label}</span>
                  <small>{target.note}</small>
                </div>
              ))}
            </div>
          </div>
        </Primitive.Content>
      </Primitive.Portal>
    </Primitive.Root>
  )
}

function targetsFor(text: string, names: readonly string[], database: string | undefined): Target[] {
  const wanted = text.toLowerCase()
  const parts = PARTS.filter(({ label }) => label.toLowerCase().includes(wanted)).map(
    ({ label, icon, at, keys }): Target => ({ label, icon, to: link(at), note: keys ?? '' }),
  )
  const databases = names
    .filter((name) => name.includes(wanted))
    .map((name): Target => ({ label: name, icon: 'databases', to: link(['db', name, 'documents']), note: 'database' }))
  const document: Target[] =
    database === undefined || text === ''
      ? []
      : [{ label: text, icon: 'file', to: link(['db', database, 'documents', text]), note: `document of ${database}` }]
  return wanted === '' ? [...parts, ...databases] : [...databases, ...parts, ...document]
}
