/** The listeners of a server. They follow the configuration while it runs, without cutting off requests under way. */

import { createServer, type Socket } from 'node:net'
import type { Log } from '../../runtime/log/log.ts'
import type { Connection, RequestHandler } from '../../wire/connection.ts'
import { type ConnectionLimits, DEFAULT_LIMITS } from '../../wire/connection-limits.ts'
import type { ConnectionSlots } from './connection-slots.ts'
import {
  Listener,
  type ListenerContext,
  type ListenerPlan,
  type ListeningSockets,
  listenFailure,
  OpenConnections,
} from './listener.ts'

export interface ListenerPlans {
  readonly plain: ListenerPlan
  readonly secure?: ListenerPlan | undefined
}

export interface ListenerPorts {
  readonly plain: number | undefined
  readonly secure: number | undefined
}

export interface ListenersOptions {
  readonly limits?: () => ConnectionLimits
  /** Those of this process alone unless given. */
  readonly slots?: ConnectionSlots
  /** Called with the status of a reply that no handler made. */
  readonly onRefused?: (status: number) => void
}

/** Requests that take longer to finish are cut off when their listener closes. */
const CLOSING_LIMIT_MS = 10_000

export class Listeners {
  readonly #log: Log
  readonly #sockets: ListeningSockets
  readonly #limits: () => ConnectionLimits
  readonly #onRefused: (status: number) => void
  readonly #open: OpenConnections
  readonly #closing = new Set<Promise<void>>()
  #wasOpen = false
  #plain: Listener | undefined
  #secure: Listener | undefined

  constructor(log: Log, sockets: ListeningSockets, options: ListenersOptions = {}) {
    this.#log = log
    this.#limits = options.limits ?? (() => DEFAULT_LIMITS)
    this.#onRefused = options.onRefused ?? (() => {})
    this.#open = new OpenConnections(options.slots)
    this.#sockets = sockets
  }

  /** Where the server is reached; the plain address first. */
  get urls(): string[] {
    return [this.#plain, this.#secure].flatMap((listener) => (listener ? [listener.url] : []))
  }

  /** Connections that are open. */
  get connections(): number {
    return this.#open.count
  }

  /** The real ports of now. */
  get ports(): ListenerPorts {
    return { plain: this.#plain?.port, secure: this.#secure?.port }
  }

  /** Whether a connection without TLS can go on here. */
  get canAdopt(): boolean {
    return this.#plain !== undefined
  }

  /** Goes on with a connection without TLS that another process accepted and that has a slot. */
  adopt(socket: Socket): Connection | undefined {
    this.#open.adopt(socket)
    if (this.#plain) return this.#plain.adopt(socket)
    socket.destroy()
    return undefined
  }

  /** Throws when the plain address cannot be bound. If only the TLS address fails, the server logs it and continues. */
  async open(plans: ListenerPlans, handler: RequestHandler): Promise<void> {
    // After a restart other nodes may not have released the previous address yet.
    this.#plain = await (this.#wasOpen ? openSoon : Listener.open)(plans.plain, this.#context(handler))
    this.#wasOpen = true
    this.#secure = await this.#openSecure(plans.secure, handler)
    await this.#keepOpen()
  }

  /** Opens the new addresses, then lets the old ones finish. What cannot be opened stays where it is. */
  async move(plans: ListenerPlans, handler: RequestHandler): Promise<void> {
    const before = this.#plain
    if (before && !isSame(before, plans.plain)) {
      try {
        this.#plain = await this.#replace(before, plans.plain, handler)
      } catch (error) {
        this.#log.error(error instanceof Error ? error.message : String(error))
      }
    }
    if (this.#secure && plans.secure && isSame(this.#secure, plans.secure)) return this.#keepOpen()
    await this.#closeSecure(plans.secure?.host)
    this.#secure = await this.#openSecure(plans.secure, handler)
    await this.#keepOpen()
  }

  /** Another process is about to bind these addresses. A socket on the same port of another host would be in its way. */
  async makeWay({ plain, secure }: ListenerPlans): Promise<void> {
    const inTheWay = [
      ...(this.#plain && isInTheWay(this.#plain, plain) ? [this.#plain] : []),
      ...(this.#secure && secure && isInTheWay(this.#secure, secure) ? [this.#secure] : []),
    ]
    for (const listener of inTheWay) this.#beginClosing(listener)
    // The system closes the socket in the next turn.
    for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve))
  }

  /** Connections are refused from now on. Resolves when the last request is done. */
  async close(): Promise<void> {
    await this.#sockets.keepOnly([])
    await this.pause()
  }

  /** Connections wait from now on where their sockets are kept. Resolves when the last request is done. */
  async pause(): Promise<void> {
    for (const listener of [this.#plain, this.#secure]) if (listener) this.#beginClosing(listener)
    this.#plain = undefined
    this.#secure = undefined
    await Promise.all(this.#closing)
  }

  async #replace(before: Listener, plan: ListenerPlan, handler: RequestHandler): Promise<Listener> {
    const wanted = atPort(plan, before.port)
    if (wanted.port !== before.port) {
      const listener = await Listener.open(wanted, this.#context(handler))
      this.#beginClosing(before)
      return listener
    }
    // The same port with another address or other options: the old listener must close first.
    this.#beginClosing(before)
    this.#plain = undefined
    if (wanted.host !== before.plan.host) await this.#keepOpen()
    try {
      return await openSoon(wanted, this.#context(handler))
    } catch (error) {
      this.#log.error(error instanceof Error ? error.message : String(error))
      return openSoon({ ...before.plan, port: before.port }, this.#context(handler))
    }
  }

  async #openSecure(plan: ListenerPlan | undefined, handler: RequestHandler): Promise<Listener | undefined> {
    if (!plan) return undefined
    try {
      return await openSoon(plan, this.#context(handler))
    } catch (error) {
      this.#log.error('The TLS listener could not be opened.', {
        error: error instanceof Error ? error.message : String(error),
      })
      return undefined
    }
  }

  #context(handler: RequestHandler): ListenerContext {
    return {
      handler,
      sockets: this.#sockets,
      open: this.#open,
      log: this.#log,
      limits: this.#limits,
      onRefused: this.#onRefused,
    }
  }

  /** Its socket is kept where the next one listens on the same address. */
  async #closeSecure(nextHost: string | undefined): Promise<void> {
    const before = this.#secure
    if (!before) return
    this.#secure = undefined
    this.#beginClosing(before)
    if (before.plan.host !== nextHost) await this.#keepOpen()
  }

  async #keepOpen(): Promise<void> {
    const open = [this.#plain, this.#secure].flatMap((listener) => (listener ? [listener.address] : []))
    await this.#sockets.keepOnly(open)
  }

  #beginClosing(listener: Listener): void {
    const closed = listener.close(CLOSING_LIMIT_MS).finally(() => this.#closing.delete(closed))
    this.#closing.add(closed)
  }
}

/** Throws an error whose message is for the operator when the address cannot be bound. */
export async function probe(host: string, port: number): Promise<void> {
  const server = createServer()
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error) => reject(new Error(listenFailure(error, host, port), { cause: error })))
      server.listen({ host, port }, resolve)
    })
  } finally {
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }
}

const ATTEMPTS = 20
const ATTEMPT_PAUSE_MS = 50

/** A port that was just closed may take a moment to be free. */
async function openSoon(plan: ListenerPlan, context: ListenerContext): Promise<Listener> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await Listener.open(plan, context)
    } catch (error) {
      const { cause } = error instanceof Error ? error : { cause: undefined }
      const isTaken = cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE'
      if (!isTaken || attempt === ATTEMPTS) throw error
      await new Promise((resolve) => setTimeout(resolve, ATTEMPT_PAUSE_MS))
    }
  }
}

/** The plans, with the ports that were bound before where they say 0. */
export function atPorts({ plain, secure }: ListenerPlans, ports: ListenerPorts): ListenerPlans {
  return { plain: atPort(plain, ports.plain), secure: secure && atPort(secure, ports.secure) }
}

function atPort(plan: ListenerPlan, port: number | undefined): ListenerPlan {
  return plan.port === 0 && port !== undefined ? { ...plan, port } : plan
}

function isInTheWay({ plan, port }: Listener, wanted: ListenerPlan): boolean {
  return plan.host !== wanted.host && atPort(wanted, port).port === port
}

function isSame({ plan, port }: Listener, wanted: ListenerPlan): boolean {
  return JSON.stringify({ ...plan, port }) === JSON.stringify(atPort(wanted, port))
}
