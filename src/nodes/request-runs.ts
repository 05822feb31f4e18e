/** How many requests of one kind came in a row, for each connection. */
import type { Connection } from '../wire/connection.ts'

interface Run {
  length: number
  /** Of the connection, when it was counted last. */
  requests: number
}

export class RequestRuns {
  readonly #runs = new WeakMap<Connection, Run>()

  /** To be called for each request of the kind, while it is the connection's last one. Returns the length of the run. */
  count(connection: Connection): number {
    const run = this.#runs.get(connection) ?? { length: 0, requests: 0 }
    run.length = connection.requests === run.requests + 1 ? run.length + 1 : 1
    run.requests = connection.requests
    this.#runs.set(connection, run)
    return run.length
  }

  /** The next one is the first of a run. */
  restart(connection: Connection): void {
    this.#runs.delete(connection)
  }
}
