/**
 * Counts replies by status, for Prometheus: all of them, also files and what is refused before it is a request. `_stats`
 * counts a fixed list of statuses. The labels are bounded: a status has three digits.
 */
import type { MetricCounter } from '../../runtime/instruments.ts'
import type { Metrics } from '../../runtime/metrics.ts'

export class ReplyCounts {
  readonly #metrics: Metrics
  readonly #counters = new Map<number, MetricCounter>()

  constructor(metrics: Metrics) {
    this.#metrics = metrics
    // An alert on these needs a first value.
    for (const status of [200, 500, 503]) this.#counter(status)
  }

  add(status: number): void {
    this.#counter(status).add()
  }

  #counter(status: number): MetricCounter {
    const known = this.#counters.get(status)
    if (known) return known
    const counter = this.#metrics.counter('settle_replies_total', 'replies by status', { code: String(status) })
    this.#counters.set(status, counter)
    return counter
  }
}
