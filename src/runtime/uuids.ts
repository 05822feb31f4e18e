/** Ids that the server gives: to documents without one, to itself, and to whoever asks. */
import { randomBytes, randomInt } from 'node:crypto'

/** 32 hexadecimal digits of chance. */
export function randomUuid(): string {
  return randomBytes(16).toString('hex')
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
export class SequentialUuids {
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
