/**
 * A bounded number of connections for one kind of work. When all are in use, callers wait in order, with a timeout: who has one
 * must not wait for another. While the server cannot be reached, connecting is tried again with exponential backoff, and callers fail at once.
 */
import { EngineUnavailableError, TooManyReadersError } from '../storage-error.ts'
import { Connection } from './connection.ts'
import type { EngineAddress } from './engine-address.ts'
import type { LockBounds, SqlDialect } from './sql-dialect.ts'

export interface PoolLimits {
  /** Open at once. */
  readonly connections: number
  /** How long a caller waits for one. */
  readonly waitMs: number
  /** The timeout of a statement. */
  readonly statementMs: number
  /** Idle connections are closed after this time. */
  readonly idleMs: number
  /** For connections that lock rows. */
  readonly locks?: LockBounds
}

interface Waiter {
  readonly resolve: (connection: Connection) => void
  readonly reject: (error: Error) => void
  readonly since: number
}

const SWEEP_MS = 1000
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 2000

export class ConnectionPool {
  readonly #address: EngineAddress
  readonly #limits: PoolLimits
  readonly #dialect: SqlDialect | undefined
  readonly #idle: { connection: Connection; since: number }[] = []
  readonly #used = new Set<Connection>()
  readonly #waiting: Waiter[] = []
  #opening = 0
  #failures = 0
  /** No attempt is made before. */
  #pausedUntil = 0
  #lastFailure: Error | undefined
  #isClosed = false
  readonly #sweeping: NodeJS.Timeout

  constructor(address: EngineAddress, limits: PoolLimits, dialect?: SqlDialect) {
    this.#address = address
    this.#limits = limits
    this.#dialect = dialect
    this.#sweeping = setInterval(() => this.#sweep(), SWEEP_MS).unref()
  }

  /** Of those that are open, how many are in use. */
  get used(): number {
    return this.#used.size
  }

  get waiting(): number {
    return this.#waiting.length
  }

  /** Must be given back with `release`. */
  acquire(): Promise<Connection> {
    if (this.#isClosed) return Promise.reject(new EngineUnavailableError('The storage engine is closed.'))
    for (let last = this.#idle.pop(); last; last = this.#idle.pop()) {
      if (last.connection.isBroken) continue
      this.#used.add(last.connection)
      return Promise.resolve(last.connection)
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject, since: performance.now() })
      this.#openMore()
    })
  }

  /** Statements still under way are answered before those of its next user. */
  release(connection: Connection): void {
    if (!this.#used.delete(connection)) return
    if (this.#isClosed) void connection.end()
    else if (connection.isBroken) this.#openMore()
    else this.#give(connection)
  }

  /** Runs work with a connection of its own. */
  async use<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const connection = await this.acquire()
    try {
      return await work(connection)
    } finally {
      this.release(connection)
    }
  }

  /** The server does not answer: closes all connections, so that pending statements fail and new connections are made. */
  cut(): void {
    for (const connection of this.#used) connection.destroy()
    for (const { connection } of this.#idle.splice(0)) connection.destroy()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#sweeping)
    for (const { reject } of this.#waiting.splice(0))
      reject(new EngineUnavailableError('The storage engine is closed.'))
    for (const connection of this.#used) connection.destroy()
    await Promise.all(this.#idle.splice(0).map(({ connection }) => connection.end()))
  }

  #give(connection: Connection): void {
    const next = this.#waiting.shift()
    if (next) {
      this.#used.add(connection)
      next.resolve(connection)
    } else this.#idle.push({ connection, since: performance.now() })
  }

  #openMore(): void {
    const room = this.#limits.connections - this.#used.size - this.#opening - this.#idle.length
    const wanted = Math.min(room, this.#waiting.length - this.#opening)
    if (wanted <= 0 || this.#isClosed) return
    const pause = this.#pausedUntil - performance.now()
    // One attempt at a time finds out whether the server is back; other callers fail at once.
    if (pause > 0) {
      this.#refuse()
      return
    }
    for (let i = 0; i < (this.#failures > 0 ? Math.min(1, wanted - this.#opening) : wanted); i++) void this.#open()
  }

  async #open(): Promise<void> {
    this.#opening++
    try {
      const connection = await Connection.open(this.#address, this.#dialect, this.#limits.locks)
      this.#opening--
      this.#failures = 0
      this.#lastFailure = undefined
      if (this.#isClosed) return await connection.end()
      this.#give(connection)
      this.#openMore()
    } catch (error) {
      this.#opening--
      this.#lastFailure = error instanceof Error ? error : new EngineUnavailableError(String(error))
      this.#pausedUntil = performance.now() + Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures++)
      this.#refuse()
    }
  }

  #refuse(): void {
    const error = this.#lastFailure ?? new EngineUnavailableError('The storage engine cannot be reached.')
    for (const { reject } of this.#waiting.splice(0)) reject(error)
  }

  #sweep(): void {
    const now = performance.now()
    for (const connection of this.#used) {
      if (connection.busyMs > this.#limits.statementMs) connection.destroy()
    }
    while (this.#idle[0] && (this.#idle[0].connection.isBroken || now - this.#idle[0].since > this.#limits.idleMs)) {
      void this.#idle.shift()?.connection.end()
    }
    while (this.#waiting[0] && now - this.#waiting[0].since > this.#limits.waitMs) {
      this.#waiting.shift()?.reject(new TooManyReadersError('All connections to the storage engine are in use.'))
    }
  }
}
