/** How many feeds are open, by their kind: `continuous`, `eventsource` and `longpoll`. */
import type { Metrics } from '../../runtime/metrics.ts'

const KINDS = ['continuous', 'eventsource', 'longpoll'] as const

export class FeedCounts {
  readonly #open = new Map<string, number>(KINDS.map((kind) => [kind, 0]))

  constructor(metrics: Metrics) {
    metrics.gauge('settle_feeds', 'open feeds of changes and of database updates', () =>
      [...this.#open].map(([kind, count]) => [{ feed: kind }, count] as const),
    )
  }

  /** Counts one, and returns the function to call when it ends. */
  enter(kind: string): () => void {
    this.#add(kind, 1)
    return () => this.#add(kind, -1)
  }

  #add(kind: string, by: number): void {
    this.#open.set(kind, (this.#open.get(kind) ?? 0) + by)
  }
}
