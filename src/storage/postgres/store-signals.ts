/**
 * Signals among servers about new versions of stores. With NOTIFY where the server has it, many stores in one message; a slow
 * poll of the versions makes up for lost messages. Without NOTIFY the poll is frequent. A server whose commit makes caches
 * stale asks the others to confirm that they have processed it.
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
  /** How long a server that does not confirm is waited for. */
  readonly confirmMs: number
  /** The senders of the other servers whose heartbeats are recent. */
  others(): Promise<string[]>
  /** Another server created or dropped a store, or may have. Resolves when that was processed. */
  catalogChanged(): Promise<void>
}

/** Called after a commit of another server. Resolves when it was processed, where that takes time. */
export type CommitListener = () => void | Promise<void>

interface Watched {
  version: number
  readonly listeners: Set<CommitListener>
}

/** A request for confirmations that is under way. */
interface Confirmation {
  /** Servers that have not answered. */
  readonly waiting: Set<string>
  done(): void
}

/** Versions are collected for this time and sent together. */
const GATHER_MS = 2
/** A message has up to 8,000 bytes. */
const STORES_A_MESSAGE = 200
const BACKSTOP_POLL_MS = 2000
const QUICK_POLL_MS = 200
const LONGEST_PAUSE_MS = 2000
export const CATALOG = 'catalog'
const HELLO = 'hello'
const CONFIRM = 'confirm'
const CONFIRMED = 'confirmed'

export class StoreSignals {
  readonly #services: SignalServices
  readonly #watched = new Map<number, Watched>()
  readonly #pending = new Map<number, number>()
  #isCatalogPending = false
  #gathering: NodeJS.Timeout | undefined
  #connection: Connection | undefined
  #isClosed = false
  readonly #polling: NodeJS.Timeout
  readonly #confirmations = new Map<number, Confirmation>()
  #lastConfirmation = 0
  /** Servers that did not confirm in time. They are not waited for until they send a message. */
  readonly #silent = new Set<string>()
  /** Settles when this server receives messages, or could not at its first attempt. */
  readonly ready: Promise<void>

  constructor(services: SignalServices) {
    this.#services = services
    const pollMs = services.dialect.hasNotify ? BACKSTOP_POLL_MS : QUICK_POLL_MS
    this.#polling = setInterval(() => void this.#poll(), pollMs).unref()
    this.ready = services.dialect.hasNotify ? new Promise((resolve) => void this.#listen(resolve)) : Promise.resolve()
  }

  /** Calls back when another server has committed to the store, which was seen with this version. */
  watch(store: number, version: number, listener: CommitListener): () => void {
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

  /**
   * Resolves when all other servers have processed the commits to a store so far, or the stores that came and went. One that cannot be reached is waited for
   * until it has noticed them by polling.
   */
  async confirm(store: number | typeof CATALOG): Promise<void> {
    // If the engine cannot be reached, there is nobody to ask: the others read everything anew when it is back.
    const others = await this.#services.others().catch((): string[] => [])
    for (const silent of this.#silent) if (!others.includes(silent)) this.#silent.delete(silent)
    const waiting = new Set(others.filter((other) => !this.#silent.has(other)))
    if (waiting.size === 0) return
    if (!this.#services.dialect.hasNotify) {
      await pause(2 * QUICK_POLL_MS)
      return
    }
    const id = ++this.#lastConfirmation
    const { promise: confirmed, resolve } = Promise.withResolvers<void>()
    this.#confirmations.set(id, { waiting, done: resolve })
    const timeout = setTimeout(() => {
      for (const other of waiting) this.#silent.add(other)
      resolve()
    }, this.#services.confirmMs)
    void this.#send([`${CONFIRM}:${id}:${store}`])
    await confirmed
    clearTimeout(timeout)
    this.#confirmations.delete(id)
  }

  /** The store is gone: notifies its watchers. */
  gone(store: number): void {
    for (const listener of this.#watched.get(store)?.listeners ?? []) void listener()
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
    for (const { done } of this.#confirmations.values()) done()
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
    if (!this.#connection || this.#connection.isBroken) return
    const entries = [...this.#pending]
    this.#pending.clear()
    const messages: string[] = []
    for (let first = 0; first < entries.length; first += STORES_A_MESSAGE) {
      const some = entries.slice(first, first + STORES_A_MESSAGE)
      messages.push(some.map(([store, version]) => `${store}:${version}`).join(','))
    }
    if (this.#isCatalogPending) messages.push(CATALOG)
    this.#isCatalogPending = false
    await this.#send(messages)
  }

  /** A lost message is made up for by the poll of the others. */
  async #send(messages: readonly string[]): Promise<void> {
    const connection = this.#connection
    if (!connection || connection.isBroken) return
    await Promise.allSettled(
      messages.map((message) => connection.run(NOTIFY, [this.#channel, `${this.#services.sender} ${message}`])),
    )
  }

  get #channel(): string {
    return `settle_${this.#services.address.schema}`
  }

  async #listen(tried: () => void): Promise<void> {
    for (let failures = 0; !this.#isClosed; failures++) {
      try {
        const connection = await Connection.open(this.#services.address, this.#services.dialect)
        if (this.#isClosed) return await connection.end()
        connection.onNotification((payload) => this.#hear(payload))
        await connection.script(`LISTEN "${this.#channel}"`)
        this.#connection = connection
        tried()
        failures = 0
        const broken = new Promise<void>((resolve) => connection.onBroken(resolve))
        // Messages sent before were missed.
        void this.#poll()
        void this.#services.catalogChanged()
        this.#gather()
        void this.#send([HELLO])
        await broken
      } catch {
        // The next attempt comes after a pause.
        tried()
      }
      if (!this.#isClosed)
        await pause(Math.min(LONGEST_PAUSE_MS, 50 * 2 ** Math.min(failures, 8)), undefined, { ref: false })
    }
  }

  #hear(payload: string): void {
    const [sender = '', message = ''] = payload.split(' ')
    if (sender === this.#services.sender) return
    this.#silent.delete(sender)
    const [kind, ...rest] = message.split(':')
    switch (kind) {
      case HELLO:
        return
      case CATALOG:
        void this.#services.catalogChanged()
        return
      case CONFIRM:
        void this.#confirmTo(sender, rest)
        return
      case CONFIRMED:
        this.#confirmed(sender, rest)
        return
    }
    for (const each of message.split(',')) {
      const [store, version] = each.split(':').map(Number)
      if (store !== undefined && version !== undefined) this.#reached(store, version)
    }
  }

  /** Another server has committed to a store, and waits until this one has processed it. */
  async #confirmTo(sender: string, [id, store]: readonly string[]): Promise<void> {
    const listeners = [...(this.#watched.get(Number(store))?.listeners ?? [])]
    if (store === CATALOG) await this.#services.catalogChanged()
    else await Promise.allSettled(listeners.map((listener) => listener()))
    await this.#send([`${CONFIRMED}:${sender}:${id}`])
  }

  #confirmed(sender: string, [asker, id]: readonly string[]): void {
    if (asker !== this.#services.sender) return
    const confirmation = this.#confirmations.get(Number(id))
    if (!confirmation) return
    confirmation.waiting.delete(sender)
    if (confirmation.waiting.size === 0) confirmation.done()
  }

  #reached(store: number, version: number): void {
    const watched = this.#watched.get(store)
    if (!watched || version <= watched.version) return
    watched.version = version
    for (const listener of watched.listeners) void listener()
  }

  async #poll(): Promise<void> {
    if (this.#watched.size === 0) return
    const ids = [...this.#watched.keys()]
    try {
      const rows = await this.#services.run(STATEMENTS.versions, [int8Array(ids)])
      for (const [store, version] of rows) this.#reached(Number(store), Number(version))
      // A missing store was dropped.
      if (rows.length < ids.length || !this.#services.dialect.hasNotify) void this.#services.catalogChanged()
    } catch {
      // The next poll tries again.
    }
  }
}

const NOTIFY: Statement = { name: 'notify', text: 'SELECT pg_notify($1, $2)' }
