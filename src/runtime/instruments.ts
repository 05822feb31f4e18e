/**
 * The instruments that the server counts and measures with. To count costs an addition, to observe a duration a few
 * additions and a logarithm; none needs more memory the more is counted. `Metrics` and `Statistics` register them.
 */
import { NO_SAMPLES, rounded, type Samples, type Summary } from './samples.ts'

/** A number that only grows. */
export class MetricCounter {
  #value = 0

  get value(): number {
    return this.#value
  }

  add(by = 1): void {
    this.#value += by
  }

  /** The count since the last call. */
  take(): number {
    const value = this.#value
    this.#value = 0
    return value
  }
}

/** The upper bound of the first bucket, in seconds: each of the others is twice the one before. */
const FIRST_DURATION_SECONDS = 0.000_125
const DURATION_BUCKETS = 20

/** Durations, counted in buckets from an eighth of a millisecond to a minute. */
export class DurationHistogram {
  readonly #buckets = new Float64Array(DURATION_BUCKETS + 1)
  #sumMs = 0
  #count = 0

  get count(): number {
    return this.#count
  }

  get sumSeconds(): number {
    return this.#sumMs / 1000
  }

  observe(tookMs: number): void {
    const ratio = tookMs / (FIRST_DURATION_SECONDS * 1000)
    const bucket = ratio <= 1 ? 0 : Math.ceil(Math.log2(ratio))
    this.#buckets[Math.min(bucket, DURATION_BUCKETS)]! += 1
    this.#sumMs += tookMs
    this.#count++
  }

  /** What was observed since the last call. */
  take(): Durations {
    const taken = { buckets: this.#buckets.slice(), sumMs: this.#sumMs, count: this.#count }
    this.#buckets.fill(0)
    this.#sumMs = 0
    this.#count = 0
    return taken
  }

  merge({ buckets, sumMs, count }: Durations): void {
    for (const [i, value] of buckets.entries()) this.#buckets[i]! += value
    this.#sumMs += sumMs
    this.#count += count
  }

  /** How many durations are not above each bound. */
  *cumulative(): Generator<readonly [boundSeconds: number, count: number]> {
    let count = 0
    for (let bucket = 0; bucket < DURATION_BUCKETS; bucket++) {
      count += this.#buckets[bucket] ?? 0
      yield [FIRST_DURATION_SECONDS * 2 ** bucket, count]
    }
  }
}

/** The content of a histogram. */
export interface Durations {
  readonly buckets: Float64Array
  readonly sumMs: number
  readonly count: number
}

/** One statistic: looked up once, then counted without its name. */
export interface Counter {
  add(by: number): void
  /** A measurement: the sample of a tick is the mean of what was observed in it. */
  observe(value: number): void
}

/** One statistic. Additions and measurements become one sample a tick. */
export class Meter implements Counter {
  #samples: Samples
  #added = 0
  #began = false
  #observedSum = 0
  #observedCount = 0
  #histogram: Histogram | undefined
  readonly #isTaken: boolean
  /** Until they are taken. */
  #observed: number[] = []

  constructor(samples: Samples, isTaken: boolean) {
    this.#samples = samples
    this.#isTaken = isTaken
  }

  get histogram(): Histogram | undefined {
    return this.#histogram
  }

  /** From zero, with samples of its own. */
  restart(samples: Samples): void {
    this.#samples = samples
    this.#added = 0
    this.#began = false
    this.#observedSum = 0
    this.#observedCount = 0
    this.#histogram = undefined
  }

  add(by: number): void {
    this.#began = true
    this.#added += by
  }

  observe(value: number): void {
    if (this.#isTaken) {
      if (this.#observed.length < TAKEN_LIMIT) this.#observed.push(value)
      return
    }
    this.#observedSum += value
    this.#observedCount++
    this.#histogram ??= new Histogram()
    this.#histogram.add(value)
  }

  /** Undefined where nothing was counted. */
  take(): { readonly added: number; readonly observed: readonly number[] } | undefined {
    if (!this.#began && this.#observed.length === 0) return undefined
    const taken = { added: this.#added, observed: this.#observed }
    this.#began = false
    this.#added = 0
    this.#observed = []
    return taken
  }

  sample(): void {
    if (this.#observedCount > 0) this.#samples.add(this.#observedSum / this.#observedCount)
    else if (this.#began) this.#samples.add(this.#added)
    this.#added = 0
    this.#observedSum = 0
    this.#observedCount = 0
  }

  summary(windowSeconds: number): Summary {
    return this.#samples.summary(windowSeconds) ?? NO_SAMPLES
  }
}

/** Observations that wait to be taken; further ones are not counted. */
const TAKEN_LIMIT = 1_000_000

/**
 * Measurements of one kind, counted in buckets of exponential width. Means and moments are exact; a quantile lies in its
 * bucket, whose bounds are a fifth apart.
 */
/** The upper bound of the first bucket; four buckets later it has doubled. */
const FIRST_BOUND = 0.01
const BUCKETS_A_DOUBLING = 4
/** Up to some three hours, where measurements are milliseconds; what is larger is in the last one. */
const BUCKETS = 120

const PERCENTILES: readonly (readonly [name: number, share: number])[] = [
  [50, 0.5],
  [75, 0.75],
  [90, 0.9],
  [95, 0.95],
  [99, 0.99],
  [999, 0.999],
]

/** By the names of CouchDB 3. */
export interface HistogramSummary {
  readonly n: number
  readonly min: number
  readonly max: number
  readonly arithmetic_mean: number
  readonly geometric_mean: number
  readonly harmonic_mean: number
  readonly median: number
  readonly variance: number
  readonly standard_deviation: number
  readonly skewness: number
  readonly kurtosis: number
  readonly percentile: readonly (readonly [number, number])[]
  /** Upper bounds of buckets that are not empty, and how many measurements are in them. */
  readonly histogram: readonly (readonly [number, number])[]
}

/**
 * Measurements of one kind, counted in buckets of exponential width. Means and moments are exact; a quantile lies in its
 * bucket, whose bounds are a fifth apart.
 */
export class Histogram {
  readonly #buckets = new Float64Array(BUCKETS)
  #count = 0
  #sum = 0
  #min = 0
  #max = 0
  #logarithms = 0
  #reciprocals = 0
  // Central moments, by Welford's method and its continuation: stable however many values there are.
  #mean = 0
  #second = 0
  #third = 0
  #fourth = 0

  get count(): number {
    return this.#count
  }

  get sum(): number {
    return this.#sum
  }

  add(value: number): void {
    this.#min = this.#count === 0 ? value : Math.min(this.#min, value)
    this.#max = this.#count === 0 ? value : Math.max(this.#max, value)
    this.#sum += value
    this.#buckets[bucketOf(value)]! += 1
    this.#addMoments(value)
    // Nothing takes no time at all: the smallest measurement is that of a clock.
    const positive = Math.max(value, Number.EPSILON)
    this.#logarithms += Math.log(positive)
    this.#reciprocals += 1 / positive
  }

  /** How many measurements are not above each bound, for bounds so many buckets apart. */
  *cumulative(bucketsApart: number): Generator<readonly [bound: number, count: number]> {
    let count = 0
    for (const [bucket, inBucket] of this.#buckets.entries()) {
      count += inBucket
      // The last bucket has no bound.
      if (bucket % bucketsApart === 0 && bucket < BUCKETS - 1) yield [boundOf(bucket), count]
    }
  }

  summary(): HistogramSummary {
    const count = this.#count
    const some = Math.max(count, 1)
    const variance = count < 2 ? 0 : this.#second / (count - 1)
    const isSpread = this.#second > 0
    return {
      n: count,
      min: rounded(this.#min),
      max: rounded(this.#max),
      arithmetic_mean: rounded(this.#mean),
      geometric_mean: count === 0 ? 0 : rounded(Math.exp(this.#logarithms / some)),
      harmonic_mean: count === 0 ? 0 : rounded(count / this.#reciprocals),
      median: rounded(this.#quantile(0.5)),
      variance: rounded(variance),
      standard_deviation: rounded(Math.sqrt(variance)),
      skewness: isSpread ? rounded((Math.sqrt(some) * this.#third) / this.#second ** 1.5) : 0,
      kurtosis: isSpread ? rounded((some * this.#fourth) / this.#second ** 2 - 3) : 0,
      percentile: PERCENTILES.map(([name, share]) => [name, rounded(this.#quantile(share))]),
      histogram: this.#filled(),
    }
  }

  #addMoments(value: number): void {
    const before = this.#count
    const count = ++this.#count
    const distance = value - this.#mean
    const step = distance / count
    const spread = distance * step * before
    this.#mean += step
    this.#fourth +=
      spread * step * step * (count * count - 3 * count + 3) + 6 * step * step * this.#second - 4 * step * this.#third
    this.#third += spread * step * (count - 2) - 3 * step * this.#second
    this.#second += spread
  }

  /** Between the bounds of the bucket in which it lies, as if its measurements were spread evenly. */
  #quantile(share: number): number {
    const wanted = share * this.#count
    let below = 0
    for (const [bucket, inBucket] of this.#buckets.entries()) {
      if (inBucket > 0 && below + inBucket >= wanted) {
        const from = Math.max(this.#min, bucket === 0 ? 0 : boundOf(bucket - 1))
        const to = Math.min(this.#max, bucket === BUCKETS - 1 ? this.#max : boundOf(bucket))
        return from + ((to - from) * (wanted - below)) / inBucket
      }
      below += inBucket
    }
    return this.#max
  }

  #filled(): (readonly [number, number])[] {
    const filled = [...this.#buckets.entries()].filter(([, count]) => count > 0)
    return filled.map(([bucket, count]) => [rounded(boundOf(bucket)), count])
  }
}

/** The first one whose bound is not below the value. */
function bucketOf(value: number): number {
  if (value <= FIRST_BOUND) return 0
  return Math.min(BUCKETS - 1, Math.ceil(Math.log2(value / FIRST_BOUND) * BUCKETS_A_DOUBLING))
}

function boundOf(bucket: number): number {
  return FIRST_BOUND * 2 ** (bucket / BUCKETS_A_DOUBLING)
}
