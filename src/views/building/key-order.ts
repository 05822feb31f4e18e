/**
 * The order of many keys that lie in one block: found by looking at six bytes of each at a time, as one number, and at the
 * next six only where those are the same. Comparing whole keys again and again takes several times as long.
 */

/** Three offsets a key, as `bounds` of a page has them: of those only the first two, where it begins and ends, count. */
export function keyOrder(block: Buffer, bounds: Uint32Array, count: number): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, i) => i)
  new KeySort(block, bounds, order).sort(0, count, 0)
  return order
}

const CHUNK_BYTES = 6

/** Fewer are sorted by comparing what is left of them. */
const FEW = 12

class KeySort {
  readonly #block: Buffer
  readonly #bounds: Uint32Array
  readonly #order: Uint32Array
  /** Of each key the bytes that are looked at now. */
  readonly #chunks: Float64Array

  constructor(block: Buffer, bounds: Uint32Array, order: Uint32Array) {
    this.#block = block
    this.#bounds = bounds
    this.#order = order
    this.#chunks = new Float64Array(order.length)
  }

  /** Sorts some places of the order, whose keys agree in what precedes the depth. Equal keys stay as they were. */
  sort(first: number, end: number, depth: number): void {
    for (let at = depth; ; at += CHUNK_BYTES) {
      if (end - first <= FEW) {
        this.#sortFew(first, end, at)
        return
      }
      const isSame = this.#fill(first, end, at)
      if (!isSame) {
        const chunks = this.#chunks
        this.#order.subarray(first, end).sort((a, b) => chunks[a]! - chunks[b]!)
        this.#sortSame(first, end, at)
        return
      }
      if (isShort(this.#chunks[this.#order[first]!]!)) return
    }
  }

  /** Takes the next bytes of each key; tells whether they are all the same. */
  #fill(first: number, end: number, depth: number): boolean {
    const chunks = this.#chunks
    const order = this.#order
    const leading = this.#chunk(order[first]!, depth)
    let isSame = true
    for (let i = first; i < end; i++) {
      const key = order[i]!
      const chunk = this.#chunk(key, depth)
      chunks[key] = chunk
      if (chunk !== leading) isSame = false
    }
    return isSame
  }

  /** What follows where the chunks were the same. */
  #sortSame(first: number, end: number, depth: number): void {
    const chunks = this.#chunks
    const order = this.#order
    for (let start = first, next: number; start < end; start = next) {
      const chunk = chunks[order[start]!]!
      next = start + 1
      while (next < end && chunks[order[next]!] === chunk) next++
      if (next - start > 1 && !isShort(chunk)) this.sort(start, next, depth + CHUNK_BYTES)
    }
  }

  /** Six bytes as a number, and how many of them the key still has: a key that ends is before one that goes on. */
  #chunk(key: number, depth: number): number {
    const block = this.#block
    const at = this.#bounds[3 * key]! + depth
    const rest = this.#bounds[3 * key + 1]! - at
    if (rest >= CHUNK_BYTES) {
      const high = (block[at]! << 16) | (block[at + 1]! << 8) | block[at + 2]!
      const low = (block[at + 3]! << 16) | (block[at + 4]! << 8) | block[at + 5]!
      return (high * 0x1000000 + low) * 8 + CHUNK_BYTES
    }
    let bytes = 0
    for (let i = 0; i < CHUNK_BYTES; i++) bytes = bytes * 256 + (i < rest ? block[at + i]! : 0)
    return bytes * 8 + rest
  }

  #sortFew(first: number, end: number, depth: number): void {
    const order = this.#order
    for (let i = first + 1; i < end; i++) {
      const key = order[i]!
      let place = i
      while (place > first && this.#compare(order[place - 1]!, key, depth) > 0) {
        order[place] = order[place - 1]!
        place--
      }
      order[place] = key
    }
  }

  #compare(a: number, b: number, depth: number): number {
    const bounds = this.#bounds
    const block = this.#block
    const aStart = bounds[3 * a]! + depth
    const bStart = bounds[3 * b]! + depth
    return block.compare(block, bStart, bounds[3 * b + 1]!, aStart, bounds[3 * a + 1]!)
  }
}

/** Whether the keys end with this chunk. */
function isShort(chunk: number): boolean {
  return chunk % 8 < CHUNK_BYTES
}
