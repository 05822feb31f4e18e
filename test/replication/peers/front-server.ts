/**
 * A server in front of another one, for tests: it looks at each request, may answer it itself, and else forwards it. It
 * remembers what it was asked.
 */
import { createServer, request as httpRequest, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

export interface SeenRequest {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
}

/** Answers, or leaves the request to be forwarded: true where it answered. */
export type Answering = (request: IncomingMessage, response: ServerResponse) => boolean

export class FrontServer {
  readonly seen: SeenRequest[] = []
  readonly #server: Server
  readonly #behind: URL
  readonly #answering: Answering

  static async start(behind: URL, answering: Answering = () => false): Promise<FrontServer> {
    const front = new FrontServer(behind, answering)
    await new Promise<void>((resolve) => front.#server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => front.close())
    return front
  }

  private constructor(behind: URL, answering: Answering) {
    this.#behind = behind
    this.#answering = answering
    this.#server = createServer((request, response) => this.#serve(request, response))
  }

  get host(): string {
    const { port } = this.#server.address() as AddressInfo
    return `127.0.0.1:${port}`
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { method = 'GET', url = '/', headers } = request
    this.seen.push({ method, url, headers })
    if (this.#answering(request, response)) return
    // Whoever looks at a request may change where it goes. A proxy is asked for whole addresses.
    const { url: wanted = '/' } = request
    const target = URL.canParse(wanted) ? new URL(wanted) : new URL(wanted, this.#behind)
    const path = URL.canParse(wanted) ? target.pathname + target.search : wanted
    const outgoing = httpRequest(
      { host: target.hostname, port: target.port, method, path, headers: { ...headers, host: target.host } },
      (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(response)
        answer.on('error', () => response.destroy())
      },
    )
    outgoing.on('error', () => response.destroy())
    request.pipe(outgoing)
  }
}
