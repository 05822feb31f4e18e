/** Bounds the turns that a server waits for or has at once, first come first served. */
export class TurnSlots {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(slots: number) {
    this.#free = slots
  }

  /** Must be released. */
  async acquire(): Promise<void> {
    if (this.#free > 0) this.#free--
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  release(): void {
    // It is passed on, so that a new one cannot overtake the queue.
    const next = this.#waiting.shift()
    if (next) next()
    else this.#free++
  }
}
