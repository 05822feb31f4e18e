/**
 * Moves connections of a secondary to the primary: those on which it forwards one request after the other. The secondary keeps
 * a connection, unread, until the primary asks for it and so has its socket. From the answer on it is the primary's.
 */
import { Connection } from '../wire/connection.ts'
import type { Request } from '../wire/request.ts'
import type { ConnectionSender } from './moved-connection.ts'
import { RequestRuns } from './request-runs.ts'

export interface DepartingOptions {
  readonly sender: ConnectionSender
  /** Whether there is a primary that takes requests. */
  readonly isReady: () => boolean
  /** A connection is gone to the primary, and its slot with it. */
  readonly moved: () => void
  readonly timeoutMs?: number
}

/** Forwarded requests in a row. A client that reads now and then all but never gets there: it is better off here. */
const FORWARDED_IN_A_ROW = 32

/** How long a client waits at most for a primary that does not ask. Its connection then stays. */
const TIMEOUT_MS = 2_000

interface Departure {
  readonly number: number
  readonly connection: Connection
  readonly timer: NodeJS.Timeout
}

export class DepartingConnections {
  readonly #options: DepartingOptions
  readonly #forwarded = new RequestRuns()
  /** One at a time: others are forwarded meanwhile, and so wait for nothing. */
  #departure: Departure | undefined
  #isSending = false
  #lastNumber = 0

  constructor(options: DepartingOptions) {
    this.#options = options
  }

  /** The reply to a request that was forwarded is sent. */
  forwarded({ addresses }: Request): void {
    if (!(addresses instanceof Connection)) return
    const isWriter = this.#forwarded.count(addresses) >= FORWARDED_IN_A_ROW
    if (isWriter && this.#begin(addresses)) this.#forwarded.restart(addresses)
  }

  /** The primary has the socket of this connection. Says whether it may go on with it. */
  release(number: number): boolean {
    const connection = this.#end(number)
    if (!connection?.isOpen) return false
    this.#options.moved()
    connection.release()
    return true
  }

  /** The primary does not want this connection; any one where no number is given. */
  keep(number = this.#departure?.number): void {
    this.#end(number)?.reattach()
  }

  #begin(connection: Connection): boolean {
    const { sender, isReady, timeoutMs = TIMEOUT_MS } = this.#options
    if (this.#departure || this.#isSending || !isReady()) return false
    const detached = connection.detach()
    if (!detached) return false
    const number = ++this.#lastNumber
    this.#departure = { number, connection, timer: setTimeout(() => this.keep(number), timeoutMs) }
    this.#isSending = true
    const moved = { pid: process.pid, number, received: detached.received.toString('base64') }
    void sender.sendConnection(moved, detached.handle).then(() => {
      this.#isSending = false
    })
    return true
  }

  #end(number: number | undefined): Connection | undefined {
    if (!this.#departure || this.#departure.number !== number) return undefined
    const { connection, timer } = this.#departure
    clearTimeout(timer)
    this.#departure = undefined
    return connection
  }
}
