/**
 * One kept-alive connection to a server under test: one request at a time, sent as ready text. Cheaper than
 * `node:http`, and the same for every server, so what is measured is the server.
 */
import { connect, type Socket } from 'node:net'
import { type BodyConsumer, type Reply, ReplyReader } from './reply-reader.ts'

export interface ServerAddress {
  readonly host: string
  readonly port: number
  /** What stands before every path, without the last slash; usually nothing. */
  readonly prefix: string
  readonly authorization: string | undefined
}

type Answered = (reply: Reply) => void
type Failed = (error: Error) => void

export function addressOf(url: string): ServerAddress {
  const { hostname, port, pathname, username, password } = new URL(url)
  const user = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port || 80),
    prefix: pathname.replace(/\/$/, ''),
    authorization: username === '' ? undefined : `Basic ${Buffer.from(user).toString('base64')}`,
  }
}

export interface RequestOptions {
  readonly contentType?: string
  readonly cookie?: string
}

/** A request as it goes over the wire. Bodies are ASCII here, so their length is their size. */
export function requestText(
  server: ServerAddress,
  method: string,
  path: string,
  body?: string,
  { contentType = 'application/json', cookie }: RequestOptions = {},
): string {
  const authorization = server.authorization ? `Authorization: ${server.authorization}\r\n` : ''
  const session = cookie === undefined ? '' : `Cookie: ${cookie}\r\n`
  const head = `${method} ${server.prefix}${path} HTTP/1.1\r\nHost: ${server.host}:${server.port}\r\n${authorization}${session}Accept: application/json\r\n`
  if (body === undefined) return `${head}\r\n`
  return `${head}Content-Type: ${contentType}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

export class HttpConnection {
  readonly #socket: Socket
  #reader: ReplyReader | undefined
  #answered: Answered | undefined
  #failed: Failed | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (data) => this.#receive(data))
    socket.on('error', (error) => this.#fail(error))
    socket.on('close', () => this.#fail(new Error('The server closed the connection before it had answered.')))
  }

  static open({ host, port }: ServerAddress): Promise<HttpConnection> {
    const { promise, resolve, reject } = Promise.withResolvers<HttpConnection>()
    const socket = connect({ host, port, noDelay: true })
    socket.once('error', reject)
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve(new HttpConnection(socket))
    })
    return promise
  }

  send(request: string, answered: Answered, failed: Failed, consume?: BodyConsumer): void {
    this.#reader = new ReplyReader(consume)
    this.#answered = answered
    this.#failed = failed
    this.#socket.write(request, 'latin1')
  }

  exchange(request: string, consume?: BodyConsumer): Promise<Reply> {
    return new Promise((resolve, reject) => this.send(request, resolve, reject, consume))
  }

  /** Goes away at once, as a client that lost interest does. */
  destroy(): void {
    this.#failed = undefined
    this.#socket.destroy()
  }

  #receive(data: Buffer): void {
    const reader = this.#reader
    if (!reader) return
    try {
      if (!reader.push(data)) return
    } catch (error) {
      this.#socket.destroy()
      this.#fail(error instanceof Error ? error : new Error(String(error)))
      return
    }
    const answered = this.#answered
    this.#reader = this.#answered = this.#failed = undefined
    answered?.(reader.reply())
  }

  #fail(error: Error): void {
    const failed = this.#failed
    this.#reader = this.#answered = this.#failed = undefined
    failed?.(error)
  }
}
