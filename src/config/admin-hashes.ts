/**
 * The passwords of administrators in settings. A plain password is replaced by its hash wherever it comes from: files, the
 * environment, flags or a change over HTTP.
 */
import { type SettingMap, withSetting } from './ini-text.ts'
import { SettingError } from './setting-rules.ts'

export const ADMINS = 'admins'

/** The hash functions of `auth/`, which is a higher layer. */
export interface AdminPasswords {
  isHash(value: string): boolean
  /** Begins like a hash, valid or not. */
  looksLikeHash(value: string): boolean
  hash(plain: string, how: { scheme: 'simple' | 'pbkdf2'; digest?: 'sha256'; iterations: number }): Promise<string>
}

/** The settings that choose the hash. */
export interface HashSettings {
  get(section: string, key: string): string | undefined
  integer(section: string, key: string): number
}

export class AdminHashes {
  readonly #passwords: AdminPasswords
  readonly #settings: HashSettings

  constructor(passwords: AdminPasswords, settings: HashSettings) {
    this.#passwords = passwords
    this.#settings = settings
  }

  /** The hash of a password; a value that is a hash already is kept, unless it is said to be a plain password. */
  async protect(value: string, isPlain: boolean): Promise<string> {
    if (isPlain) return this.#hash(value)
    const isHash = this.#passwords.isHash(value)
    if (this.#passwords.looksLikeHash(value) && !isHash) throw new SettingError('A password cannot begin like a hash.')
    return isHash ? value : this.#hash(value)
  }

  /** The hashes of the plain passwords in a layer of settings. */
  async hashesFor(settings: SettingMap): Promise<[name: string, hash: string][]> {
    const hashes: [string, string][] = []
    for (const [name, value] of settings.get(ADMINS) ?? []) {
      if (value !== null && !this.#passwords.isHash(value)) hashes.push([name, await this.#hash(value)])
    }
    return hashes
  }

  /** The layer with hashes in place of plain passwords; the same object where there are none. */
  async protectAll(settings: SettingMap): Promise<SettingMap> {
    let result = settings
    for (const [name, hash] of await this.hashesFor(settings)) result = withSetting(result, ADMINS, name, hash)
    return result
  }

  #hash(plain: string): Promise<string> {
    const iterations = this.#settings.integer('service_httpd_auth', 'iterations')
    if (this.#settings.get('httpd', 'dialect') === '3')
      return this.#passwords.hash(plain, { scheme: 'pbkdf2', digest: 'sha256', iterations })
    const scheme = this.#settings.get('service_httpd_auth', 'admin_password_scheme') === 'pbkdf2' ? 'pbkdf2' : 'simple'
    return this.#passwords.hash(plain, { scheme, iterations })
  }
}
