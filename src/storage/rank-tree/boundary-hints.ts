/**
 * Boundaries that were met lately: where to look first for the one at or before a key. A hint may be out of date, and
 * does no harm: who follows it reads the node, which names the boundary after it, and so sees in its own snapshot
 * whether the hint is right. Nothing has to be told to the hints when a tree changes, in this process or another.
 */
import { compareBytes } from '../../encoding/bytes/byte-order.ts'
import { SENTINEL } from './tree-item.ts'

/** Of one level: some megabytes at most. When there are more they are forgotten, and learned anew where work is. */
const HINTS_LIMIT = 32_768

export class BoundaryHints {
  readonly #levels: Buffer[][] = []
  /** Of each level the answer before. Questions come in the order of their keys, so it mostly is the next one too. */
  readonly #lastCounts: number[] = []

  /** The last known boundary of a level at or before the key, or of all; the sentinel when none is known. */
  floor(level: number, key: Uint8Array | undefined): Buffer {
    const known = this.#levels[level] ?? []
    if (!key) return known.at(-1) ?? SENTINEL
    const last = this.#lastCounts[level]
    const count = last !== undefined && isCountThrough(known, key, last) ? last : countThrough(known, key)
    this.#lastCounts[level] = count
    return known[count - 1] ?? SENTINEL
  }

  /** The known boundaries that a key lies between; the first is the sentinel, the second undefined when none is known. */
  around(level: number, key: Uint8Array): { readonly floor: Buffer; readonly next: Buffer | undefined } {
    const floor = this.floor(level, key)
    return { floor, next: this.#levels[level]?.[this.#lastCounts[level] ?? 0] }
  }

  /** The last known boundary before the key. */
  before(level: number, key: Uint8Array): Buffer {
    const known = this.#levels[level] ?? []
    return known[countBefore(known, key) - 1] ?? SENTINEL
  }

  /** Boundaries in their order, without others between them; what was known of that stretch is replaced. */
  learn(level: number, boundaries: readonly Buffer[]): void {
    const met = boundaries[0]?.length === 0 ? boundaries.slice(1) : boundaries
    const [first, last] = [met[0], met.at(-1)]
    if (!first || !last) return
    this.#levels[level] ??= []
    const known = this.#levels[level]
    const start = countBefore(known, first)
    const count = countThrough(known, last) - start
    if (count === met.length && met.every((boundary, i) => boundary.equals(known[start + i]!))) return
    // Copies: what is met is often a slice of a page, which it would keep in memory.
    const copies = met.map((boundary) => Buffer.from(boundary))
    if (known.length + met.length <= HINTS_LIMIT) known.splice(start, count, ...copies)
    else this.#levels[level] = copies.slice(-HINTS_LIMIT)
  }

  forget(level: number, boundary: Buffer): void {
    const known = this.#levels[level] ?? []
    const at = countBefore(known, boundary)
    if (known[at]?.equals(boundary)) known.splice(at, 1)
  }
}

/** How many of the sorted keys are at or before the one given. */
function countThrough(keys: readonly Buffer[], key: Uint8Array): number {
  let low = 0
  let high = keys.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (compareBytes(keys[middle]!, key) <= 0) low = middle + 1
    else high = middle
  }
  return low
}

/** Whether it is this many. */
function isCountThrough(keys: readonly Buffer[], key: Uint8Array, count: number): boolean {
  if (count > keys.length || (count > 0 && compareBytes(keys[count - 1]!, key) > 0)) return false
  return count === keys.length || compareBytes(keys[count]!, key) > 0
}

function countBefore(keys: readonly Buffer[], key: Uint8Array): number {
  const count = countThrough(keys, key)
  return keys[count - 1]?.equals(key) ? count - 1 : count
}
