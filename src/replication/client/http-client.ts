/**
 * HTTP to one remote database: requests with the credentials of the peer, with redirects, and with transient failures
 * distinguished from permanent ones. Requests are retried with backoff where that makes sense.
 */
import { Readable } from 'node:stream'
import { Authorization } from './authorization.ts'
import type { Credentials, Place } from './credentials.ts'
import type { Agents } from './http-agents.ts'
import { HttpReply, HttpStatusError, messageOf } from './http-reply.ts'
import { isRefusal, Refusals } from './refusals.ts'
import { type RetryPolicy, retried, TransientError } from './retries.ts'

export interface ClientOptions {
  /** Of the database, with a slash at its end. */
  readonly url: string
  readonly credentials: Credentials | undefined
  readonly headers: Readonly<Record<string, string>>
  /** The connections to use now. */
  agents(): Agents
  readonly retries: RetryPolicy
  readonly version: string
}

export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT'
  /** Below the database; escaped. */
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer | SentStream
  readonly signal: AbortSignal
  /** Stays open, and has a connection of its own. */
  readonly isFeed?: boolean
}

/** A body that is sent as it is made. */
export interface SentStream {
  readonly length: number | undefined
  chunks(): AsyncIterable<string | Buffer>
}

const MOST_REDIRECTS = 10
/** A refusal in the middle of a replication may be an expired session; a permanent one is reported. */
const REFUSED_RETRIES = 5

export class HttpClient {
  readonly #url: string
  readonly #options: ClientOptions
  readonly #authorization: Authorization
  /** Where the server was redirected to as a whole: what can be sent once must not be sent to the old place first. */
  #movedTo: string | undefined
  /** Whether the server took a request of ours before. */
  #isEstablished = false

  constructor(options: ClientOptions) {
    this.#url = options.url
    this.#options = options
    this.#authorization = new Authorization(options.credentials, options.url, (place, headers, body, signal) =>
      this.#dispatch(place, { method: 'POST', headers, body, signal, isFeed: false }),
    )
  }

  /** Retries until a reply is received and read completely. */
  async exchange<T>(request: HttpRequest, use: (reply: HttpReply) => Promise<T>): Promise<T> {
    const refusals = new Refusals(this.#options.retries)
    try {
      return await retried(this.#options.retries, request.signal, () =>
        refusals.counted(async () => use(await this.send(request))),
      )
    } catch (error) {
      throw refusals.areMeant && isRefusal(error) ? error.cause : error
    }
  }

  /** One attempt. Throws `HttpStatusError` if the server refuses, and `TransientError` if a retry may succeed. */
  async send(request: HttpRequest): Promise<HttpReply> {
    let reply = await this.#sendAuthorized(request)
    if (reply.status === 401 && this.#authorization.forget()) {
      await reply.discard()
      reply = await this.#sendAuthorized(request)
    }
    this.#authorization.learn(reply)
    if (reply.isSuccess) {
      this.#isEstablished = true
      return reply
    }
    const failure = await reply.failure()
    const { status } = reply
    const isBusy = (status >= 500 && !REFUSALS.has(failure.error)) || status === 429 || status === 408
    if (isBusy) {
      throw new TransientError(failure.message, { cause: failure, retryAfterMs: retryAfterMs(reply) })
    }
    if (status === 401 && this.#isEstablished) {
      throw new TransientError(failure.message, { cause: failure, most: REFUSED_RETRIES })
    }
    throw failure
  }

  async #sendAuthorized(request: HttpRequest): Promise<HttpReply> {
    const own = new URL(this.#url)
    // Put together as texts: resolving a path would drop ids that consist of dots.
    const asked = { path: own.pathname + request.path, query: queryText(request.query) }
    let place: Place = { origin: this.#movedTo ?? own.origin, ...asked }
    let { method, body }: { method: string; body?: HttpRequest['body'] } = request
    for (let redirects = 0; ; redirects++) {
      const isOwn = isSameServer(new URL(place.origin), own)
      const { signal, isFeed = false } = request
      const headers = {
        accept: 'application/json',
        'accept-encoding': 'gzip',
        'user-agent': `Settle/${this.#options.version}`,
        // Credentials are not sent to another server.
        ...(isOwn ? this.#options.headers : {}),
        ...request.headers,
        ...(isOwn ? await this.#authorization.headersFor(method, place, signal) : {}),
      }
      const reply = await this.#dispatch(place, { method, headers, body, signal, isFeed })
      const location = reply.header('location')
      if (!REDIRECTS.has(reply.status) || location === undefined) return reply
      await reply.discard()
      if (redirects === MOST_REDIRECTS) throw new HttpStatusError(500, 'too_many_redirects', place.path)
      place = placeAt(location, place)
      if (place.path === asked.path && place.query === asked.query) this.#movedTo = place.origin
      if (reply.status === 303) {
        method = 'GET'
        body = undefined
      }
    }
  }

  async #dispatch({ origin, path, query }: Place, sent: Sent): Promise<HttpReply> {
    const { method, headers, body, signal, isFeed } = sent
    const { requests, feeds } = this.#options.agents()
    const isStream = typeof body === 'object' && !Buffer.isBuffer(body)
    const length = isStream && body.length !== undefined ? { 'content-length': String(body.length) } : {}
    const stream = isStream ? Readable.from(body.chunks(), { objectMode: false }) : undefined
    try {
      const response = await (isFeed ? feeds : requests).request({
        origin,
        path: query === '' ? path : `${path}?${query}`,
        method,
        headers: { ...headers, ...length },
        body: isStream ? (stream ?? null) : (body ?? null),
        signal,
      })
      return new HttpReply(response)
    } catch (cause) {
      signal.throwIfAborted()
      // The source of the body failed.
      if (cause instanceof TransientError) throw cause
      this.#movedTo = undefined
      throw new TransientError(`${origin} cannot be reached: ${messageOf(cause)}`, { cause })
    } finally {
      // The source of the stream is released, also if the reply came before it was sent.
      stream?.destroy()
    }
  }
}

/** Errors with status 500 that mean a bad request. */
const REFUSALS = new Set(['doc_validation'])

const REDIRECTS = new Set([301, 302, 303, 307, 308])

/** Another port is another server. A redirect may upgrade to TLS, not downgrade. */
function isSameServer(place: URL, own: URL): boolean {
  if (place.origin === own.origin) return true
  return place.hostname === own.hostname && own.protocol === 'http:' && place.protocol === 'https:'
}

function queryText(query: Readonly<Record<string, string>> = {}): string {
  return new URLSearchParams(Object.entries(query)).toString().replaceAll('+', '%20')
}

function placeAt(location: string, { origin, path }: Place): Place {
  const url = URL.parse(location, origin + path)
  if (!url || !['http:', 'https:'].includes(url.protocol)) throw new HttpStatusError(500, 'bad_redirect', path)
  return { origin: url.origin, path: url.pathname, query: url.search.slice(1) }
}

interface Sent {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: HttpRequest['body'] | undefined
  readonly signal: AbortSignal
  readonly isFeed: boolean
}

/** Seconds, or a date. */
function retryAfterMs(reply: HttpReply): number | undefined {
  const text = reply.header('retry-after') ?? ''
  const seconds = Number(text)
  const delayMs = Number.isNaN(seconds) ? Date.parse(text) - Date.now() : seconds * 1000
  return Number.isFinite(delayMs) && delayMs > 0 ? delayMs : undefined
}
