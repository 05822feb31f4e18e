/** The HTTP interface of a running server, as commands use it: as an administrator, from this machine or from another one. */
import { Readable } from 'node:stream'
import { Agent } from 'undici'
import { CommandError, messageOf } from './command-error.ts'
import { sizeText } from './progress.ts'

export interface ServerAddress {
  /** Ends with a slash; without credentials. */
  readonly url: string
  readonly user: string | undefined
  readonly password: string | undefined
}

/** A reply that is not a success. */
export class ServerError extends CommandError {
  readonly status: number
  readonly error: string

  constructor(status: number, error: string, reason: string, what: string) {
    const outcome = isTemporary(status, error) ? 'incomplete' : 'failed'
    super(`${what}: the server answers ${status} ${error}. ${reason}${advice(status)}`, outcome)
    this.status = status
    this.error = error
  }
}

/** A server that is overloaded, or whose disk is full: the same command may succeed later. */
function isTemporary(status: number, error: string): boolean {
  return status === 503 || error === 'commit_failed'
}

function advice(status: number): string {
  if (status !== 401 && status !== 403) return ''
  return ' Name a server administrator with --user, and the password in SETTLE_PASSWORD or with --password-file.'
}

/** The server cannot be reached, or the connection broke. */
class ConnectionError extends CommandError {
  constructor(url: string, error: unknown) {
    super(`The server at ${url} cannot be reached: ${messageOf(error)}`, 'incomplete')
  }
}

/** The timeout of a connection without any bytes in either direction. */
const IDLE_LIMIT_MS = 5 * 60_000
const CONNECT_LIMIT_MS = 30_000
/** Of a reply that is read as a whole. The longest are lists of databases. */
const LARGEST_REPLY_BYTES = 64_000_000

export class ServerClient {
  readonly #agent = new Agent({
    connect: { timeout: CONNECT_LIMIT_MS },
    headersTimeout: IDLE_LIMIT_MS,
    bodyTimeout: IDLE_LIMIT_MS,
    pipelining: 1,
  })
  readonly #base: URL
  readonly #authorization: string | undefined

  constructor({ url, user, password }: ServerAddress) {
    this.#base = new URL(url)
    if (user !== undefined) this.#authorization = `Basic ${Buffer.from(`${user}:${password ?? ''}`).toString('base64')}`
  }

  get url(): string {
    return this.#base.href
  }

  /** Throws `ServerError` and `ConnectionError`. */
  async json(method: 'GET' | 'PUT' | 'POST' | 'DELETE', path: string, body?: unknown): Promise<unknown> {
    const text = body === undefined ? null : JSON.stringify(body)
    const reply = await this.#request(method, path, text, 'application/json')
    return this.#parsed(reply.body)
  }

  /** Undefined where the answer is 404. */
  async find(path: string): Promise<unknown> {
    try {
      return await this.json('GET', path)
    } catch (error) {
      if (error instanceof ServerError && error.status === 404) return undefined
      throw error
    }
  }

  /** The body of the reply as it comes in. */
  async stream(path: string): Promise<AsyncIterable<Buffer>> {
    const reply = await this.#request('GET', path, null, undefined)
    return this.#pieces(reply.body)
  }

  /** Streams the pieces to the server, with backpressure. */
  async send(path: string, type: string, pieces: AsyncIterable<Buffer>): Promise<unknown> {
    let failure: unknown
    const watched = async function* () {
      try {
        yield* pieces
      } catch (error) {
        failure = error
        throw error
      }
    }
    try {
      const reply = await this.#request('POST', path, Readable.from(watched(), { objectMode: false }), type)
      return await this.#parsed(reply.body)
    } catch (error) {
      // The source failed, not the server.
      throw failure ?? error
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async #request(method: string, path: string, body: string | Readable | null, type: string | undefined) {
    const headers: Record<string, string> = { accept: 'application/json' }
    if (this.#authorization !== undefined) headers.authorization = this.#authorization
    if (type !== undefined) headers['content-type'] = type
    const reply = await this.#read(() =>
      this.#agent.request({
        origin: this.#base.origin,
        path: `${this.#base.pathname}${path}`,
        method,
        headers,
        body,
      }),
    )
    if (reply.statusCode < 300) return reply
    const text = await this.#read(() => this.#text(reply.body))
    const { error, reason } = errorIn(text)
    throw new ServerError(reply.statusCode, error, reason, `${method} ${path.replace(/\?.*/s, '')}`)
  }

  #parsed(body: AsyncIterable<Buffer>): Promise<unknown> {
    return this.#read(async () => JSON.parse(await this.#text(body)))
  }

  /** A reply without end must not fill the memory. */
  async #text(body: AsyncIterable<Buffer>): Promise<string> {
    const pieces: Buffer[] = []
    let bytes = 0
    for await (const piece of body) {
      bytes += piece.length
      if (bytes > LARGEST_REPLY_BYTES) {
        throw new CommandError(`An answer of ${this.url} is larger than ${sizeText(LARGEST_REPLY_BYTES)}.`)
      }
      pieces.push(piece)
    }
    return Buffer.concat(pieces, bytes).toString()
  }

  async *#pieces(body: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    try {
      yield* body
    } catch (error) {
      throw new ConnectionError(this.url, error)
    }
  }

  async #read<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read()
    } catch (error) {
      if (error instanceof CommandError) throw error
      if (error instanceof SyntaxError) throw new CommandError(`The answer of ${this.url} is not JSON.`)
      throw new ConnectionError(this.url, error)
    }
  }
}

function errorIn(text: string): { error: string; reason: string } {
  try {
    const { error, reason }: { error?: unknown; reason?: unknown } = JSON.parse(text)
    return { error: String(error ?? ''), reason: String(reason ?? '') }
  } catch {
    return { error: '', reason: '' }
  }
}

/** The path of a database, below the server's own. */
export function databasePath(name: string): string {
  return encodeURIComponent(name)
}
