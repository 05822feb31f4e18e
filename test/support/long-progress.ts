/** Progress of a long test on stderr: how many runs are done, and how long they took. It distinguishes one that hangs from one that is slow. */
export class LongProgress {
  readonly #name: string
  readonly #total: number
  readonly #begunMs = performance.now()
  #done = 0
  #shownMs = performance.now()

  constructor(name: string, total: number) {
    this.#name = name
    this.#total = total
  }

  /** Called after each run. */
  done(): void {
    this.#done++
    const nowMs = performance.now()
    const isDue = nowMs - this.#shownMs >= INTERVAL_MS || this.#done === this.#total
    if (!isDue) return
    this.#shownMs = nowMs
    const seconds = Math.round((nowMs - this.#begunMs) / 1000)
    process.stderr.write(`${this.#name}: ${this.#done} of ${this.#total} runs in ${seconds} s\n`)
  }
}

const INTERVAL_MS = 10_000
