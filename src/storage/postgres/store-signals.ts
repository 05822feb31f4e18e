/**
 * Signals among servers about new versions of stores. With NOTIFY where the server has it, many stores in one message; a slow
 * poll of the versions makes up for lost messages. Without NOTIFY the poll is frequent.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Connection, type Parameter, type ResultRow } from './connection.ts'
import type { EngineAddress } from './engine-address.ts'
import type { SqlDialect } from './sql-dialect.ts'
import { STATEMENTS, type Statement } from './statements.ts'
import { int8Array } from './wire-values.ts'

interface SignalServices {
  readonly address: EngineAddress
  readonly dialect: SqlDialect
  /** Of this server. */
  readonly sender: string
  run(statement: Statement, parameters: readonly Parameter[]): Promise<ResultRow[]>
  /** Another server created or dropped a store, or may have. */
  catalogChanged(): void
}

interface Watched {
  version: number
  readonly listeners: Set<() => void>
}

/** Versions are collected for this time and sent together. */
const GATHER_MS = 2
/** A message has up to 8,000 bytes. */
const STORES_A_MESSAGE = 200
const BACKSTOP_POLL_MS = 2000
const QUICK_POLL_MS = 200
const LONGEST_PAUSE_MS = 2000
const CATALOG = 'catalog'

export class StoreSignals {
  readonly #services: SignalServices
  readonly #watched = new Map<number, Watched>()
  readonly #pending = new Map<number, number>()
  #isCatalogPending = false
  #gathering: NodeJS.Timeout | undefined
  #connection: Connection | undefined
  #isClosed = false
  readonly #polling: NodeJS.Timeout

  constructor(services: SignalServices) {
    this.#services = services
    const pollMs = services.dialect.hasNotify ? BACKSTOP_POLL_MS : QUICK_POLL_MS
    this.#polling = setInterval(() => void this.#poll(), pollMs).unref()
    if (services.dialect.hasNotify) void this.#listen()
  }

  /** Calls back when another server has committed to the store, which was seen with this version. */
  watch(store: number, version: number, listener: () => void): () => void {
    const watched = this.#watched.get(store) ?? { version, listeners: new Set() }
    this.#watched.set(store, watched)
    watched.listeners.add(listener)
    return () => {
      watched.listeners.delete(listener)
      if (watched.listeners.size === 0 && this.#watched.get(store) === watched) this.#watched.delete(store)
    }
  }

  /** This server has committed. */
  announce(store: number, version: number): void {
    const watched = this.#watched.get(store)
    if (watched) watched.version = Math.max(watched.version, version)
    this.#pending.set(store, version)
    this.#gather()
  }

  /** The store is gone: notifies its watchers. */
  gone(store: number): void {
    for (const listener of this.#watched.get(store)?.listeners ?? []) listener()
  }

  /** This server has created or dropped a store. */
  announceCatalog(): void {
    this.#isCatalogPending = true
    this.#gather()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#polling)
    clearTimeout(this.#gathering)
    await this.#flush()
    await this.#connection?.end()
  }

  #gather(): void {
    if (!this.#services.dialect.hasNotify || this.#isClosed) return
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined
      void this.#flush()
    }, GATHER_MS).unref()
  }

  async #flush(): Promise<void> {
    const connection = this.#connection
    if (!connection || connection.isBroken) return
    const entries = [...this.#pending]
    this.#pending.clear()
    const messages: string[] = []
    for (let first = 0; first < entries.length; first += STORES_A_MESSAGE) {
      const some = entries.slice(first, first + STORES_A_MESSAGE)
      messages.push(some.map(([store, version]) => `${store}:${version}`).join(','))
    }
    if (this.#isCatalogPending) messages.push(CATALOG)
    this.#isCatalogPending = false
    // A lost message is made up for by the poll of the others.
    await Promise.allSettled(
      messages.map((message) => connection.run(NOTIFY, [this.#channel, `${this.#services.sender} ${message}`])),
    )
  }

  get #channel(): string {
    return `settle_${this.#services.address.schema}`
  }

  async #listen(): Promise<void> {
    for (let failures = 0; !this.#isClosed; failures++) {
      try {
        const connection = await Connection.open(this.#services.address, this.#services.dialect)
        if (this.#isClosed) return await connection.end()
        connection.onNotification((payload) => this.#hear(payload))
        await connection.script(`LISTEN "${this.#channel}"`)
        this.#connection = connection
        failures = 0
        const broken = new Promise<void>((resolve) => connection.onBroken(resolve))
        // Messages sent before were missed.
        void this.#poll()
        this.#services.catalogChanged()
        this.#gather()
        await broken
      } catch {
        // The next attempt comes after a pause.
      }
      if (!this.#isClosed)
        await pause(Math.min(LONGEST_PAUSE_MS, 50 * 2 ** Math.min(failures, 8)), undefined, { ref: false })
    }
  }

  #hear(payload: string): void {
    const [sender, message = ''] = payload.split(' ')
    if (sender === this.#services.sender) return
    if (message === CATALOG) {
      this.#services.catalogChanged()
      return
    }
    for (const each of message.split(',')) {
      const [store, version] = each.split(':').map(Number)
      if (store !== undefined && version !== undefined) this.#reached(store, version)
    }
  }

  #reached(store: number, version: number): void {
    const watched = this.#watched.get(store)
    if (!watched || version <= watched.version) return
    watched.version = version
    for (const listener of watched.listeners) listener()
  }

  async #poll(): Promise<void> {
    if (this.#watched.size === 0) return
    const ids = [...this.#watched.keys()]
    try {
      const rows = await this.#services.run(STATEMENTS.versions, [int8Array(ids)])
      for (const [store, version] of rows) this.#reached(Number(store), Number(version))
      // A missing store was dropped.
      if (rows.length < ids.length || !this.#services.dialect.hasNotify) this.#services.catalogChanged()
    } catch {
      // The next poll tries again.
    }
  }
}

const NOTIFY: Statement = { name: 'notify', text: 'SELECT pg_notify($1, $2)' }
