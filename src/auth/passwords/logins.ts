/** Finds out whether a name and a password belong together, and keeps stored hashes up to date on the way. */
import type { Database } from '../../database/database.ts'
import { openRevision } from '../../database/reading/open-document.ts'
import type { NewRevisionEdit } from '../../database/writing/edit.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { AuthSettings } from '../auth-settings.ts'
import { forbidden } from '../rights/rights.ts'
import type { UserDirectory } from '../users/user-directory.ts'
import { isAdministrator, type UserDocument, type UserRecord } from '../users/user-documents.ts'
import { withPasswordMembers } from '../users/user-edits.ts'
import { LoginThrottle } from './login-throttle.ts'
import { LoginWork } from './login-work.ts'
import { hashUserPassword, type PasswordHash } from './passwords.ts'
import { VerifiedPasswords } from './verified-passwords.ts'

export class Logins {
  readonly #settings: AuthSettings
  readonly #directory: UserDirectory
  readonly #users: () => Promise<Database>
  readonly #log: Log
  readonly #verified: VerifiedPasswords
  readonly #throttle: LoginThrottle

  constructor(
    settings: AuthSettings,
    directory: UserDirectory,
    users: () => Promise<Database>,
    { clock, log }: { clock: Clock; log: Log },
  ) {
    this.#settings = settings
    this.#directory = directory
    this.#users = users
    this.#log = log
    this.#verified = new VerifiedPasswords(new LoginWork(settings))
    this.#throttle = new LoginThrottle(() => settings.throttle, clock)
  }

  /** The user, or undefined when there is none or the password is wrong. At once where both are known. */
  check(credentials: Credentials): UserRecord | undefined | Promise<UserRecord | undefined> {
    const record = this.#directory.find(credentials.name)
    if (record instanceof Promise || !record || !this.#isKnown(record, credentials)) {
      return this.#verify(record, credentials)
    }
    this.#throttle.right(record.name)
    return record
  }

  /** Forgets what it remembers of passwords. */
  forget(): void {
    this.#verified.clear()
  }

  close(): void {
    this.#throttle.close()
  }

  /** Whether the password was found right before, so that there is nothing left to do. */
  #isKnown(record: UserRecord, { name, password }: Credentials): boolean {
    const stored = record.password
    if (!stored || this.#isOutdated(record, stored)) return false
    this.#checkIterations(stored)
    return this.#verified.knows(name, password, stored)
  }

  async #verify(
    found: UserRecord | undefined | Promise<UserRecord | undefined>,
    { name, password }: Credentials,
  ): Promise<UserRecord | undefined> {
    const record = await found
    const stored = record?.password
    if (stored) this.#checkIterations(stored)
    const isRight = await this.#verified.verify(name, password, stored)
    if (!record || !stored || !isRight) {
      await this.#throttle.wrong(name)
      return undefined
    }
    this.#throttle.right(name)
    return this.#upgraded(record, stored, password)
  }

  /** Whether the hash is a fast one that should give way; those of administrators are for the operator to change. */
  #isOutdated(record: UserRecord, { scheme }: PasswordHash): boolean {
    if (scheme !== 'simple' || record.document === undefined || isAdministrator(record)) return false
    return this.#settings.hashing.scheme === 'pbkdf2'
  }

  #checkIterations(stored: PasswordHash): void {
    if (stored.scheme !== 'pbkdf2') return
    const { least, most } = this.#settings.iterationLimits
    if (stored.iterations < least) throw forbidden('Iteration count is too low for this server')
    if (stored.iterations > most) throw forbidden('Iteration count is too high for this server')
  }

  /** A fast hash of old days gives way to a slow one, now that the password is known. */
  async #upgraded(record: UserRecord, stored: PasswordHash, password: string): Promise<UserRecord> {
    const { document } = record
    if (!document || !this.#isOutdated(record, stored)) return record
    try {
      await this.#rewrite(document, password)
      // Sessions are signed with the salt, so the new one must be known.
      return (await this.#directory.find(record.name)) ?? record
    } catch (error) {
      this.#log.warn('A password could not be hashed anew.', { user: record.name, error: String(error) })
      return record
    }
  }

  async #rewrite({ id, revision, body }: UserDocument, password: string): Promise<void> {
    const database = await this.#users()
    using view = database.view()
    const { attachments: kept } = await openRevision(view, id, revision)
    view.release()
    const releases = await Promise.all(kept.map((each) => database.attachments.keep(each)))
    try {
      const hashed = withPasswordMembers(body, await hashUserPassword(password, this.#settings.hashing))
      const attachments = kept.map((each) => ({ ...each, puts: [] }))
      const edit: NewRevisionEdit = {
        kind: 'interactive',
        id,
        parent: revision,
        deleted: false,
        ...hashed,
        attachments,
      }
      // Refused where somebody else has changed it: then there is nothing to do any more.
      await database.write([edit])
    } finally {
      for (const release of releases) release?.()
    }
  }
}

/** A name and a password that somebody sent. */
export interface Credentials {
  readonly name: string
  readonly password: string
}
