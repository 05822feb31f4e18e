const FIRST_DELAY_MS = 100
const LONGEST_DELAY_MS = 10_000
/** A fall counts so long. */
const MEMORY_MS = 60_000

/** How long to wait before a server that fell is started again: not at all at first, longer when it falls often. */
export class RestartDelay {
  #falls: number[] = []

  /** Called at each fall. */
  nextMs(nowMs: number): number {
    const recent = this.#falls.filter((fallMs) => nowMs - fallMs < MEMORY_MS)
    this.#falls = [...recent, nowMs]
    return recent.length === 0 ? 0 : Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (recent.length - 1))
  }
}
