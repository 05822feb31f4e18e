/** Large buffers that are used again and again. Beyond some of them, and some size, they are left to garbage collection. */

export interface ReusedBuffersOptions {
  /** All that are kept have this size; what is larger is allocated by itself. */
  readonly largestBytes: number
  /** How many are kept while nobody uses them. */
  readonly most: number
}

export class ReusedBuffers {
  readonly #options: ReusedBuffersOptions
  readonly #unused: ArrayBuffer[] = []

  constructor(options: ReusedBuffersOptions) {
    this.#options = options
  }

  /** The pieces, one after the other. */
  joined(pieces: readonly Buffer[]): Buffer {
    const size = pieces.reduce((sum, { length }) => sum + length, 0)
    const whole = this.#take(size)
    let at = 0
    for (const piece of pieces) at += piece.copy(whole, at)
    return whole
  }

  /** Nobody may use it any more. What did not come from here is left alone. */
  giveBack({ buffer }: Buffer): void {
    const { largestBytes, most } = this.#options
    if (!(buffer instanceof ArrayBuffer) || buffer.byteLength !== largestBytes) return
    if (this.#unused.length < most) this.#unused.push(buffer)
  }

  #take(size: number): Buffer {
    const { largestBytes } = this.#options
    if (size > largestBytes || size < largestBytes / SMALL_SHARE) return Buffer.allocUnsafe(size)
    const buffer = this.#unused.pop()
    return buffer ? Buffer.from(buffer, 0, size) : Buffer.from(Buffer.allocUnsafeSlow(largestBytes).buffer, 0, size)
  }
}

/** What takes less than this share of a buffer is allocated by itself. */
const SMALL_SHARE = 8
