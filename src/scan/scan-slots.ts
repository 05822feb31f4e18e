/**
 * How many texts are scanned at the same time. A thread works on one text at a time, so one that fills its heap affects no
 * other. Large bodies, and documents that are matched for queries, leave one thread to small bodies. Bodies and documents take
 * turns, so that many queries do not block writers.
 */
import { availableParallelism } from 'node:os'

/** A body of this size is scanned in some hundred milliseconds. */
const LARGE_BYTES = 8 * 1024 * 1024

export const MOST_THREADS = Math.max(2, Math.min(4, availableParallelism()))

export interface ScanSlot {
  release(): void
}

/** The text that a slot is taken for. */
export interface ScannedText {
  readonly bytes: number
  /** Whether it is a stored document that is matched, and not a body. */
  readonly isMatched?: boolean
  /** Aborted when nobody wants the result any more. */
  readonly signal?: AbortSignal | undefined
}

interface Waiting {
  readonly isMatched: boolean
  readonly isLarge: boolean
  readonly resolve: (slot: ScanSlot) => void
}

export class ScanSlots {
  readonly #limit: number
  #taken = 0
  #takenByLarge = 0
  /** Whether the last one that was served was matched. */
  #wasMatched = false
  readonly #bodies = new Set<Waiting>()
  readonly #matched = new Set<Waiting>()

  constructor(limit = MOST_THREADS) {
    this.#limit = limit
  }

  /** Resolves when the text may be scanned. Rejects when the signal is aborted before. */
  take({ bytes, isMatched = false, signal }: ScannedText): Promise<ScanSlot> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      const queue = isMatched ? this.#matched : this.#bodies
      const abort = () => {
        queue.delete(waiting)
        reject(signal?.reason)
      }
      const waiting: Waiting = {
        isMatched,
        isLarge: isMatched || bytes > LARGE_BYTES,
        resolve: (slot) => {
          signal?.removeEventListener('abort', abort)
          resolve(slot)
        },
      }
      signal?.addEventListener('abort', abort)
      queue.add(waiting)
      this.#serve()
    })
  }

  #serve(): void {
    for (let next = this.#next(); next; next = this.#next()) {
      const queue = next.isMatched ? this.#matched : this.#bodies
      queue.delete(next)
      this.#wasMatched = next.isMatched
      next.resolve(this.#slot(next.isLarge))
    }
  }

  #next(): Waiting | undefined {
    if (this.#taken >= this.#limit) return undefined
    const [first, second] = this.#wasMatched ? [this.#bodies, this.#matched] : [this.#matched, this.#bodies]
    return this.#firstOf(first) ?? this.#firstOf(second)
  }

  #firstOf(queue: ReadonlySet<Waiting>): Waiting | undefined {
    const isFreeForLarge = this.#takenByLarge < this.#limit - 1
    for (const waiting of queue) {
      if (isFreeForLarge || !waiting.isLarge) return waiting
      // All of them are.
      if (waiting.isMatched) return undefined
    }
    return undefined
  }

  #slot(isLarge: boolean): ScanSlot {
    this.#taken++
    if (isLarge) this.#takenByLarge++
    let isReleased = false
    const release = () => {
      if (isReleased) return
      isReleased = true
      this.#taken--
      if (isLarge) this.#takenByLarge--
      this.#serve()
    }
    return { release }
  }
}
