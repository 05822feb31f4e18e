/**
 * Remembers which passwords were found right, so that a client that sends its password with every request does not cost
 * a slow hash each time. Of a password only a digest is kept, with a key that lives and dies with the process; it
 * covers the stored hash too, so a new password leaves nothing to match.
 */
import { hash as digestOf, randomBytes, timingSafeEqual } from 'node:crypto'
import { type PasswordHash, verifyPassword } from './passwords.ts'
import { RecentMap } from './recent-map.ts'

const MOST_NAMES = 1_000

export class VerifiedPasswords {
  readonly #key = randomBytes(32).toString('hex')
  readonly #known = new RecentMap<Buffer>()
  /** Verifications under way: clients with many connections all ask at once. */
  readonly #asked = new Map<string, Promise<boolean>>()

  async verify(name: string, password: string, stored: PasswordHash): Promise<boolean> {
    // Fast ones are not worth remembering.
    if (stored.scheme === 'simple') return verifyPassword(password, stored)
    const digest = this.#digest(password, stored)
    const known = this.#known.get(name)
    if (known && timingSafeEqual(known, digest)) return true
    const question = `${digest.toString('hex')} ${name}`
    const asked = this.#asked.get(question) ?? this.#ask(question, password, stored)
    const isRight = await asked
    if (isRight) this.#known.set(name, digest, MOST_NAMES)
    return isRight
  }

  clear(): void {
    this.#known.clear()
  }

  #ask(question: string, password: string, stored: PasswordHash): Promise<boolean> {
    const asked = verifyPassword(password, stored).finally(() => this.#asked.delete(question))
    this.#asked.set(question, asked)
    return asked
  }

  #digest(password: string, stored: PasswordHash): Buffer {
    const { hash, salt } = stored
    const identity = stored.scheme === 'pbkdf2' ? [stored.digest, stored.iterations] : [stored.scheme]
    // With every request that brings a password: the one call is several times faster than an HMAC, and all that is
    // asked of it is that equal inputs and nothing else give equal outputs, to those who do not know the key.
    const text = JSON.stringify([password, salt, hash.toString('hex'), ...identity])
    return digestOf('sha256', this.#key + text, 'buffer')
  }
}
