/** Who may read, write and administer a database; and what that means for one user. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { ApiError, path, requestJson, requestText } from '../api/client.ts'
import { useSession } from '../api/session.ts'
import { memberText, withMember } from '../json/json-text.ts'
import { Button } from '../parts/button.tsx'
import { Field } from '../parts/field.tsx'
import { Icon } from '../parts/icon.tsx'
import { Loaded } from '../parts/states.tsx'
import { toast, toastError } from '../parts/toast.tsx'
import { DatabasePlace } from '../shell/place.tsx'
import { listOf } from './users.tsx'

interface Names {
  readonly names: readonly string[]
  readonly roles: readonly string[]
}

interface Security {
  /** As the server sent it: unknown members are kept. */
  readonly text: string
  readonly admins: Names
  readonly members: Names
}

async function readSecurity(database: string): Promise<Security> {
  const text = (await requestText(`${path(database)}/_security`)).trim()
  return { text, admins: namesIn(text, 'admins'), members: namesIn(text, 'members') }
}

function namesIn(text: string, group: string): Names {
  const { names = [], roles = [] }: Partial<Names> = JSON.parse(memberText(text, group) ?? '{}')
  return { names, roles }
}

export function RightsScreen({ database }: { database: string }) {
  const query = useQuery({ queryKey: ['security', database], queryFn: () => readSecurity(database) })
  return (
    <>
      <DatabasePlace database={database} />
      <div className="content">
        <div className="page">
          <Loaded query={query}>
            {(security) => (
              <>
                <RightsForm key={security.text} database={database} security={security} />
                <RightsCheck security={security} />
              </>
            )}
          </Loaded>
        </div>
      </div>
    </>
  )
}

function RightsForm({ database, security }: { database: string; security: Security }) {
  const session = useSession()
  const queries = useQueryClient()
  const [fields, setFields] = useState({
    adminNames: security.admins.names.join(', '),
    adminRoles: security.admins.roles.join(', '),
    memberNames: security.members.names.join(', '),
    memberRoles: security.members.roles.join(', '),
  })
  const may = rightsOf(security, session.name, session.roles).administer
  const save = async () => {
    const group = (names: string, roles: string) => JSON.stringify({ names: listOf(names), roles: listOf(roles) })
    const text = withMember(
      withMember(security.text, 'admins', group(fields.adminNames, fields.adminRoles)),
      'members',
      group(fields.memberNames, fields.memberRoles),
    )
    try {
      await requestText(`${path(database)}/_security`, { method: 'PUT', jsonText: text })
      toast('The rights are saved.')
      await queries.invalidateQueries({ queryKey: ['security', database] })
    } catch (error) {
      toastError('The rights were not saved.', error)
    }
  }
  const field = (name: keyof typeof fields, label: string, hint?: string) => (
    <Field
      label={label}
      value={fields[name]}
      hint={hint}
      disabled={!may}
      onChange={({ target }) => setFields({ ...fields, [name]: target.value })}
    />
  )
  return (
    <form
      className="form"
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
    >
      {!may && (
        <div className="notice">
          <p>Only administrators of this database or of the server can change rights.</p>
        </div>
      )}
      <section className="section">
        <h2>Members</h2>
        <p className="muted">
          Members can read everything and write documents. If no member is named, everybody is a member.
        </p>
        <div className="form-row">
          {field('memberNames', 'Member names', 'Separated by commas.')}
          {field('memberRoles', 'Member roles', 'Separated by commas.')}
        </div>
      </section>
      <section className="section">
        <h2>Administrators of this database</h2>
        <p className="muted">They can also write design documents, change these rights, compact and purge.</p>
        <div className="form-row">
          {field('adminNames', 'Administrator names', 'Separated by commas.')}
          {field('adminRoles', 'Administrator roles', 'Separated by commas.')}
        </div>
      </section>
      <div>
        <Button kind="primary" type="submit" disabled={!may}>
          Save rights
        </Button>
      </div>
    </form>
  )
}

interface Rights {
  readonly read: boolean
  readonly write: boolean
  readonly administer: boolean
}

function rightsOf(security: Security, name: string | null, roles: readonly string[]): Rights {
  const isServerAdmin = roles.includes('_admin')
  const isIn = ({ names, roles: wanted }: Names) =>
    (name !== null && names.includes(name)) || wanted.some((role) => roles.includes(role))
  const isEmpty = ({ names, roles: wanted }: Names) => names.length === 0 && wanted.length === 0
  const administer = isServerAdmin || isIn(security.admins)
  const read = administer || isEmpty(security.members) || isIn(security.members)
  return { read, write: read, administer }
}

function RightsCheck({ security }: { security: Security }) {
  const { usersDatabase } = useSession()
  const [name, setName] = useState('')
  const user = useQuery({
    queryKey: ['roles of', usersDatabase, name],
    queryFn: () => rolesOf(usersDatabase, name),
    enabled: name !== '',
    retry: false,
  })
  const rights = rightsOf(security, name === '' ? null : name, user.data?.roles ?? [])
  const who = name === '' ? 'An anonymous user' : name
  return (
    <section className="section">
      <h2>May this user…?</h2>
      <div className="form-row">
        <Field
          label="User name"
          value={name}
          placeholder="Leave empty for an anonymous user"
          hint={name === '' ? undefined : user.data?.words}
          onChange={({ target }) => setName(target.value)}
        />
      </div>
      <ul className="card" style={{ listStyle: 'none' }} aria-live="polite">
        <Answer may={rights.read} words={`${who} may read documents`} not={`${who} may not read`} />
        <Answer may={rights.write} words={`${who} may write documents`} not={`${who} may not write`} />
        <Answer
          may={rights.administer}
          words={`${who} may administer this database`}
          not={`${who} may not administer this database`}
        />
      </ul>
    </section>
  )
}

function Answer({ may, words, not }: { may: boolean; words: string; not: string }) {
  return (
    <li className="attachment attachment-line" style={{ display: 'flex' }}>
      <Icon name={may ? 'check' : 'close'} />
      <span style={{ flex: 1, minWidth: 0 }}>{may ? words : not}</span>
    </li>
  )
}

async function rolesOf(database: string, name: string): Promise<{ roles: readonly string[]; words: string }> {
  const admins = await requestJson<Record<string, string>>('_config/admins').catch(() => ({}))
  const own = name in admins ? ['_admin'] : []
  try {
    const { roles = [] } = await requestJson<{ roles?: string[] }>(path(database, `org.service.user:${name}`))
    const all = [...own, ...roles]
    return { roles: all, words: all.length === 0 ? 'Has no roles.' : `Has the roles ${all.join(', ')}.` }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return {
      roles: own,
      words: own.length > 0 ? 'Is a server administrator.' : 'There is no such user, or you may not see it.',
    }
  }
}
