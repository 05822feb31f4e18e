/**
 * Reads one HTTP/1.1 reply from the pieces in which a socket delivers it. It understands what a database answers,
 * a counted or a chunked body, and nothing more, so that the load generator costs little beside the server it loads.
 */

export interface Reply {
  readonly status: number
  /** Empty when the pieces went to a consumer. */
  readonly body: Buffer
}

export type BodyConsumer = (piece: Buffer) => void

/** An answer that does not end must not fill the memory of the machine. */
const BODY_LIMIT_BYTES = 256 * 1024 * 1024
const HEAD_END = '\r\n\r\n'
const NOTHING: Buffer = Buffer.alloc(0)

export class ReplyReader {
  readonly #consume: BodyConsumer
  readonly #pieces: Buffer[] = []
  #phase: 'head' | 'counted' | 'chunk-line' | 'chunk' | 'last-line' | 'done' = 'head'
  #status = 0
  #unread = NOTHING
  #collectedBytes = 0
  /** Bytes of the counted body, or of the chunk and its line end, that are still to come. */
  #remaining = 0

  constructor(consume?: BodyConsumer) {
    this.#consume = consume ?? ((piece) => this.#collect(piece))
  }

  /** True once the reply is complete. */
  push(data: Buffer): boolean {
    let input = this.#unread.length === 0 ? data : Buffer.concat([this.#unread, data])
    this.#unread = NOTHING
    while (this.#phase !== 'done') {
      const used = this.#step(input)
      if (used === 0) {
        this.#unread = input
        return false
      }
      input = input.subarray(used)
    }
    if (input.length > 0) throw new Error('The server sent more than one reply to a request.')
    return true
  }

  reply(): Reply {
    const [first = NOTHING, ...others] = this.#pieces
    return { status: this.#status, body: others.length === 0 ? first : Buffer.concat(this.#pieces) }
  }

  #collect(piece: Buffer): void {
    this.#pieces.push(piece)
    this.#collectedBytes += piece.length
    if (this.#collectedBytes > BODY_LIMIT_BYTES) throw new Error('The answer does not seem to end.')
  }

  /** Takes what it can use of the input; 0 when more is needed first. */
  #step(input: Buffer): number {
    if (this.#phase === 'head') return this.#readHead(input)
    if (this.#phase === 'counted') return this.#readCounted(input)
    if (this.#phase === 'chunk') return this.#readChunk(input)
    return this.#readLine(input)
  }

  #readHead(input: Buffer): number {
    const end = input.indexOf(HEAD_END)
    if (end < 0) return 0
    const head = input.toString('latin1', 0, end)
    this.#status = Number(head.slice(9, 12))
    const counted = /\ncontent-length: *(\d+)/i.exec(head)
    if (counted) {
      this.#remaining = Number(counted[1])
      this.#phase = this.#remaining > 0 ? 'counted' : 'done'
    } else if (/\ntransfer-encoding: *chunked/i.test(head)) this.#phase = 'chunk-line'
    else if (this.#status === 204 || this.#status === 304) this.#phase = 'done'
    else throw new Error(`A reply with neither length nor chunks: ${head}`)
    return end + HEAD_END.length
  }

  #readCounted(input: Buffer): number {
    const taken = Math.min(this.#remaining, input.length)
    if (taken === 0) return 0
    this.#consume(taken === input.length ? input : input.subarray(0, taken))
    this.#remaining -= taken
    if (this.#remaining === 0) this.#phase = 'done'
    return taken
  }

  #readChunk(input: Buffer): number {
    const taken = Math.min(this.#remaining, input.length)
    const text = Math.min(this.#remaining - 2, taken)
    if (text > 0) this.#consume(input.subarray(0, text))
    this.#remaining -= taken
    if (this.#remaining === 0) this.#phase = 'chunk-line'
    return taken
  }

  #readLine(input: Buffer): number {
    const end = input.indexOf('\r\n')
    if (end < 0) return 0
    if (this.#phase === 'last-line') {
      if (end === 0) this.#phase = 'done'
      return end + 2
    }
    const size = Number.parseInt(input.toString('latin1', 0, end), 16)
    if (Number.isNaN(size)) throw new Error('The size of a chunk is not a number.')
    this.#phase = size === 0 ? 'last-line' : 'chunk'
    this.#remaining = size + 2
    return end + 2
  }
}
