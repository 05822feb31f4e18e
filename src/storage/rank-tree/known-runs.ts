/**
 * Runs of nodes that were read lately, each with what lies before its nodes and with the runs below them. They are those
 * of one state of the store and forgotten when a newer one is read, so whoever counts often in a store that does not
 * change reads few nodes.
 */
import { compareBytes } from '../../encoding/bytes/byte-order.ts'
import type { Item } from './tree-item.ts'

/** Of all levels together: about a megabyte. The upper levels, which every count goes through, are far fewer. */
const NODES_LIMIT = 8192

/** Longer reductions are read again when they are needed: what is kept stays within two more megabytes. */
const KEPT_REDUCTION_BYTES = 256

/** Rows between two boundaries that are kept too, since somebody goes from group to group there, and their bytes. */
const ROWS_LIMIT = 4096
const ROW_BYTES_LIMIT = 1024 * 1024

export class KnownRuns {
  #version = -1
  #tree = new KnownTree()

  /** What is known of that state. Readers of an older one than the newest begin with nothing. */
  of(version: number): KnownTree {
    if (version === this.#version) return this.#tree
    const tree = new KnownTree()
    if (version > this.#version) {
      this.#version = version
      this.#tree = tree
    }
    return tree
  }
}

/** The runs of one state, from the top down. */
export class KnownTree {
  /** How many levels of nodes there are, if that is known. */
  levels: number | undefined
  #top: CountedRun | undefined
  #nodes = 0
  #rows = new Map<string, readonly Item[]>()
  #rowCount = 0
  #rowBytes = 0

  /** The run below a node; without one the run of the highest level. */
  below(node: CountedNode | undefined): CountedRun | undefined {
    return node ? node.run.below[node.index] : this.#top
  }

  learn(node: CountedNode | undefined, run: CountedRun): void {
    if (this.#nodes + run.length > NODES_LIMIT) this.#forget()
    this.#nodes += run.length
    if (node) node.run.below[node.index] = run
    else this.#top = run
  }

  /** The rows from a boundary of the lowest level to the next one. */
  rowsAt(boundary: Buffer): readonly Item[] | undefined {
    return this.#rows.get(boundary.toString('latin1'))
  }

  learnRows(boundary: Buffer, rows: readonly Item[]): void {
    let bytes = 0
    for (const { key, value } of rows) bytes += key.length + value.length
    if (bytes > ROW_BYTES_LIMIT / 16 || rows.length > ROWS_LIMIT / 16) return
    if (this.#rowCount + rows.length > ROWS_LIMIT || this.#rowBytes + bytes > ROW_BYTES_LIMIT) {
      this.#rows.clear()
      this.#rowCount = 0
      this.#rowBytes = 0
    }
    this.#rows.set(boundary.toString('latin1'), rows)
    this.#rowCount += rows.length
    this.#rowBytes += bytes
  }

  #forget(): void {
    this.#nodes = 0
    this.#top = undefined
  }
}

/** The nodes of a level between two boundaries of the next one. */
export class CountedRun {
  /** What is known of the level below, by the node that stands for it. */
  readonly below: (CountedRun | undefined)[] = []
  readonly #keys: Buffer[] = []
  readonly #nexts: (Buffer | undefined)[] = []
  /** What the nodes before each weigh. */
  readonly #before: number[] = []
  /** Undefined where one is too long to be kept. */
  readonly #reductions: (Buffer | undefined)[] = []
  /** What all of them weigh. */
  weight = 0

  get length(): number {
    return this.#keys.length
  }

  /** Copies: what is read is a slice of a page, which it would keep in memory. */
  add({ key, next, weight, value }: Item): void {
    this.#keys.push(Buffer.from(key))
    this.#nexts.push(next && Buffer.from(next))
    this.#before.push(this.weight)
    this.#reductions.push(value.length > KEPT_REDUCTION_BYTES ? undefined : Buffer.from(value))
    this.below.push(undefined)
    this.weight += weight
  }

  /** What the nodes from one index up to another reduce to, in their order; undefined where one is not kept. */
  reductions(first: number, end: number): Buffer[] | undefined {
    const found: Buffer[] = []
    for (let i = first; i < end; i++) {
      const reduction = this.#reductions[i]
      if (!reduction) return undefined
      // A sentinel without rows has no reduction.
      if (reduction.length > 0) found.push(reduction)
    }
    return found
  }

  /** What the nodes from one index up to another weigh. */
  weightBetween(first: number, end: number): number {
    return (this.#before[end] ?? this.weight) - (this.#before[first] ?? this.weight)
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
    return { run: this, index, key: this.#keys[index]!, next: this.#nexts[index], before: this.#before[index]! }
  }
}

export interface CountedNode {
  /** Where it is, and the how manieth there. */
  readonly run: CountedRun
  readonly index: number
  readonly key: Buffer
  readonly next: Buffer | undefined
  /** What the nodes of its run before it weigh. */
  readonly before: number
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
