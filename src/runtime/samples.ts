/**
 * The samples of one statistic, summed up since the start and over windows of time. Memory is bounded: a window keeps at
 * most a fixed number of samples.
 */

export interface Summary {
  readonly current: number | null
  readonly sum: number | null
  readonly mean: number | null
  readonly stddev: number | null
  readonly min: number | null
  readonly max: number | null
}

export const NO_SAMPLES: Summary = { current: 0, sum: null, mean: null, stddev: null, min: null, max: null }

/** However long the windows are and however short the ticks. */
const LARGEST_WINDOW_SAMPLES = 100_000

/** The samples of one statistic: summed up from the first one on, and one by one for as long as a window may ask. */
export class Samples {
  readonly #rateMs: number
  readonly #capacity: number
  readonly #whole = new RunningSummary()
  /** A ring; grown as samples come, since most statistics have few. */
  readonly #recent: number[] = []
  #oldest = 0

  constructor(rateMs: number, longestWindowSeconds: number) {
    this.#rateMs = rateMs
    this.#capacity = Math.min(LARGEST_WINDOW_SAMPLES, Math.ceil((longestWindowSeconds * 1000) / rateMs))
  }

  add(value: number): void {
    this.#whole.add(value)
    if (this.#recent.length < this.#capacity) this.#recent.push(value)
    else if (this.#capacity > 0) {
      this.#recent[this.#oldest] = value
      this.#oldest = (this.#oldest + 1) % this.#capacity
    }
  }

  /** Undefined before the first sample. */
  summary(windowSeconds: number): Summary | undefined {
    if (windowSeconds === 0) return this.#whole.summary()
    const wanted = Math.min(this.#recent.length, Math.ceil((windowSeconds * 1000) / this.#rateMs))
    const window = new RunningSummary()
    for (let i = this.#recent.length - wanted; i < this.#recent.length; i++) {
      window.add(this.#recent[(this.#oldest + i) % this.#recent.length] ?? 0)
    }
    return window.summary()
  }
}

/** Welford's method: stable however many values there are. */
class RunningSummary {
  #count = 0
  #sum = 0
  #mean = 0
  #squares = 0
  #min = Number.POSITIVE_INFINITY
  #max = Number.NEGATIVE_INFINITY

  add(value: number): void {
    this.#count++
    this.#sum += value
    const distance = value - this.#mean
    this.#mean += distance / this.#count
    this.#squares += distance * (value - this.#mean)
    this.#min = Math.min(this.#min, value)
    this.#max = Math.max(this.#max, value)
  }

  summary(): Summary | undefined {
    if (this.#count === 0) return undefined
    const sum = rounded(this.#sum)
    return {
      current: sum,
      sum,
      mean: rounded(this.#mean),
      stddev: this.#count < 2 ? null : rounded(Math.sqrt(this.#squares / (this.#count - 1))),
      min: rounded(this.#min),
      max: rounded(this.#max),
    }
  }
}

/** To three decimal places. */
export function rounded(value: number): number {
  return Math.round(value * 1000) / 1000
}
