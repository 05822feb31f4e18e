/**
 * Bytes that came in and that nobody has taken yet. Small pieces are copied into shared blocks, so what is held stays
 * within a small multiple of the bytes themselves, however they were cut.
 */

/** Pieces of this size, and those that fill half of the memory behind them, are kept as they are. */
const LARGE_BYTES = 16 * 1024
const FIRST_BLOCK_BYTES = 1024
const LARGEST_BLOCK_BYTES = 64 * 1024

export class JoinedPieces {
  #pieces: Buffer[] = []
  #sizeBytes = 0
  /** The block that small pieces are copied into: what was taken ends at `#start`, what is filled at `#end`. */
  #block: Buffer | undefined
  #start = 0
  #end = 0

  get sizeBytes(): number {
    return this.#sizeBytes
  }

  add(piece: Buffer): void {
    // Most bodies come in one piece.
    if (this.#sizeBytes === 0 && this.#block === undefined) this.#keep(piece)
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
      let block = this.#block
      if (block === undefined || this.#end === block.length) {
        this.#closeBlock()
        const size = block === undefined ? FIRST_BLOCK_BYTES : Math.min(block.length * 2, LARGEST_BLOCK_BYTES)
        block = Buffer.allocUnsafeSlow(size)
        this.#block = block
        this.#start = 0
        this.#end = 0
      }
      const copied = piece.copy(block, this.#end, at)
      this.#end += copied
      at += copied
    }
  }

  /** What is in the block becomes a piece; the rest of the block is filled later. */
  #closeBlock(): void {
    if (this.#block === undefined || this.#start === this.#end) return
    this.#pieces.push(this.#block.subarray(this.#start, this.#end))
    this.#start = this.#end
  }
}
