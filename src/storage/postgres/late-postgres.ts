/**
 * A PostgreSQL server that keeps some of the databases. Other databases do not depend on it: where it cannot be reached at the
 * start, it is tried again in the background.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { WorkLeases } from '../leases/work-leases.ts'
import { LateEngine } from '../routed/late-engine.ts'
import { EngineRefusalError, EngineUnavailableError } from '../storage-error.ts'
import { shownAddress } from './engine-address.ts'
import { PostgresEngine } from './postgres-engine.ts'
import { type PostgresOptions, PostgresServer } from './postgres-server.ts'

export interface LateReports {
  /** It is not reached at the start. */
  away(error: unknown): void
  /** It is reached now. */
  there(): void
  /** It is reached and cannot be used. */
  refused(error: unknown): void
}

/** How long a start waits for it. */
const START_MS = 5000
/** At a time: two servers that make the tables at once disturb each other. */
const TRIES = 4
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 2000

export class LatePostgres {
  readonly databases = new LateEngine()
  readonly indexes = new LateEngine()
  readonly shown: string
  readonly #options: PostgresOptions
  readonly #reports: LateReports
  /** Throws where the server, by its uuid, is in use under another address. */
  readonly #claim: (uuid: string) => void
  readonly #closing = new AbortController()
  #server: PostgresServer | undefined
  #databases: PostgresEngine | undefined
  #lastError: unknown
  /** Whether the start went on without it. */
  #isAway = false

  constructor(options: PostgresOptions, claim: (uuid: string) => void, reports: LateReports) {
    this.#options = options
    this.#claim = claim
    this.#reports = reports
    this.shown = shownAddress(options.address)
  }

  /** Throws where the server can be reached and cannot be used: an error whose message is for people. */
  async open(): Promise<void> {
    const opening = this.#connect()
    const timer = new AbortController()
    const isLate = pause(START_MS, true, { signal: timer.signal, ref: false }).catch(() => true)
    const first = await Promise.race([opening, isLate])
    timer.abort()
    if (first === undefined || this.#closing.signal.aborted) return
    this.#isAway = true
    if (this.#lastError instanceof EngineRefusalError) this.#reports.refused(this.#lastError)
    else this.#reports.away(this.#lastError ?? new EngineUnavailableError('The storage engine does not answer.'))
  }

  get leases(): WorkLeases | undefined {
    return this.#server?.leases
  }

  /** Resolves when all other servers have processed the commits to a database so far. */
  async confirm(database: string): Promise<void> {
    await this.#databases?.confirm(database)
  }

  /** Undefined while what is cached of its databases is valid. Otherwise resolves when it is, or rejects while it is away. */
  refreshed(): Promise<void> | undefined {
    return this.#server?.refreshed()
  }

  /** An attempt to connect that is under way ends by itself. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.databases.close()
    await this.indexes.close()
    await this.#server?.close()
  }

  async #connect(): Promise<void> {
    for (let failures = 0; !this.#closing.signal.aborted; failures++) {
      try {
        await this.#connectOnce()
        if (this.#isAway) this.#reports.there()
        return
      } catch (error) {
        const isUnavailable = error instanceof EngineUnavailableError
        if (!isUnavailable && !this.#isAway) throw error
        const isRefusal = !isUnavailable || error instanceof EngineRefusalError
        if (isRefusal && this.#isAway && String(error) !== String(this.#lastError)) this.#reports.refused(error)
        this.#lastError = error
      }
      const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures, 8))
      await pause(pauseMs, undefined, { signal: this.#closing.signal, ref: false }).catch(() => {})
    }
  }

  async #connectOnce(): Promise<void> {
    const server = await PostgresServer.open({ ...this.#options, startTries: TRIES })
    try {
      this.#claim(server.uuid)
      const databases = await PostgresEngine.on(server, 'databases', { confirmsDrops: true })
      const indexes = await PostgresEngine.on(server, 'indexes')
      if (this.#closing.signal.aborted) throw new EngineUnavailableError('The storage engine is closed.')
      this.#server = server
      this.#databases = databases
      this.indexes.begin(indexes)
      this.databases.begin(databases)
    } catch (error) {
      await server.close()
      throw error
    }
  }
}
