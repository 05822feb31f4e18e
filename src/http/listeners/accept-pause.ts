/**
 * Shares connections out among nodes that accept from one socket. Without it the node that happens to run takes all
 * connections of a burst before another one is awake. So a node that accepts one connection right after another first sleeps
 * for a moment, in which others get their turn. The time that may be slept is bounded.
 */

/** Connections that are closer to each other are one burst. */
const BURST_MS = 2
const PAUSE_MS = 0.1
/** Pauses at once, and those that a millisecond adds: no more than some percent of the time is slept. */
const MOST_PAUSES = 64
const PAUSES_A_MS = 0.5

const CELL = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))

export class AcceptPause {
  readonly #sleep: (ms: number) => void
  #lastMs = Number.NEGATIVE_INFINITY
  #pauses = MOST_PAUSES

  constructor(sleep: (ms: number) => void = (ms) => Atomics.wait(CELL, 0, 0, ms)) {
    this.#sleep = sleep
  }

  /** To be called for each connection that was accepted. */
  accepted(nowMs: number): void {
    const sinceMs = nowMs - this.#lastMs
    this.#lastMs = nowMs
    this.#pauses = Math.min(MOST_PAUSES, this.#pauses + sinceMs * PAUSES_A_MS)
    if (sinceMs >= BURST_MS || this.#pauses < 1) return
    this.#pauses--
    this.#sleep(PAUSE_MS)
  }
}
