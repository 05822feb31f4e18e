/**
 * A proxy between a replicator and its peer that treats requests badly: it delays, drops, truncates and resets, and answers
 * in place of the peer. What it does is chosen by a seed. Its upstream may change while it runs, as a server that was
 * started again has another port.
 */
import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Random } from '../../crash/random.ts'

export const FAULTS = [
  'delay',
  'drop',
  'drop the reply',
  'truncate',
  'reset',
  'reset in the reply',
  'status 500',
  'status 503',
  'status 429',
  'status 401',
  'broken JSON',
  'silence',
] as const
export type Fault = (typeof FAULTS)[number]

export interface FaultProxyOptions {
  readonly random: Random
  /** The chance that a request meets a fault. */
  readonly chance: number
  readonly faults?: readonly Fault[]
}

const LONGEST_DELAY_MS = 40

export class FaultProxy {
  readonly #server: Server
  readonly #options: FaultProxyOptions
  readonly #faults: readonly Fault[]
  #upstream: URL
  #isActive = true
  /** How often each fault came. */
  readonly counts = new Map<Fault, number>()
  requests = 0

  static async start(upstream: string, options: FaultProxyOptions): Promise<FaultProxy> {
    const proxy = new FaultProxy(upstream, options)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  private constructor(upstream: string, options: FaultProxyOptions) {
    this.#upstream = new URL(upstream)
    this.#options = options
    this.#faults = options.faults ?? FAULTS
    this.#server = createServer((request, response) => this.#serve(request, response))
    // What the replicator waits for is up to it.
    this.#server.requestTimeout = 0
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo
    return `http://127.0.0.1:${port}/`
  }

  set upstream(url: string) {
    this.#upstream = new URL(url)
  }

  /** From now on everything is passed on as it is. */
  calm(): void {
    this.#isActive = false
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    this.requests++
    const { random, chance } = this.#options
    const fault = this.#isActive && random.chance(chance) ? this.#faults[random.below(this.#faults.length)] : undefined
    if (fault) this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1)
    request.on('error', () => {})
    response.on('error', () => {})
    if (fault === 'drop') request.socket.destroy()
    else if (fault === 'reset') request.socket.resetAndDestroy()
    else if (fault === 'silence') request.resume()
    else if (fault?.startsWith('status')) this.#answer(request, response, Number(fault.slice(-3)))
    else if (fault === 'broken JSON') this.#answer(request, response, request.method === 'POST' ? 201 : 200)
    else if (fault === 'delay') setTimeout(() => this.#forward(request, response), random.below(LONGEST_DELAY_MS))
    else this.#forward(request, response, fault)
  }

  /** In place of the peer, which never hears of the request. */
  #answer(request: IncomingMessage, response: ServerResponse, status: number): void {
    request.resume()
    const body =
      status < 300 ? '[{"ok":true,"id":"x","results":[{"se' : `{"error":"fault","reason":"status ${status}"}\n`
    response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': body.length })
    response.end(body)
  }

  #forward(request: IncomingMessage, response: ServerResponse, fault?: Fault): void {
    const { hostname, port } = this.#upstream
    const { method, url, headers } = request
    const outgoing = httpRequest({ hostname, port, method, path: url, headers, agent: false }, (reply) => {
      if (fault === 'drop the reply') response.socket?.destroy()
      else if (fault === 'reset in the reply') response.socket?.resetAndDestroy()
      else this.#sendBack(reply, response, fault === 'truncate')
    })
    // The peer is gone, or is being started again.
    outgoing.on('error', () => response.socket?.destroy())
    response.on('close', () => outgoing.destroy())
    request.pipe(outgoing)
  }

  #sendBack(reply: IncomingMessage, response: ServerResponse, isTruncated: boolean): void {
    response.writeHead(reply.statusCode ?? 500, reply.rawHeaders)
    reply.on('error', () => response.socket?.destroy())
    // A reply that the peer did not finish must not look finished.
    reply.on('aborted', () => response.socket?.destroy())
    if (!isTruncated) {
      reply.pipe(response)
      return
    }
    reply.once('data', (chunk: Buffer) => {
      reply.pause()
      const part = chunk.subarray(0, this.#options.random.below(chunk.length))
      response.write(part, () => response.socket?.destroy())
    })
    reply.once('end', () => response.socket?.destroy())
  }
}
