/**
 * Buffers that are needed for as long as each other, such as the bodies of one request: they lie side by side in a few
 * blocks, which are freed together. A buffer of its own for each would be work for the garbage collector, and megabytes of
 * them bring one collection of the whole heap after the other.
 */

/** Small enough for the allocator to use its memory again and again. */
const BLOCK_BYTES = 256 * 1024
/** Larger buffers have a block of their own. */
const LARGE_BYTES = BLOCK_BYTES / 4

export class ByteArena {
  readonly #blocks: ArrayBuffer[] = []
  #block: Buffer | undefined
  #at = 0
  #expectedBytes: number

  /** What all buffers together will take at most, as far as that is known. */
  constructor(expectedBytes = Number.POSITIVE_INFINITY) {
    this.#expectedBytes = expectedBytes
  }

  /** A buffer whose content is not defined. */
  allocate(bytes: number): Buffer {
    if (bytes > LARGE_BYTES) return this.#addBlock(bytes)
    if (this.#block === undefined || this.#at + bytes > this.#block.length) {
      this.#block = this.#addBlock(Math.max(bytes, Math.min(BLOCK_BYTES, this.#expectedBytes)))
      this.#at = 0
    }
    const start = this.#at
    this.#at += bytes
    this.#expectedBytes -= bytes
    return this.#block.subarray(start, this.#at)
  }

  /** Frees the memory now. All buffers of the arena are empty then: nobody may need them any more. */
  free(): void {
    for (const block of this.#blocks) block.transfer(0)
    this.#blocks.length = 0
    this.#block = undefined
  }

  #addBlock(bytes: number): Buffer {
    const block = Buffer.allocUnsafeSlow(bytes)
    this.#blocks.push(block.buffer)
    return block
  }
}
