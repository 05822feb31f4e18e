/** Tells up to which sequence everything is done, where batches are begun in order and finish in any order. */
import type { Sequence } from '../peers/sequence.ts'

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
