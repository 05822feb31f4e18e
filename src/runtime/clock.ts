/** The time, from one source, so that a test can be its own; and slices of it for long work. */
import { setImmediate as nextTurn } from 'node:timers/promises'

export interface Clock {
  /** Milliseconds since 1970. */
  nowMs(): number
  /** Microseconds since 1970. */
  nowUs(): number
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  nowUs: () => Math.round((performance.timeOrigin + performance.now()) * 1000),
}

/** Well below the 10 ms that a slice may take: a step may be long, and a busy machine makes it longer. */
const SLICE_MS = 5
/** Steps between two looks at the clock. */
const STEPS_A_LOOK = 16

/**
 * Time slices for long work on the main thread, so that other work runs in between. The clock is read rarely: short
 * work pays nothing.
 */
export class TimeSlice {
  #steps = 0
  #begunMs = performance.now()

  /** Asked after each small step: whether others should have their turn now. */
  get isOver(): boolean {
    return ++this.#steps % STEPS_A_LOOK === 0 && this.isOverNow
  }

  /** Asked after a step that may have been long. */
  get isOverNow(): boolean {
    return performance.now() - this.#begunMs >= SLICE_MS
  }

  /** Yields to the event loop; then the next slice begins. */
  async pause(): Promise<void> {
    await nextTurn()
    this.#begunMs = performance.now()
  }
}
