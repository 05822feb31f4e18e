/**
 * One HTTP/1.1 connection: it parses requests and hands each to the handler with its reply, one at a time. Pipelined
 * requests wait until the previous reply is sent, so requests are handled in order.
 */
import type { SendHandle } from 'node:child_process'
import type { Socket } from 'node:net'
import { type BodyDecoder, bodyDecoder } from './body-decoder.ts'
import { type ConnectionLimits, DEFAULT_LIMITS, sentBytes } from './connection-limits.ts'
import { type BodySource, IncomingBody } from './incoming-body.ts'
import { type Arrival, InputBuffer, serveTogether } from './input.ts'
import { Reply, type ReplySink, refusalReply } from './reply.ts'
import { parseHead, Refusal, Request, type RequestHead, type SocketAddresses } from './request.ts'
import { startReading, stopReading } from './socket-handle.ts'

export type RequestHandler = (request: Request, reply: Reply) => void

/** What another process needs to go on with a connection. */
export interface DetachedSocket {
  readonly handle: SendHandle
  /** Read from it, and not handled. */
  readonly received: Buffer
}

/** Pipelined bytes that are buffered; beyond it the socket is paused. */
const AHEAD_LIMIT_BYTES = 64 * 1024
/** Bytes that are read within one turn of the event loop; beyond it the socket is paused. */
const TURN_LIMIT_BYTES = 512 * 1024
/** How long a handler that watches its client may take for one that has ended its side. */
const HALF_CLOSED_MS = 1000
/** How long a client that is still sending gets to read why it was refused. */
const LINGERING_LIMIT_MS = 5_000

export class Connection implements Arrival, ReplySink, BodySource, SocketAddresses {
  readonly remoteAddress: string | undefined
  readonly #socket: Socket
  readonly #handler: RequestHandler
  readonly #refusalLines: string
  readonly #onRefused: (refusal: Refusal) => void
  /** `lingering`: the last reply is sent, and what still comes in is dropped. */
  #state: 'open' | 'lingering' | 'closed' = 'open'
  #isClosing = false
  readonly #input = new InputBuffer()
  /** The request that is not answered yet, and its reply. */
  #exchange: { readonly body: IncomingBody | undefined; readonly reply: Reply } | undefined
  /** Set while a body is being received. */
  #decoder: BodyDecoder | undefined
  /** The client waits for `100 Continue` before it sends its body. */
  #expectsContinue = false
  /** Backpressure: no further request is handled until the client has read its replies. */
  #isStalled = false
  /** Paused, since more came in within one turn than is parsed at once. */
  #isFull = false
  /** Queued in `input.ts`. */
  #hasArrived = false
  /** The client has ended its side: it may still read, or be gone. */
  #isHalfClosed = false
  /** Nothing is read or handled: another process may be about to go on with the socket. */
  #isDetached = false
  #requests = 0
  /** The send queue at the last check. */
  #sentBytes = 0
  /** When something was received or sent last; within a head, when that began. */
  #lastActivityMs = performance.now()

  /** `refusalLines` are the header lines of every refusal; replies have those of their handler. */
  constructor(
    socket: Socket,
    handler: RequestHandler,
    refusalLines = '',
    onRefused: (refusal: Refusal) => void = () => {},
  ) {
    this.#socket = socket
    this.#handler = handler
    this.#refusalLines = refusalLines
    this.#onRefused = onRefused
    this.remoteAddress = socket.remoteAddress
    socket.on('data', (bytes) => this.#receive(bytes))
    socket.on('end', () => this.#onEnd())
    socket.on('close', () => this.#onClose())
    // `close` follows.
    socket.on('error', () => {})
  }

  get localAddress(): string | undefined {
    return this.#socket.localAddress
  }

  get localPort(): number | undefined {
    return this.#socket.localPort
  }

  get isEncrypted(): boolean {
    return 'encrypted' in this.#socket
  }

  get isOpen(): boolean {
    return this.#state === 'open'
  }

  /** How many requests were begun. */
  get requests(): number {
    return this.#requests
  }

  get canKeepAlive(): boolean {
    return this.#decoder === undefined && !this.#isClosing
  }

  /** To be called periodically: closes the connection if it makes no progress, or too little. */
  reapIfIdle(nowMs: number, limits: ConnectionLimits = DEFAULT_LIMITS): void {
    this.#noteSent(nowMs)
    const silentMs = nowMs - this.#lastActivityMs
    if (this.#state === 'lingering') {
      const limitMs = this.#socket.writableLength > 0 ? limits.silenceMs : LINGERING_LIMIT_MS
      if (silentMs > limitMs) this.#socket.destroy()
    } else if (this.#exchange) {
      if (this.#isBodyTooSlow(nowMs, limits)) {
        this.#refuse(new Refusal(408, 'The request body was not sent in time.'))
      } else if (this.#socket.writableNeedDrain && silentMs > limits.silenceMs) this.#socket.destroy()
    } else if (this.#input.hasBegun && !this.#isStalled) {
      if (silentMs > limits.headMs) this.#refuse(new Refusal(408, 'The request head was not sent in time.'))
    } else if (silentMs > limits.silenceMs) this.#socket.destroy()
  }

  /** A client that reads any of its reply, however little, is not idle. */
  #noteSent(nowMs: number): void {
    if (this.#socket.writableLength === 0) return
    const sent = sentBytes(this.#socket)
    if (sent === this.#sentBytes) return
    this.#sentBytes = sent
    this.#lastActivityMs = nowMs
  }

  #isBodyTooSlow(nowMs: number, limits: ConnectionLimits): boolean {
    if (!this.#exchange || !this.#decoder) return false
    const { body } = this.#exchange
    if (body?.isAwaited && nowMs - this.#lastActivityMs > limits.silenceMs) return true
    return body?.isTooSlow(nowMs, limits) ?? false
  }

  serve(): void {
    this.#hasArrived = false
    if (this.#isFull) {
      this.#isFull = false
      this.#socket.resume()
    }
    this.#advance()
  }

  /**
   * Stops reading and handling, so that another process can go on with the socket; until `reattach` or `release`. Undefined
   * where that cannot be, above all while a request is under way.
   */
  detach(): DetachedSocket | undefined {
    if (!this.isOpen || !this.#isIdle || this.#isDetached || this.#isClosing || this.#isHalfClosed) return undefined
    const received = this.#input.contents()
    if (received.length > AHEAD_LIMIT_BYTES) return undefined
    const handle = stopReading(this.#socket)
    if (!handle) return undefined
    this.#isDetached = true
    return { handle, received }
  }

  /** No other process has it: goes on as before. */
  reattach(): void {
    if (!this.#isDetached) return
    this.#isDetached = false
    if (!this.isOpen) return
    startReading(this.#socket)
    this.#advance()
  }

  /** Another process has the socket. It is closed here, which the client does not notice. */
  release(): void {
    this.#state = 'closed'
    this.#socket.destroy()
  }

  /** Between two requests, with nothing left to be sent, or received by Node and not given to us. */
  get #isIdle(): boolean {
    const socket = this.#socket
    const isBusy = this.#exchange !== undefined || this.#isStalled || socket.isPaused()
    return !isBusy && socket.writableLength === 0 && socket.readableLength === 0
  }

  /** Closes after the reply under way, or now if there is none. */
  closeWhenDone(): void {
    this.#isClosing = true
    if (this.#exchange) this.#exchange.reply.shutDown()
    else if (this.#state === 'lingering') this.#socket.destroySoon()
    else this.#finish()
  }

  /** Answers with the refusal, whatever is requested, and closes. */
  refuse(refusal: Refusal): void {
    this.#refuse(refusal)
  }

  write(bytes: string | Buffer, written?: (error?: Error | null) => void): boolean {
    return this.#socket.write(bytes, 'latin1', written)
  }

  cork(): void {
    this.#socket.cork()
  }

  uncork(): void {
    this.#socket.uncork()
  }

  drained(): Promise<void> {
    const socket = this.#socket
    if (!socket.writableNeedDrain || socket.destroyed) return Promise.resolve()
    this.#lastActivityMs = performance.now()
    return new Promise((resolve) => {
      const done = () => {
        socket.off('drain', done).off('close', done)
        resolve()
      }
      socket.on('drain', done).on('close', done)
    })
  }

  done(): void {
    const mayFollow = !this.#isHalfClosed || this.#input.bytes > 0
    const isKeptAlive = this.#exchange?.reply.keepsAlive && this.canKeepAlive && mayFollow
    this.#exchange?.body?.discard()
    this.#exchange = undefined
    // It may be paused because of a body that nobody will read any more.
    if (this.#socket.isPaused()) this.#socket.resume()
    this.#lastActivityMs = performance.now()
    if (!isKeptAlive) this.#finish()
    else if (this.#socket.writableNeedDrain) {
      this.#isStalled = true
      this.drained().then(() => {
        this.#isStalled = false
        this.#resumePipeline()
      })
    } else if (this.#input.bytes > 0) setImmediate(() => this.#resumePipeline())
  }

  destroy(): void {
    this.#socket.destroy()
  }

  sendContinue(): void {
    if (!this.#expectsContinue) return
    this.#expectsContinue = false
    if (this.isOpen) this.#socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1')
  }

  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  cutOffSlow(): void {
    if (this.#decoder) this.#refuse(new Refusal(408, 'The request body was sent too slowly while others waited.'))
  }

  /** Continues with pipelined requests. */
  #resumePipeline(): void {
    if (!this.isOpen || this.#isDetached) return
    this.#socket.resume()
    this.#advance()
  }

  #receive(bytes: Buffer): void {
    if (!this.isOpen || bytes.length === 0) return
    if (!this.#input.hasBegun) this.#lastActivityMs = performance.now()
    this.#input.add(bytes)
    // Within one turn the system may deliver more than should be buffered.
    if (this.#input.bytes > TURN_LIMIT_BYTES && !this.#isFull) {
      this.#isFull = true
      this.#socket.pause()
    }
    // Pieces of a body are passed on as they came.
    if (!this.#decoder) this.#input.joinPieces()
    if (this.#hasArrived) return
    this.#hasArrived = true
    serveTogether(this)
  }

  #advance(): void {
    if (this.#isDetached) return
    try {
      for (let piece = this.#input.first; piece !== undefined && this.isOpen; piece = this.#input.first) {
        if (this.#decoder) this.#receiveBody(piece, this.#decoder)
        else if (this.#exchange || this.#isStalled) {
          // Nothing is a request after the last one, and a socket that is paused would not tell when its client goes.
          if (this.#exchange && !this.#exchange.reply.keepsAlive) this.#input.clear()
          else if (this.#input.bytes > AHEAD_LIMIT_BYTES) this.#socket.pause()
          return
        } else {
          const head = this.#input.takeHead()
          if (head !== undefined) this.#begin(parseHead(head))
        }
      }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      this.#refuse(error)
    }
    // The client has ended its side: a request that is not complete now never will be.
    if (this.#isHalfClosed && this.isOpen && (this.#decoder || !(this.#exchange || this.#isStalled))) this.#onClose()
  }

  #receiveBody(piece: Buffer, decoder: BodyDecoder): void {
    const body = this.#exchange?.body
    this.#input.consume(decoder.decode(piece, (content) => body?.push(content)))
    if (!decoder.isDone) return
    this.#decoder = undefined
    body?.complete(decoder.trailers)
  }

  #begin(head: RequestHead): void {
    this.#requests++
    const { isHttp10: isOldVersion, keepsAlive, framing } = head
    const body = framing === 0 ? undefined : new IncomingBody(this)
    const reply = new Reply(this, { isHeadOnly: head.method === 'HEAD', isHttp10: isOldVersion, keepsAlive })
    this.#exchange = { body, reply }
    this.#expectsContinue = !isOldVersion && framing !== 0 && expectsContinue(head)
    if (framing !== 0) {
      this.#decoder = bodyDecoder(framing)
      // Bytes that came with the head are in the body before the handler asks for them.
      const ahead = this.#input.first
      if (ahead !== undefined) this.#receiveBody(ahead, this.#decoder)
    }
    if (this.#isClosing) reply.shutDown()
    if (this.#isHalfClosed) reply.clientDone()
    this.#handler(new Request(head, body, this), reply)
  }

  /** Nothing that follows can be parsed. */
  #refuse(refusal: Refusal): void {
    const isBegun = this.#exchange?.reply.isBegun ?? false
    this.#abortExchange()
    if (isBegun) this.#socket.destroy()
    else {
      this.#socket.write(refusalReply(refusal, this.#refusalLines), 'latin1')
      this.#onRefused(refusal)
      this.#linger()
    }
  }

  /** The last reply is sent. A client that has not ended its side may still be sending, whatever it has sent so far. */
  #finish(): void {
    if (!this.isOpen) return
    const mayClose = this.#isHalfClosed || (this.#isClosing && this.#decoder === undefined)
    if (!mayClose) {
      this.#linger()
      return
    }
    this.#state = 'closed'
    this.#socket.destroySoon()
  }

  /** Closing at once would reset the connection of a client that is still sending, and lose the reply. */
  #linger(): void {
    this.#state = 'lingering'
    this.#input.clear()
    this.#lastActivityMs = performance.now()
    this.#socket.end()
    this.#socket.resume()
  }

  /**
   * The client sends nothing more. Whether it still reads or is gone cannot be known, so complete requests are
   * answered. Handlers that watch their client get a short time.
   */
  #onEnd(): void {
    if (this.#hasArrived) this.serve()
    this.#isHalfClosed = true
    // Pipelined requests may wait for their turn right now.
    if (this.isOpen && !this.#exchange && !this.#isStalled && this.#input.bytes > 0) this.#advance()
    const isWaiting = this.#exchange !== undefined || (this.#isStalled && this.#input.bytes > 0)
    if (!this.isOpen || !isWaiting || this.#decoder) {
      this.#onClose()
      return
    }
    this.#exchange?.reply.clientDone()
    const watch = setInterval(() => {
      const isReading = this.#socket.writableLength > 0
      if (this.isOpen && (isReading || !this.#exchange?.reply.isWatched)) return
      clearInterval(watch)
      if (this.isOpen) this.#onClose()
    }, HALF_CLOSED_MS).unref()
  }

  /** The socket is closed. */
  #onClose(): void {
    // What was received before the close counts.
    if (this.#hasArrived) this.serve()
    if (this.#state !== 'closed') this.#socket.destroySoon()
    this.#state = 'closed'
    this.#abortExchange()
  }

  #abortExchange(): void {
    const exchange = this.#exchange
    this.#exchange = undefined
    this.#input.clear()
    exchange?.body?.abort()
    exchange?.reply.close()
  }
}

function expectsContinue({ headers: { expect } }: RequestHead): boolean {
  if (expect === undefined) return false
  if (expect.toLowerCase() !== '100-continue') throw new Refusal(417, 'The expectation is not supported.')
  return true
}
