const initialCapacity = 256
const largestKeptCapacity = 1024 * 1024

/**
 * A growing buffer that is written from front to back and used again and again, so that encoding a key allocates nothing
 * but the key itself. Hot loops reserve room once and then write to `bytes` directly.
 */
export class ByteSink {
  bytes = new Uint8Array(initialCapacity)
  length = 0

  /** Starts anew. The room that one huge key needed is not kept for ever. */
  clear(): void {
    this.length = 0
    if (this.bytes.length > largestKeptCapacity) this.bytes = new Uint8Array(initialCapacity)
  }

  /** Makes room for so many more bytes. May replace `bytes`: take it from the sink afterwards. */
  reserve(extra: number): void {
    const needed = this.length + extra
    if (needed <= this.bytes.length) return
    const grown = new Uint8Array(Math.max(needed, 2 * this.bytes.length))
    grown.set(this.bytes.subarray(0, this.length))
    this.bytes = grown
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
}
