/**
 * Boundaries that were met lately: where to look first for the one at or before a key. A hint may be out of date, and
 * does no harm: who follows it reads the node, which names the boundary after it, and so sees in its own snapshot
 * whether the hint is right. Nothing has to be told to the hints when a tree changes, in this process or another.
 */
import { SENTINEL } from './tree-item.ts'

/** Of one level: some megabytes at most. When there are more they are forgotten, and learned anew where work is. */
const HINTS_LIMIT = 32_768

export class BoundaryHints {
  readonly #levels: Buffer[][] = []

  /** The last known boundary of a level at or before the key, or of all; the sentinel when none is known. */
  floor(level: number, key: Uint8Array | undefined): Buffer {
    const known = this.#levels[level] ?? []
    return known[key ? countThrough(known, key) - 1 : known.length - 1] ?? SENTINEL
  }

  /** The last known boundary before the key. */
  before(level: number, key: Uint8Array): Buffer {
    const known = this.#levels[level] ?? []
    const count = countThrough(known, key)
    const isKnown = known[count - 1]?.equals(key) ?? false
    return known[isKnown ? count - 2 : count - 1] ?? SENTINEL
  }

  learn(level: number, boundary: Buffer): void {
    if (boundary.length === 0) return
    this.#levels[level] ??= []
    const known = this.#levels[level]
    const count = countThrough(known, boundary)
    if (known[count - 1]?.equals(boundary)) return
    // A copy: what is learned is often a slice of a page, which it would keep in memory.
    if (known.length < HINTS_LIMIT) known.splice(count, 0, Buffer.from(boundary))
    else this.#levels[level] = [Buffer.from(boundary)]
  }

  forget(level: number, boundary: Buffer): void {
    const known = this.#levels[level] ?? []
    const count = countThrough(known, boundary)
    if (known[count - 1]?.equals(boundary)) known.splice(count - 1, 1)
  }
}

/** How many of the sorted keys are at or before the one given. */
function countThrough(keys: readonly Buffer[], key: Uint8Array): number {
  let low = 0
  let high = keys.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (Buffer.compare(keys[middle]!, key) <= 0) low = middle + 1
    else high = middle
  }
  return low
}
