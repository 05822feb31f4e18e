/**
 * Slows down password guessing. Wrong passwords for a name delay the reply to the next wrong one, longer each time; a
 * right password is never delayed and resets the count, so nobody can lock others out.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../../runtime/clock.ts'
import { RecentMap } from '../users/recent-map.ts'

export interface ThrottleSettings {
  /** Wrong tries that cost nothing. */
  readonly freeTries: number
  /** The first delay; each further one is twice as long. */
  readonly delayMs: number
  readonly longestMs: number
}

interface Tries {
  readonly wrong: number
  readonly lastMs: number
}

const MOST_NAMES = 10_000
/** Delayed replies hold a connection; beyond this number they are sent at once. */
const MOST_WAITING = 1_000
const FORGOTTEN_AFTER_MS = 15 * 60 * 1000

export class LoginThrottle {
  readonly #settings: () => ThrottleSettings
  readonly #clock: Clock
  readonly #tries = new RecentMap<Tries>()
  readonly #closing = new AbortController()
  #waiting = 0

  constructor(settings: () => ThrottleSettings, clock: Clock) {
    this.#settings = settings
    this.#clock = clock
  }

  /** A wrong password was given: resolves when the reply may be sent. */
  async wrong(name: string): Promise<void> {
    const now = this.#clock.nowMs()
    const before = this.#tries.get(name)
    // The clock may be set back in between.
    const wrong = (before && Math.abs(now - before.lastMs) < FORGOTTEN_AFTER_MS ? before.wrong : 0) + 1
    this.#tries.set(name, { wrong, lastMs: now }, MOST_NAMES)
    const delayMs = delayOf(wrong, this.#settings())
    if (delayMs === 0 || this.#waiting >= MOST_WAITING) return
    this.#waiting++
    // Ends all delays when the server closes.
    await sleep(delayMs, undefined, { signal: this.#closing.signal }).catch(() => {})
    this.#waiting--
  }

  right(name: string): void {
    this.#tries.delete(name)
  }

  close(): void {
    this.#closing.abort()
  }
}

/** The delay after a number of wrong passwords. */
export function delayOf(wrong: number, { freeTries, delayMs, longestMs }: ThrottleSettings): number {
  const costly = wrong - freeTries
  return costly <= 0 ? 0 : Math.min(longestMs, delayMs * 2 ** Math.min(costly - 1, 30))
}
