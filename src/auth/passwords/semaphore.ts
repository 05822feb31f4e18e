/** A counting semaphore for asynchronous work, first come first served. */
export class Semaphore {
  readonly #slots: number
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(slots: number) {
    this.#slots = slots
  }

  /** The number of waiting tasks. */
  get waiting(): number {
    return this.#waiting.length
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#slots) this.#running++
    // A finished task passes its slot on, so that a new one cannot overtake the queue.
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#running--
    }
  }
}
