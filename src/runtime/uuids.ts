/** UUIDs: for documents without an id, for the server itself, and for `_uuids`. */
import { randomBytes, randomInt } from 'node:crypto'
import type { Clock } from './clock.ts'

export interface UuidSource {
  next(): string
}

export interface UuidSettings {
  /** `random`, `sequential`, `utc_random` or `utc_id`. */
  readonly algorithm: string
  /** What ids of `utc_id` end with. */
  readonly utcSuffix: string
}

/** 32 hexadecimal digits of chance. */
export function randomUuid(): string {
  return randomBytes(16).toString('hex')
}

/** The source of a whole server; what it gives can be changed while it runs. */
export class Uuids implements UuidSource {
  readonly #clock: Clock
  #source: UuidSource

  constructor(clock: Clock, settings: UuidSettings) {
    this.#clock = clock
    this.#source = sourceOf(settings, clock)
  }

  next(): string {
    return this.#source.next()
  }

  use(settings: UuidSettings): void {
    this.#source = sourceOf(settings, this.#clock)
  }
}

function sourceOf({ algorithm, utcSuffix }: UuidSettings, clock: Clock): UuidSource {
  if (algorithm === 'random') return { next: randomUuid }
  if (algorithm === 'utc_random') return { next: () => utcDigits(clock.nowUs()) + randomBytes(9).toString('hex') }
  return algorithm === 'utc_id' ? new UtcUuids(clock, utcSuffix) : new SequentialUuids()
}

const PREFIX_BYTES = 13
const COUNTER_DIGITS = 6
/** Steps are random, so that the next id cannot be guessed from the last one. */
const STEP_LIMIT = 0xffe
const COUNTER_LIMIT = 0xfff000

/**
 * Ids that rise: a random prefix and a counter. Documents created one after the other then lie side by side in the
 * index, which makes writing them cheap. When the counter comes to its end a new prefix begins.
 */
export class SequentialUuids implements UuidSource {
  #prefix = ''
  #counter = COUNTER_LIMIT

  next(): string {
    if (this.#counter >= COUNTER_LIMIT) {
      this.#prefix = randomBytes(PREFIX_BYTES).toString('hex')
      this.#counter = 0
    }
    this.#counter += randomInt(1, STEP_LIMIT)
    return this.#prefix + this.#counter.toString(16).padStart(COUNTER_DIGITS, '0')
  }
}

/** The time and a suffix that distinguishes servers. No microsecond is used twice. */
class UtcUuids implements UuidSource {
  readonly #clock: Clock
  readonly #suffix: string
  #lastUs = 0

  constructor(clock: Clock, suffix: string) {
    this.#clock = clock
    this.#suffix = suffix
  }

  next(): string {
    this.#lastUs = Math.max(this.#lastUs + 1, this.#clock.nowUs())
    return utcDigits(this.#lastUs) + this.#suffix
  }
}

function utcDigits(us: number): string {
  return us.toString(16).padStart(14, '0')
}
