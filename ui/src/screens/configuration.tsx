/** Every setting with its default and its help: search, change, reset. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import defaultsText from '../../../etc/default.ini?raw'
import { path, requestJson, requestText } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Confirm, FormDialog } from '../parts/dialog.tsx'
import { Check, Field, SearchField } from '../parts/field.tsx'
import { plural } from '../parts/figures.tsx'
import { EmptyState, Loaded } from '../parts/states.tsx'
import { Table } from '../parts/table.tsx'
import { toast } from '../parts/toast.tsx'
import { Place } from '../shell/place.tsx'
import { useQueryValue } from '../shell/route.ts'

type Sections = Readonly<Record<string, Readonly<Record<string, string>>>>

/** The layer of a value; undefined for servers that do not report it. */
type Layer = 'default' | 'file' | 'stored' | 'environment' | 'flag' | 'unsaved'
type Layers = Readonly<Record<string, Readonly<Record<string, Layer>>>>

const LAYERS: Readonly<Record<Layer, readonly [label: string, about: string]>> = {
  default: ['default', 'The default of this release.'],
  file: ['local file', 'From a file of the operator. A value that is saved here overrides it.'],
  stored: ['run time', 'Saved here or over HTTP; kept over restarts.'],
  environment: ['environment', 'From the environment of the server.'],
  flag: ['start', 'From the command line, or from the program that started the server.'],
  unsaved: ['until restart', 'Changed at run time and not stored: it is lost at the next start.'],
}

interface Setting {
  readonly section: string
  readonly key: string
  readonly value: string
  /** Undefined where the release has none. */
  readonly usual: string | undefined
  readonly help: string
  readonly layer: Layer | undefined
}

type Edited = { readonly setting: Setting | undefined } | undefined

export function ConfigurationScreen() {
  const [search, setSearch] = useQueryValue('search')
  const [changedOnly, setChangedOnly] = useQueryValue('changed')
  const [edited, setEdited] = useState<Edited>()
  const query = useQuery({ queryKey: ['configuration'], queryFn: readSettings })
  const usual = useMemo(() => parseDefaults(defaultsText), [])
  return (
    <>
      <Place title="Configuration" />
      <div className="tools">
        <SearchField
          label="Search settings"
          placeholder="Section, key, value or help"
          value={search}
          onChange={({ target }) => setSearch(target.value)}
        />
        <Check
          label="Changed only"
          checked={changedOnly === '1'}
          onChange={({ target }) => setChangedOnly(target.checked ? '1' : '')}
        />
        <span className="tools-space" />
        <Button kind="primary" icon="plus" onClick={() => setEdited({ setting: undefined })}>
          New setting
        </Button>
      </div>
      <Loaded query={query}>
        {(read) => {
          const settings = settingsOf(read, usual).filter(
            (setting) => fits(setting, search) && (changedOnly !== '1' || isChanged(setting)),
          )
          if (settings.length === 0)
            return <EmptyState title="No such setting">No setting matches the search.</EmptyState>
          return (
            <>
              <Table
                label="Settings"
                name="settings"
                rows={settings}
                keyOf={({ section, key }) => `${section}/${key}`}
                onOpen={(setting) => setEdited({ setting })}
                columns={[
                  {
                    id: 'setting',
                    label: 'Setting',
                    isMono: true,
                    cell: ({ section, key }) => (
                      <>
                        <span className="muted">{section}/</span>
                        {key}
                      </>
                    ),
                  },
                  { id: 'value', label: 'Value', isMono: true, cell: ({ section, value }) => shown(section, value) },
                  {
                    id: 'state',
                    label: 'From',
                    width: 120,
                    isHiddenOnPhone: true,
                    cell: (setting) => <From setting={setting} />,
                  },
                  {
                    id: 'help',
                    label: 'About',
                    isHiddenOnPhone: true,
                    cell: ({ help }) => <span title={help}>{help}</span>,
                  },
                ]}
              />
              <div className="foot">{plural(settings.length, 'setting')}</div>
            </>
          )
        }}
      </Loaded>
      {edited && <SettingDialog setting={edited.setting} onClose={() => setEdited(undefined)} />}
    </>
  )
}

async function readSettings(): Promise<ReadSettings> {
  const [sections, layers] = await Promise.all([
    requestJson<Sections>('_config'),
    requestJson<Layers>('_config?layers=true'),
  ])
  return { sections, layers }
}

interface ReadSettings {
  readonly sections: Sections
  readonly layers: Layers
}

function From({ setting }: { setting: Setting }) {
  const [label, about] = LAYERS[setting.layer ?? 'default']
  const isUsual = (setting.layer ?? 'default') === 'default'
  return (
    <span className={isUsual ? 'muted' : 'badge badge-accent'} title={about}>
      {label}
    </span>
  )
}

function shown(section: string, value: string): string {
  return section === 'admins' ? '••••••' : value
}

function isChanged({ layer }: Setting): boolean {
  return layer !== undefined && layer !== 'default'
}

function fits(setting: Setting, search: string): boolean {
  const words = search.toLowerCase()
  return `${setting.section}/${setting.key} ${setting.value} ${setting.help}`.toLowerCase().includes(words)
}

function SettingDialog({ setting, onClose }: { setting: Setting | undefined; onClose(): void }) {
  const [section, setSection] = useState(setting?.section ?? '')
  const [key, setKey] = useState(setting?.key ?? '')
  const [value, setValue] = useState(setting && setting.section !== 'admins' ? setting.value : '')
  const [isRemoving, setRemoving] = useState(false)
  const queries = useQueryClient()
  const done = async (words: string) => {
    toast(words)
    await queries.invalidateQueries()
  }
  if (isRemoving && setting) {
    return (
      <Confirm
        title={`Take ${section}/${key} back?`}
        action="Reset"
        onClose={onClose}
        onConfirm={async () => {
          await requestText(path('_config', section, key), { method: 'DELETE' })
          await done(`${section}/${key} was reset.`)
        }}
      >
        <p>
          {setting.usual === undefined
            ? 'The setting is removed.'
            : `The value set at run time is removed. The default is “${setting.usual}”.`}
        </p>
      </Confirm>
    )
  }
  return (
    <FormDialog
      title={setting ? `${section}/${key}` : 'New setting'}
      action="Save setting"
      isReady={section !== '' && key !== ''}
      onClose={onClose}
      onSubmit={async () => {
        await requestText(path('_config', section, key), { method: 'PUT', json: value })
        await done(`${section}/${key} saved.`)
      }}
    >
      {setting && setting.help !== '' && <p className="muted">{setting.help}</p>}
      {setting?.layer !== undefined && (
        <p className="muted">
          Now: {LAYERS[setting.layer][0]}. {LAYERS[setting.layer][1]}
        </p>
      )}
      {!setting && (
        <div className="form-row">
          <Field label="Section" isMono autoFocus value={section} onChange={({ target }) => setSection(target.value)} />
          <Field label="Key" isMono value={key} onChange={({ target }) => setKey(target.value)} />
        </div>
      )}
      <Field
        label="Value"
        isMono
        autoFocus={setting !== undefined}
        value={value}
        hint={setting?.usual === undefined ? undefined : `Default: ${setting.usual === '' ? 'empty' : setting.usual}`}
        onChange={({ target }) => setValue(target.value)}
      />
      {setting && (setting.layer === 'stored' || setting.layer === 'unsaved') && (
        <div>
          <Button kind="danger" onClick={() => setRemoving(true)}>
            Reset…
          </Button>
        </div>
      )}
    </FormDialog>
  )
}

interface Default {
  readonly value: string
  readonly help: string
}

/** The file of defaults as it is shipped; what follows a semicolon is the help. */
function parseDefaults(text: string): ReadonlyMap<string, Default> {
  const defaults = new Map<string, Default>()
  let section = ''
  // Lines that begin with white space continue the previous one.
  for (const line of text.replace(/\n[ \t]+/g, ' ').split('\n')) {
    const head = /^\[(.*)\]/.exec(line)?.[1]
    if (head !== undefined) section = head
    const [, key, rest] = /^([^;=[]+?)\s*=\s*(.*)$/.exec(line) ?? []
    if (key === undefined || rest === undefined) continue
    const [value = '', ...help] = rest.split(/\s;\s?/)
    defaults.set(`${section}/${key}`, { value: value.trim(), help: help.join('; ') })
  }
  return defaults
}

function settingsOf({ sections, layers }: ReadSettings, defaults: ReadonlyMap<string, Default>): Setting[] {
  return Object.entries(sections).flatMap(([section, keys]) =>
    Object.entries(keys).map(([key, value]) => {
      const usual = defaults.get(`${section}/${key}`)
      const layer = layers[section]?.[key]
      return { section, key, value, usual: usual?.value, help: usual?.help ?? '', layer }
    }),
  )
}
