/**
 * Forwards requests to the node that answers them, and its replies to the clients. Bodies stream in both directions
 * with backpressure. While the other node is not available, requests wait for it. A request that the node may have
 * begun before it ended is sent again only if it is safe (GET and the like); otherwise the client gets an error that
 * says that the outcome is unknown.
 */
import { RequestError } from '../../document/request-error.ts'
import { BodyAbortedError } from '../../wire/incoming-body.ts'
import type { Reply } from '../../wire/reply.ts'
import type { Request } from '../../wire/request.ts'
import { ForwardConnection, type ReplyHead } from './forward-connection.ts'
import { CLIENT_HEADER, clientHeader, NO_HOST_HEADER } from './forwarded-request.ts'

export interface ForwarderOptions {
  /** Where the other node listens. */
  readonly path: string
  /** The name of this node. */
  readonly node: string
  /** Resolves when the other node is available; rejects after a timeout. */
  readonly available: () => Promise<void>
}

/** Connections without a request that are kept. */
const IDLE_LIMIT = 64
/** How long a request is retried that the other node cannot have begun. */
const LIMIT_MS = 30_000
const PAUSE_MS = 20
/** How often a request that changes nothing is sent. Were it what ends the other node, it would end the next one too. */
const SENT_LIMIT = 2

/** How long after a broken connection it is known whether the other node is gone. */
const LOSS_NOTICED_MS = 100

/** How a request ended that was sent. Broken off: without a reply, which the other node itself may have cut off. */
type Outcome = 'relayed' | 'broken off' | 'unknown'

export class Forwarder {
  readonly #options: ForwarderOptions
  readonly #idle: ForwardConnection[] = []
  /** How often the other node was lost. */
  #losses = 0

  constructor(options: ForwarderOptions) {
    this.#options = options
  }

  /** Resolves when the reply is sent, or to the error for the client. */
  async forward(request: Request, reply: Reply): Promise<RequestError | undefined> {
    let sent = 0
    for (const endMs = performance.now() + LIMIT_MS; performance.now() < endMs && !reply.isGone; ) {
      const connection = await this.#connection()
      if (connection === 'unavailable') break
      if (connection === 'refused') {
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
        continue
      }
      if (reply.isGone) {
        this.#keep(connection)
        return undefined
      }
      const losses = this.#losses
      const exchange = new Exchange(connection, request, reply, this.#options.node)
      const outcome = await exchange.done
      sent++
      if (outcome === 'relayed') {
        this.#keep(connection)
        return undefined
      }
      connection.destroy()
      if (outcome === 'broken off') await new Promise((resolve) => setTimeout(resolve, LOSS_NOTICED_MS))
      if (reply.isGone) return undefined
      if (outcome === 'broken off' && losses === this.#losses) {
        // It is there, and could not finish the reply that it had begun to make.
        reply.destroy()
        return undefined
      }
      if (outcome === 'unknown' || !exchange.mayRepeat || sent === SENT_LIMIT) return outcomeUnknown()
    }
    return reply.isGone ? undefined : unavailable()
  }

  /** The other node is gone: its idle connections are closed. */
  reset(): void {
    this.#losses++
    for (const connection of this.#idle.splice(0)) connection.destroy()
  }

  /** Refused: the other node has just ended. Unavailable: it did not come back. */
  async #connection(): Promise<ForwardConnection | 'refused' | 'unavailable'> {
    try {
      await this.#options.available()
    } catch {
      return 'unavailable'
    }
    return this.#takeIdle() ?? ForwardConnection.open(this.#options.path).catch(() => 'refused' as const)
  }

  #keep(connection: ForwardConnection): void {
    if (connection.isReusable && this.#idle.length < IDLE_LIMIT) this.#idle.push(connection)
    else connection.destroy()
  }

  #takeIdle(): ForwardConnection | undefined {
    for (let connection = this.#idle.pop(); connection; connection = this.#idle.pop()) {
      if (connection.isReusable) return connection
    }
    return undefined
  }
}

/** Methods that change nothing: a request may be sent twice. */
const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS'])

/** One request and its reply. */
class Exchange {
  readonly #connection: ForwardConnection
  readonly #request: Request
  readonly #reply: Reply
  readonly #result = Promise.withResolvers<Outcome>()
  readonly #unsubscribe: (() => void)[] = []
  #hasBegunReply = false
  #hasReadBody = false
  #isBodySent = true
  #isClientDone = false
  #mayContinue: (() => void) | undefined
  #isOver = false

  constructor(connection: ForwardConnection, request: Request, reply: Reply, node: string) {
    this.#connection = connection
    this.#request = request
    this.#reply = reply
    this.#unsubscribe.push(
      reply.onGone(() => this.#finish('unknown')),
      reply.onShutdown(() => this.#shutDown()),
    )
    void this.#send(node).then(() => this.#followEnd())
  }

  /** Whether the request can be sent again, and does no harm then. */
  get mayRepeat(): boolean {
    return SAFE_METHODS.has(this.#request.method) && !this.#hasReadBody
  }

  get done(): Promise<Outcome> {
    return this.#result.promise
  }

  async #send(node: string): Promise<void> {
    const { body, hasBody, headers } = this.#request
    const isSmall = hasBody && body.isComplete && body.receivedBytes <= SMALL_BODY_BYTES
    const isChunked = headers['transfer-encoding'] !== undefined
    let whole: Buffer | undefined
    if (isSmall && !isChunked) {
      this.#hasReadBody = true
      whole = await body.collect(SMALL_BODY_BYTES)
    }
    const isStreamed = hasBody && whole === undefined
    this.#isBodySent = !isStreamed
    const isContinued = isStreamed && headers.expect !== undefined
    const mayContinue = new Promise<void>((resolve) => {
      this.#mayContinue = resolve
    })
    this.#connection.send(requestHead(this.#request, node, isContinued), whole, this.#request.method === 'HEAD', {
      onContinue: () => this.#mayContinue?.(),
      onHead: (head) => this.#begin(head),
      onPiece: (piece) => this.#relay(piece),
      onEnd: () => this.#end(),
      onBroken: () => this.#break(),
    })
    if (!isStreamed) return
    if (isContinued) await mayContinue
    if (!this.#isOver) await this.#sendBody(isChunked)
  }

  async #sendBody(isChunked: boolean): Promise<void> {
    const connection = this.#connection
    this.#hasReadBody = true
    try {
      for await (const piece of this.#request.body.read()) {
        if (this.#isOver) return
        if (isChunked) connection.write(`${piece.length.toString(16)}\r\n`)
        const full = connection.write(piece)
        if (isChunked) connection.write('\r\n')
        if (full) await full
      }
      if (isChunked) connection.write(`0\r\n${this.#trailers()}\r\n`)
      this.#isBodySent = true
    } catch (error) {
      if (!(error instanceof BodyAbortedError)) throw error
      this.#finish('unknown')
    }
  }

  /** The request is sent. A client that has ended its side may be gone: the node that answers it decides how long it waits. */
  #followEnd(): void {
    if (this.#isOver || !this.#isBodySent) return
    this.#unsubscribe.push(
      this.#reply.onClientDone(() => {
        this.#isClientDone = true
        this.#connection.end()
      }),
    )
  }

  /** The one trailer that is used: the digest of an attachment. */
  #trailers(): string {
    const digest = this.#request.body.trailer('content-md5')
    return digest === undefined ? '' : `Content-MD5: ${digest}\r\n`
  }

  #begin({ status, lines, sizeBytes, isLast, body }: ReplyHead): void {
    const reply = this.#reply
    this.#hasBegunReply = true
    this.#mayContinue?.()
    // After this side was ended it says nothing of the client's connection.
    if (isLast && !this.#isClientDone) reply.keepsAlive = false
    if (body) reply.send(status, lines, body)
    else {
      reply.begin(status, lines, sizeBytes)
      // The body may not begin for a long time.
      setImmediate(() => reply.flush())
    }
  }

  #relay(piece: Buffer): boolean {
    if (this.#reply.write(piece)) return true
    this.#reply.drained().then(() => this.#connection.resume())
    return false
  }

  #end(): void {
    this.#reply.end()
    // The rest of an unwanted body cannot be skipped.
    if (!this.#isBodySent) this.#connection.destroy()
    this.#finish('relayed')
  }

  #break(): void {
    // A client that has ended its side and waits for long counts as gone: the other node says so without a reply.
    const isLast = this.#hasBegunReply || this.#isClientDone
    if (isLast) this.#reply.destroy()
    this.#finish(isLast ? 'relayed' : 'broken off')
  }

  /** The listener closes. The other node sees the end of the connection, and ends replies that would never end. */
  #shutDown(): void {
    if (this.#hasBegunReply && this.#isBodySent) this.#connection.end()
  }

  #finish(outcome: Outcome): void {
    if (this.#isOver) return
    this.#isOver = true
    for (const each of this.#unsubscribe) each()
    if (outcome === 'unknown') this.#connection.destroy()
    this.#mayContinue?.()
    this.#result.resolve(outcome)
  }
}

const SMALL_BODY_BYTES = 64 * 1024

/** Of the connection to the client. */
const NOT_FORWARDED = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'upgrade',
  'expect',
  CLIENT_HEADER,
  NO_HOST_HEADER,
])

function requestHead(request: Request, node: string, isContinued: boolean): string {
  let head = `${request.method} ${request.url} HTTP/1.1\r\n`
  for (const name in request.headers) {
    const value = request.headers[name]
    if (value !== undefined && !NOT_FORWARDED.has(name)) head += `${name}: ${value}\r\n`
  }
  if (request.headers.host === undefined) head += `host: \r\n${NO_HOST_HEADER}: 1\r\n`
  if (isContinued) head += 'expect: 100-continue\r\n'
  return `${head}${CLIENT_HEADER}: ${clientHeader(request.addresses, node)}\r\n\r\n`
}

function outcomeUnknown(): RequestError {
  const reason = 'The node that handled the request ended. Whether the request was carried out is unknown.'
  return new RequestError('unavailable', 'service_unavailable', reason)
}

function unavailable(): RequestError {
  return new RequestError('unavailable', 'service_unavailable', 'The node that answers this request is not available.')
}
