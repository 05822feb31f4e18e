/**
 * A sequence of a changes feed, opaque: a number, a string or an array. Sequences are passed on unchanged and only
 * compared for equality.
 */
import type { JsonValue } from '../../encoding/json/json-value.ts'

export type Sequence = JsonValue

/** What a feed begins with when there is no checkpoint. */
export const FIRST_SEQUENCE: Sequence = 0

export function isSameSequence(left: Sequence, right: Sequence): boolean {
  return left === right || JSON.stringify(left) === JSON.stringify(right)
}

/** How far a feed is, in percent; null where its sequences are not numbers. */
export function progressOf(through: Sequence, last: Sequence): number | null {
  if (typeof through !== 'number' || typeof last !== 'number') return null
  return last <= 0 ? 100 : Math.min(100, Math.floor((100 * through) / last))
}

/** Tracks the sequence up to which everything is done; batches begin in order and finish in any order. */
interface BegunBatch {
  readonly sequence: Sequence
  isDone: boolean
}

export class ThroughSequence {
  /** In the order of the feed; what is done at its begin is taken off. */
  readonly #begun: BegunBatch[] = []
  #through: Sequence

  constructor(start: Sequence) {
    this.#through = start
  }

  /** The last sequence of the newest batch before which none is left. */
  get value(): Sequence {
    return this.#through
  }

  /** Returns what is to be called when the batch that ends with this sequence is done. */
  begin(sequence: Sequence): () => void {
    const batch: BegunBatch = { sequence, isDone: false }
    this.#begun.push(batch)
    return () => {
      batch.isDone = true
      for (let first = this.#begun[0]; first?.isDone; first = this.#begun[0]) {
        this.#through = first.sequence
        this.#begun.shift()
      }
    }
  }
}
