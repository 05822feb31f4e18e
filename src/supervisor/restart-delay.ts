const FIRST_DELAY_MS = 100
const LONGEST_DELAY_MS = 10_000
/** The period in which crashes are counted. */
const MEMORY_MS = 60_000

/** The backoff before a crashed server is restarted: none at first, longer if it crashes often. */
export class RestartDelay {
  #falls: number[] = []

  /** Called after each crash. */
  nextMs(nowMs: number): number {
    const recent = this.#falls.filter((fallMs) => nowMs - fallMs < MEMORY_MS)
    this.#falls = [...recent, nowMs]
    return recent.length === 0 ? 0 : Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (recent.length - 1))
  }
}
