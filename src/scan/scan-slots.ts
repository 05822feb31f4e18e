/**
 * How many bodies are scanned at the same time. A thread works on one body at a time, so a body that fills its heap affects no
 * other. Large bodies leave one thread to small ones.
 */
import { availableParallelism } from 'node:os'

/** A body of this size is scanned in some hundred milliseconds. */
const LARGE_BYTES = 8 * 1024 * 1024

export const MOST_THREADS = Math.max(2, Math.min(4, availableParallelism()))

export interface ScanSlot {
  release(): void
}

export class ScanSlots {
  readonly #limit: number
  #taken = 0
  #takenByLarge = 0
  readonly #waiting: { readonly isLarge: boolean; readonly resolve: (slot: ScanSlot) => void }[] = []

  constructor(limit = MOST_THREADS) {
    this.#limit = limit
  }

  /** Resolves when a body of this size may be scanned. */
  take(bytes: number): Promise<ScanSlot> {
    return new Promise((resolve) => {
      this.#waiting.push({ isLarge: bytes > LARGE_BYTES, resolve })
      this.#serve()
    })
  }

  #serve(): void {
    for (;;) {
      const next = this.#waiting.findIndex(({ isLarge }) => this.#isFree(isLarge))
      const [served] = next < 0 ? [] : this.#waiting.splice(next, 1)
      if (!served) return
      served.resolve(this.#slot(served.isLarge))
    }
  }

  #isFree(isLarge: boolean): boolean {
    return this.#taken < this.#limit && (!isLarge || this.#takenByLarge < this.#limit - 1)
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
