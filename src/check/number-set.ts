/** A set of whole numbers as a bitmap: most numbers that a database has assigned are in use. */

const BITS_A_BLOCK = 65_536

export class NumberSet {
  readonly #blocks = new Map<number, Uint8Array>()
  #size = 0

  get size(): number {
    return this.#size
  }

  has(number: number): boolean {
    const bit = number % BITS_A_BLOCK
    const byte = this.#blocks.get(Math.floor(number / BITS_A_BLOCK))?.[bit >> 3] ?? 0
    return (byte & (1 << (bit & 7))) !== 0
  }

  /** Returns false where it was there already. */
  add(number: number): boolean {
    if (this.has(number)) return false
    const place = Math.floor(number / BITS_A_BLOCK)
    const block = this.#blocks.get(place) ?? new Uint8Array(BITS_A_BLOCK / 8)
    this.#blocks.set(place, block)
    const bit = number % BITS_A_BLOCK
    block[bit >> 3]! |= 1 << (bit & 7)
    this.#size++
    return true
  }
}
