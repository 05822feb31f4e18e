/**
 * Sorts many keys that are in one block: a radix sort on four bytes of each key at a time, and on the next four only where
 * those are equal. Comparing whole keys takes many times as long.
 */

const CHUNK_BYTES = 4

/** Fewer keys are sorted by comparison. */
const FEW = 12

/** The number of buckets: one for each value of a byte. */
const PILES = 256

/**
 * Three offsets a key, as `bounds` of a page has them: of those only the first two, where it begins and ends, count. Equal
 * keys stay in the order in which they were.
 */
export function keyOrder(block: Buffer, bounds: Uint32Array, count: number): Uint32Array {
  const sort = new KeySort(block, bounds, count)
  sort.sort(0, count, 0)
  return sort.order
}

class KeySort {
  readonly order: Uint32Array
  readonly #block: Buffer
  readonly #bounds: Uint32Array
  /** The chunk of each key, by its position in the order. */
  readonly #chunks: Uint32Array
  readonly #spareOrder: Uint32Array
  readonly #spareChunks: Uint32Array
  /** The size of each bucket, then its end: for the last byte of a chunk, the one before it, and so on. */
  readonly #piles = new Uint32Array(CHUNK_BYTES * PILES)

  constructor(block: Buffer, bounds: Uint32Array, count: number) {
    this.#block = block
    this.#bounds = bounds
    this.order = new Uint32Array(count)
    for (let i = 0; i < count; i++) this.order[i] = i
    this.#chunks = new Uint32Array(count)
    this.#spareOrder = new Uint32Array(count)
    this.#spareChunks = new Uint32Array(count)
  }

  /** Sorts a part of the order, whose keys agree up to the depth. */
  sort(first: number, end: number, depth: number): void {
    for (let at = depth; end - first > FEW; at += CHUNK_BYTES) {
      const found = this.#fill(first, end, at)
      if (found === 'ended') {
        this.#sortByLength(first, end)
        return
      }
      if (found === 'same') continue
      if (found === 'unsorted') this.#arrange(first, end)
      this.#sortSame(first, end, at + CHUNK_BYTES)
      return
    }
    this.#sortFew(first, end, depth)
  }

  /** Reads the next chunk of each key, and returns what remains to be sorted. */
  #fill(first: number, end: number, depth: number): 'ended' | 'same' | 'sorted' | 'unsorted' {
    const chunks = this.#chunks
    const order = this.order
    const bounds = this.#bounds
    let hasEnded = true
    let isSorted = true
    let last = -1
    for (let i = first; i < end; i++) {
      const key = order[i]!
      const at = bounds[3 * key]! + depth
      const rest = bounds[3 * key + 1]! - at
      if (rest > 0) hasEnded = false
      const chunk = this.#chunk(at, rest)
      if (chunk < last) isSorted = false
      last = chunk
      chunks[i] = chunk
    }
    if (hasEnded) return 'ended'
    if (!isSorted) return 'unsorted'
    return chunks[first] === chunks[end - 1] ? 'same' : 'sorted'
  }

  /** A key that has ended is padded with zeros; keys that really end with zeros are compared when both have ended. */
  #chunk(at: number, rest: number): number {
    const block = this.#block
    if (rest >= CHUNK_BYTES) {
      return ((block[at]! << 24) | (block[at + 1]! << 16) | (block[at + 2]! << 8) | block[at + 3]!) >>> 0
    }
    let chunk = 0
    for (let i = 0; i < CHUNK_BYTES; i++) chunk = chunk * 256 + (i < rest ? block[at + i]! : 0)
    return chunk
  }

  /** Byte by byte, the last one first; the sort is stable. */
  #arrange(first: number, end: number): void {
    this.#countPiles(first, end)
    for (let byte = 0; byte < CHUNK_BYTES; byte++)
      if (!this.#isOnePile(first, end, byte)) this.#shareOut(first, end, byte)
  }

  #countPiles(first: number, end: number): void {
    const chunks = this.#chunks
    const piles = this.#piles.fill(0)
    for (let i = first; i < end; i++) {
      const chunk = chunks[i]!
      piles[chunk & 0xff]!++
      piles[PILES + ((chunk >>> 8) & 0xff)]!++
      piles[2 * PILES + ((chunk >>> 16) & 0xff)]!++
      piles[3 * PILES + (chunk >>> 24)]!++
    }
  }

  #isOnePile(first: number, end: number, byte: number): boolean {
    const pile = (this.#chunks[first]! >>> (8 * byte)) & 0xff
    return this.#piles[byte * PILES + pile] === end - first
  }

  #shareOut(first: number, end: number, byte: number): void {
    const order = this.order
    const chunks = this.#chunks
    const spareOrder = this.#spareOrder
    const spareChunks = this.#spareChunks
    const piles = this.#piles
    const firstPile = byte * PILES
    for (let pile = firstPile, next = first; pile < firstPile + PILES; pile++) {
      const size = piles[pile]!
      piles[pile] = next
      next += size
    }
    for (let i = first; i < end; i++) {
      const chunk = chunks[i]!
      const place = piles[firstPile + ((chunk >>> (8 * byte)) & 0xff)]!++
      spareChunks[place] = chunk
      spareOrder[place] = order[i]!
    }
    for (let i = first; i < end; i++) {
      chunks[i] = spareChunks[i]!
      order[i] = spareOrder[i]!
    }
  }

  /** What follows where chunks are the same. */
  #sortSame(first: number, end: number, depth: number): void {
    // The next level overwrites chunks, but only of positions that are done.
    const chunks = this.#chunks
    for (let start = first, next: number; start < end; start = next) {
      const chunk = chunks[start]
      next = start + 1
      while (next < end && chunks[next] === chunk) next++
      if (next - start > 1) this.sort(start, next, depth)
    }
  }

  #sortByLength(first: number, end: number): void {
    const bounds = this.#bounds
    this.order.subarray(first, end).sort((a, b) => lengthOf(bounds, a) - lengthOf(bounds, b))
  }

  #sortFew(first: number, end: number, depth: number): void {
    const order = this.order
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
    const aEnd = bounds[3 * a + 1]!
    const bEnd = bounds[3 * b + 1]!
    // A loop is faster, since they mostly differ soon. Chunks may have reached beyond the ends.
    let aAt = bounds[3 * a]! + depth
    let bAt = bounds[3 * b]! + depth
    while (aAt < aEnd && bAt < bEnd) {
      const difference = block[aAt++]! - block[bAt++]!
      if (difference !== 0) return difference
    }
    return lengthOf(bounds, a) - lengthOf(bounds, b)
  }
}

function lengthOf(bounds: Uint32Array, key: number): number {
  return bounds[3 * key + 1]! - bounds[3 * key]!
}
