/** The last things that happened to a job, newest first. */

export type JobEvent =
  | { readonly type: 'added' | 'started' | 'stopped'; readonly timestamp: string }
  | { readonly type: 'crashed'; readonly timestamp: string; readonly reason: string }

export class JobHistory {
  readonly #limit: () => number
  readonly #events: JobEvent[] = []

  constructor(limit: () => number) {
    this.#limit = limit
  }

  get events(): readonly JobEvent[] {
    return this.#events
  }

  /** When the last of them happened. */
  get lastTimestamp(): string | undefined {
    return this.#events[0]?.timestamp
  }

  add(event: JobEvent): void {
    this.#events.unshift(event)
    if (this.#events.length > this.#limit()) this.#events.length = this.#limit()
  }
}

/** As the family writes it there: to the second, in UTC. */
export function timestampOf(timeMs: number): string {
  return `${new Date(timeMs).toISOString().slice(0, 19)}Z`
}
