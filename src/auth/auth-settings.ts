/** The settings of authentication. A change takes effect with the next request. */
import type { Derived } from '../config/configuration.ts'
import type { TokenSettings } from './identity/jwt.ts'
import { digestNamed, type HashingOptions } from './passwords/passwords.ts'

/** Where settings come from and go to. */
export interface SettingSource {
  /** Another object after each change. */
  readonly state: object
  get(section: string, key: string): string | undefined
  section(section: string): ReadonlyMap<string, string>
  ensure(section: string, key: string, value: string): Promise<string>
  /** Read again with every change. */
  derive<T>(read: () => T): Derived<T>
  onChange(listener: (change: ChangedSetting) => void | Promise<void>): () => void
}

export interface ChangedSetting {
  readonly section: string
  readonly key: string
}

export const AUTH_SECTION = 'service_httpd_auth'
export const REPLICATOR_SECTION = 'replicator'
const OAUTH_SECTION = 'service_httpd_oauth'

const DEFAULT_HANDLERS =
  '{service_httpd_oauth, oauth_authentication_handler}, {service_httpd_auth, cookie_authentication_handler}, ' +
  '{service_httpd_auth, default_authentication_handler}'

/** The most iterations of a hash that a user may bring: more would slow down the server. */
const FOREIGN_ITERATIONS = 100_000

/** Settings that every request needs. */
interface FrequentSettings {
  /** While there is no administrator everybody is one. */
  readonly isOpen: boolean
  readonly handlers: string
  readonly secret: string | undefined
  readonly requiresUser: boolean
  /** How long a session lasts. */
  readonly timeoutSeconds: number
  /** Iterations of hashes that are used for a login. */
  readonly iterationLimits: { readonly least: number; readonly most: number }
  /** The headers in which a proxy in front of the server passes on how its client connected. */
  readonly forwarded: { readonly host: string; readonly ssl: string; readonly proto: string }
}

export class AuthSettings {
  readonly #source: SettingSource
  /** What every request needs. */
  readonly frequent: Derived<FrequentSettings>

  constructor(source: SettingSource) {
    this.#source = source
    this.frequent = source.derive(() => this.#readFrequent())
  }

  /** Another object after each change. */
  get state(): object {
    return this.#source.state
  }

  /** Administrators by name, each with the hash of its password. */
  get admins(): ReadonlyMap<string, string> {
    return this.#source.section('admins')
  }

  get usersDatabase(): string {
    return this.#text('authentication_db') ?? '_users'
  }

  /** The largest request body to the users database from anybody but administrators. */
  get largestUserRequest(): number {
    return Number(this.#text('max_user_request_size') ?? 65_536)
  }

  get replicatorDatabase(): string {
    return this.#source.get(REPLICATOR_SECTION, 'db') || '_replicator'
  }

  /** Sets the secret where there is none; resolves to the one that counts. */
  ensureSecret(secret: string): Promise<string> {
    return this.#source.ensure(AUTH_SECTION, 'secret', secret)
  }

  get redirect(): string | undefined {
    return this.#text('authentication_redirect')
  }

  /** The challenge of a 401. */
  get challenge(): string | undefined {
    return this.#source.get('httpd', 'WWW-Authenticate') || undefined
  }

  get cookiesPersist(): boolean {
    return this.#isOn('allow_persistent_cookies')
  }

  get sameSite(): string | undefined {
    const value = this.#text('same_site')?.toLowerCase()
    return ['Strict', 'Lax', 'None'].find((each) => each.toLowerCase() === value)
  }

  /** How users' passwords are hashed from now on. */
  get hashing(): Required<HashingOptions> {
    const scheme = this.#text('password_scheme') === 'simple' ? 'simple' : 'pbkdf2'
    const digest = digestNamed(this.#text('pbkdf2_prf') ?? '') ?? 'sha256'
    return { scheme, digest, iterations: Math.max(1, this.#number('iterations', 600_000)) }
  }

  /** Passwords that may wait to be hashed or verified; beyond that requests get a 503. */
  get mostWaitingLogins(): number {
    return this.#number('max_waiting_logins', 200)
  }

  /** Iterations of a hash that users other than administrators may write. */
  get foreignIterations(): number {
    return Math.min(this.frequent.current.iterationLimits.most, Math.max(FOREIGN_ITERATIONS, this.hashing.iterations))
  }

  get cacheSize(): number {
    return this.#number('auth_cache_size', 50)
  }

  /** Members of user documents that everybody may see. */
  get publicFields(): readonly string[] {
    const list = this.#text('public_fields') ?? ''
    return list.split(',').flatMap((field) => field.trim() || [])
  }

  get isUserListPublic(): boolean {
    return this.#isOn('users_db_public')
  }

  /** The delay after wrong passwords: none up to `freeTries`, then it doubles up to the longest. */
  get throttle(): { freeTries: number; delayMs: number; longestMs: number } {
    return {
      freeTries: this.#number('login_free_tries', 10),
      delayMs: this.#number('login_delay_ms', 100),
      longestMs: this.#number('login_delay_limit_ms', 2_000),
    }
  }

  get proxy(): {
    username: string | undefined
    roles: string | undefined
    token: string | undefined
    needsToken: boolean
  } {
    return {
      username: this.#text('x_auth_username'),
      roles: this.#text('x_auth_roles'),
      token: this.#text('x_auth_token'),
      needsToken: this.#isOn('proxy_use_secret'),
    }
  }

  get oauth(): { usesUsers: boolean; windowSeconds: number | undefined } {
    const window = Number(this.#source.get(OAUTH_SECTION, 'timestamp_window') ?? Number.NaN)
    return {
      usesUsers: this.#source.get(OAUTH_SECTION, 'use_users_db') === 'true',
      windowSeconds: window > 0 ? window : undefined,
    }
  }

  /** The secrets of a consumer and a token, and the user of the token; undefined unless all are set. */
  oauthSecrets(consumer: string, token: string): { consumer: string; token: string; user: string } | undefined {
    const consumerSecret = this.#source.section('oauth_consumer_secrets').get(consumer)
    const tokenSecret = this.#source.section('oauth_token_secrets').get(token)
    const user = this.#source.section('oauth_token_users').get(token)
    return consumerSecret && tokenSecret && user ? { consumer: consumerSecret, token: tokenSecret, user } : undefined
  }

  /** The settings of JSON Web Tokens. */
  get tokens(): TokenSettings {
    const setting = (key: string) => this.#source.get('jwt_auth', key)
    return {
      keys: this.#source.section('jwt_keys'),
      requiredClaims: setting('required_claims') ?? '',
      algorithms: setting('algorithms') ?? '',
      rolesClaim: setting('roles_claim_name') || undefined,
    }
  }

  /** The password of a user that exists only for tests of the server's own handlers. */
  testPassword(name: string): string | undefined {
    return this.#source.section('special_test_users').get(name)
  }

  onChange(listener: (change: ChangedSetting) => void | Promise<void>): () => void {
    return this.#source.onChange(listener)
  }

  #readFrequent(): FrequentSettings {
    const name = (key: string, usual: string) => (this.#source.get('httpd', key) || usual).toLowerCase()
    return {
      isOpen: this.admins.size === 0,
      handlers: this.#source.get('httpd', 'authentication_handlers') ?? DEFAULT_HANDLERS,
      secret: this.#text('secret'),
      requiresUser: this.#isOn('require_valid_user'),
      timeoutSeconds: this.#number('timeout', 600),
      iterationLimits: {
        least: this.#number('min_iterations', 1),
        most: this.#number('max_iterations', 1_000_000_000),
      },
      forwarded: {
        host: name('x_forwarded_host', 'X-Forwarded-Host'),
        ssl: name('x_forwarded_ssl', 'X-Forwarded-Ssl'),
        proto: name('x_forwarded_proto', 'X-Forwarded-Proto'),
      },
    }
  }

  /** An empty text counts as none. */
  #text(key: string): string | undefined {
    return this.#source.get(AUTH_SECTION, key) || undefined
  }

  #isOn(key: string): boolean {
    return this.#text(key) === 'true'
  }

  /** A value that is not a number counts as not set: a typo must not lock everybody out. */
  #number(key: string, usual: number): number {
    const text = this.#text(key)
    return text !== undefined && /^\d{1,15}$/.test(text.trim()) ? Number(text) : usual
  }
}
