/**
 * Caches verified passwords, so that a client that sends its password with every request does not cost a slow hash each
 * time. Only a digest of a password is kept, made with a key of this process; it covers the stored hash too, so a new
 * password invalidates it.
 */
import { hash as digestOf, randomBytes, timingSafeEqual } from 'node:crypto'
import { RecentMap } from '../users/recent-map.ts'
import type { LoginWork } from './login-work.ts'
import type { PasswordHash } from './passwords.ts'

const MOST_NAMES = 1_000

export class VerifiedPasswords {
  readonly #key = randomBytes(32).toString('hex')
  readonly #known = new RecentMap<Buffer>()
  readonly #identities = new WeakMap<PasswordHash, string>()
  /** Verifications under way: clients with many connections all ask at once. */
  readonly #asked = new Map<string, Promise<boolean>>()
  readonly #work: LoginWork

  constructor(work: LoginWork) {
    this.#work = work
  }

  /** Whether this password was verified before. */
  knows(name: string, password: string, stored: PasswordHash): boolean {
    const known = this.#known.get(name)
    return known !== undefined && timingSafeEqual(known, this.#digest(password, stored))
  }

  /** The password is the one that this hash was made of. */
  remember(name: string, password: string, stored: PasswordHash): void {
    this.#known.set(name, this.#digest(password, stored), MOST_NAMES)
  }

  /** `undefined` means an unknown name: the check takes as long. */
  async verify(name: string, password: string, stored: PasswordHash | undefined): Promise<boolean> {
    if (stored && this.knows(name, password, stored)) return true
    const digest = this.#digest(password, stored)
    const question = `${digest.toString('hex')} ${name}`
    const asked = this.#asked.get(question) ?? this.#ask(question, password, stored)
    const isRight = await asked
    if (isRight) this.#known.set(name, digest, MOST_NAMES)
    return isRight
  }

  clear(): void {
    this.#known.clear()
  }

  #ask(question: string, password: string, stored: PasswordHash | undefined): Promise<boolean> {
    const asked = this.#work.verify(password, stored).finally(() => this.#asked.delete(question))
    this.#asked.set(question, asked)
    return asked
  }

  #digest(password: string, stored: PasswordHash = NOBODY): Buffer {
    let identity = this.#identities.get(stored)
    if (identity === undefined) {
      identity = identityOf(stored)
      this.#identities.set(stored, identity)
    }
    // Runs for every request with a password: a single hash is several times faster than an HMAC, and suffices here,
    // since the key is secret and outputs are never shown.
    return digestOf('sha256', this.#key + identity + password, 'buffer')
  }
}

const NOBODY: PasswordHash = { scheme: 'simple', hash: Buffer.alloc(0), salt: '' }

/** A unique text for each hash. It is JSON, so its end is unambiguous. */
function identityOf(stored: PasswordHash): string {
  const kind = stored.scheme === 'pbkdf2' ? [stored.digest, stored.iterations] : [stored.scheme]
  return JSON.stringify([stored.salt, stored.hash.toString('hex'), ...kind])
}
