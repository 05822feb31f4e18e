/** The time, from one source, so that a test can be its own. */

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
