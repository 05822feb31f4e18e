/**
 * The order of many keys that lie in one block. Four bytes of each are looked at at a time, as one number together with the
 * place of the key, so that the numbers can be sorted as such; the next four only where those are the same. Comparing whole
 * keys again and again takes several times as long.
 */

/** Four bytes and a place must fit into a number: more keys than this take longer. */
const PLACE_RANGE = 2 ** 21
export const MOST_KEYS = PLACE_RANGE

const CHUNK_BYTES = 4

/** Fewer are sorted by comparing what is left of them. */
const FEW = 12

/**
 * Three offsets a key, as `bounds` of a page has them: of those only the first two, where it begins and ends, count. Equal
 * keys stay in the order in which they were.
 */
export function keyOrder(block: Buffer, bounds: Uint32Array, count: number): Uint32Array {
  const sort = new KeySort(block, bounds, count)
  if (count <= MOST_KEYS) sort.sort(0, count, 0)
  else sort.compareAll()
  return sort.order
}

class KeySort {
  readonly order: Uint32Array
  readonly #block: Buffer
  readonly #bounds: Uint32Array
  /** Of each place the chunk of its key and the place itself. */
  readonly #chunks: Float64Array
  readonly #spare: Uint32Array

  constructor(block: Buffer, bounds: Uint32Array, count: number) {
    this.#block = block
    this.#bounds = bounds
    this.order = new Uint32Array(count)
    for (let i = 0; i < count; i++) this.order[i] = i
    this.#chunks = new Float64Array(count)
    this.#spare = new Uint32Array(count)
  }

  /** Sorts some places of the order, whose keys agree in what precedes the depth. */
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

  compareAll(): void {
    this.order.sort((a, b) => this.#compare(a, b, 0))
  }

  /** Takes the next bytes of each key, and tells what is to be done about them. */
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
      chunks[i] = chunk * PLACE_RANGE + (i - first)
    }
    if (hasEnded) return 'ended'
    if (!isSorted) return 'unsorted'
    return chunkOf(chunks[first]!) === chunkOf(chunks[end - 1]!) ? 'same' : 'sorted'
  }

  /** A key that has ended goes on with zeros: how it compares with one that really does is seen when both have ended. */
  #chunk(at: number, rest: number): number {
    const block = this.#block
    if (rest >= CHUNK_BYTES) {
      return ((block[at]! << 24) | (block[at + 1]! << 16) | (block[at + 2]! << 8) | block[at + 3]!) >>> 0
    }
    let chunk = 0
    for (let i = 0; i < CHUNK_BYTES; i++) chunk = chunk * 256 + (i < rest ? block[at + i]! : 0)
    return chunk
  }

  #arrange(first: number, end: number): void {
    const sorted = this.#chunks.subarray(first, end).sort()
    const order = this.order
    const spare = this.#spare
    for (let i = first; i < end; i++) spare[i] = order[i]!
    for (let i = 0; i < sorted.length; i++) order[first + i] = spare[first + (sorted[i]! % PLACE_RANGE)]!
  }

  /** What follows where chunks are the same. */
  #sortSame(first: number, end: number, depth: number): void {
    // What is looked at next overwrites the chunks, but only of places that are done with.
    const chunks = this.#chunks
    for (let start = first, next: number; start < end; start = next) {
      const chunk = chunkOf(chunks[start]!)
      next = start + 1
      while (next < end && chunkOf(chunks[next]!) === chunk) next++
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
    // Chunks may have reached beyond the ends.
    const aStart = Math.min(aEnd, bounds[3 * a]! + depth)
    const bStart = Math.min(bEnd, bounds[3 * b]! + depth)
    const order = block.compare(block, bStart, bEnd, aStart, aEnd)
    return order === 0 ? lengthOf(bounds, a) - lengthOf(bounds, b) : order
  }
}

function chunkOf(number: number): number {
  return Math.floor(number / PLACE_RANGE)
}

function lengthOf(bounds: Uint32Array, key: number): number {
  return bounds[3 * key + 1]! - bounds[3 * key]!
}
