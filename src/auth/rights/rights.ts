/**
 * Access rights: server administrators may do everything; others, what the security object of a database allows. Databases
 * are opened with the rights of a user here.
 */

import type { Database } from '../../database/database.ts'
import type { Databases } from '../../database/databases.ts'
import { ADMIN_ROLE, type Commit, type DocumentAccess, type UserContext } from '../../database/user-context.ts'
import { type DocumentEdit, type EditOutcome, refuseTogether } from '../../database/writing/edit.ts'
import { isDesignId } from '../../document/ids.ts'
import { RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'

/** The right that a resource requires. */
export type Who = 'anyone' | 'member' | 'database admin' | 'server admin'

export interface Group {
  readonly names: readonly string[]
  readonly roles: readonly string[]
}

/** The rights in a security object. */
export interface Security {
  readonly admins: Group
  readonly members: Group
}

const NOBODY: Group = { names: [], roles: [] }

/** Of a database whose security object was never set. */
const NO_SECURITY: Security = { admins: NOBODY, members: NOBODY }

/** Reads the text of a security object. It was checked when it was set; what still is not a list counts as empty. */
export function parseSecurity(text: Buffer | undefined): Security {
  if (!text) return NO_SECURITY
  const value: unknown = JSON.parse(text.toString())
  if (!isObject(value)) return NO_SECURITY
  // The old name `readers` counts only without `members`.
  return { admins: groupOf(value.admins), members: groupOf(value.members ?? value.readers) }
}

export function isServerAdmin({ roles, isUnbound }: UserContext): boolean {
  return isUnbound === true || roles.includes(ADMIN_ROLE)
}

function isDatabaseAdmin(user: UserContext, { admins }: Security): boolean {
  return isServerAdmin(user) || belongs(user, admins)
}

function isMember(user: UserContext, security: Security): boolean {
  const { members } = security
  if (members.names.length === 0 && members.roles.length === 0) return true
  return isDatabaseAdmin(user, security) || belongs(user, members)
}

/** Throws if the user lacks the right. */
export function authorize(who: Who, user: UserContext, security: Security = NO_SECURITY): void {
  if (who === 'anyone' || isServerAdmin(user)) return
  if (who === 'server admin') throw unauthorized('You are not a server admin.')
  if (!isMember(user, security)) throw unauthorized('You are not authorized to access this db.')
  if (who === 'database admin' && !isDatabaseAdmin(user, security)) throw notDatabaseAdmin()
}

/** Opens databases with the rights of a user. */
export class DatabaseAccess {
  readonly #databases: Databases

  constructor(databases: Databases) {
    this.#databases = databases
  }

  /** Throws if there is no such database, or the user may not access it. */
  async open(name: string, user: UserContext, who: Who = 'member'): Promise<Database> {
    const database = await this.#databases.get(name)
    const guard = this.#databases.guardOf(name)
    const isServer = isServerAdmin(user)
    if (isServer && !guard) return database.usedBy(user)
    const security = isServer ? NO_SECURITY : (knownSecurity(database) ?? (await readSecurity(database)))
    authorize(who, user, security)
    if (!guard) return unguarded(database, user, security)
    return database.usedBy(user, guard.accessOf(database, user, isDatabaseAdmin(user, security)))
  }

  /** The result of `open` for members, if it is known without waiting; undefined otherwise. */
  opened(name: string, user: UserContext): Database | undefined {
    const database = this.#databases.opened(name)
    if (!database || this.#databases.guardOf(name)) return undefined
    if (isServerAdmin(user)) return database.usedBy(user)
    const security = knownSecurity(database)
    if (!security) return undefined
    authorize('member', user, security)
    return unguarded(database, user, security)
  }
}

function unguarded(database: Database, user: UserContext, security: Security): Database {
  return database.usedBy(user, isDatabaseAdmin(user, security) ? undefined : MEMBER_ACCESS)
}

/** Members write everything but design documents. */
const MEMBER_ACCESS: DocumentAccess = {
  reading: undefined,
  checkTarget: (id) => {
    if (isDesignId(id)) throw notDatabaseAdmin()
  },
  write: writeAllButDesigns,
}

/** Parsed security objects, with the version that each was read at. */
const securities = new WeakMap<Database, { readonly security: Security; readonly changes: number }>()

/** Undefined if it was never read, or was set since. */
function knownSecurity(database: Database): Security | undefined {
  const known = securities.get(database)
  return known?.changes === database.securityChanges ? known.security : undefined
}

async function readSecurity(database: Database): Promise<Security> {
  const changes = database.securityChanges
  using view = database.view()
  const security = parseSecurity(await view.security())
  securities.set(database, { security, changes })
  return security
}

async function writeAllButDesigns(edits: readonly DocumentEdit[], commit: Commit): Promise<EditOutcome[]> {
  if (!edits.some(({ id }) => isDesignId(id))) return commit(edits)
  refuseTogether(
    edits,
    edits.map(({ id }) => (isDesignId(id) ? notDatabaseAdmin() : undefined)),
  )
  const written = (await commit(edits.filter(({ id }) => !isDesignId(id)))).values()
  return edits.map(({ id }): EditOutcome => {
    if (isDesignId(id)) return { outcome: 'refused', error: notDatabaseAdmin() }
    const { value } = written.next()
    if (!value) throw new Error('A write has no outcome.')
    return value
  })
}

export function unauthorized(reason: string): RequestError {
  return new RequestError('unauthorized', 'unauthorized', reason)
}

export function forbidden(reason: string): RequestError {
  return new RequestError('forbidden', 'forbidden', reason)
}

export function notDatabaseAdmin(): RequestError {
  return unauthorized('You are not a db or server admin.')
}

/** An anonymous user belongs to a group by roles alone. */
function belongs({ name, roles }: UserContext, group: Group): boolean {
  return (name !== null && group.names.includes(name)) || roles.some((role) => group.roles.includes(role))
}

function groupOf(value: unknown): Group {
  if (!isObject(value)) return NOBODY
  return { names: texts(value.names), roles: texts(value.roles) }
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []
}
