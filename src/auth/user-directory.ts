/**
 * Everybody who can log in, by name: administrators of the configuration, then users of the users database. Documents
 * are kept in memory with the state of the database they were read in, so a change counts from the next request on.
 */

import type { Database } from '../database/database.ts'
import { ADMIN_ROLE, isServerAdmin as hasAdminRole, type UserContext } from '../database/user-context.ts'
import type { AuthSettings } from './auth-settings.ts'
import { type PasswordHash, parseAdminHash, userPasswordHash } from './passwords.ts'
import { RecentMap } from './recent-map.ts'
import { unauthorized } from './rights.ts'
import { findUser, type UserDocument, type UserMembers } from './user-documents.ts'

export interface UserRecord {
  readonly name: string
  readonly roles: readonly string[]
  /** Undefined where nobody can log in with a password. */
  readonly password: PasswordHash | undefined
  readonly document: UserDocument | undefined
}

export function contextOf({ name, roles }: UserRecord): UserContext {
  return { name, roles }
}

export function isAdministrator(record: UserRecord): boolean {
  return hasAdminRole(record)
}

interface Cached {
  readonly updateSequence: number
  readonly document: UserDocument | undefined
}

export class UserDirectory {
  readonly #settings: AuthSettings
  readonly #users: () => Promise<Database>
  readonly #onLookup: (isHit: boolean) => void
  readonly #cache = new RecentMap<Cached>()
  #cachedOf: Database | undefined

  constructor(settings: AuthSettings, users: () => Promise<Database>, onLookup: (isHit: boolean) => void = () => {}) {
    this.#settings = settings
    this.#users = users
    this.#onLookup = onLookup
  }

  /** Undefined where there is no such user. Throws where the document has conflicts. */
  async find(name: string): Promise<UserRecord | undefined> {
    const hash = this.#settings.admins.get(name)
    if (hash !== undefined) return this.#administrator(name, hash)
    const document = await this.#document(name)
    if (!document) return undefined
    if (document.isConflicted) {
      throw unauthorized(
        'User document conflicts must be resolved before the document is used for authentication purposes.',
      )
    }
    return { name, roles: rolesOf(document.members), password: userPasswordHash(document.members), document }
  }

  clear(): void {
    this.#cache.clear()
  }

  /** A server must stay within reach of its administrators, whatever there is with the users database. */
  async #administrator(name: string, hash: string): Promise<UserRecord> {
    const document = await this.#document(name).catch(() => undefined)
    const roles = [ADMIN_ROLE, ...(document ? rolesOf(document.members) : [])]
    return { name, roles, password: parseAdminHash(hash), document }
  }

  async #document(name: string): Promise<UserDocument | undefined> {
    const database = await this.#users()
    if (database !== this.#cachedOf) {
      this.#cache.clear()
      this.#cachedOf = database
    }
    using view = database.view()
    const { updateSequence } = await view.state()
    const cached = this.#cache.get(name)
    this.#onLookup(cached !== undefined)
    if (cached?.updateSequence === updateSequence) return cached.document
    const document = await findUser(view, name)
    // What was read from a database that is gone meanwhile must not be taken for the new one's.
    if (database === this.#cachedOf) this.#cache.set(name, { updateSequence, document }, this.#settings.cacheSize)
    return document
  }
}

/** A document cannot give roles of the server, whichever way it came into the database. */
function rolesOf({ roles }: UserMembers): string[] {
  if (!Array.isArray(roles)) return []
  return roles.filter((role) => typeof role === 'string' && !role.startsWith('_'))
}
