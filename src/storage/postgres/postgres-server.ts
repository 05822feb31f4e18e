/**
 * The connections of this process to a PostgreSQL server: bounded pools, the tables, signals among servers, heartbeats, and the
 * removal of garbage. The engines of databases and of indexes share it.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { EngineUnavailableError, StorageError } from '../storage-error.ts'
import { Connection, type Parameter, type ResultRow, RetryableError } from './connection.ts'
import { ConnectionPool } from './connection-pool.ts'
import { type EngineAddress, parseAddress } from './engine-address.ts'
import { Garbage } from './garbage.ts'
import { inTime } from './in-time.ts'
import { LatestReads } from './latest-rows.ts'
import { PostgresOtherServers } from './other-servers.ts'
import { PostgresLeases } from './postgres-leases.ts'
import { ReadTransactions } from './read-transaction.ts'
import { RowCache } from './row-cache.ts'
import type { SqlDialect } from './sql-dialect.ts'
import { STATEMENTS, type Statement, TABLES } from './statements.ts'
import { StoreSignals } from './store-signals.ts'
import { TurnSlots } from './turn-slots.ts'

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database?schema=settle` */
  readonly address: string
  /** Connections for snapshots, each of which may be shared. */
  readonly readConnections?: number
  /** Connections for commits and everything else. */
  readonly writeConnections?: number
  readonly statementMs?: number
  /** Memory for rows that never change once they are written. */
  readonly cacheBytes?: number
  /** How often opening it is tried. */
  readonly startTries?: number
  /** How long a server keeps its leases without a heartbeat. */
  readonly leaseMs?: number
  /** For tests: how long another server that does not confirm a commit is waited for. */
  readonly confirmMs?: number
  /** For tests: overrides the dialect that the server's version implies. */
  readonly dialect?: SqlDialect
}

const READ_CONNECTIONS = 16
const WRITE_CONNECTIONS = 8
const STATEMENT_MS = 60_000
const WAIT_MS = 5000
const IDLE_MS = 60_000

/** How often a start tries to reach the server. */
const START_TRIES = 20
const START_PAUSE_MS = 250

const LEASE_MS = 10_000
/** How long a server that has heartbeats is waited for, in times of a lease. */
const CONFIRMATION_LEASES = 2
/** The look-up of a commit whose connection was lost may have to wait for this time. */
const HELD_LOCKS_MS = 5000
/** Of the connections for writing: the others are for what must not wait for other servers. */
const TURN_SHARE = 3 / 4
const CACHE_BYTES = 32 * 1024 * 1024
/** Heartbeats while a lease lasts. */
const BEATS_A_LEASE = 5
/** How old the answer to a heartbeat may be that shows that the engine is there. */
const CHECK_INTERVAL_MS = 1000
/** A heartbeat without an answer for this time shows that it is not. */
const CHECK_MS = 2000
/** A server without a heartbeat for this time does not come back: what it holds can be removed. */
const UNSEEN_SECONDS = 24 * 3600
/** A number consists of the second and a counter. */
const NUMBERS_A_SECOND = 2 ** 21

const FORMAT = 3

export class PostgresServer {
  readonly dialect: SqlDialect
  readonly writes: ConnectionPool
  /** Undefined where servers do not take turns. */
  readonly turnSlots: TurnSlots | undefined
  readonly transactions: ReadTransactions
  readonly latestReads: LatestReads
  /** Of all stores. */
  readonly fixedRows: RowCache
  readonly signals: StoreSignals
  readonly garbage: Garbage
  readonly leases: PostgresLeases
  readonly others: PostgresOtherServers
  /** Identifies the tables: the same for all servers that use them. */
  readonly uuid: string
  readonly shown: string
  readonly #id = randomBytes(8)
  /** Only for heartbeats and leases: they must not wait behind anything else. */
  readonly #pulse: ConnectionPool
  readonly #reads: ConnectionPool
  readonly #catalogs = new Set<() => Promise<unknown>>()
  readonly #commitListeners = new Set<StoreCommitListener>()
  readonly #beating: NodeJS.Timeout
  #beat: Promise<void> | undefined
  /** When the last heartbeat was sent, and why it failed. */
  #beatMs = Number.NEGATIVE_INFINITY
  #beatError: unknown
  #refreshing: Promise<void> | undefined

  /** Creates the tables where they are missing. Throws an error whose message is for people. */
  static async open(options: PostgresOptions): Promise<PostgresServer> {
    const address = parseAddress(options.address)
    const { startTries = START_TRIES } = options
    for (let tries = 1; ; tries++) {
      try {
        const tables = await prepare(address, options.dialect)
        const server = new PostgresServer(address, tables, options)
        return await server.#begun()
      } catch (error) {
        if (tries >= startTries || !(error instanceof StorageError)) throw error
        await pause(START_PAUSE_MS)
      }
    }
  }

  private constructor(address: EngineAddress, { dialect, uuid }: Tables, options: PostgresOptions) {
    const {
      readConnections = READ_CONNECTIONS,
      writeConnections = WRITE_CONNECTIONS,
      statementMs = STATEMENT_MS,
      leaseMs = LEASE_MS,
      cacheBytes = CACHE_BYTES,
    } = options
    const limits = { waitMs: WAIT_MS, idleMs: IDLE_MS, statementMs }
    this.dialect = dialect
    this.uuid = uuid
    this.shown = address.shown
    this.#reads = new ConnectionPool(address, { ...limits, connections: readConnections }, dialect)
    // A server that stops while it keeps locks delays others for less than the time of a lease.
    const locks = { heldMs: Math.min(HELD_LOCKS_MS, Math.floor(leaseMs / 2)), waitMs: leaseMs }
    this.writes = new ConnectionPool(address, { ...limits, connections: writeConnections, locks }, dialect)
    const turns = Math.min(writeConnections - 1, Math.ceil(writeConnections * TURN_SHARE))
    this.turnSlots = dialect.takesTurns && turns > 0 ? new TurnSlots(turns) : undefined
    this.#pulse = new ConnectionPool(address, { ...limits, connections: 1 }, dialect)
    this.leases = new PostgresLeases({
      engine: uuid,
      holder: this.#id,
      durationMs: leaseMs,
      run: (statement, parameters) => this.#pulse.use((connection) => connection.run(statement, parameters)),
      read: (statement, parameters) => this.run(statement, parameters),
    })
    this.transactions = new ReadTransactions(this.#reads)
    this.latestReads = new LatestReads(this.#reads)
    this.fixedRows = new RowCache(cacheBytes)
    this.garbage = new Garbage((statement, parameters) => this.run(statement, parameters))
    this.others = new PostgresOtherServers({
      id: this.#id,
      run: (statement, parameters) => this.run(statement, parameters),
      request: (text, timeoutMs) => this.signals.request(text, timeoutMs),
    })
    this.signals = new StoreSignals({
      address,
      dialect,
      sender: this.#id.toString('hex'),
      // One that is cut off has no heartbeats after the time of a lease, and confirms when it is connected again before that.
      confirmMs: options.confirmMs ?? CONFIRMATION_LEASES * leaseMs,
      run: (statement, parameters) => this.run(statement, parameters),
      others: () => this.#others(),
      catalogChanged: async () => {
        await Promise.allSettled([...this.#catalogs].map((listener) => listener()))
      },
      committed: (store, version) => {
        for (const listener of this.#commitListeners) listener(store, version)
      },
      handle: (request) => this.others.handle(request),
    })
    this.#beating = setInterval(() => this.#beatOnce(), leaseMs / BEATS_A_LEASE).unref()
    this.garbage.sweepSoon()
  }

  async #begun(): Promise<this> {
    try {
      // Other servers wait for the confirmations of those that have heartbeats.
      await this.signals.ready
      await this.#seen()
      return this
    } catch (error) {
      await this.close()
      throw error
    }
  }

  /** Whether snapshots wait for a connection. */
  get hasWaitingReaders(): boolean {
    return this.#reads.waiting > 0
  }

  /** Calls back when another server may have created or dropped a store. */
  onCatalog(listener: () => Promise<unknown>): () => void {
    this.#catalogs.add(listener)
    return () => this.#catalogs.delete(listener)
  }

  /** Calls back when another server has committed to any store. Missed commits show when the stores are listed again. */
  onCommit(listener: StoreCommitListener): () => void {
    this.#commitListeners.add(listener)
    return () => this.#commitListeners.delete(listener)
  }

  /**
   * Undefined while other servers wait for this one before they acknowledge what makes its caches stale. After a time without
   * heartbeats: resolves when everything that is cached was checked anew. Rejects with `EngineUnavailableError` where that fails.
   */
  refreshed(): Promise<void> | undefined {
    if (!this.leases.hasLapsed) return undefined
    this.#refreshing ??= this.#refreshAll().finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  /**
   * Resolves if the engine takes writes and what is cached is valid. Rejects where it does not, or does not answer within
   * two seconds. A heartbeat at most once a second finds out, however many ask.
   */
  async check(): Promise<void> {
    if (performance.now() - this.#beatMs >= CHECK_INTERVAL_MS) this.#beatOnce()
    if (this.#beat) await inTime(this.#beat, Math.max(0, this.#beatMs + CHECK_MS - performance.now()))
    // That it asks to try again is an answer.
    if (this.#beatError !== undefined && !(this.#beatError instanceof RetryableError)) throw this.#beatError
    const refreshed = this.refreshed()
    if (refreshed) await inTime(refreshed, CHECK_MS)
  }

  /** Runs a single statement. */
  run(statement: Statement, parameters: readonly Parameter[]): Promise<ResultRow[]> {
    return this.writes.use((connection) => connection.run(statement, parameters))
  }

  /** The same with retries while the server cannot be reached: for idempotent statements. */
  async repeat(
    statement: Statement,
    parameters: readonly Parameter[],
    { times, pauseMs }: { readonly times: number; readonly pauseMs: number },
  ): Promise<ResultRow[]> {
    for (let left = times; ; left--) {
      try {
        return await this.run(statement, parameters)
      } catch (error) {
        const isPassing = error instanceof EngineUnavailableError || error instanceof RetryableError
        if (!isPassing || left <= 1) throw error
        await pause(pauseMs)
      }
    }
  }

  async nextNumber(): Promise<number> {
    const [row] = await this.run(STATEMENTS.number, [])
    assert(row)
    return Number(row[0]) * NUMBERS_A_SECOND + (Number(row[1]) % NUMBERS_A_SECOND)
  }

  /** All numbers, while no other server sent a heartbeat for a day. */
  async settledBelow(): Promise<number> {
    const { seconds, isAlone } = await this.#seen()
    return isAlone ? Number.MAX_SAFE_INTEGER : (seconds - UNSEEN_SECONDS) * NUMBERS_A_SECOND
  }

  async close(): Promise<void> {
    clearInterval(this.#beating)
    await this.garbage.close()
    await this.leases.close()
    await this.#beat
    await this.others.close()
    // Nobody waits for the confirmations of this server from now on.
    await this.run(STATEMENTS.unseen, [this.#id]).catch(() => {})
    await this.signals.close()
    await Promise.all([this.#reads.close(), this.writes.close(), this.#pulse.close()])
  }

  #beatOnce(): void {
    this.leases.expire()
    this.#beat ??= this.#sendBeat().finally(() => {
      this.#beat = undefined
    })
  }

  /** If a heartbeat gets no answer, other statements do not either: they fail now, not at their timeout. */
  async #sendBeat(): Promise<void> {
    const stalled = setTimeout(() => {
      for (const connections of [this.#pulse, this.#reads, this.writes, this.signals]) connections.cut()
    }, this.leases.durationMs / 2)
    this.#beatMs = performance.now()
    try {
      await this.leases.beat()
      this.#beatError = undefined
      this.refreshed()?.catch(() => {})
    } catch (error) {
      // The next one tries again. Leases end by themselves.
      this.#beatError = error
    } finally {
      clearTimeout(stalled)
    }
  }

  /** Heartbeats may have failed again meanwhile: then what was read may be too old for those who came later. */
  async #refreshAll(): Promise<void> {
    while (this.leases.hasLapsed) await this.#refresh()
  }

  async #refresh(): Promise<void> {
    await inTime(this.#catchUp(), this.leases.durationMs / 2)
  }

  /** The heartbeat comes first: from then on other servers wait for this one again. */
  async #catchUp(): Promise<void> {
    await this.leases.beat()
    const { lapses } = this.leases
    await this.signals.refresh()
    this.leases.madeUpFor(lapses)
  }

  async #others(): Promise<string[]> {
    const rows = await this.run(STATEMENTS.others, [this.#id, this.leases.durationMs])
    return rows.map(([id]) => id ?? '')
  }

  async #seen(): Promise<{ seconds: number; isAlone: boolean }> {
    const [row] = await this.run(STATEMENTS.seen, [this.#id, UNSEEN_SECONDS])
    assert(row)
    return { seconds: Number(row[0]), isAlone: row[1] === 'f' || row[1] === 'false' }
  }
}

/** With the version after the commit. */
type StoreCommitListener = (store: number, version: number) => void

interface Tables {
  readonly dialect: SqlDialect
  readonly uuid: string
}

/** Creates or checks the tables, and finds out the dialect. */
async function prepare(address: EngineAddress, given: SqlDialect | undefined): Promise<Tables> {
  const connection = await Connection.open(address, given)
  try {
    const { dialect } = connection
    const isThere = await connection.script('SELECT max(version) FROM format').catch(() => undefined)
    if (Number(isThere?.[0]?.[0]) !== FORMAT) await makeTables(connection, address)
    const [row] = await connection.script('SELECT max(version) FROM format')
    if (Number(row?.[0]) !== FORMAT) {
      throw new StorageError(
        `The tables of the storage engine are of format ${row?.[0]}; this release knows ${FORMAT}.`,
      )
    }
    const [identity] = await connection.script('SELECT uuid FROM identity')
    return { dialect, uuid: identity?.[0] ?? '' }
  } finally {
    await connection.end()
  }
}

async function makeTables(connection: Connection, { schema }: EngineAddress): Promise<void> {
  // Two servers may begin at the same time; one of them fails and finds them with its next try. Tables of an earlier
  // format lack some of these.
  await connection.script(`CREATE SCHEMA IF NOT EXISTS "${schema}"`)
  for (const table of TABLES) await connection.script(table)
  for (const setting of connection.dialect.tables) await connection.script(setting).catch(() => {})
  const uuid = randomBytes(16).toString('hex')
  await connection.script(`INSERT INTO identity (one, uuid) VALUES (1, '${uuid}') ON CONFLICT (one) DO NOTHING`)
  await connection.script(`CREATE TABLE IF NOT EXISTS format (version bigint PRIMARY KEY)`)
  await connection.script(`INSERT INTO format (version) VALUES (${FORMAT}) ON CONFLICT (version) DO NOTHING`)
}
