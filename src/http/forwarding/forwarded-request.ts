/**
 * Requests that one node forwards to another, over a socket that only nodes can reach. They are sent as clients sent
 * them, with one or two more headers: the address of the client and the address it connected to.
 */
import { rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { Connection, type RequestHandler } from '../../wire/connection.ts'
import type { Request, SocketAddresses } from '../../wire/request.ts'
import { SERVER_LINE } from '../server/answer.ts'

export const CLIENT_HEADER = 'x-settle-client'
/** The client named no host, as HTTP/1.0 allows: the one that is sent means nothing. */
export const NO_HOST_HEADER = 'x-settle-no-host'

/** The other node knows clients by a number, so that it recognizes several requests of one client. */
export function clientHeader(addresses: SocketAddresses, node: string): string {
  const known = clientHeaders.get(addresses)
  if (known !== undefined) return known
  const { remoteAddress, localAddress, localPort, isEncrypted } = addresses
  const client = `${node}-${++lastClient}`
  const header = JSON.stringify([client, remoteAddress, localAddress, localPort, isEncrypted])
  clientHeaders.set(addresses, header)
  return header
}

const clientHeaders = new WeakMap<SocketAddresses, string>()
let lastClient = 0

/** Clients that are remembered. The others are authenticated again. */
const CLIENTS_LIMIT = 20_000

/** Where a node answers forwarded requests. */
export class ForwardedRequests {
  readonly #path: string
  readonly #server: Server
  readonly #connections = new Set<Connection>()
  readonly #clients = new Map<string, SocketAddresses>()

  static async listen(path: string, handler: RequestHandler): Promise<ForwardedRequests> {
    await rm(path, { force: true })
    const requests = new ForwardedRequests(path, handler)
    await new Promise<void>((resolve, reject) => {
      requests.#server.once('error', reject).listen(path, resolve)
    })
    // Without a listener for errors, one connection that cannot be accepted would end the process.
    requests.#server.removeAllListeners('error').on('error', () => {})
    return requests
  }

  private constructor(path: string, handler: RequestHandler) {
    this.#path = path
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      const connection = new Connection(
        socket,
        (request, reply) => handler(request.from(this.#clientOf(request)), reply),
        SERVER_LINE,
      )
      this.#connections.add(connection)
      // The client may be gone, or its node is about to end: a reply without an end ends.
      socket.once('end', () => connection.closeWhenDone())
      socket.once('close', () => this.#connections.delete(connection))
    })
  }

  /** No more requests are accepted. Resolves when the last request is done, or aborted after the limit. */
  async close(limitMs: number): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    // Requests that were sent before the nodes knew of it are read in this turn or the next one.
    for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve))
    const limit = setTimeout(() => {
      for (const connection of this.#connections) connection.destroy()
    }, limitMs)
    for (const connection of this.#connections) connection.closeWhenDone()
    await closed
    clearTimeout(limit)
    await rm(this.#path, { force: true })
  }

  #clientOf({ headers, addresses }: Request): SocketAddresses {
    const text = headers[CLIENT_HEADER]
    delete headers[CLIENT_HEADER]
    if (headers[NO_HOST_HEADER] !== undefined) {
      delete headers[NO_HOST_HEADER]
      delete headers.host
    }
    if (text === undefined) return addresses
    const known = this.#clients.get(text)
    if (known) return known
    const [, remoteAddress, localAddress, localPort, isEncrypted] = JSON.parse(text)
    const client: SocketAddresses = {
      remoteAddress: remoteAddress ?? undefined,
      localAddress: localAddress ?? undefined,
      localPort: localPort ?? undefined,
      isEncrypted,
    }
    const [oldest] = this.#clients.keys()
    if (this.#clients.size >= CLIENTS_LIMIT && oldest !== undefined) this.#clients.delete(oldest)
    this.#clients.set(text, client)
    return client
  }
}
