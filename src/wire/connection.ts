/**
 * One connection: requests come in one after the other, and each goes to a handler with the reply that it may send. What
 * is sent ahead of a reply waits its turn, so requests of one connection are done in their order.
 */
import type { Socket } from 'node:net'
import { type Arrival, serveTogether } from './arrivals.ts'
import { type BodyDecoder, bodyDecoder } from './body-decoder.ts'
import { BodyProgress, type ConnectionLimits, DEFAULT_LIMITS } from './connection-limits.ts'
import { type BodySource, IncomingBody } from './incoming-body.ts'
import { afterEmptyLines, PartialHead } from './partial-head.ts'
import { Refusal } from './refusal.ts'
import { Reply, type ReplySink } from './reply.ts'
import { refusalReply } from './reply-head.ts'
import { type Ends, Request } from './request.ts'
import { parseHead, type RequestHead, tooLongHead } from './request-head.ts'
import { unsentBytes } from './unsent-bytes.ts'

export type RequestHandler = (request: Request, reply: Reply) => void

const HEAD_LIMIT_BYTES = 64 * 1024
/** So much may be sent ahead of replies; the rest stays with the client until its turn comes. */
const AHEAD_LIMIT_BYTES = 64 * 1024
/** So much is read before it is looked at. */
const TURN_LIMIT_BYTES = 512 * 1024
/** Of what waits for its turn: more of them are joined. */
const PIECES_LIMIT = 64
/** A client that is still sending gets time to read why it was refused. */
const LINGERING_LIMIT_MS = 5_000

const HEAD_END = Buffer.from('\r\n\r\n')

export class Connection implements Arrival, ReplySink, BodySource, Ends {
  readonly remoteAddress: string | undefined
  readonly #socket: Socket
  readonly #handler: RequestHandler
  readonly #refusalLines: string
  /** `lingering`: everything was said, and what still comes in is nobody's. */
  #state: 'open' | 'lingering' | 'closed' = 'open'
  #isLeaving = false
  /** Came in and belongs to no request yet: pieces as they came, none of them empty. */
  #input: Buffer[] = []
  #inputBytes = 0
  /** The head that has begun to come in. */
  #partialHead: PartialHead | undefined
  /** The request that is not answered yet, and its reply. */
  #exchange:
    | { readonly body: IncomingBody; readonly reply: Reply; readonly progress: BodyProgress | undefined }
    | undefined
  /** Of a body that is still coming in. */
  #decoder: BodyDecoder | undefined
  /** The client waits for a go-ahead before it sends its body. */
  #expectsGoAhead = false
  /** The client does not take its replies: it gets no more of them until it does. */
  #isStalled = false
  /** More came in within one turn than is looked at at once. */
  #isFull = false
  /** Something came in and was not looked at yet. */
  #hasArrived = false
  /** Of replies, when that was looked at last. */
  #unsentBytes = 0
  /** When something came in last, or was taken; within a head, when that began. */
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

  /** To be called now and then: gives up what makes no progress, or too little. */
  look(nowMs: number, limits: ConnectionLimits = DEFAULT_LIMITS): void {
    if (this.#exchange || this.#isStalled) this.#noteTaken(nowMs)
    const silentMs = nowMs - this.#sinceMs
    if (this.#state === 'lingering') {
      if (silentMs > LINGERING_LIMIT_MS) this.#socket.destroy()
    } else if (this.#exchange) {
      if (this.#isBodyTooSlow(nowMs, limits)) {
        this.#refuse(new Refusal(408, 'The request body was not sent in time.'))
      } else if (this.#socket.writableNeedDrain && silentMs > limits.silenceMs) this.#socket.destroy()
    } else if (this.#isWithinHead && !this.#isStalled) {
      if (silentMs > limits.headMs) this.#refuse(new Refusal(408, 'The request head was not sent in time.'))
    } else if (silentMs > limits.silenceMs) this.#socket.destroy()
  }

  /** A client that takes something of a reply, be it ever so little, is not silent. */
  #noteTaken(nowMs: number): void {
    if (!this.#socket.writableNeedDrain) return
    const unsent = unsentBytes(this.#socket)
    if (unsent === this.#unsentBytes) return
    this.#unsentBytes = unsent
    this.#sinceMs = nowMs
  }

  #isBodyTooSlow(nowMs: number, limits: ConnectionLimits): boolean {
    if (!this.#exchange || !this.#decoder) return false
    const { body, progress } = this.#exchange
    if (body.isAwaited && nowMs - this.#sinceMs > limits.silenceMs) return true
    return progress?.isTooSlow(nowMs, body.receivedBytes, body.isAwaited, limits) ?? false
  }

  serve(): void {
    this.#hasArrived = false
    if (this.#isFull) {
      this.#isFull = false
      this.#socket.resume()
    }
    this.#advance()
  }

  /** Ends when the reply under way is sent, or now if there is none. */
  leave(): void {
    this.#isLeaving = true
    if (this.#exchange) this.#exchange.reply.leave()
    else this.#finish()
  }

  /** Tells the client why it is not served, whatever it asks for. */
  refuse(refusal: Refusal): void {
    this.#refuse(refusal)
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
    this.#exchange?.body.discard()
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
    } else if (this.#inputBytes > 0) setImmediate(() => this.#goOnAhead())
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

  get #isWithinHead(): boolean {
    return this.#partialHead !== undefined || this.#inputBytes > 0
  }

  #receive(bytes: Buffer): void {
    if (!this.isOpen || bytes.length === 0) return
    if (!this.#isWithinHead) this.#sinceMs = performance.now()
    this.#input.push(bytes)
    this.#inputBytes += bytes.length
    // Within one turn the system may have more for us than anybody wants to hold.
    if (this.#inputBytes > TURN_LIMIT_BYTES && !this.#isFull) {
      this.#isFull = true
      this.#socket.pause()
    }
    // What waits for its turn may come in very small pieces. A body goes on as it came.
    if (this.#input.length > PIECES_LIMIT && !this.#decoder) this.#input = [Buffer.concat(this.#input)]
    if (this.#hasArrived) return
    this.#hasArrived = true
    serveTogether(this)
  }

  #advance(): void {
    try {
      for (let piece = this.#input[0]; piece !== undefined && this.isOpen; piece = this.#input[0]) {
        if (this.#decoder) this.#receiveBody(piece, this.#decoder)
        else if (this.#exchange || this.#isStalled) {
          if (this.#inputBytes > AHEAD_LIMIT_BYTES) this.#socket.pause()
          return
        } else this.#receiveHead(piece)
      }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      this.#refuse(error)
    }
  }

  #receiveBody(piece: Buffer, decoder: BodyDecoder): void {
    const body = this.#exchange?.body
    this.#consume(decoder.decode(piece, (content) => body?.push(content)))
    if (!decoder.isDone) return
    this.#decoder = undefined
    body?.complete(decoder.trailers)
  }

  /** Drops bytes of the first piece. */
  #consume(count: number): void {
    const piece = this.#input[0]
    if (piece === undefined) return
    this.#inputBytes -= count
    if (count === piece.length) this.#input.shift()
    else this.#input[0] = piece.subarray(count)
  }

  #receiveHead(piece: Buffer): void {
    if (this.#partialHead) {
      this.#continueHead(this.#partialHead, piece)
      return
    }
    const start = afterEmptyLines(piece)
    const end = piece.indexOf(HEAD_END, start)
    if (end >= 0) {
      this.#consume(end + HEAD_END.length)
      this.#begin(parseHead(checkedLength(piece.toString('latin1', start, end))))
      return
    }
    if (start === piece.length) this.#consume(start)
    else {
      this.#partialHead = new PartialHead()
      this.#continueHead(this.#partialHead, start === 0 ? piece : piece.subarray(start), start)
    }
  }

  #continueHead(head: PartialHead, piece: Buffer, skipped = 0): void {
    this.#consume(skipped + head.add(piece))
    const text = head.text()
    if (text === undefined) {
      if (head.length > HEAD_LIMIT_BYTES) throw tooLongHead(head.beginning(HEAD_LIMIT_BYTES))
      return
    }
    this.#partialHead = undefined
    this.#begin(parseHead(checkedLength(text)))
  }

  #begin(head: RequestHead): void {
    const { isOldVersion, keepsAlive, framing } = head
    const body = new IncomingBody(this, framing === 0)
    const reply = new Reply(this, { isHeadOnly: head.method === 'HEAD', isOldVersion, keepsAlive })
    this.#exchange = { body, reply, progress: framing === 0 ? undefined : new BodyProgress() }
    this.#expectsGoAhead = !isOldVersion && framing !== 0 && expectsGoAhead(head)
    if (framing !== 0) {
      this.#decoder = bodyDecoder(framing)
      // What is here already is here before anybody asks for it.
      const [ahead] = this.#input
      if (ahead !== undefined) this.#receiveBody(ahead, this.#decoder)
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
    this.#dropInput()
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
    this.#dropInput()
    exchange?.body.breakOff()
    exchange?.reply.close()
  }

  #dropInput(): void {
    this.#input = []
    this.#inputBytes = 0
    this.#partialHead = undefined
  }
}

function checkedLength(head: string): string {
  if (head.length > HEAD_LIMIT_BYTES) throw tooLongHead(head.slice(0, HEAD_LIMIT_BYTES))
  return head
}

function expectsGoAhead({ headers: { expect } }: RequestHead): boolean {
  if (expect === undefined) return false
  if (expect.toLowerCase() !== '100-continue') throw new Refusal(417, 'The expectation is not supported.')
  return true
}
