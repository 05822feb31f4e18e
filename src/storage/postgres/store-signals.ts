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
  /** Another server has committed to a store, watched or not. */
  committed(store: number, version: number): void
  /** Another server asks for something. Resolves when it is done. */
  handle(request: string): Promise<void>
}

/** Called after a commit of another server. Resolves when it was processed, where that takes time. */
export type CommitListener = () => void | Promise<void>

interface Watched {
  version: number
  readonly listeners: Set<CommitListener>
}

/** The commits to a store, which stores there are, or that a request is carried out. */
type Confirmed = number | typeof CATALOG | `${typeof REQUEST}:${string}`

/** A request for confirmations that is under way. */
class Confirmation {
  readonly what: Confirmed
  readonly message: string
  /** How long it waits for a server that does not answer. */
  readonly limitMs: number
  readonly begunMs = performance.now()
  /** Servers that have not answered. */
  readonly waiting: Set<string>
  readonly #done = Promise.withResolvers<void>()

  constructor(id: number, what: Confirmed, waiting: Set<string>, limitMs: number) {
    this.what = what
    this.message = `${CONFIRM}:${id}:${what}`
    this.waiting = waiting
    this.limitMs = limitMs
  }

  get done(): Promise<void> {
    return this.#done.promise
  }

  /** It has answered, or there is nothing to wait for. */
  without(server: string): void {
    this.waiting.delete(server)
    if (this.waiting.size === 0) this.finish()
  }

  finish(): void {
    this.#done.resolve()
  }
}

/** Versions are collected for this time and sent together. */
const GATHER_MS = 2
/** A message has up to 8,000 bytes. */
const STORES_A_MESSAGE = 200
const BACKSTOP_POLL_MS = 2000
/** Every so many polls all stores are listed, and not only the versions of watched ones. */
const POLLS_A_LISTING = 15
const QUICK_POLL_MS = 200
const LONGEST_PAUSE_MS = 2000
/** How often a server that waits for confirmations checks whether the others are still there. */
const CHECK_MS = 1000
/** The pause before the other servers are looked up again, while the engine cannot be reached. */
const RETRY_MS = 250
export const CATALOG = 'catalog'
/** Something else that is asked for. Its text follows. */
const REQUEST = 'request'
/** The sender receives messages from now on; it may have missed some. */
const HELLO = 'hello'
/** The sender has ended. */
const BYE = 'bye'
const CONFIRM = 'confirm'
const CONFIRMED = 'confirmed'

export class StoreSignals {
  readonly #services: SignalServices
  readonly #watched = new Map<number, Watched>()
  readonly #pending = new Map<number, number>()
  #isCatalogPending = false
  #gathering: NodeJS.Timeout | undefined
  #connection: Connection | undefined
  /** Since when messages are received without a gap; undefined while they are not. */
  #receivingSinceMs: number | undefined
  #isClosed = false
  readonly #polling: NodeJS.Timeout
  #polls = 0
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

  isWatched(store: number): boolean {
    return this.#watched.has(store)
  }

  /** This server has committed. `before` is the version that the commit was applied to. */
  announce(store: number, { before, version }: { readonly before: number; readonly version: number }): void {
    const watched = this.#watched.get(store)
    // A commit of another server lies between this one and the last that was noticed: its message would be too old to count.
    const hasMissed = watched !== undefined && before > watched.version
    if (watched) watched.version = Math.max(watched.version, version)
    if (hasMissed) for (const listener of watched.listeners) void listener()
    this.#pending.set(store, version)
    this.#gather()
  }

  /**
   * Resolves when all other servers have processed the commits to a store so far, or the stores that came and went. A server
   * without heartbeats is not waited for: before it answers anything it reads everything anew.
   */
  async confirm(store: number | typeof CATALOG): Promise<void> {
    await this.#ask(store, this.#services.confirmMs)
  }

  /**
   * Resolves when all other servers have carried out a request, or after a timeout; false where some have not. Where there is
   * no NOTIFY nobody is asked.
   */
  async request(text: string, timeoutMs: number): Promise<boolean> {
    const encoded = Buffer.from(text).toString('base64url')
    return !this.#services.dialect.hasNotify || this.#ask(`${REQUEST}:${encoded}`, timeoutMs)
  }

  /** Resolves when all commits of other servers so far were processed, whichever messages were lost. */
  async refresh(): Promise<void> {
    const listeners = [...this.#watched.values()].flatMap((watched) => [...watched.listeners])
    await Promise.allSettled([this.#services.catalogChanged(), ...listeners.map(async (listener) => listener())])
  }

  /** The server does not answer: the connection is replaced. */
  cut(): void {
    this.#connection?.destroy()
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
    for (const confirmation of this.#confirmations.values()) confirmation.finish()
    await this.#flush()
    await this.#send([BYE])
    await this.#connection?.end()
  }

  /** Waits for a server that does not answer until the limit. Resolves to whether all have answered. */
  async #ask(what: Confirmed, limitMs: number): Promise<boolean> {
    const { others, areAll } = await this.#awaited(limitMs)
    if (others.length === 0 || this.#isClosed) return areAll
    if (!this.#services.dialect.hasNotify) {
      await pause(2 * QUICK_POLL_MS)
      return areAll
    }
    const waiting = new Set(others)
    const id = ++this.#lastConfirmation
    const confirmation = new Confirmation(id, what, waiting, limitMs)
    this.#confirmations.set(id, confirmation)
    const checking = setInterval(() => void this.#check(confirmation), Math.min(CHECK_MS, limitMs))
    void this.#send([confirmation.message])
    await confirmation.done
    clearInterval(checking)
    this.#confirmations.delete(id)
    return areAll && waiting.size === 0
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

  /** The other servers that a commit waits for, and whether there are no more. */
  async #awaited(limitMs: number): Promise<{ readonly others: string[]; readonly areAll: boolean }> {
    const begunMs = performance.now()
    for (;;) {
      try {
        const others = await this.#services.others()
        for (const silent of this.#silent) if (!others.includes(silent)) this.#silent.delete(silent)
        return { others: others.filter((other) => !this.#silent.has(other)), areAll: this.#silent.size === 0 }
      } catch {
        // The commit is made, and others may have seen it: it must not be acknowledged before they are asked.
        if (this.#isClosed || performance.now() - begunMs >= limitMs) return { others: [], areAll: false }
        await pause(RETRY_MS, undefined, { ref: false })
      }
    }
  }

  /** Ends the wait for servers that are gone, and for those that do not answer though they could. */
  async #check(confirmation: Confirmation): Promise<void> {
    const { what, waiting, begunMs, limitMs } = confirmation
    const others = await this.#services.others().catch(() => undefined)
    for (const each of [...waiting]) if (others && !others.includes(each)) confirmation.without(each)
    const waitedMs = performance.now() - begunMs
    // While this server does not receive messages, nobody else is to blame.
    const receivingMs = performance.now() - (this.#receivingSinceMs ?? Number.POSITIVE_INFINITY)
    const { confirmMs } = this.#services
    // Who is late with such a request may still be in time with everything else.
    const isRequest = typeof what === 'string' && what.startsWith(REQUEST)
    const isSilence = !isRequest && Math.min(waitedMs, receivingMs) >= confirmMs
    if (isSilence) for (const each of waiting) this.#silent.add(each)
    if (waitedMs >= limitMs) confirmation.finish()
  }

  /** On any connection where that of the signals is broken. A lost message is made up for by the poll of the others. */
  async #send(messages: readonly string[]): Promise<void> {
    const connection = this.#connection
    const run = connection && !connection.isBroken ? connection.run.bind(connection) : this.#services.run
    await Promise.allSettled(
      messages.map((message) => run(NOTIFY, [this.#channel, `${this.#services.sender} ${message}`])),
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
        this.#receivingSinceMs = performance.now()
        tried()
        failures = 0
        const broken = new Promise<void>((resolve) => connection.onBroken(resolve))
        // Messages sent before were missed.
        void this.#poll()
        void this.#services.catalogChanged()
        this.#gather()
        // Requests that were not sent, and those whose answers were missed.
        const requests = Array.from(this.#confirmations.values(), ({ message }) => message)
        void this.#send([HELLO, ...requests])
        await broken
      } catch {
        // The next attempt comes after a pause.
        tried()
      }
      this.#receivingSinceMs = undefined
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
        void this.#repeatTo(sender)
        // What it sent before may have been lost with its connection.
        void this.#services.catalogChanged()
        return
      case BYE:
        for (const confirmation of this.#confirmations.values()) confirmation.without(sender)
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
      if (store === undefined || version === undefined) continue
      this.#reached(store, version)
      this.#services.committed(store, version)
    }
  }

  /** Another server has committed to a store, and waits until this one has processed it. */
  async #confirmTo(sender: string, [id, store, request = '']: readonly string[]): Promise<void> {
    const listeners = [...(this.#watched.get(Number(store))?.listeners ?? [])]
    if (store === CATALOG) await this.#services.catalogChanged()
    else if (store === REQUEST)
      await this.#services.handle(Buffer.from(request, 'base64url').toString()).catch(() => {})
    else await Promise.allSettled(listeners.map((listener) => listener()))
    await this.#send([`${CONFIRMED}:${sender}:${id}`])
  }

  #confirmed(sender: string, [asker, id]: readonly string[]): void {
    if (asker !== this.#services.sender) return
    this.#confirmations.get(Number(id))?.without(sender)
  }

  /** It may have missed requests, or its answers were lost. */
  async #repeatTo(server: string): Promise<void> {
    const missed = [...this.#confirmations.values()].filter(({ waiting }) => waiting.has(server))
    await this.#send(missed.map(({ message }) => message))
  }

  #reached(store: number, version: number): void {
    const watched = this.#watched.get(store)
    if (!watched || version <= watched.version) return
    watched.version = version
    for (const listener of watched.listeners) void listener()
  }

  async #poll(): Promise<void> {
    if (++this.#polls % POLLS_A_LISTING === 0) void this.#services.catalogChanged()
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
