/** Verifies names and passwords, and upgrades weak stored hashes on the way. */
import type { Database } from '../../database/database.ts'
import { openRevision } from '../../database/reading/open-document.ts'
import type { NewRevisionEdit } from '../../database/writing/edit.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { AuthSettings } from '../auth-settings.ts'
import { forbidden } from '../rights/rights.ts'
import { RecentMap } from '../users/recent-map.ts'
import type { UserDirectory } from '../users/user-directory.ts'
import { isAdministrator, type UserDocument, type UserRecord } from '../users/user-documents.ts'
import { withPasswordMembers } from '../users/user-edits.ts'
import { LoginThrottle } from './login-throttle.ts'
import { LoginWork } from './login-work.ts'
import { hashUserPassword, isWeakerThan, keptSalt, type PasswordHash, userPasswordHash } from './passwords.ts'
import { VerifiedPasswords } from './verified-passwords.ts'

export class Logins {
  readonly #settings: AuthSettings
  readonly #directory: UserDirectory
  readonly #users: () => Promise<Database>
  readonly #log: Log
  readonly #verified: VerifiedPasswords
  readonly #throttle: LoginThrottle
  readonly #clock: Clock
  /** Hashes that are being upgraded. */
  readonly #upgrades = new Map<string, Promise<PasswordHash | undefined>>()
  /** When the upgrade of a user's hash failed last. */
  readonly #failures = new RecentMap<number>()
  readonly #checkElsewhere: CheckPassword | undefined

  constructor(
    settings: AuthSettings,
    directory: UserDirectory,
    users: () => Promise<Database>,
    { clock, log, checkElsewhere }: LoginSurroundings,
  ) {
    this.#settings = settings
    this.#directory = directory
    this.#users = users
    this.#log = log
    this.#clock = clock
    this.#checkElsewhere = checkElsewhere
    this.#verified = new VerifiedPasswords(new LoginWork(settings))
    this.#throttle = new LoginThrottle(() => settings.throttle, clock)
  }

  /** The user, or undefined if there is none or the password is wrong. Synchronous if both are cached. */
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

  /** Whether the password was verified before, so that nothing is left to do. */
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
    if (this.#checkElsewhere) return this.#verifyElsewhere({ name, password }, this.#checkElsewhere)
    const isRight = await this.#verified.verify(name, password, stored)
    if (!record || !stored || !isRight) {
      await this.#throttle.wrong(name)
      return undefined
    }
    this.#throttle.right(name)
    return this.#upgraded(record, stored, password)
  }

  /** The other node upgrades weak hashes and slows down guessing. */
  async #verifyElsewhere(credentials: Credentials, check: CheckPassword): Promise<UserRecord | undefined> {
    if (!(await check(credentials))) return undefined
    const record = await this.#directory.find(credentials.name)
    if (record?.password) this.#verified.remember(credentials.name, credentials.password, record.password)
    return record
  }

  /** Whether the hash is weak and should be upgraded; those of administrators are left to the operator. */
  #isOutdated(record: UserRecord, stored: PasswordHash): boolean {
    if (record.document === undefined || isAdministrator(record)) return false
    if (!isWeakerThan(stored, this.#settings.hashing)) return false
    // The clock may be set back in between.
    const sinceMs = this.#clock.nowMs() - (this.#failures.get(record.name) ?? Number.NEGATIVE_INFINITY)
    return Math.abs(sinceMs) > RETRY_AFTER_MS
  }

  #checkIterations(stored: PasswordHash): void {
    if (stored.scheme !== 'pbkdf2') return
    const { least, most } = this.#settings.frequent.current.iterationLimits
    if (stored.iterations < least) throw forbidden('Iteration count is too low for this server')
    if (stored.iterations > most) throw forbidden('Iteration count is too high for this server')
  }

  /** Upgrades a weak hash, now that the password is known. */
  async #upgraded(record: UserRecord, stored: PasswordHash, password: string): Promise<UserRecord | undefined> {
    const { name, document } = record
    if (!document || !this.#isOutdated(record, stored)) return record
    // Clients with many connections send the same password at once.
    const question = `${document.revision} ${name}`
    const upgrade = this.#upgrades.get(question) ?? this.#upgrade(question, document, stored, password)
    try {
      const written = await upgrade
      if (written) this.#verified.remember(name, password, written)
      // Sessions are signed with the salt, so a new one must be known.
      const current = await this.#directory.find(name)
      // Unless the document was changed meanwhile: the password may be another one by now.
      const isRight = await this.#verified.verify(name, password, current?.password)
      return isRight ? current : undefined
    } catch (error) {
      this.#failures.set(name, this.#clock.nowMs(), MOST_FAILURES)
      this.#log.warn('The hash of a password could not be upgraded.', { user: name, error: String(error) })
      return record
    }
  }

  #upgrade(
    question: string,
    document: UserDocument,
    stored: PasswordHash,
    password: string,
  ): Promise<PasswordHash | undefined> {
    const upgrade = this.#rewrite(document, stored, password).finally(() => this.#upgrades.delete(question))
    this.#upgrades.set(question, upgrade)
    return upgrade
  }

  /** Undefined if the document was changed since. */
  async #rewrite(
    { id, revision, body }: UserDocument,
    stored: PasswordHash,
    password: string,
  ): Promise<PasswordHash | undefined> {
    const database = await this.#users()
    using view = database.view()
    const { attachments: kept } = await openRevision(view, id, revision)
    view.release()
    const releases = await Promise.all(kept.map((each) => database.attachments.keep(each)))
    try {
      const members = await hashUserPassword(password, this.#settings.hashing, keptSalt(stored))
      const hashed = withPasswordMembers(body, members)
      const attachments = kept.map((each) => ({ ...each, puts: [] }))
      const edit: NewRevisionEdit = {
        kind: 'interactive',
        id,
        parent: revision,
        deleted: false,
        ...hashed,
        attachments,
      }
      const [outcome] = await database.write([edit])
      if (outcome?.outcome === 'refused' && outcome.error.kind !== 'conflict') throw outcome.error
      return outcome?.outcome === 'written' ? userPasswordHash(members) : undefined
    } finally {
      for (const release of releases) release?.()
    }
  }
}

/** Whether name and password belong together. */
export type CheckPassword = (credentials: Credentials) => Promise<boolean>

interface LoginSurroundings {
  readonly clock: Clock
  readonly log: Log
  /** Set if another node verifies them. */
  readonly checkElsewhere?: CheckPassword | undefined
}

/** A disk that is full now may not be later, but a slow hash for each request until then would be too much. */
const RETRY_AFTER_MS = 60_000

const MOST_FAILURES = 1_000

/** The name and password of a request. */
export interface Credentials {
  readonly name: string
  readonly password: string
}
