/** One listening address, with TLS or without. Closing lets the requests under way finish. */
import { createServer, type Server, type Socket } from 'node:net'
import { createServer as createSecureServer, type TlsOptions } from 'node:tls'
import type { Log } from '../../runtime/log/log.ts'
import { Connection, type RequestHandler } from '../../wire/connection.ts'
import type { ConnectionLimits } from '../../wire/connection-limits.ts'
import { Refusal } from '../../wire/request.ts'
import { SERVER_LINE } from '../server/answer.ts'
import { AcceptPause } from './accept-pause.ts'
import { type ConnectionSlots, ServerSlots } from './connection-slots.ts'

export interface ListenerPlan {
  readonly host: string
  /** 0 takes any free one. */
  readonly port: number
  readonly backlog: number
  readonly noDelay: boolean
  readonly connectionLimit: number
  /** Present where the listener speaks TLS. */
  readonly tls?: TlsOptions
}

/** What all listeners of a server share. */
export interface ListenerContext {
  readonly handler: RequestHandler
  readonly sockets: ListeningSockets
  readonly open: OpenConnections
  readonly log: Log
  /** Read each time they are used: they may change. */
  readonly limits: () => ConnectionLimits
  /** A reply was sent that no handler made: to what cannot be parsed, comes too slowly, or exceeds the connections. */
  readonly onRefused: (status: number) => void
}

interface Clients {
  readonly connections: ReadonlySet<Connection>
  readonly sockets: ReadonlySet<Socket>
  /** Serves a socket from now on. */
  readonly connected: (socket: Socket) => Connection
}

/** How often connections are checked for timeouts. */
const REAP_INTERVAL_MS = 5_000

export class Listener {
  readonly plan: ListenerPlan
  /** The bound port, also where the plan says 0. */
  readonly port: number
  readonly #server: Server
  readonly #connections: ReadonlySet<Connection>
  /** Sockets of TLS connections, those included that have not finished their handshake. */
  readonly #sockets: ReadonlySet<Socket>
  readonly #connected: (socket: Socket) => Connection
  /** Sockets that another process accepted. */
  readonly #adopted = new Set<Socket>()
  #closing: Promise<void> | undefined

  /** Throws an error whose message is for the operator. */
  static async open(plan: ListenerPlan, context: ListenerContext): Promise<Listener> {
    const { handler, sockets: listening, log } = context
    if (plan.tls && !(plan.tls.cert && plan.tls.key)) {
      throw new Error('TLS needs ssl/cert_file and ssl/key_file, two files that can be read.')
    }
    const connections = new Set<Connection>()
    const sockets = new Set<Socket>()
    const connected = (socket: Socket): Connection => {
      const connection = new Connection(socket, handler, SERVER_LINE, ({ status, message }) => {
        context.onRefused(status)
        log.debug('A connection was refused.', { peer: socket.remoteAddress, status, reason: message })
      })
      connections.add(connection)
      socket.once('close', () => connections.delete(connection))
      return connection
    }
    const admit = (socket: Socket) => context.open.admit(socket, plan.connectionLimit)
    const server = plan.tls
      ? secureServer({ noDelay: plan.noDelay, ...plan.tls }, { sockets, admit, connected })
      : plainServer(plan.noDelay, { admit, connected })
    const { host, port, backlog } = plan
    const kept = await listening.take(addressOf(plan))
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error) => reject(new Error(listenFailure(error, host, port), { cause: error })))
      if (kept) server.listen(kept, backlog, resolve)
      else server.listen({ host, port, backlog }, resolve)
    })
    // Without a listener for errors, one connection that cannot be accepted would end the process.
    server.removeAllListeners('error').on('error', (error) => {
      log.error('A connection was not accepted.', { error: error.message })
    })
    const listener = new Listener(
      plan,
      portOf(server) ?? port,
      server,
      { connections, sockets, connected },
      context.limits,
    )
    if (!kept) listening.keep(listener.address, server)
    return listener
  }

  private constructor(
    plan: ListenerPlan,
    port: number,
    server: Server,
    { connections, sockets, connected }: Clients,
    limits: () => ConnectionLimits,
  ) {
    this.plan = plan
    this.port = port
    this.#server = server
    this.#connections = connections
    this.#sockets = sockets
    this.#connected = connected
    const reaper = setInterval(() => {
      const nowMs = performance.now()
      const now = limits()
      for (const connection of connections) connection.reapIfIdle(nowMs, now)
    }, REAP_INTERVAL_MS).unref()
    server.once('close', () => clearInterval(reaper))
  }

  /** The real one. */
  get address(): ListeningAddress {
    return { ...addressOf(this.plan), port: this.port }
  }

  get url(): string {
    const { host, tls } = this.plan
    return `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${this.port}/`
  }

  /** Goes on with a socket that another process accepted. */
  adopt(socket: Socket): Connection {
    this.#adopted.add(socket)
    socket.once('close', () => this.#adopted.delete(socket))
    return this.#connected(socket)
  }

  /** Accepts no new connections from now on. Resolves when the last request is done, or cut off after the limit. */
  close(limitMs: number): Promise<void> {
    this.#closing ??= this.#close(limitMs)
    return this.#closing
  }

  async #close(limitMs: number): Promise<void> {
    const timeout = setTimeout(() => {
      for (const connection of this.#connections) connection.destroy()
      for (const socket of this.#sockets) socket.destroy()
    }, limitMs)
    // The server knows of those only that it has accepted itself.
    const adopted = [...this.#adopted].map((socket) => new Promise((resolve) => socket.once('close', resolve)))
    const accepted = new Promise((resolve) => this.#server.close(resolve))
    // The last reply says `Connection: close`, so clients send no further request into a connection that ends.
    for (const connection of this.#connections) connection.closeWhenDone()
    await Promise.all([accepted, ...adopted])
    clearTimeout(timeout)
  }
}

function addressOf({ host, port, tls }: ListenerPlan): ListeningAddress {
  return { host, port, isSecure: tls !== undefined }
}

function portOf(server: Server): number | undefined {
  const address = server.address()
  return typeof address === 'object' && address ? address.port : undefined
}

/** Why an address cannot be bound, for the operator. */
export function listenFailure(error: unknown, host: string, port: number): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'EADDRINUSE') return `Port ${port} of ${host} is in use by another process.`
  if (code === 'EACCES') return `This user is not allowed to listen on port ${port} of ${host}.`
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') return `${host} is not an address of this machine.`
  return `Cannot listen on port ${port} of ${host}: ${error instanceof Error ? error.message : error}`
}

interface Entrance {
  readonly admit: (socket: Socket) => Admission | Promise<Admission>
  readonly connected: (socket: Socket) => Connection
}

function plainServer(noDelay: boolean, { admit, connected }: Entrance): Server {
  return createServer({ noDelay, allowHalfOpen: true }, (socket) => {
    const enter = (admission: Admission) => {
      if (admission === 'served') connected(socket)
      else if (admission === 'refused') connected(socket).refuse(tooManyConnections())
      else socket.destroy()
    }
    const admission = admit(socket)
    if (!(admission instanceof Promise)) return enter(admission)
    // It may be reset while it waits.
    socket.on('error', () => {})
    void admission.then(enter)
  })
}

/** Connections beyond the limit are cut off here: a 503 would cost a TLS handshake first. */
function secureServer(options: TlsOptions, entrance: Entrance & { readonly sockets: Set<Socket> }): Server {
  const { sockets, admit, connected } = entrance
  const server = createSecureServer(options)
  server.on('connection', (socket: Socket) => {
    const enter = (admission: Admission) => {
      if (admission !== 'served') socket.destroy()
    }
    const admission = admit(socket)
    if (admission instanceof Promise) void admission.then(enter)
    else enter(admission)
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('secureConnection', connected)
  return server
}

function tooManyConnections(): Refusal {
  return new Refusal(503, 'Too many connections are open.', 'service_unavailable')
}

export interface ListeningAddress {
  readonly host: string
  /** 0 in a request for a socket means any port. */
  readonly port: number
  readonly isSecure: boolean
}

/**
 * Listening sockets that outlive their server process. While the server restarts, the system keeps accepting
 * connections on them, and the next process answers them: clients wait instead of being refused.
 */
export interface ListeningSockets {
  /** What `Server.listen` takes, or undefined where no socket of this address is kept. */
  take(address: ListeningAddress): Promise<object | undefined>
  /** Keeps a socket from now on, also when its server is closed. The port is the real one. */
  keep(address: ListeningAddress, server: Server): void
  /** Closes all sockets but these. */
  keepOnly(addresses: readonly ListeningAddress[]): Promise<void>
}

/** For a server without a supervisor: a socket closes with its listener. */
export const unsharedSockets: ListeningSockets = {
  take: async () => undefined,
  keep: () => {},
  keepOnly: async () => {},
}

/** Connections beyond the limit that may be answered with 503 at the same time; further ones are cut off. */
const REFUSED_LIMIT = 64

export type Admission = 'served' | 'refused' | 'cut off'

/** Counts the open connections of all listeners of a server, closing ones included: they share its descriptors. */
export class OpenConnections {
  readonly #slots: ConnectionSlots
  readonly #pause = new AcceptPause()
  #refused = 0

  constructor(slots: ConnectionSlots = new ServerSlots()) {
    this.#slots = slots
  }

  /** Those of this process. */
  get count(): number {
    return this.#slots.used
  }

  /** What to do with a new connection. */
  admit(socket: Socket, limit: number): Admission | Promise<Admission> {
    if (this.#slots.isShared) this.#pause.accepted(performance.now())
    const taking = this.#slots.take(limit)
    if (!(taking instanceof Promise)) return this.#admit(socket, taking)
    return taking.then((isTaken) => this.#admit(socket, isTaken))
  }

  /** A connection that has a slot already. */
  adopt(socket: Socket): void {
    socket.once('close', () => this.#slots.free())
  }

  #admit(socket: Socket, hasSlot: boolean): Admission {
    if (socket.destroyed) {
      // It was closed while it waited. Nothing would say so again.
      if (hasSlot) this.#slots.free()
      return 'cut off'
    }
    if (hasSlot) {
      this.adopt(socket)
      return 'served'
    }
    if (this.#refused >= REFUSED_LIMIT) return 'cut off'
    this.#refused++
    socket.once('close', () => this.#refused--)
    return 'refused'
  }
}
