/** Counts rows from the top of a tree down: one run of nodes a level, few of which have to be read, and a few rows. */
import assert from 'node:assert/strict'
import type { Snapshot } from '../store.ts'
import { type CountedNode, CountedRun, type KnownRuns } from './known-runs.ts'
import { SENTINEL, weightOfAll } from './tree-item.ts'
import type { TreeLayout } from './tree-layout.ts'
import type { TreeReader } from './tree-reader.ts'

/** A stretch of the rows, from one boundary to the next. */
interface Stretch {
  readonly start: Buffer
  readonly end: Buffer | undefined
}

export interface CountedBoundary {
  readonly start: Buffer
  readonly before: number
}

const ALL: Stretch = { start: SENTINEL, end: undefined }

export class RowCounts {
  readonly #snapshot: Snapshot
  readonly #reader: TreeReader
  readonly #layout: TreeLayout
  readonly #known: KnownRuns

  constructor(snapshot: Snapshot, reader: TreeReader, layout: TreeLayout, known: KnownRuns) {
    this.#snapshot = snapshot
    this.#reader = reader
    this.#layout = layout
    this.#known = known
  }

  /** What all rows weigh. */
  async total(): Promise<number> {
    const version = await this.#snapshot.version()
    const levels = await this.#levels(version)
    return levels === 0 ? 0 : (await this.#run(version, levels, ALL)).weight
  }

  /** What all rows before the key weigh. */
  async rank(key: Uint8Array): Promise<number> {
    const { start, before: beforeStart } = await this.boundaryBefore(key)
    let before = beforeStart
    for await (const rows of this.#reader.pages(0, start, key, 2 * this.#layout.fanOut)) before += weightOfAll(rows)
    return before
  }

  /** The last boundary at or before the key, and what all rows before it weigh. */
  async boundaryBefore(key: Uint8Array): Promise<CountedBoundary> {
    const path = await this.path(key)
    const before = path.reduce((sum, node) => sum + node.before, 0)
    return { start: path.at(-1)?.key ?? SENTINEL, before }
  }

  /** The last node at or before the key of every level, the highest first; without a key the last of all. */
  async path(key: Uint8Array | undefined): Promise<CountedNode[]> {
    const version = await this.#snapshot.version()
    const path: CountedNode[] = []
    let stretch = ALL
    for (let level = await this.#levels(version); level > 0; level--) {
      const node = (await this.#run(version, level, stretch)).nodeAt(key)
      path.push(node)
      stretch = { start: node.key, end: node.next }
    }
    return path
  }

  /** The key of the row with which the weight of all rows so far exceeds the position, if there are so many. */
  async select(position: number): Promise<Buffer | undefined> {
    const version = await this.#snapshot.version()
    const levels = await this.#levels(version)
    if (levels === 0 || position >= (await this.#run(version, levels, ALL)).weight) return undefined
    let rest = position
    let stretch = ALL
    for (let level = levels; level > 0; level--) {
      const node = (await this.#run(version, level, stretch)).nodeAtPosition(rest)
      rest -= node.before
      stretch = { start: node.key, end: node.next }
    }
    for await (const rows of this.#reader.pages(0, stretch.start, stretch.end, 2 * this.#layout.fanOut)) {
      for (const { key, weight } of rows) {
        if (rest < weight) return key
        rest -= weight
      }
    }
    throw new assert.AssertionError({ message: 'A tree and its rows disagree: a node weighs more than what it holds.' })
  }

  /** How many levels of nodes there are. The last has one node, for the whole tree. */
  async #levels(version: number): Promise<number> {
    const known = this.#known.levels(version)
    if (known !== undefined) return known
    const { length } = await this.#reader.sentinels()
    this.#known.learnLevels(version, length)
    return length
  }

  async #run(version: number, level: number, { start, end }: Stretch): Promise<CountedRun> {
    const known = this.#known.find(version, level, start)
    if (known) return known
    const run = new CountedRun()
    for await (const nodes of this.#reader.pages(level, start, end, 4 * this.#layout.fanOut)) {
      for (const node of nodes) run.add(node)
    }
    assert(run.length > 0, 'A tree lacks a node that the level above it has.')
    this.#known.learn(version, level, start, run)
    return run
  }
}
