/**
 * Connections that have moved to the primary, and on which for long nothing came but what every node can answer. They are
 * closed in order, with a reply that says so: their clients connect again, to whichever node is free.
 */
import { Connection } from '../wire/connection.ts'
import type { Reply } from '../wire/reply.ts'
import type { Request } from '../wire/request.ts'
import { RequestRuns } from './request-runs.ts'

/** So many that a new connection, and the next move, cost next to nothing beside them. */
const READS_IN_A_ROW = 1000

export class ReturningConnections {
  readonly #moved = new WeakSet<object>()
  readonly #reads = new RequestRuns()

  /** A connection has moved here. */
  add(connection: Connection): void {
    this.#moved.add(connection)
  }

  /** Every node can answer this request. Its reply is not begun. */
  read({ addresses }: Request, reply: Reply): void {
    if (!this.#moved.has(addresses) || !(addresses instanceof Connection)) return
    if (this.#reads.count(addresses) >= READS_IN_A_ROW) reply.keepsAlive = false
  }
}
