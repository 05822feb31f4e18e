/**
 * How long a failing job waits before it is tried again: twice as long after each failure, up to a limit. A random part on
 * top spreads the jobs that failed together, so that a peer that comes back is not asked by all of them at once.
 */

export interface BackOff {
  readonly delayMs: number
  readonly limitMs: number
}

/** The share of a delay that chance may add to it. */
const JITTER = 0.25

/** Beyond so many doublings every limit is reached. */
const MOST_DOUBLINGS = 40

/** The delay after so many failures in a row, the first of them being 1. */
export function backOffMs({ delayMs, limitMs }: BackOff, failures: number, random: () => number = Math.random): number {
  const doublings = Math.min(failures - 1, MOST_DOUBLINGS)
  return Math.floor(Math.min(limitMs, delayMs * 2 ** doublings) * (1 + JITTER * random()))
}
