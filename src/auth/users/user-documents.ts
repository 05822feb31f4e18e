/** Users as documents of the users database: their ids, and how one is found by name. */
import type { DatabaseView } from '../../database/database-view.ts'
import type { UserContext } from '../../database/user-context.ts'
import type { RevisionId } from '../../document/ids.ts'
import { conflicts } from '../../document/revisions/winner.ts'
import type { PasswordHash } from '../passwords/passwords.ts'
import { isServerAdmin as hasAdminRole } from '../rights/rights.ts'

/** Our prefix of user ids, and that of CouchDB. */
const USER_PREFIX = 'org.service.user:'
const USUAL_USER_PREFIX = 'org.couchdb.user:'

export type UserMembers = Readonly<Record<string, unknown>>

export interface UserDocument {
  readonly id: string
  readonly revision: RevisionId
  /** The stored JSON text, and its parsed value. */
  readonly body: Buffer
  readonly members: UserMembers
  /** It has conflicts, so it is unknown which password is valid. */
  readonly isConflicted: boolean
}

/** Both spellings of a user's id; the first one counts if both exist. */
export function userIds(name: string): [neutral: string, usual: string] {
  return [USER_PREFIX + name, USUAL_USER_PREFIX + name]
}

/** The name of the user whose document has this id. */
export function nameOfUserId(id: string): string | undefined {
  const prefix = [USER_PREFIX, USUAL_USER_PREFIX].find((each) => id.startsWith(each))
  return prefix && id.slice(prefix.length)
}

export async function findUser(view: DatabaseView, name: string): Promise<UserDocument | undefined> {
  // No document has an id that cannot be written as UTF-8.
  if (!name.isWellFormed()) return undefined
  const found = await view.records(userIds(name))
  const live = found.find(({ record }) => record && !record.deleted)
  if (!live?.record) return undefined
  const { winner, tree, body: number } = live.record
  const { text } = await view.body(number)
  return {
    id: live.id,
    revision: winner,
    body: text,
    members: membersIn(text),
    isConflicted: conflicts(tree).length > 0,
  }
}

/** A stored text, parsed. */
export function membersIn(body: Buffer): UserMembers {
  return JSON.parse(body.toString())
}

/** A user as the server knows it, wherever it is stored. */
export interface UserRecord {
  readonly name: string
  readonly roles: readonly string[]
  /** Undefined if the user cannot log in with a password. */
  readonly password: PasswordHash | undefined
  readonly document: UserDocument | undefined
}

export function contextOf({ name, roles }: UserRecord): UserContext {
  return { name, roles }
}

export function isAdministrator(record: UserRecord): boolean {
  return hasAdminRole(record)
}
