/**
 * One connection: requests come in one after the other, and each goes to a handler with the reply that it may send. What
 * is sent ahead of a reply waits its turn, so requests of one connection are done in their order.
 */
import type { Socket } from 'node:net'
import { type Arrival, serveTogether } from './arrivals.ts'
import { type BodyDecoder, bodyDecoder } from './body-decoder.ts'
import { type BodySource, IncomingBody } from './incoming-body.ts'
import { Refusal } from './refusal.ts'
import { Reply, type ReplySink } from './reply.ts'
import { refusalReply } from './reply-head.ts'
import { type Ends, Request } from './request.ts'
import { checkBeginning, parseHead, type RequestHead, tooLongHead } from './request-head.ts'

export type RequestHandler = (request: Request, reply: Reply) => void

const HEAD_LIMIT_BYTES = 64 * 1024
/** So much may be sent ahead of replies; the rest stays with the client until its turn comes. */
const AHEAD_LIMIT_BYTES = 64 * 1024
const HEAD_WAIT_MS = 30_000
/** For the next request, for more of a body, for a client to take what it asked for. */
const SILENCE_LIMIT_MS = 300_000
/** A client that is still sending gets time to read why it was refused. */
const LINGERING_LIMIT_MS = 5_000

const HEAD_END = Buffer.from('\r\n\r\n')
const CARRIAGE_RETURN = 0x0d
const LINE_FEED = 0x0a

export class Connection implements Arrival, ReplySink, BodySource, Ends {
  readonly remoteAddress: string | undefined
  readonly #socket: Socket
  readonly #handler: RequestHandler
  readonly #refusalLines: string
  /** `lingering`: everything was said, and what still comes in is nobody's. */
  #state: 'open' | 'lingering' | 'closed' = 'open'
  #isLeaving = false
  /** Came in and belongs to no request yet. */
  #input: Buffer | undefined
  /** The request that is not answered yet, and its reply. */
  #exchange: { readonly body: IncomingBody; readonly reply: Reply } | undefined
  /** Of a body that is still coming in. */
  #decoder: BodyDecoder | undefined
  /** The client waits for a go-ahead before it sends its body. */
  #expectsGoAhead = false
  /** The client does not take its replies: it gets no more of them until it does. */
  #isStalled = false
  /** Something came in and was not looked at yet. */
  #hasArrived = false
  /** When something came in last; within a head, when that began. */
  #sinceMs = performance.now()

  /** Every refusal has these header lines; replies have those of their handler. */
  constructor(socket: Socket, handler: RequestHandler, refusalLines = '') {
    this.#socket = socket
    this.#handler = handler
    this.#refusalLines = refusalLines
    this.remoteAddress = socket.remoteAddress
    socket.on('data', (bytes) => this.#receive(bytes))
    socket.on('end', () => this.#lose())
    socket.on('close', () => this.#lose())
    // The end that follows is told.
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

  get mayGoOn(): boolean {
    return this.#decoder === undefined && !this.#isLeaving
  }

  /** To be called now and then: gives up what has been silent for too long. */
  look(nowMs: number): void {
    const silentMs = nowMs - this.#sinceMs
    if (this.#state === 'lingering') {
      if (silentMs > LINGERING_LIMIT_MS) this.#socket.destroy()
    } else if (this.#exchange) {
      const isAwaited = this.#exchange.body.isAwaited || this.#socket.writableNeedDrain
      if (isAwaited && silentMs > SILENCE_LIMIT_MS) this.#socket.destroy()
    } else if (this.#input !== undefined && !this.#isStalled) {
      if (silentMs > HEAD_WAIT_MS) this.#refuse(new Refusal(408, 'The request head was not sent in time.'))
    } else if (silentMs > SILENCE_LIMIT_MS) this.#socket.destroy()
  }

  serve(): void {
    this.#hasArrived = false
    this.#advance()
  }

  /** Ends when the reply under way is sent, or now if there is none. */
  leave(): void {
    this.#isLeaving = true
    if (this.#exchange) this.#exchange.reply.leave()
    else this.#finish()
  }

  write(bytes: string | Buffer, written?: () => void): boolean {
    return this.#socket.write(bytes, 'latin1', written)
  }

  hold(): void {
    this.#socket.cork()
  }

  letGo(): void {
    this.#socket.uncork()
  }

  taken(): Promise<void> {
    const socket = this.#socket
    if (!socket.writableNeedDrain || socket.destroyed) return Promise.resolve()
    this.#sinceMs = performance.now()
    return new Promise((resolve) => {
      const done = () => {
        socket.off('drain', done).off('close', done)
        resolve()
      }
      socket.on('drain', done).on('close', done)
    })
  }

  done(): void {
    const goesOn = this.#exchange?.reply.keepsAlive && this.mayGoOn
    this.#exchange = undefined
    // It may rest because of a body that nobody will read any more.
    if (this.#socket.isPaused()) this.#socket.resume()
    this.#sinceMs = performance.now()
    if (!goesOn) this.#finish()
    else if (this.#socket.writableNeedDrain) {
      this.#isStalled = true
      this.taken().then(() => {
        this.#isStalled = false
        this.#goOnAhead()
      })
    } else if (this.#input !== undefined) setImmediate(() => this.#goOnAhead())
  }

  destroy(): void {
    this.#socket.destroy()
  }

  wanted(): void {
    if (!this.#expectsGoAhead) return
    this.#expectsGoAhead = false
    if (this.isOpen) this.#socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1')
  }

  rest(): void {
    this.#socket.pause()
  }

  goOn(): void {
    this.#socket.resume()
  }

  /** With what was sent ahead. */
  #goOnAhead(): void {
    if (!this.isOpen) return
    this.#socket.resume()
    this.#advance()
  }

  #receive(bytes: Buffer): void {
    if (!this.isOpen) return
    const input = this.#input
    if (input === undefined) this.#sinceMs = performance.now()
    this.#input = input === undefined ? bytes : Buffer.concat([input, bytes])
    if (this.#hasArrived) return
    this.#hasArrived = true
    serveTogether(this)
  }

  #advance(): void {
    try {
      while (this.#input !== undefined && this.isOpen) {
        if (this.#decoder) this.#receiveBody(this.#input, this.#decoder)
        else if (this.#exchange || this.#isStalled) {
          if (this.#input.length > AHEAD_LIMIT_BYTES) this.#socket.pause()
          return
        } else if (!this.#receiveHead(this.#input)) return
      }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      this.#refuse(error)
    }
  }

  #receiveBody(input: Buffer, decoder: BodyDecoder): void {
    const body = this.#exchange?.body
    const size = decoder.decode(input, (piece) => body?.push(piece))
    this.#input = size === input.length ? undefined : input.subarray(size)
    if (!decoder.isDone) return
    this.#decoder = undefined
    body?.complete(decoder.trailers)
  }

  /** False when there is only a part of it. */
  #receiveHead(input: Buffer): boolean {
    const start = afterEmptyLines(input)
    const end = input.indexOf(HEAD_END, start)
    if ((end < 0 ? input.length : end) - start > HEAD_LIMIT_BYTES) {
      throw tooLongHead(input.toString('latin1', start, start + HEAD_LIMIT_BYTES))
    }
    if (end < 0) {
      checkBeginning(input.toString('latin1', start))
      this.#input = start === input.length ? undefined : input.subarray(start)
      return false
    }
    const rest = end + HEAD_END.length
    this.#input = rest === input.length ? undefined : input.subarray(rest)
    this.#begin(parseHead(input.toString('latin1', start, end)))
    return true
  }

  #begin(head: RequestHead): void {
    const { isOldVersion, keepsAlive, framing } = head
    const body = new IncomingBody(this, framing === 0)
    const reply = new Reply(this, { isHeadOnly: head.method === 'HEAD', isOldVersion, keepsAlive })
    this.#exchange = { body, reply }
    this.#expectsGoAhead = !isOldVersion && framing !== 0 && expectsGoAhead(head)
    if (framing !== 0) {
      this.#decoder = bodyDecoder(framing)
      // What is here already is here before anybody asks for it.
      if (this.#input !== undefined) this.#receiveBody(this.#input, this.#decoder)
    }
    if (this.#isLeaving) reply.leave()
    this.#handler(new Request(head, body, this), reply)
  }

  /** Nothing of what follows can be understood. */
  #refuse(refusal: Refusal): void {
    const isBegun = this.#exchange?.reply.isBegun ?? false
    this.#breakOff()
    if (isBegun) this.#socket.destroy()
    else {
      this.#socket.write(refusalReply(refusal, this.#refusalLines), 'latin1')
      this.#linger()
    }
  }

  /** Everything is said. */
  #finish(): void {
    if (!this.isOpen) return
    if (this.#decoder !== undefined) {
      this.#linger()
      return
    }
    this.#state = 'closed'
    this.#socket.destroySoon()
  }

  /** To cut off who is still sending would take from it the reply that it has not read. */
  #linger(): void {
    this.#state = 'lingering'
    this.#input = undefined
    this.#sinceMs = performance.now()
    this.#socket.end()
    this.#socket.resume()
  }

  /** The client is gone. */
  #lose(): void {
    // What it sent before it went counts.
    if (this.#hasArrived) this.serve()
    if (this.#state !== 'closed') this.#socket.destroySoon()
    this.#state = 'closed'
    this.#breakOff()
  }

  #breakOff(): void {
    const exchange = this.#exchange
    this.#exchange = undefined
    this.#input = undefined
    exchange?.body.breakOff()
    exchange?.reply.close()
  }
}

/** Some clients send one after a body. */
function afterEmptyLines(input: Buffer): number {
  let at = 0
  while (input[at] === CARRIAGE_RETURN && input[at + 1] === LINE_FEED) at += 2
  return at
}

function expectsGoAhead({ headers: { expect } }: RequestHead): boolean {
  if (expect === undefined) return false
  if (expect.toLowerCase() !== '100-continue') throw new Refusal(417, 'The expectation is not supported.')
  return true
}
