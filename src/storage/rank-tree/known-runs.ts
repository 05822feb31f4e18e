/**
 * Runs of nodes that were read lately, each with what lies before its nodes. They are those of one state of the store
 * and forgotten when a newer one is read, so whoever counts often in a store that does not change reads few nodes.
 */
import { compareBytes } from '../../encoding/byte-order.ts'
import type { Item } from './tree-item.ts'

/** Of all levels together: about a megabyte. The upper levels, which every count goes through, are far fewer. */
const NODES_LIMIT = 8192

export class KnownRuns {
  #version = -1
  #levels: number | undefined
  #nodes = 0
  readonly #runs = new Map<string, CountedRun>()

  /** How many levels the tree has in that state, if that is known. */
  levels(version: number): number | undefined {
    return version === this.#version ? this.#levels : undefined
  }

  learnLevels(version: number, levels: number): void {
    if (this.#isOf(version)) this.#levels = levels
  }

  find(version: number, level: number, start: Buffer): CountedRun | undefined {
    return version === this.#version ? this.#runs.get(placeOf(level, start)) : undefined
  }

  learn(version: number, level: number, start: Buffer, run: CountedRun): void {
    if (!this.#isOf(version)) return
    if (this.#nodes + run.length > NODES_LIMIT) this.#forget()
    this.#runs.set(placeOf(level, start), run)
    this.#nodes += run.length
  }

  /** Readers of older states go on without. */
  #isOf(version: number): boolean {
    if (version > this.#version) {
      this.#version = version
      this.#levels = undefined
      this.#forget()
    }
    return version === this.#version
  }

  #forget(): void {
    this.#runs.clear()
    this.#nodes = 0
  }
}

/** The nodes of a level between two boundaries of the next one. */
export class CountedRun {
  readonly #keys: Buffer[] = []
  readonly #nexts: (Buffer | undefined)[] = []
  /** What the nodes before each weigh. */
  readonly #before: number[] = []
  /** What all of them weigh. */
  weight = 0

  get length(): number {
    return this.#keys.length
  }

  /** Copies: what is read is a slice of a page, which it would keep in memory. */
  add({ key, next, weight }: Item): void {
    this.#keys.push(Buffer.from(key))
    this.#nexts.push(next && Buffer.from(next))
    this.#before.push(this.weight)
    this.weight += weight
  }

  /** The last node at or before a key that is not before the first; without a key the last of all. */
  nodeAt(key: Uint8Array | undefined): CountedNode {
    if (!key) return this.#node(this.length - 1)
    return this.#node(lastIndex(this.length, (i) => compareBytes(this.#keys[i]!, key) <= 0))
  }

  /** The node in which the weight of all before exceeds the position. */
  nodeAtPosition(position: number): CountedNode {
    return this.#node(lastIndex(this.length, (i) => this.#before[i]! <= position))
  }

  #node(index: number): CountedNode {
    return { key: this.#keys[index]!, next: this.#nexts[index], before: this.#before[index]! }
  }
}

export interface CountedNode {
  readonly key: Buffer
  readonly next: Buffer | undefined
  /** What the nodes of its run before it weigh. */
  readonly before: number
}

function placeOf(level: number, start: Buffer): string {
  return `${level} ${start.toString('latin1')}`
}

/** The last of the first `length` numbers for which something holds that holds for all before; it holds for 0. */
function lastIndex(length: number, holds: (index: number) => boolean): number {
  let low = 0
  let high = length
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (holds(middle)) low = middle
    else high = middle
  }
  return low
}
