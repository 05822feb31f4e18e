/** Bytes that are put together in one buffer whose end is not known before. It holds at most twice what it was given. */
const FIRST_BYTES = 16 * 1024

export class GrowingBuffer {
  #bytes: Buffer<ArrayBuffer> = Buffer.alloc(0)
  #length = 0
  readonly #expectedBytes: number

  /** What is expected in all, where that is known: it is never made larger than that without need. */
  constructor(expectedBytes = Number.POSITIVE_INFINITY) {
    this.#expectedBytes = expectedBytes
  }

  get length(): number {
    return this.#length
  }

  /** What it holds once so many more bytes are added. */
  #capacityWith(moreBytes: number): number {
    const needed = this.#length + moreBytes
    if (needed <= this.#bytes.length) return this.#bytes.length
    const doubled = Math.max(needed, this.#bytes.length * 2, FIRST_BYTES)
    return needed <= this.#expectedBytes ? Math.min(doubled, this.#expectedBytes) : doubled
  }

  /** How many bytes of memory it takes to add so many more. */
  growthFor(moreBytes: number): number {
    return this.#capacityWith(moreBytes) - this.#bytes.length
  }

  add(piece: Buffer): void {
    const capacity = this.#capacityWith(piece.length)
    if (capacity > this.#bytes.length) this.#grow(capacity)
    piece.copy(this.#bytes, this.#length)
    this.#length += piece.length
  }

  /** What was added, without a copy. */
  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  /** Gives its memory back now, and not with the next garbage collection. Nobody may have its bytes. */
  free(): void {
    this.#bytes.buffer.transfer(0)
    this.#bytes = Buffer.alloc(0)
    this.#length = 0
  }

  #grow(capacity: number): void {
    const larger = Buffer.allocUnsafeSlow(capacity)
    this.#bytes.copy(larger, 0, 0, this.#length)
    // Nobody else has seen the old one: its memory is freed now, and not with the next garbage collection.
    this.#bytes.buffer.transfer(0)
    this.#bytes = larger
  }
}
