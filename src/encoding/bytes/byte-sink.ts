/**
 * A growing buffer that is written from front to back and used again and again, so that encoding allocates nothing but
 * what is copied out of it. Hot loops reserve room once and then write to `bytes` directly.
 */
export class ByteSink {
  bytes: Buffer
  length = 0
  /** What it may grow to. */
  mostBytes = Number.POSITIVE_INFINITY
  /** The same bytes, for numbers. */
  protected view: DataView
  readonly #initialBytes: number

  constructor(initialBytes = 256) {
    this.#initialBytes = initialBytes
    this.bytes = Buffer.allocUnsafeSlow(initialBytes)
    this.view = viewOf(this.bytes)
  }

  /** Starts over. The room that exceptionally large content took is given back. */
  clear(): void {
    this.length = 0
    if (this.bytes.length > Math.max(KEPT_BYTES, this.#initialBytes)) this.#resize(this.#initialBytes)
  }

  /** Makes room for so many more bytes. May replace `bytes`: take it from the sink afterwards. */
  reserve(count: number): void {
    if (this.length + count > this.bytes.length) this.grow(count)
  }

  /** The slow half of `reserve`. Subclasses have the other half themselves, so that it is compiled for them alone. */
  protected grow(count: number): void {
    const needed = this.length + count
    if (needed > this.mostBytes) throw new SinkFullError()
    this.#resize(2 * needed)
  }

  push(byte: number): void {
    if (this.length === this.bytes.length) this.reserve(1)
    this.bytes[this.length++] = byte
  }

  pushAll(source: ByteSink): void {
    this.reserve(source.length)
    for (let i = 0; i < source.length; i++) this.bytes[this.length + i] = source.bytes[i]!
    this.length += source.length
  }

  /** A copy of what was written from `start` on. */
  copy(start = 0): Buffer {
    const copy = Buffer.allocUnsafe(this.length - start)
    if (copy.length > 64) copy.set(this.bytes.subarray(start, this.length))
    else for (let i = 0; i < copy.length; i++) copy[i] = this.bytes[start + i]!
    return copy
  }

  #resize(sizeBytes: number): void {
    const old = this.bytes
    const bytes = Buffer.allocUnsafeSlow(sizeBytes)
    old.copy(bytes, 0, 0, this.length)
    this.bytes = bytes
    this.view = viewOf(bytes)
    if (old.length > KEPT_BYTES) freeBytes(old)
  }
}

/** More was written than a sink may hold. */
export class SinkFullError extends Error {
  override readonly name = 'SinkFullError'
}

/** A sink that grew beyond this shrinks again when it starts over. */
const KEPT_BYTES = 1024 * 1024

function viewOf(bytes: Buffer): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/**
 * Gives the memory of a large buffer back now, and not with the next garbage collection: megabytes that come with each
 * request would otherwise bring one collection of the whole heap after the other. Nobody may use its bytes any more.
 */
export function freeBytes(bytes: Uint8Array): void {
  const { buffer, byteLength } = bytes
  // A part of a larger block is not ours alone.
  if (byteLength <= SMALL_BYTES || byteLength !== buffer.byteLength) return
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
}

const SMALL_BYTES = 8 * 1024
