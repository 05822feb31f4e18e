/** Access rights: server administrators may do everything; others, what the security object of a database allows. */

import { isServerAdmin, type UserContext } from '../../database/user-context.ts'
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
export const NO_SECURITY: Security = { admins: NOBODY, members: NOBODY }

/** Reads the text of a security object. It was checked when it was set; what still is not a list counts as empty. */
export function parseSecurity(text: Buffer | undefined): Security {
  if (!text) return NO_SECURITY
  const value: unknown = JSON.parse(text.toString())
  if (!isObject(value)) return NO_SECURITY
  // The old name `readers` counts only without `members`.
  return { admins: groupOf(value.admins), members: groupOf(value.members ?? value.readers) }
}

export function isDatabaseAdmin(user: UserContext, { admins }: Security): boolean {
  return isServerAdmin(user) || belongs(user, admins)
}

export function isMember(user: UserContext, security: Security): boolean {
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
