/**
 * Rows that never change once they are written, in memory: those that were read last, up to a number of bytes. Whoever asks for
 * one has read just now that it is referred to, so nothing in here can be stale.
 */

/** What an entry takes beside its value. */
const ENTRY_BYTES = 150
/** A larger value would take the place of too many others: one part in so many of the whole. */
const LARGEST_SHARE = 64

export class RowCache {
  readonly #limitBytes: number
  /** In the order of their last use. */
  readonly #rows = new Map<string, Buffer>()
  #bytes = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  get bytes(): number {
    return this.#bytes
  }

  get(store: number, key: Uint8Array): Buffer | undefined {
    const name = nameOf(store, key)
    const value = this.#rows.get(name)
    if (!value) return undefined
    this.#rows.delete(name)
    this.#rows.set(name, value)
    return value
  }

  /** Returns the value, with memory of its own where it is kept. */
  put(store: number, key: Uint8Array, value: Buffer): Buffer {
    if (value.length > this.#limitBytes / LARGEST_SHARE) return value
    const name = nameOf(store, key)
    const known = this.#rows.get(name)
    if (known) return known
    // A short value is a part of a larger block of memory, which it would keep.
    const own = Buffer.allocUnsafeSlow(value.length)
    value.copy(own)
    this.#rows.set(name, own)
    this.#bytes += own.length + ENTRY_BYTES
    for (const [oldest, { length }] of this.#rows) {
      if (this.#bytes <= this.#limitBytes) break
      this.#rows.delete(oldest)
      this.#bytes -= length + ENTRY_BYTES
    }
    return own
  }
}

function nameOf(store: number, key: Uint8Array): string {
  return `${store}:${Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1')}`
}
