/**
 * Counts rows from the top of a tree down: one run of nodes a level, and a few rows. Runs that were read are kept as long as
 * the store does not change, so frequent counts read few nodes.
 */
import assert from 'node:assert/strict'
import { compareBytes } from '../../encoding/bytes/short-bytes.ts'
import type { Snapshot } from '../store.ts'
import { KeptRows, type Piece } from './kept-rows.ts'
import { type Item, NO_VALUE, SENTINEL, selected, type TreeLayout, weightOfAll } from './tree-layout.ts'
import type { TreeReader } from './tree-reader.ts'

/** Where a key is among all rows, by what they weigh. */
export interface PlaceInAll {
  readonly before: number
  readonly total: number
}

export class RowCounts {
  readonly #snapshot: Snapshot
  readonly #reader: TreeReader
  readonly #layout: TreeLayout
  readonly #known: KnownRuns
  readonly #keepsRows: boolean
  /** What is known of the snapshot's state. */
  #tree: KnownTree | undefined

  /** `keepsRows` is for trees without reductions: kept rows have no values. */
  constructor(
    snapshot: Snapshot,
    reader: TreeReader,
    layout: TreeLayout,
    known: KnownRuns,
    { keepsRows }: { readonly keepsRows: boolean },
  ) {
    this.#snapshot = snapshot
    this.#reader = reader
    this.#layout = layout
    this.#known = known
    this.#keepsRows = keepsRows
  }

  /** What all rows weigh. */
  async total(): Promise<number> {
    return (await this.#top())?.weight ?? 0
  }

  /** What all rows before the key weigh, and what all rows do. */
  async place(key: Uint8Array): Promise<PlaceInAll> {
    const path = await this.path(key)
    const boundary = path.at(-1)
    const rows = boundary && (await this.#rowsOf(boundary))
    let before = rows ? rows.weightBefore(key) : await this.#reader.weight(boundary?.key ?? SENTINEL, key)
    for (const node of path) before += node.before
    return { before, total: path[0]?.run.weight ?? 0 }
  }

  /** The last node at or before the key of every level, the highest first; without a key the last of all. */
  path(key: Uint8Array | undefined): Promise<CountedNode[]> {
    return this.#descend((run) => run.nodeAt(key))
  }

  /** Rows of nodes of the lowest level that were read before. */
  async keptRows(): Promise<KeptRows> {
    return (this.#tree ?? (await this.#findTree())).rows
  }

  /** The key of the row with which the weight of all rows so far exceeds the position, if there are so many. */
  async select(position: number): Promise<Buffer | undefined> {
    if (position >= (await this.total())) return undefined
    let rest = position
    const path = await this.#descend((run) => {
      const node = run.nodeAtPosition(rest)
      rest -= node.before
      return node
    })
    const boundary = path.at(-1)
    const kept = boundary && (await this.#rowsOf(boundary))
    if (kept) {
      const key = kept.select(rest)
      if (key) return key
    } else {
      const { key: start = SENTINEL, next: end } = boundary ?? {}
      for await (const rows of this.#reader.pages(0, start, end, 2 * this.#layout.fanOut)) {
        const key = selected(rows, rest)
        if (key) return key
        rest -= weightOfAll(rows)
      }
    }
    throw new assert.AssertionError({ message: 'A tree and its rows disagree: a node weighs more than what it holds.' })
  }

  /** The rows of a node of the lowest level, where they are kept. They are when they are asked for the second time. */
  async #rowsOf(node: CountedNode): Promise<Piece | undefined> {
    const kept = await this.keptRows()
    const known = kept.get(node)
    if (known || !this.#keepsRows || !kept.isWorthKeeping(node)) return known
    return kept.keep(node, await this.#reader.range(0, node.key, node.next))
  }

  async #findTree(): Promise<KnownTree> {
    this.#tree = this.#known.of(await this.#snapshot.version())
    return this.#tree
  }

  async #top(): Promise<CountedRun | undefined> {
    const tree = this.#tree ?? (await this.#findTree())
    const levels = tree.levels ?? (await this.#readLevels(tree))
    return levels === 0 ? undefined : (tree.below(undefined) ?? (await this.#read(tree, levels, undefined)))
  }

  /** One node of every level, each of those that the one before stands for. Waits only for what is not known. */
  async #descend(choose: (run: CountedRun) => CountedNode): Promise<CountedNode[]> {
    const tree = this.#tree ?? (await this.#findTree())
    const path: CountedNode[] = []
    let node: CountedNode | undefined
    for (let level = tree.levels ?? (await this.#readLevels(tree)); level > 0; level--) {
      node = choose(tree.below(node) ?? (await this.#read(tree, level, node)))
      path.push(node)
    }
    return path
  }

  /** How many levels of nodes there are. The last has one node, for the whole tree. */
  async #readLevels(tree: KnownTree): Promise<number> {
    const { length } = await this.#reader.sentinels()
    tree.levels = length
    return length
  }

  /** The nodes of a level that a node of the next one stands for; without it all. */
  async #read(tree: KnownTree, level: number, node: CountedNode | undefined): Promise<CountedRun> {
    const run = new CountedRun()
    const { key: start = SENTINEL, next: end } = node ?? {}
    for await (const nodes of this.#reader.pages(level, start, end, 4 * this.#layout.fanOut)) {
      for (const each of nodes) run.add(each)
    }
    assert(run.length > 0, 'A tree lacks a node that the level above it has.')
    tree.learn(node, run)
    return run
  }
}

/** Of all levels together: about a megabyte. The upper levels, which every count goes through, are far fewer. */
const NODES_LIMIT = 8192

/** Longer reductions are read again when they are needed: what is kept stays within two more megabytes. */
const KEPT_REDUCTION_BYTES = 256

/** A row that comes, or weighs something else: so much more in each node above it. */
export interface WeightMove {
  readonly boundary: Buffer
  readonly difference: number
}

/**
 * Runs of nodes that were read lately, each with the counts before its nodes and the runs below them. They are of one state
 * of the store, and dropped when a newer one is read, unless it is known how that differs.
 */
export class KnownRuns {
  #version = NO_VERSION
  #tree = new KnownTree()

  get isEmpty(): boolean {
    return this.#version === NO_VERSION
  }

  /** What is known of that state. Readers of an older one than the newest begin with nothing. */
  of(version: number): KnownTree {
    if (version === this.#version) return this.#tree
    const tree = new KnownTree()
    if (version > this.#version) {
      this.#tree.rows.forget()
      this.#version = version
      this.#tree = tree
    }
    return tree
  }

  /** The same, and undefined where nothing is known. */
  knownOf(version: number): KnownTree | undefined {
    return version === this.#version ? this.#tree : undefined
  }

  /** A commit to one state has made another one, and no boundaries came or went. Who reads the first one is not disturbed. */
  follow(before: number, after: number, moves: readonly WeightMove[]): void {
    if (before !== this.#version || after < before) return
    this.#version = after
    if (moves.length === 0) return
    this.#tree.rows.forget()
    this.#tree = this.#tree.moved(moves)
  }
}

const NO_VERSION = -1

/** The runs of one state, from the top down. */
class KnownTree {
  /** How many levels of nodes there are, if that is known. */
  levels: number | undefined
  readonly rows = new KeptRows()
  #top: CountedRun | undefined
  /** Of all states that share runs. */
  #size = { nodes: 0 }

  /** The last node at or before the key of every level, the lowest first; undefined where not all are known. */
  nodesAt(key: Uint8Array): Item[] | undefined {
    if (this.levels === undefined) return undefined
    const nodes: Item[] = []
    let node: CountedNode | undefined
    for (let level = this.levels; level > 0; level--) {
      const run = this.below(node)
      if (!run) return undefined
      node = run.nodeAt(key)
      const { index, next } = node
      nodes.push({ key: node.key, next, weight: run.weightBetween(index, index + 1), value: NO_VALUE })
    }
    return nodes.reverse()
  }

  /** The runs of the state after it. Those that do not change are the same objects. */
  moved(moves: readonly WeightMove[]): KnownTree {
    const tree = new KnownTree()
    tree.levels = this.levels
    tree.#size = this.#size
    tree.#top = moves.reduce((run, move) => run?.moved(move), this.#top)
    return tree
  }

  /** The run below a node; without one the run of the highest level. */
  below(node: CountedNode | undefined): CountedRun | undefined {
    return node ? node.run.below[node.index] : this.#top
  }

  learn(node: CountedNode | undefined, run: CountedRun): void {
    if (this.#size.nodes + run.length > NODES_LIMIT) this.#forget()
    this.#size.nodes += run.length
    if (node) node.run.below[node.index] = run
    else this.#top = run
  }

  #forget(): void {
    this.#size = { nodes: 0 }
    this.#top = undefined
    this.rows.forget()
  }
}

/** The nodes of a level between two boundaries of the next one. */
export class CountedRun {
  /** What is known of the level below, by the node that stands for it. */
  below: (CountedRun | undefined)[] = []
  #keys: Buffer[] = []
  #nexts: (Buffer | undefined)[] = []
  /** What the nodes before each weigh. */
  #before: number[] = []
  /** Undefined where one is too long to be kept. */
  #reductions: (Buffer | undefined)[] = []
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

  /** The run after a row has come, or weighs something else, with those below it that change too. There are no reductions. */
  moved(move: WeightMove): CountedRun {
    const { index } = this.nodeAt(move.boundary)
    const run = new CountedRun()
    run.#keys = this.#keys
    run.#nexts = this.#nexts
    run.#reductions = this.#reductions
    run.#before = this.#before.map((weight, i) => (i > index ? weight + move.difference : weight))
    run.weight = this.weight + move.difference
    run.below = this.below.with(index, this.below[index]?.moved(move))
    return run
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
  /** The node of a row, and its ordinal in the node. */
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
