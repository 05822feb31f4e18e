/** A kept-alive connection to another node: sends one request at a time and parses its reply. */
import { createConnection, type Socket } from 'node:net'
import { type BodyDecoder, bodyDecoder } from '../../wire/body-decoder.ts'

/** Receives what happens to a request that was sent. */
export interface ForwardListener {
  /** The other node waits for the body. */
  onContinue(): void
  onHead(head: ReplyHead): void
  /** False when the connection is to pause: see `resume`. */
  onPiece(piece: Buffer): boolean
  onEnd(): void
  /** The connection closed before the reply was complete. */
  onBroken(): void
}

export interface ReplyHead {
  readonly status: number
  /** Header lines that are passed on. */
  readonly lines: string
  /** Undefined where it is not known. */
  readonly sizeBytes: number | undefined
  /** Whether the server closes the connection of its client too. */
  readonly isLast: boolean
  /** Whether the whole body came with it. */
  readonly body: Buffer | undefined
}

const HEAD_END = Buffer.from('\r\n\r\n')
const HEAD_LIMIT_BYTES = 1024 * 1024

/** Connection headers; they are set again for the connection of the client. */
const NOT_PASSED_ON = /^(?:date|connection|keep-alive|content-length|transfer-encoding):/i

export class ForwardConnection {
  readonly #socket: Socket
  #listener: ForwardListener | undefined
  #isHeadOnly = false
  #received: Buffer | undefined
  #decoder: BodyDecoder | undefined
  #isReusable = true

  /** Rejects if nothing listens there; then nothing was sent. */
  static open(path: string): Promise<ForwardConnection> {
    return new Promise((resolve, reject) => {
      const socket = createConnection(path)
      socket.once('error', reject)
      socket.once('connect', () => {
        socket.off('error', reject)
        resolve(new ForwardConnection(socket))
      })
    })
  }

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (bytes) => this.#receive(bytes))
    socket.on('error', () => {})
    socket.on('end', () => socket.destroy())
    socket.on('close', () => this.#broken())
  }

  /** Whether another request can be sent. */
  get isReusable(): boolean {
    return this.#isReusable && !this.#socket.destroyed
  }

  /** Sends the head of a request, and its body where that is short and here. */
  send(head: string, body: Buffer | undefined, isHeadOnly: boolean, listener: ForwardListener): void {
    this.#listener = listener
    this.#isHeadOnly = isHeadOnly
    if (body === undefined || body.length === 0) {
      this.#socket.write(head, 'latin1')
      return
    }
    this.#socket.cork()
    this.#socket.write(head, 'latin1')
    this.#socket.write(body)
    this.#socket.uncork()
  }

  /** A piece of the body. Resolves when the next one may come. */
  write(bytes: string | Buffer): Promise<void> | undefined {
    const socket = this.#socket
    if (socket.destroyed || socket.write(bytes, 'latin1')) return undefined
    return new Promise((resolve) => {
      const done = () => {
        socket.off('drain', done).off('close', done)
        resolve()
      }
      socket.on('drain', done).on('close', done)
    })
  }

  /** Nothing more is sent: the client has ended its side too. The reply still comes. */
  end(): void {
    this.#isReusable = false
    this.#socket.end()
  }

  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /** The client is gone, or the request cannot be completed. */
  destroy(): void {
    this.#listener = undefined
    this.#socket.destroy()
  }

  #receive(bytes: Buffer): void {
    let rest = this.#received ? Buffer.concat([this.#received, bytes]) : bytes
    this.#received = undefined
    while (rest.length > 0 && this.#listener) {
      if (this.#decoder) {
        this.#receiveBody(this.#decoder, rest)
        return
      }
      const end = rest.indexOf(HEAD_END)
      if (end < 0) {
        if (rest.length > HEAD_LIMIT_BYTES) this.#socket.destroy()
        this.#received = rest
        return
      }
      const head = rest.toString('latin1', 0, end)
      rest = rest.subarray(end + HEAD_END.length)
      rest = this.#understand(head, rest)
    }
  }

  /** Returns what of the bytes behind it is not used up. */
  #understand(head: string, rest: Buffer): Buffer {
    const listener = this.#listener
    const status = Number(head.slice(9, 12))
    if (status === 100) {
      listener?.onContinue()
      return rest
    }
    const { lines, size, isChunked, isLast } = linesOf(head)
    const hasBody = !this.#isHeadOnly && status !== 204 && status !== 304
    if (isLast) this.#isReusable = false
    const sizeBytes = isChunked ? undefined : size
    // Most replies come whole.
    if (hasBody && size !== undefined && rest.length >= size) {
      listener?.onHead({ status, lines, sizeBytes, isLast, body: rest.subarray(0, size) })
      this.#end()
      return rest.subarray(size)
    }
    listener?.onHead({ status, lines, sizeBytes, isLast, body: undefined })
    if (!hasBody) this.#end()
    else this.#decoder = bodyDecoder(isChunked ? 'chunked' : (size ?? 0))
    return rest
  }

  #receiveBody(decoder: BodyDecoder, bytes: Buffer): void {
    let isTaken = true
    decoder.decode(bytes, (piece) => {
      isTaken = (this.#listener?.onPiece(piece) ?? true) && isTaken
    })
    if (decoder.isDone) {
      this.#decoder = undefined
      this.#end()
    } else if (!isTaken) this.pause()
  }

  #end(): void {
    const listener = this.#listener
    this.#listener = undefined
    listener?.onEnd()
  }

  #broken(): void {
    const listener = this.#listener
    this.#listener = undefined
    listener?.onBroken()
  }
}

function linesOf(head: string) {
  let lines = ''
  let size: number | undefined
  let isChunked = false
  let isLast = false
  for (let at = head.indexOf('\r\n') + 2; at > 1 && at < head.length; ) {
    const next = head.indexOf('\r\n', at)
    const end = next < 0 ? head.length : next
    const line = head.slice(at, end)
    at = end + 2
    if (!NOT_PASSED_ON.test(line)) lines += `${line}\r\n`
    else if (/^content-length:/i.test(line)) size = Number(line.slice(15))
    else if (/^transfer-encoding:/i.test(line)) isChunked = true
    else if (/^connection:\s*close/i.test(line)) isLast = true
  }
  return { lines, size, isChunked, isLast }
}
