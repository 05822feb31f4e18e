/**
 * The entry point of this folder: authenticates requests, logs users in, and opens databases with the rights of a user.
 */
import type { Databases } from '../database/databases.ts'
import type { UserContext } from '../database/user-context.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log/log.ts'
import { randomUuid } from '../runtime/uuids.ts'
import { AUTH_SECTION, AuthSettings, type SettingSource } from './auth-settings.ts'
import type { AuthRequest } from './identity/auth-request.ts'
import type { HandlerTools } from './identity/handler-tools.ts'
import { AuthenticationHandlers } from './identity/handlers.ts'
import { requireSignature } from './identity/oauth-signature.ts'
import { Recognized } from './identity/recognized.ts'
import { type CheckPassword, type Credentials, Logins } from './passwords/logins.ts'
import { makeToken, setCookie } from './passwords/session-cookie.ts'
import { replicatorDatabase } from './replicator/replicator-guard.ts'
import { DatabaseAccess } from './rights/rights.ts'
import type { SystemDatabase } from './rights/system-database.ts'
import { OAuthUsers } from './users/oauth-users.ts'
import { UserDirectory } from './users/user-directory.ts'
import { contextOf, type UserRecord } from './users/user-documents.ts'
import { usersDatabase } from './users/users-guard.ts'

export interface AuthSurroundings {
  readonly settings: SettingSource
  readonly databases: Databases
  readonly clock: Clock
  readonly log: Log
  /** Called for each lookup of a user, with whether it was cached. */
  readonly onLookup?: (isHit: boolean) => void
  /** Set if another node creates the system databases and verifies passwords. */
  readonly checkElsewhere?: CheckPassword
}

export class Auth {
  readonly settings: AuthSettings
  /** Authenticates requests. */
  readonly handlers: AuthenticationHandlers
  /** Opens databases with the rights of a user. */
  readonly access: DatabaseAccess
  /** The database of replication documents. */
  readonly replicator: SystemDatabase
  readonly #clock: Clock
  readonly #systemDatabases: readonly SystemDatabase[]
  readonly #tools: HandlerTools
  readonly #directory: UserDirectory
  readonly #logins: Logins
  readonly #stopListening: () => void
  #newSecret: Promise<string> | undefined

  constructor({ settings: source, databases, clock, log, onLookup, checkElsewhere }: AuthSurroundings) {
    const settings = new AuthSettings(source)
    const isMadeHere = checkElsewhere === undefined
    const users = usersDatabase(databases, settings, log, isMadeHere)
    const openUsers = () => users.get()
    const opened = () => databases.opened(settings.usersDatabase)
    const directory = new UserDirectory(settings, { open: openUsers, opened }, onLookup)
    const logins = new Logins(settings, directory, openUsers, { clock, log, checkElsewhere })
    this.settings = settings
    this.access = new DatabaseAccess(databases)
    this.#clock = clock
    this.replicator = replicatorDatabase(databases, settings, log, isMadeHere)
    this.#systemDatabases = [users, this.replicator]
    this.#logins = logins
    this.#directory = directory
    this.#tools = {
      settings,
      directory,
      logins,
      oauthUsers: new OAuthUsers(openUsers),
      clock,
      sessions: new Recognized(directory),
      passwords: new Recognized(directory),
    }
    this.handlers = new AuthenticationHandlers(this.#tools)
    this.#stopListening = settings.onChange(({ section, key }) => {
      if (section === 'admins' || (section === AUTH_SECTION && key === 'secret')) logins.forget()
      if (section === AUTH_SECTION && (key === 'authentication_db' || key === 'auth_cache_size')) directory.clear()
    })
  }

  /** Creates the system databases if needed; to be awaited before the first request. */
  async start(): Promise<void> {
    for (const database of this.#systemDatabases) await database.start()
  }

  /** Verifies name and password. Wrong ones are answered with a delay. */
  async isPassword(credentials: Credentials): Promise<boolean> {
    return (await this.#logins.check(credentials)) !== undefined
  }

  close(): void {
    this.#stopListening()
    for (const database of this.#systemDatabases) database.stop()
    this.#directory.close()
    this.#logins.close()
  }

  /** Throws if a request that must be signed is not signed correctly. */
  requireSignature(request: AuthRequest, options: { readonly needsToken: boolean }): Promise<void> {
    return requireSignature(request, this.#tools, options)
  }

  /** Undefined if name or password is wrong. */
  async login(
    credentials: Credentials,
    { isSecure }: Pick<AuthRequest, 'isSecure'>,
  ): Promise<{ user: UserContext; cookie: string } | undefined> {
    const record = await this.#logins.check(credentials)
    if (!record) return undefined
    const secret = this.settings.frequent.current.secret ?? (await this.#createdSecret())
    return { user: contextOf(record), cookie: this.#cookieWith(secret, record, isSecure) }
  }

  /** A renewed session cookie. */
  renewedCookie(record: UserRecord, { isSecure }: Pick<AuthRequest, 'isSecure'>): string | undefined {
    const { secret } = this.settings.frequent.current
    return secret === undefined ? undefined : this.#cookieWith(secret, record, isSecure)
  }

  /** The cookie that ends the session. */
  clearedCookie({ isSecure }: Pick<AuthRequest, 'isSecure'>): string {
    return setCookie('', { isSecure, sameSite: this.settings.sameSite })
  }

  #cookieWith(secret: string, { name, password }: UserRecord, isSecure: boolean): string {
    const { cookiesPersist, sameSite, frequent } = this.settings
    const { timeoutSeconds } = frequent.current
    const nowSeconds = Math.floor(this.#clock.nowMs() / 1000)
    const token = makeToken(name, nowSeconds, { secret, salt: password?.salt ?? '' })
    const lasting = cookiesPersist ? { nowSeconds, timeoutSeconds } : undefined
    return setCookie(token, { isSecure, sameSite, lasting })
  }

  /** Created at the first login; concurrent logins share it. */
  #createdSecret(): Promise<string> {
    this.#newSecret ??= this.#createSecret().finally(() => {
      this.#newSecret = undefined
    })
    return this.#newSecret
  }

  #createSecret(): Promise<string> {
    return this.settings.ensureSecret(randomUuid())
  }
}
