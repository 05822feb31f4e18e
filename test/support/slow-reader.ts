/** A client that takes what it wants when it wants: what it does not read waits on the server's side. */
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { until } from './until.ts'

export class SlowReader {
  readonly #socket: Socket
  readonly #chunks: Buffer[] = []
  #bytes = 0
  #closed = false

  /** Gets the path, or posts the body there. */
  constructor({ hostname, port }: URL, path: string, body?: object) {
    this.#socket = connect(Number(port), hostname)
    const text = body ? JSON.stringify(body) : ''
    const sent = body ? `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n` : ''
    const head = `${body ? 'POST' : 'GET'} ${path} HTTP/1.1\r\nHost: ${hostname}\r\nConnection: close\r\n${sent}\r\n`
    this.#socket.write(head + text)
    this.#socket
      .on('data', (chunk) => {
        this.#chunks.push(chunk)
        this.#bytes += chunk.length
      })
      .on('error', () => {})
      .on('close', () => {
        this.#closed = true
      })
  }

  get bytes(): number {
    return this.#bytes
  }

  get isClosed(): boolean {
    return this.#closed
  }

  /** Reads this much and then stops. */
  async take(bytes: number): Promise<void> {
    const wanted = this.#bytes + bytes
    this.#socket.resume()
    while (this.#bytes < wanted && !this.#closed) await pause(1)
    this.#socket.pause()
  }

  /** Reads on to the end of the connection; everything that came, head and chunk sizes included. */
  async rest(): Promise<string> {
    this.#socket.resume()
    await until(async () => this.#closed, 60_000)
    return Buffer.concat(this.#chunks).toString('latin1')
  }

  leave(): void {
    this.#socket.destroy()
  }
}

/** The body of a reply in chunks; undefined when it broke off. */
export function wholeBody(reply: string): string | undefined {
  let rest = reply.slice(reply.indexOf('\r\n\r\n') + 4)
  const parts: string[] = []
  for (;;) {
    const end = rest.indexOf('\r\n')
    const size = Number.parseInt(rest.slice(0, end), 16)
    if (end < 0 || Number.isNaN(size)) return undefined
    if (size === 0) return parts.join('')
    parts.push(rest.slice(end + 2, end + 2 + size))
    rest = rest.slice(end + 2 + size + 2)
  }
}
