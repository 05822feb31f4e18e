/** One address that requests come in on, with TLS or without. Closing lets the requests under way finish. */
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { Duplex } from 'node:stream'
import type { TlsOptions } from 'node:tls'
import type { Log } from '../runtime/log.ts'
import { leave } from './leaving.ts'

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

const HEADERS_LIMIT_BYTES = 64 * 1024
const HEADERS_WAIT_MS = 30_000
const REQUEST_WAIT_MS = 300_000
/** Connections that fall idle while a listener closes are looked for so often. */
const CLOSING_LOOK_MS = 20

/** By connection. */
type Replies = ReadonlyMap<Duplex, ServerResponse>

export class Listener {
  readonly plan: ListenerPlan
  /** The real one. */
  readonly port: number
  readonly #server: Server
  /** The last reply of each connection, sent or not. */
  readonly #replies: Replies
  #closing: Promise<void> | undefined

  /** Throws an error whose message is a sentence for people. */
  static async open(plan: ListenerPlan, handler: RequestListener, log: Log): Promise<Listener> {
    if (plan.tls && !(plan.tls.cert && plan.tls.key)) {
      throw new Error('TLS needs ssl/cert_file and ssl/key_file, two files that can be read.')
    }
    // Kept by connection: noting each reply down and forgetting it again would cost a good part of a small request.
    const replies = new Map<Duplex, ServerResponse>()
    const server = serverFor(plan, (request, response) => {
      const { socket } = request
      const before = replies.get(socket)
      if (!before) socket.once('close', () => replies.delete(socket))
      replies.set(socket, response)
      if (!server.listening) leave(response)
      // Sent ahead of the reply to the one before, which may be what it goes by: they are done in their order.
      if (before && !before.writableFinished) before.once('close', () => handler(request, response))
      else handler(request, response)
    })
    server.on('clientError', (error, socket) => refuseInTurn(error, socket, replies.get(socket)))
    const { host, port, backlog } = plan
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error) => reject(new Error(listenFailure(error, host, port), { cause: error })))
      server.listen({ host, port, backlog }, resolve)
    })
    // Without somebody to hear of it, one connection that cannot be accepted would end the process.
    server.removeAllListeners('error').on('error', (error) => {
      log.error('A connection was not accepted.', { error: error.message })
    })
    const address = server.address()
    return new Listener(plan, typeof address === 'object' && address ? address.port : port, server, replies)
  }

  private constructor(plan: ListenerPlan, port: number, server: Server, replies: Replies) {
    this.plan = plan
    this.port = port
    this.#server = server
    this.#replies = replies
  }

  get url(): string {
    const { host, tls } = this.plan
    return `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${this.port}/`
  }

  /** Takes no new connections from now on; resolves when the last request is done, or cut off after the limit. */
  close(limitMs: number): Promise<void> {
    // Clients are told with the last reply, so that they send no further request into a connection that ends.
    for (const response of this.#replies.values()) {
      response.shouldKeepAlive = false
      leave(response)
    }
    this.#closing ??= new Promise((resolve) => {
      const look = setInterval(() => this.#server.closeIdleConnections(), CLOSING_LOOK_MS)
      const impatience = setTimeout(() => this.#server.closeAllConnections(), limitMs)
      this.#server.close(() => {
        clearInterval(look)
        clearTimeout(impatience)
        resolve()
      })
      this.#server.closeIdleConnections()
    })
    return this.#closing
  }
}

/** Why an address cannot be listened on, for people. */
export function listenFailure(error: unknown, host: string, port: number): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'EADDRINUSE') return `Port ${port} of ${host} is taken by another process.`
  if (code === 'EACCES') return `Port ${port} of ${host} is not for this user to take.`
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') return `${host} is not an address of this machine.`
  return `Cannot listen on port ${port} of ${host}: ${error instanceof Error ? error.message : error}`
}

function serverFor({ tls, noDelay, connectionLimit }: ListenerPlan, handler: RequestListener): Server {
  const options = {
    maxHeaderSize: HEADERS_LIMIT_BYTES,
    headersTimeout: HEADERS_WAIT_MS,
    keepAliveTimeout: REQUEST_WAIT_MS,
    // Uploads may take long; each body has a limit on its silence instead.
    requestTimeout: 0,
    noDelay,
  }
  const server = tls ? createSecureServer({ ...options, ...tls }, handler) : createServer(options, handler)
  server.maxConnections = connectionLimit
  // Whoever waits for a go-ahead gets it when its body is read, and not when it is refused.
  server.on('checkContinue', handler)
  return server
}

/** Whoever sent requests before gets their replies first: a refusal must not be taken for one of them. */
function refuseInTurn(error: NodeJS.ErrnoException, socket: Duplex, last: ServerResponse | undefined): void {
  const isWaiting = last?.req.complete && !last.writableFinished
  if (isWaiting) last.once('close', () => refuse(error, socket))
  else refuse(error, socket)
}

/** What cannot be read as a request, or has more headers than anybody needs. */
function refuse(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const status = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? '408 Request Timeout' : '400 Bad Request'
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`, () => socket.destroy())
}
