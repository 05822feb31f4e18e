/** Users and administrators: create, roles, password, delete. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { path, requestJson, requestText } from '../api/client.ts'
import { deleteDocument, loadDocument, saveDocument } from '../api/documents.ts'
import { useSession } from '../api/session.ts'
import { withMember } from '../json/json-text.ts'
import { Button } from '../parts/button.tsx'
import { Confirm, FormDialog } from '../parts/dialog.tsx'
import { Field, SearchField } from '../parts/field.tsx'
import { plural } from '../parts/figures.tsx'
import { ActionMenu } from '../parts/menu.tsx'
import { EmptyState, Loaded } from '../parts/states.tsx'
import { Table } from '../parts/table.tsx'
import { toast } from '../parts/toast.tsx'
import { Place } from '../shell/place.tsx'
import { useQueryValue } from '../shell/route.ts'

interface User {
  readonly id: string | undefined
  readonly name: string
  readonly roles: readonly string[]
  readonly isAdmin: boolean
}

const USER_ID = /^org\.(?:service|couchdb)\.user:/
const MOST_USERS = 1_000

interface UserRows {
  readonly rows: readonly { readonly id: string; readonly doc: { readonly name?: string; readonly roles?: string[] } }[]
}

async function listUsers(database: string, search: string): Promise<{ users: User[]; isCut: boolean }> {
  const { rows } = await requestJson<UserRows>(`${path(database)}/_all_docs`, {
    query: { include_docs: true, limit: MOST_USERS + 1, startkey: '"org."', endkey: '"org/"' },
    limitBytes: 16 * 1024 * 1024,
  })
  const admins = await requestJson<Record<string, string>>('_config/admins')
  const users = rows
    .filter(({ id }) => USER_ID.test(id))
    .map(({ id, doc }) => ({
      id,
      name: doc.name ?? id.replace(USER_ID, ''),
      roles: doc.roles ?? [],
      isAdmin: (doc.name ?? '') in admins,
    }))
  const known = new Set(users.map(({ name }) => name))
  const only = Object.keys(admins)
    .filter((name) => !known.has(name))
    .map((name) => ({ id: undefined, name, roles: [], isAdmin: true }))
  const all = [...only, ...users].filter(({ name, roles }) => `${name} ${roles.join(' ')}`.includes(search))
  return { users: all, isCut: rows.length > MOST_USERS }
}

type Asked =
  | { readonly kind: 'create' | 'create admin' }
  | { readonly kind: 'roles' | 'password' | 'delete'; readonly user: User }

export function UsersScreen() {
  const { usersDatabase, isAdmin, name } = useSession()
  const [search, setSearch] = useQueryValue('search')
  const [asked, setAsked] = useState<Asked>()
  const query = useQuery({
    queryKey: ['users', usersDatabase, search, name],
    queryFn: () => listUsers(usersDatabase, search),
  })
  const close = () => setAsked(undefined)
  return (
    <>
      <Place title="Users" />
      <div className="tools">
        <SearchField
          label="Search users by name or role"
          placeholder="Name or role"
          value={search}
          onChange={({ target }) => setSearch(target.value)}
        />
        <span className="tools-space" />
        {isAdmin && <Button onClick={() => setAsked({ kind: 'create admin' })}>New administrator</Button>}
        <Button kind="primary" icon="plus" onClick={() => setAsked({ kind: 'create' })}>
          New user
        </Button>
      </div>
      <Loaded query={query}>
        {({ users, isCut }) =>
          users.length === 0 ? (
            <EmptyState
              title={search === '' ? 'No users yet' : 'No such user'}
              actions={
                search === '' && <Button onClick={() => setAsked({ kind: 'create' })}>Create the first one</Button>
              }
            >
              Users sign in with a name and a password. What they may do is decided in each database, under Rights.
            </EmptyState>
          ) : (
            <>
              <Table
                label="Users"
                name="users"
                rows={users}
                keyOf={({ name: user, id }) => id ?? user}
                onOpen={(user) => setAsked({ kind: user.id === undefined ? 'password' : 'roles', user })}
                columns={[
                  {
                    id: 'name',
                    label: 'Name',
                    cell: ({ name: user, isAdmin: isServerAdmin }) => (
                      <>
                        <bdi>{user}</bdi> {isServerAdmin && <span className="badge badge-accent">server admin</span>}
                      </>
                    ),
                  },
                  {
                    id: 'roles',
                    label: 'Roles',
                    cell: ({ roles }) => (roles.length === 0 ? <span className="muted">—</span> : roles.join(', ')),
                  },
                  {
                    id: 'actions',
                    label: 'Actions',
                    isLabelHidden: true,
                    width: 52,
                    cell: (user) => (
                      <ActionMenu
                        trigger={<Button kind="quiet" icon="more" aria-label={`Actions for ${user.name}`} />}
                        actions={[
                          {
                            label: 'Change roles…',
                            isDisabled: user.id === undefined,
                            run: () => setAsked({ kind: 'roles', user }),
                          },
                          { label: 'Change password…', run: () => setAsked({ kind: 'password', user }) },
                          { label: 'Delete…', isDangerous: true, run: () => setAsked({ kind: 'delete', user }) },
                        ]}
                      />
                    ),
                  },
                ]}
              />
              <div className="foot">
                {isCut ? `The first ${plural(users.length, 'user')}` : plural(users.length, 'user')}
              </div>
            </>
          )
        }
      </Loaded>
      {asked?.kind === 'create' && <CreateDialog database={usersDatabase} onClose={close} />}
      {asked?.kind === 'create admin' && <CreateAdminDialog onClose={close} />}
      {asked?.kind === 'roles' && <RolesDialog database={usersDatabase} user={asked.user} onClose={close} />}
      {asked?.kind === 'password' && <PasswordDialog database={usersDatabase} user={asked.user} onClose={close} />}
      {asked?.kind === 'delete' && <DeleteDialog database={usersDatabase} user={asked.user} onClose={close} />}
    </>
  )
}

/** Words separated by commas. */
export function listOf(text: string): string[] {
  return text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '')
}

function useDone(): (words: string) => Promise<void> {
  const queries = useQueryClient()
  return async (words) => {
    toast(words)
    await queries.invalidateQueries({ queryKey: ['users'] })
  }
}

function CreateDialog({ database, onClose }: { database: string; onClose(): void }) {
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  const [roles, setRoles] = useState('')
  const done = useDone()
  return (
    <FormDialog
      title="New user"
      action="Create user"
      isReady={name !== '' && password !== ''}
      onClose={onClose}
      onSubmit={async () => {
        const text = JSON.stringify({ name, password, roles: listOf(roles), type: 'user' })
        await saveDocument(database, `org.service.user:${name}`, text)
        await done(`User ${name} created.`)
      }}
    >
      <Field label="Name" autoFocus value={name} onChange={({ target }) => setName(target.value)} />
      <PasswordField value={password} onChange={setPassword} />
      <Field
        label="Roles"
        value={roles}
        hint="Separated by commas, such as editor, reviewer."
        onChange={({ target }) => setRoles(target.value)}
      />
    </FormDialog>
  )
}

function PasswordField({ value, onChange }: { value: string; onChange(value: string): void }) {
  return (
    <Field
      label="Password"
      type="password"
      autoComplete="new-password"
      value={value}
      onChange={({ target }) => onChange(target.value)}
    />
  )
}

function CreateAdminDialog({ onClose }: { onClose(): void }) {
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  const done = useDone()
  return (
    <FormDialog
      title="New server administrator"
      action="Create administrator"
      isReady={name !== '' && password !== ''}
      onClose={onClose}
      onSubmit={async () => {
        await requestText(path('_config', 'admins', name), { method: 'PUT', json: password })
        await done(`Administrator ${name} created.`)
      }}
    >
      <p className="muted">Administrators may do everything on this server. They are stored in its configuration.</p>
      <Field label="Name" autoFocus value={name} onChange={({ target }) => setName(target.value)} />
      <PasswordField value={password} onChange={setPassword} />
    </FormDialog>
  )
}

interface UserDialogProperties {
  readonly database: string
  readonly user: User
  onClose(): void
}

/** The rest of the user's document stays as it is. */
async function change(database: string, id: string, edit: (text: string) => string): Promise<void> {
  const { text } = await loadDocument(database, id)
  await saveDocument(database, id, edit(text))
}

function RolesDialog({ database, user, onClose }: UserDialogProperties) {
  const [roles, setRoles] = useState(user.roles.join(', '))
  const done = useDone()
  return (
    <FormDialog
      title={`Roles of ${user.name}`}
      action="Save roles"
      onClose={onClose}
      onSubmit={async () => {
        await change(database, user.id ?? '', (text) => withMember(text, 'roles', JSON.stringify(listOf(roles))))
        await done(`Roles of ${user.name} saved.`)
      }}
    >
      <Field
        label="Roles"
        autoFocus
        value={roles}
        hint="Separated by commas. Databases give rights to roles."
        onChange={({ target }) => setRoles(target.value)}
      />
    </FormDialog>
  )
}

function PasswordDialog({ database, user, onClose }: UserDialogProperties) {
  const [password, setPassword] = useState('')
  const done = useDone()
  const save = async () => {
    if (user.id === undefined) {
      await requestText(path('_config', 'admins', user.name), { method: 'PUT', json: password })
    } else {
      await change(database, user.id, (text) => withMember(text, 'password', JSON.stringify(password)))
    }
    await done(`Password of ${user.name} changed.`)
  }
  return (
    <FormDialog
      title={`Password of ${user.name}`}
      action="Change password"
      isReady={password !== ''}
      onClose={onClose}
      onSubmit={save}
    >
      <PasswordField value={password} onChange={setPassword} />
    </FormDialog>
  )
}

function DeleteDialog({ database, user, onClose }: UserDialogProperties) {
  const done = useDone()
  return (
    <Confirm
      title={`Delete ${user.name}?`}
      action={`Delete ${user.name}`}
      name={user.name}
      onClose={onClose}
      onConfirm={async () => {
        if (user.id === undefined) await requestText(path('_config', 'admins', user.name), { method: 'DELETE' })
        else await deleteDocument(database, user.id, (await loadDocument(database, user.id)).rev)
        await done(`${user.name} deleted.`)
      }}
    >
      <p>{user.name} can no longer sign in. Documents that were written stay.</p>
    </Confirm>
  )
}
