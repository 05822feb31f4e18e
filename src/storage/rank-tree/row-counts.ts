/** Counts rows from the top of a tree down: one run of nodes a level, few of which have to be read, and a few rows. */
import assert from 'node:assert/strict'
import type { Snapshot } from '../store.ts'
import { type CountedNode, CountedRun, type KnownRuns, type KnownTree } from './known-runs.ts'
import { type Item, SENTINEL } from './tree-item.ts'
import type { TreeLayout } from './tree-layout.ts'
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
  /** What is known of the snapshot's state. */
  #tree: KnownTree | undefined

  constructor(snapshot: Snapshot, reader: TreeReader, layout: TreeLayout, known: KnownRuns) {
    this.#snapshot = snapshot
    this.#reader = reader
    this.#layout = layout
    this.#known = known
  }

  /** What all rows weigh. */
  async total(): Promise<number> {
    return (await this.#top())?.weight ?? 0
  }

  /** What all rows before the key weigh, and what all rows do. */
  async place(key: Uint8Array): Promise<PlaceInAll> {
    const path = await this.path(key)
    const boundary = path.at(-1)
    let before = await this.#reader.weight(boundary?.key ?? SENTINEL, key)
    for (const node of path) before += node.before
    return { before, total: path[0]?.run.weight ?? 0 }
  }

  /** The last node at or before the key of every level, the highest first; without a key the last of all. */
  path(key: Uint8Array | undefined): Promise<CountedNode[]> {
    return this.#descend((run) => run.nodeAt(key))
  }

  /** The rows from a boundary of the lowest level to the next one, with `read` where they are not known. */
  async rows(boundary: Buffer, read: () => Promise<readonly Item[]>): Promise<readonly Item[]> {
    const tree = this.#tree ?? (await this.#findTree())
    const known = tree.rowsAt(boundary)
    if (known) return known
    const rows = await read()
    tree.learnRows(boundary, rows)
    return rows
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
    const { key: start = SENTINEL, next: end } = path.at(-1) ?? {}
    for await (const rows of this.#reader.pages(0, start, end, 2 * this.#layout.fanOut)) {
      for (const { key, weight } of rows) {
        if (rest < weight) return key
        rest -= weight
      }
    }
    throw new assert.AssertionError({ message: 'A tree and its rows disagree: a node weighs more than what it holds.' })
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
