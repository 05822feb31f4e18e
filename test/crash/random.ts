/** Random choices that can be repeated: a failing test reports its seed, and SETTLE_SEED sets it. */
import { randomInt } from 'node:crypto'

export class Random {
  readonly seed: number
  #state: number

  constructor(seed = Number(process.env.SETTLE_SEED ?? randomInt(2 ** 31))) {
    this.seed = seed
    this.#state = seed
  }

  /** At least 0 and below 1. */
  next(): number {
    // Mulberry32: small, and good enough to choose by.
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** An integer from 0 to below the limit. */
  below(limit: number): number {
    return Math.floor(this.next() * limit)
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }
}
