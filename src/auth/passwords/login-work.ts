/**
 * The work that a wrong password costs. It must be the same for every name, or the time of a refusal would reveal who
 * has an account and how old its hash is. So there is a target for each digest: the most iterations of new hashes, of
 * administrators, and of any user that was looked up. Every wrong password is padded up to the targets.
 */
import { availableParallelism } from 'node:os'
import { RequestError } from '../../document/request-error.ts'
import type { AuthSettings } from '../auth-settings.ts'
import { derivedKey, matches, type PasswordHash, parseAdminHash, workOf } from './passwords.ts'
import { Semaphore } from './semaphore.ts'

/** Threads that hash at a time: the others stay free for input and output. */
const MOST_VERIFICATIONS = Math.min(4, availableParallelism())
const verifications = new Semaphore(MOST_VERIFICATIONS)

/** Iterations by digest. */
type Work = ReadonlyMap<string, number>

export class LoginWork {
  readonly #settings: AuthSettings
  /** Of users that were looked up. */
  readonly #seen = new Map<string, number>()
  #fixed: { readonly settings: object; readonly work: Work } | undefined

  constructor(settings: AuthSettings) {
    this.#settings = settings
  }

  /** From now on a wrong password costs as much as this one, for every name. */
  note(stored: PasswordHash): void {
    const { digest, iterations } = workOf(stored)
    // Stored hashes beyond this do not count: they would slow down the server with every wrong password.
    raise(this.#seen, digest, Math.min(iterations, this.#settings.foreignIterations))
  }

  /** Whether the password is right; `undefined` means an unknown name. A right one may take less time. */
  verify(plain: string, stored: PasswordHash | undefined): Promise<boolean> {
    if (verifications.waiting >= this.#settings.mostWaitingLogins) return Promise.reject(tooManyLogins())
    // All of it takes one slot: waiting twice would be measurable.
    return verifications.run(async () => {
      if (stored) this.note(stored)
      const own = stored ? workOf(stored) : NONE
      const isRight = await matches(plain, stored)
      if (isRight) return true
      const bars = new Map(this.#fixedWork())
      for (const [digest, iterations] of this.#seen) raise(bars, digest, iterations)
      for (const [digest, iterations] of bars) {
        const left = digest === own.digest ? iterations - own.iterations : iterations
        // Always one more step, also for names that are at the target already.
        await derivedKey(plain, { salt: 'filled up', iterations: Math.max(0, left) + 1, digest })
      }
      return false
    })
  }

  #fixedWork(): Work {
    const { state } = this.#settings
    if (this.#fixed?.settings !== state) this.#fixed = { settings: state, work: this.#readFixedWork() }
    return this.#fixed.work
  }

  #readFixedWork(): Work {
    const { hashing, admins } = this.#settings
    const work = new Map<string, number>()
    if (hashing.scheme === 'pbkdf2') raise(work, hashing.digest, hashing.iterations)
    for (const text of admins.values()) {
      const stored = parseAdminHash(text)
      if (!stored) continue
      const { digest, iterations } = workOf(stored)
      raise(work, digest, Math.min(iterations, this.#settings.foreignIterations))
    }
    return work
  }
}

export function tooManyLogins(): RequestError {
  return new RequestError('unavailable', 'service_unavailable', 'Too many passwords are waiting to be checked.')
}

/** An unknown name takes one step of its own, too. */
const NONE = { digest: 'sha1', iterations: 1 }

function raise(bars: Map<string, number>, digest: string, iterations: number): void {
  if (iterations > (bars.get(digest) ?? 0)) bars.set(digest, iterations)
}
