/**
 * The accounts by name: administrators of the configuration, then users of the users database. Lookups are cached until
 * settings or any user changes, so a change takes effect with the next request.
 */

import type { Database } from '../../database/database.ts'
import { ADMIN_ROLE } from '../../database/user-context.ts'
import type { AuthSettings } from '../auth-settings.ts'
import type { KnownState, StateSource } from '../identity/recognized.ts'
import { parseAdminHash, userPasswordHash } from '../passwords/passwords.ts'
import { unauthorized } from '../rights/rights.ts'
import { RecentMap } from './recent-map.ts'
import { findUser, type UserDocument, type UserMembers, type UserRecord } from './user-documents.ts'

/** Where the documents of users are. */
export interface UsersSource {
  open(): Promise<Database>
  /** The current database, if it is open. */
  opened(): Database | undefined
}

/** The user of a name, under one state of the settings and of the database. */
interface Cached extends KnownState {
  readonly record: UserRecord | undefined
}

export class UserDirectory implements StateSource {
  readonly #settings: AuthSettings
  readonly #users: UsersSource
  readonly #onLookup: (isHit: boolean) => void
  readonly #cache = new RecentMap<Cached>()
  /** The database of the cache, and how to unsubscribe from its updates. */
  #followed: { readonly database: Database; readonly unsubscribe: () => void } | undefined
  /** Counts the updates, and the changes of the database. */
  #updates = 0

  constructor(settings: AuthSettings, users: UsersSource, onLookup: (isHit: boolean) => void = () => {}) {
    this.#settings = settings
    this.#users = users
    this.#onLookup = onLookup
  }

  /** Synchronous if it is cached. Undefined if there is no such user. Rejects if the document has conflicts. */
  find(name: string): UserRecord | undefined | Promise<UserRecord | undefined> {
    const cached = this.#isFollowing ? this.#cache.get(name) : undefined
    // A stale entry is read again, which counts as a cache hit as in CouchDB.
    this.#onLookup(cached !== undefined)
    return cached && this.#isCurrent(cached) ? cached.record : this.#lookUp(name)
  }

  /** Undefined while the current database is not loaded, or if nothing is to be cached. */
  state(): KnownState | undefined {
    const { state: settings, cacheSize } = this.#settings
    return this.#isFollowing && cacheSize > 0 ? { settings, updates: this.#updates } : undefined
  }

  /** The caller looks for a user that was found in that state, which counts as a cache hit. */
  isState(state: KnownState): boolean {
    const isOfNow = this.#isFollowing && this.#isCurrent(state)
    if (isOfNow) this.#onLookup(true)
    return isOfNow
  }

  clear(): void {
    this.#cache.clear()
  }

  close(): void {
    this.#followed?.unsubscribe()
  }

  /** Whether the cache is that of the current database. */
  get #isFollowing(): boolean {
    return this.#followed !== undefined && this.#users.opened() === this.#followed.database
  }

  #isCurrent({ settings, updates }: KnownState): boolean {
    return updates === this.#updates && settings === this.#settings.state
  }

  async #lookUp(name: string): Promise<UserRecord | undefined> {
    const { state, admins, cacheSize } = this.#settings
    const hash = admins.get(name)
    try {
      const database = await this.#users.open()
      this.#follow(database)
      const updates = this.#updates
      using view = database.view()
      const document = await findUser(view, name)
      const record = hash === undefined ? userOf(name, document) : administratorOf(name, hash, document)
      this.#cache.set(name, { record, settings: state, updates }, cacheSize)
      return record
    } catch (error) {
      // Administrators must be able to log in, whatever is wrong with the users database.
      if (hash !== undefined) return administratorOf(name, hash, undefined)
      throw error
    }
  }

  #follow(database: Database): void {
    if (database === this.#followed?.database) return
    this.#followed?.unsubscribe()
    this.#cache.clear()
    this.#updates++
    const unsubscribe = database.onUpdate(() => {
      this.#updates++
    })
    this.#followed = { database, unsubscribe }
  }
}

function userOf(name: string, document: UserDocument | undefined): UserRecord | undefined {
  if (!document) return undefined
  if (document.isConflicted) {
    throw unauthorized(
      'User document conflicts must be resolved before the document is used for authentication purposes.',
    )
  }
  return { name, roles: rolesOf(document.members), password: userPasswordHash(document.members), document }
}

function administratorOf(name: string, hash: string, document: UserDocument | undefined): UserRecord {
  const roles = [ADMIN_ROLE, ...(document ? rolesOf(document.members) : [])]
  return { name, roles, password: parseAdminHash(hash), document }
}

/** A document cannot grant server roles, however it came into the database. */
function rolesOf({ roles }: UserMembers): string[] {
  if (!Array.isArray(roles)) return []
  return roles.filter((role) => typeof role === 'string' && !role.startsWith('_'))
}
