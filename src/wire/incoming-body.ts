/** The body of a request while it is received, with backpressure and a least rate. */

import { freeBytes } from '../encoding/bytes/byte-sink.ts'
import { GrowingBuffer } from '../runtime/growing-buffer.ts'
import type { MemoryLease } from '../runtime/memory-budget.ts'
import type { ConnectionLimits } from './connection-limits.ts'

/** The connection, as its body uses it. */
export interface BodySource {
  /** Sends `100 Continue` if the client waits for it. */
  sendContinue(): void
  pause(): void
  resume(): void
  /** Refuses the request and closes the connection. */
  cutOffSlow(): void
}

/** The connection was closed before the body was complete, or the body is malformed. */
export class BodyAbortedError extends Error {
  constructor() {
    super('The request was aborted.')
  }
}

/** Headers that follow a body, by lower-case names. */
export type Trailers = Readonly<Record<string, string | undefined>>

const UNREAD_LIMIT_BYTES = 256 * 1024
/** Of all bodies together. Beyond it a connection is paused with its first unread bytes. */
const ALL_UNREAD_LIMIT_BYTES = 64 * 1024 * 1024

let unreadBytes = 0

const NO_PIECES: readonly Buffer[] = []

/** Grace period before the rate of a body counts. */
const BODY_GRACE_MS = 120_000

/**
 * The body of a request while it is received. Unread bytes are buffered up to a limit; then the connection is paused
 * until they are read. A body has one reader, which reads it once.
 */
export class IncomingBody {
  readonly #source: BodySource
  /** Made with the first bytes. */
  #unread: JoinedPieces | undefined
  #receivedBytes = 0
  #isPaused = false
  #state: 'incomplete' | 'complete' | 'broken' = 'incomplete'
  #trailers: Trailers | undefined
  #wake: (() => void) | undefined
  readonly #begunMs = performance.now()
  #checkedMs = this.#begunMs
  /** How long the server waited for it. */
  #waitedMs = 0

  /** Of a request that has no body. */
  static empty(): IncomingBody {
    const body = new IncomingBody(NO_SOURCE)
    body.#state = 'complete'
    return body
  }

  constructor(source: BodySource) {
    this.#source = source
  }

  /** Whether all of it was received, read or not. */
  get isComplete(): boolean {
    return this.#state === 'complete'
  }

  /** Bytes received so far. */
  get receivedBytes(): number {
    return this.#receivedBytes
  }

  get #unreadBytes(): number {
    return this.#unread?.sizeBytes ?? 0
  }

  /** Whether the reader waits for more. */
  get isAwaited(): boolean {
    return this.#wake !== undefined
  }

  /** To be called periodically: whether the client takes too long, given what it has sent so far. */
  isTooSlow(nowMs: number, limits: ConnectionLimits): boolean {
    if (this.isAwaited) this.#waitedMs += nowMs - this.#checkedMs
    this.#checkedMs = nowMs
    if (nowMs - this.#begunMs > limits.bodyMs) return true
    return this.#waitedMs > BODY_GRACE_MS + (this.#receivedBytes / limits.bodyBytesPerSecond) * 1000
  }

  /** Other requests wait for the memory that this one holds, and its client sends too slowly. */
  cutOff(): void {
    this.#source.cutOffSlow()
  }

  /** A header of the trailer section. */
  trailer(name: string): string | undefined {
    return this.#trailers?.[name]
  }

  /** The whole body, piece by piece. */
  async *read(): AsyncGenerator<Buffer> {
    for (;;) {
      for (const piece of this.#take()) yield piece
      if (this.#unreadBytes > 0) continue
      if (this.isComplete) return
      await this.#arrival()
    }
  }

  /**
   * The whole body in one buffer; undefined if it is longer than the limit, and the rest is then discarded. Its memory is
   * taken from the lease, and the client waits until it is granted.
   */
  async collect(limitBytes: number, lease?: MemoryLease, expectedBytes?: number): Promise<Buffer | undefined> {
    if (this.isComplete) return this.#takeWhole(limitBytes, lease)
    const all = new GrowingBuffer(expectedBytes)
    try {
      return await this.#collectInto(all, limitBytes, lease)
    } catch (error) {
      all.free()
      throw error
    }
  }

  async #collectInto(
    all: GrowingBuffer,
    limitBytes: number,
    lease: MemoryLease | undefined,
  ): Promise<Buffer | undefined> {
    for (;;) {
      for (const piece of this.#take()) {
        if (all.length + piece.length > limitBytes) {
          all.free()
          return undefined
        }
        const waiting = lease?.add(all.growthFor(piece.length))
        if (waiting) await waiting
        all.add(piece)
        // It is copied, and nobody else has it.
        freeBytes(piece)
      }
      if (this.#unreadBytes > 0) continue
      if (this.isComplete) return await all.take()
      await this.#arrival()
    }
  }

  /** For the connection: bytes were received. */
  push(piece: Buffer): void {
    this.#unread ??= new JoinedPieces()
    this.#unread.add(piece)
    unreadBytes += piece.length
    this.#receivedBytes += piece.length
    const limit = unreadBytes > ALL_UNREAD_LIMIT_BYTES ? 0 : UNREAD_LIMIT_BYTES
    if (this.#unreadBytes > limit && !this.#isPaused) {
      this.#isPaused = true
      this.#source.pause()
    }
    this.#arrived()
  }

  /** For the connection: all was received. */
  complete(trailers: Trailers): void {
    this.#trailers = trailers
    this.#state = 'complete'
    this.#arrived()
  }

  /** For the connection: the rest will not come. */
  abort(): void {
    if (this.#state !== 'incomplete') return
    this.#state = 'broken'
    this.discard()
    this.#arrived()
  }

  /** For the connection: what is unread will not be read. */
  discard(): void {
    unreadBytes -= this.#unreadBytes
    this.#unread?.take()
  }

  async #takeWhole(limitBytes: number, lease: MemoryLease | undefined): Promise<Buffer | undefined> {
    const sizeBytes = this.#unreadBytes
    if (sizeBytes > limitBytes) return undefined
    const waiting = lease?.add(sizeBytes)
    if (waiting) await waiting
    const pieces = this.#take()
    return pieces.length === 1 ? pieces[0] : Buffer.concat(pieces)
  }

  #take(): readonly Buffer[] {
    unreadBytes -= this.#unreadBytes
    const pieces = this.#unread?.take() ?? NO_PIECES
    if (this.#isPaused) {
      this.#isPaused = false
      this.#source.resume()
    }
    return pieces
  }

  #arrival(): Promise<void> {
    if (this.#state === 'broken') return Promise.reject(new BodyAbortedError())
    this.#source.sendContinue()
    return new Promise((resolve, reject) => {
      this.#wake = () => (this.#state === 'broken' ? reject(new BodyAbortedError()) : resolve())
    })
  }

  #arrived(): void {
    const wake = this.#wake
    this.#wake = undefined
    wake?.()
  }
}

const NO_SOURCE: BodySource = { sendContinue() {}, pause() {}, resume() {}, cutOffSlow() {} }

/** Pieces of this size, and those that fill half of the memory behind them, are kept as they are. */
const LARGE_BYTES = 16 * 1024
const FIRST_BLOCK_BYTES = 1024
const LARGEST_BLOCK_BYTES = 64 * 1024

/**
 * Received bytes that are not read yet. Small pieces are copied into shared blocks, so the memory held stays within a
 * small multiple of the bytes themselves, however they were cut.
 */
class JoinedPieces {
  #pieces: Buffer[] = []
  #sizeBytes = 0
  /** The block that small pieces are copied into: what was taken ends at `#start`, what is filled at `#end`. */
  #block: Buffer | undefined
  /** Of the last block. A full one belongs to whoever takes it. */
  #blockBytes = 0
  #start = 0
  #end = 0

  get sizeBytes(): number {
    return this.#sizeBytes
  }

  add(piece: Buffer): void {
    // Most bodies come in one piece.
    if (this.#sizeBytes === 0 && this.#blockBytes === 0) this.#keep(piece)
    else if (piece.length >= LARGE_BYTES && piece.length * 2 >= piece.buffer.byteLength) this.#keep(piece)
    else this.#copy(piece)
    this.#sizeBytes += piece.length
  }

  /** All of them, in order. They are no longer held here. */
  take(): Buffer[] {
    this.#closeBlock()
    const pieces = this.#pieces
    if (pieces.length > 0) this.#pieces = []
    this.#sizeBytes = 0
    return pieces
  }

  #keep(piece: Buffer): void {
    this.#closeBlock()
    this.#pieces.push(piece)
  }

  #copy(piece: Buffer): void {
    for (let at = 0; at < piece.length; ) {
      this.#block ??= this.#nextBlock()
      const copied = piece.copy(this.#block, this.#end, at)
      this.#end += copied
      at += copied
      if (this.#end === this.#blockBytes) this.#closeBlock()
    }
  }

  #nextBlock(): Buffer {
    this.#blockBytes = this.#blockBytes === 0 ? FIRST_BLOCK_BYTES : Math.min(this.#blockBytes * 2, LARGEST_BLOCK_BYTES)
    this.#start = 0
    this.#end = 0
    return Buffer.allocUnsafeSlow(this.#blockBytes)
  }

  /** What is in the block becomes a piece; the rest of the block is filled later. */
  #closeBlock(): void {
    if (this.#block === undefined || this.#start === this.#end) return
    this.#pieces.push(this.#block.subarray(this.#start, this.#end))
    this.#start = this.#end
    if (this.#end === this.#blockBytes) this.#block = undefined
  }
}
