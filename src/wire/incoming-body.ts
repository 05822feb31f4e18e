/**
 * The body of a request while it comes in. What nobody has read yet is kept up to a limit; then the connection rests
 * until somebody reads. Only one reads it, once.
 */
import type { MemoryLease } from '../runtime/memory-budget.ts'
import { GrowingBuffer } from './growing-buffer.ts'
import { JoinedPieces } from './joined-pieces.ts'
import type { RequestHeaders } from './request-head.ts'

/** What a body needs of the connection that it comes on. */
export interface BodySource {
  /** Somebody reads now: who waits for a go-ahead gets it. */
  wanted(): void
  /** No more for now. */
  rest(): void
  /** Go on. */
  goOn(): void
}

/** The client went away, or what it sent is no body. */
export class BrokenOffError extends Error {
  constructor() {
    super('The request broke off.')
  }
}

const UNREAD_LIMIT_BYTES = 256 * 1024
/** Of all bodies together. Beyond it a connection is paused with the first bytes that nobody reads. */
const ALL_UNREAD_LIMIT_BYTES = 64 * 1024 * 1024

let unreadBytes = 0

const NO_PIECES: readonly Buffer[] = []

export class IncomingBody {
  readonly #source: BodySource
  /** Made when something comes in: most requests have no body. */
  #unread: JoinedPieces | undefined
  #receivedBytes = 0
  #isResting = false
  #state: 'incomplete' | 'complete' | 'broken'
  #trailers: RequestHeaders | undefined
  #wake: (() => void) | undefined

  constructor(source: BodySource, isEmpty: boolean) {
    this.#source = source
    this.#state = isEmpty ? 'complete' : 'incomplete'
  }

  /** Whether all of it has come in, be it read or not. */
  get isComplete(): boolean {
    return this.#state === 'complete'
  }

  /** What has come in so far. */
  get receivedBytes(): number {
    return this.#receivedBytes
  }

  get #unreadBytes(): number {
    return this.#unread?.sizeBytes ?? 0
  }

  /** Whether somebody waits for more of it. */
  get isAwaited(): boolean {
    return this.#wake !== undefined
  }

  /** A header that came behind the body. */
  trailer(name: string): string | undefined {
    return this.#trailers?.[name]
  }

  /** All of it that comes, piece by piece. */
  async *read(): AsyncGenerator<Buffer> {
    for (;;) {
      for (const piece of this.#take()) yield piece
      if (this.#unreadBytes > 0) continue
      if (this.isComplete) return
      await this.#arrival()
    }
  }

  /**
   * All of it at once. Undefined when there is more than the limit: the rest is then nobody's any more. What it takes in
   * memory is asked of the lease, and the client waits until it is there.
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
      }
      if (this.#unreadBytes > 0) continue
      if (this.isComplete) return await all.take()
      await this.#arrival()
    }
  }

  /** For the connection: more has come. */
  push(piece: Buffer): void {
    this.#unread ??= new JoinedPieces()
    this.#unread.add(piece)
    unreadBytes += piece.length
    this.#receivedBytes += piece.length
    const limit = unreadBytes > ALL_UNREAD_LIMIT_BYTES ? 0 : UNREAD_LIMIT_BYTES
    if (this.#unreadBytes > limit && !this.#isResting) {
      this.#isResting = true
      this.#source.rest()
    }
    this.#arrived()
  }

  /** For the connection: that was all. */
  complete(trailers: RequestHeaders): void {
    this.#trailers = trailers
    this.#state = 'complete'
    this.#arrived()
  }

  /** For the connection: there will be no more. */
  breakOff(): void {
    if (this.#state !== 'incomplete') return
    this.#state = 'broken'
    this.discard()
    this.#arrived()
  }

  /** For the connection: nobody will read what has come. */
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
    if (this.#isResting) {
      this.#isResting = false
      this.#source.goOn()
    }
    return pieces
  }

  #arrival(): Promise<void> {
    if (this.#state === 'broken') return Promise.reject(new BrokenOffError())
    this.#source.wanted()
    return new Promise((resolve, reject) => {
      this.#wake = () => (this.#state === 'broken' ? reject(new BrokenOffError()) : resolve())
    })
  }

  #arrived(): void {
    const wake = this.#wake
    this.#wake = undefined
    wake?.()
  }
}
