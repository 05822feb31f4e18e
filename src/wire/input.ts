/**
 * The input buffer of a connection, which yields complete request heads, and the queue of connections that have
 * received something.
 */
import { checkBeginning, tooLongHead } from './request.ts'

const HEAD_LIMIT_BYTES = 64 * 1024
/** Buffers that are kept as they came; more of them are joined into one. */
const PIECES_LIMIT = 64

/** Received and not parsed yet: buffers as they were received, none of them empty. */
export class InputBuffer {
  #pieces: Buffer[] = []
  #bytes = 0
  /** A head that is not complete yet. */
  #partialHead: PartialHead | undefined

  /** How many bytes there are; those of a head that is not complete are not counted. */
  get bytes(): number {
    return this.#bytes
  }

  get first(): Buffer | undefined {
    return this.#pieces[0]
  }

  /** Whether a request has begun to arrive. */
  get hasBegun(): boolean {
    return this.#partialHead !== undefined || this.#bytes > 0
  }

  add(piece: Buffer): void {
    this.#pieces.push(piece)
    this.#bytes += piece.length
  }

  /** Pipelined requests may come in very small pieces. */
  joinPieces(): void {
    if (this.#pieces.length > PIECES_LIMIT) this.#pieces = [Buffer.concat(this.#pieces)]
  }

  /** Drops bytes of the first piece. */
  consume(count: number): void {
    const piece = this.#pieces[0]
    if (piece === undefined) return
    this.#bytes -= count
    if (count === piece.length) this.#pieces.shift()
    else this.#pieces[0] = piece.subarray(count)
  }

  /** The text of a head that is complete with the first piece, whose bytes are consumed as far as they belong to it. */
  takeHead(): string | undefined {
    const piece = this.#pieces[0]
    if (piece === undefined) return undefined
    if (this.#partialHead) return this.#continueHead(this.#partialHead, piece)
    const start = afterEmptyLines(piece)
    const end = piece.indexOf(HEAD_END, start)
    if (end >= 0) {
      this.consume(end + HEAD_END.length)
      return checkedLength(piece.toString('latin1', start, end))
    }
    if (start === piece.length) {
      this.consume(start)
      return undefined
    }
    this.#partialHead = new PartialHead()
    return this.#continueHead(this.#partialHead, start === 0 ? piece : piece.subarray(start), start)
  }

  #continueHead(head: PartialHead, piece: Buffer, skipped = 0): string | undefined {
    this.consume(skipped + head.add(piece))
    const text = head.text()
    if (text === undefined) {
      if (head.length > HEAD_LIMIT_BYTES) throw tooLongHead(head.beginning(HEAD_LIMIT_BYTES))
      return undefined
    }
    this.#partialHead = undefined
    return checkedLength(text)
  }

  /** All of it, a head that is not complete included. It stays here. */
  contents(): Buffer {
    return Buffer.concat(this.#partialHead ? [this.#partialHead.received, ...this.#pieces] : this.#pieces)
  }

  clear(): void {
    this.#pieces = []
    this.#bytes = 0
    this.#partialHead = undefined
  }
}

function checkedLength(head: string): string {
  if (head.length > HEAD_LIMIT_BYTES) throw tooLongHead(head.slice(0, HEAD_LIMIT_BYTES))
  return head
}

const HEAD_END = Buffer.from('\r\n\r\n')
const CARRIAGE_RETURN = 0x0d
const LINE_FEED = 0x0a
const FIRST_BYTES = 1024

/**
 * The beginning of a request head while the rest is still to come. Each byte is scanned once, however the head
 * arrives.
 */
class PartialHead {
  #bytes: Buffer = Buffer.allocUnsafe(FIRST_BYTES)
  #length = 0

  get length(): number {
    return this.#length
  }

  get received(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  /** Consumes the bytes of the piece that belong to the head, its end included. Returns their number. */
  add(piece: Buffer): number {
    const before = this.#length
    this.#append(piece)
    const skipped = this.#skipEmptyLines()
    const checked = Math.max(0, before - skipped)
    // The end may have begun in what was here before.
    const end = this.#bytes.subarray(0, this.#length).indexOf(HEAD_END, Math.max(0, checked - HEAD_END.length + 1))
    if (end < 0) this.#checkFrom(checked)
    else this.#length = end + HEAD_END.length
    return this.#length + skipped - before
  }

  /** The text without the empty line that ends it; undefined while that has not come. */
  text(): string | undefined {
    const end = this.#length - HEAD_END.length
    if (end < 0 || !this.#bytes.subarray(end, this.#length).equals(HEAD_END)) return undefined
    return this.#bytes.toString('latin1', 0, end)
  }

  /** The first bytes of it as text. */
  beginning(lengthBytes: number): string {
    return this.#bytes.toString('latin1', 0, Math.min(lengthBytes, this.#length))
  }

  #append(piece: Buffer): void {
    const length = this.#length + piece.length
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, this.#bytes.length * 2))
      this.#bytes.copy(larger, 0, 0, this.#length)
      this.#bytes = larger
    }
    piece.copy(this.#bytes, this.#length)
    this.#length = length
  }

  /** Empty lines may precede a head; some clients send one after a body. */
  #skipEmptyLines(): number {
    const skipped = afterEmptyLines(this.#bytes.subarray(0, this.#length))
    if (skipped === 0) return 0
    this.#bytes.copyWithin(0, skipped, this.#length)
    this.#length -= skipped
    return skipped
  }

  #checkFrom(offset: number): void {
    // The last byte that was checked may be the first half of a line end.
    const isInLineEnd = offset > 0 && this.#bytes[offset - 1] === CARRIAGE_RETURN
    checkBeginning(this.#bytes.toString('latin1', isInLineEnd ? offset - 1 : offset, this.#length))
  }
}

/** Where the first line begins that is not empty. */
function afterEmptyLines(bytes: Buffer): number {
  let at = 0
  while (bytes[at] === CARRIAGE_RETURN && bytes[at + 1] === LINE_FEED) at += 2
  return at
}

/** Enough for hundreds of small requests; other work must not wait much longer. */
const TURN_MS = 10

/** A connection on which something came in. */
export interface Arrival {
  /** Processes the received bytes. */
  serve(): void
}

let waiting: Arrival[] = []

/**
 * Connections that received something are served together, after all sockets are read: many requests then run the same
 * code in a row, with warm caches. If each were served right after its read, a small request would cost twice as much.
 * If serving takes long, the rest wait for the next turn. Must not be called again before the connection is served.
 */
export function serveTogether(arrival: Arrival): void {
  if (waiting.push(arrival) === 1) setImmediate(serveAll)
}

function serveAll(): void {
  const all = waiting
  waiting = []
  const endMs = performance.now() + TURN_MS
  for (const [i, arrival] of all.entries()) {
    arrival.serve()
    if (i === all.length - 1 || performance.now() < endMs) continue
    // New ones are queued after these.
    if (waiting.length === 0) setImmediate(serveAll)
    waiting = [...all.slice(i + 1), ...waiting]
    return
  }
}
