/**
 * Counts, and reductions, over any ordered range of the rows under one key prefix of a store, in logarithmic time. The
 * tree's nodes lie under another prefix of the same store and change in the same commit as the rows, so every state
 * that can be read is whole.
 *
 * It is a skip list whose shape follows from the keys: a key is a boundary of a level when its salted hash says so. The
 * node of a boundary holds what all rows from it to the next boundary of its level weigh, where that is, and their
 * reduction. There is nothing to split or to balance, and rows that came in any order make the same nodes, byte for
 * byte.
 */
import assert from 'node:assert/strict'
import { compareBytes } from '../../encoding/bytes/short-bytes.ts'
import type { KeyRange, Put, Snapshot } from '../store.ts'
import { type RangePart, RangeReduction, type ReducedThrough } from './range-reduction.ts'
import { KnownRuns, type PlaceInAll, RowCounts, type WeightMove } from './row-counts.ts'
import { TouchedSpans, type TouchingChange } from './touched-spans.ts'
import { checkNodes, rebuiltNodes, TreeBuilder, type TreeCheckOptions, type TreeFaults } from './tree-builder.ts'
import {
  encodeNode,
  type Item,
  type ItemChange,
  NO_VALUE,
  type ReducibleRow,
  SENTINEL,
  TreeLayout,
} from './tree-layout.ts'
import { BoundaryHints, type Lookup, TreeReader } from './tree-reader.ts'
import { type NodeChanges, type Reducer, updateNodes } from './tree-update.ts'

export { SALT_BYTES } from './tree-layout.ts'
export type { PlaceInAll, RangePart, ReducedThrough, Reducer, ReducibleRow, TreeBuilder, TreeFaults }

export interface RankTreeOptions {
  /** Rows are what begins with this; keys are given and answered without it. */
  readonly rowPrefix: Uint8Array
  /** Nodes are what begins with this. */
  readonly nodePrefix: Uint8Array
  /** Random bytes, kept with the tree: who does not know them cannot choose keys that are never boundaries. */
  readonly salt: Uint8Array
  /** A power of two: as many items a node stands for on average. */
  readonly fanOut?: number
  /** A whole number, not negative. Without it every row weighs 1, and counting reads keys only. */
  readonly weightOf?: (value: Buffer) => number
  readonly reducer?: Reducer
  /** For trees of the same rows that learn from each other. */
  readonly memory?: TreeMemory | undefined
}

/** What is known of a tree without reading: where boundaries are, and the nodes of its newest state that were read. */
export class TreeMemory {
  readonly hints = new BoundaryHints()
  readonly runs = new KnownRuns()
}

/** The nodes that change. */
export interface PlannedNodes extends NodeChanges {
  /** What the rows add to nodes, where nothing else changes; undefined where boundaries come or go, or reductions change. */
  readonly moves?: readonly WeightMove[] | undefined
}

export interface RowChange {
  readonly key: Uint8Array
  /** What the row weighs in the snapshot; undefined when it is not there. */
  readonly before: number | undefined
  /** What it will weigh; undefined when it goes. */
  readonly after: number | undefined
  /** What it will hold; needed where reductions are kept. */
  readonly value?: Uint8Array
}

/** Counts move without reading, so wide intervals cost little; reductions are made of all that an interval holds. */
const COUNT_FAN_OUT = 64
const REDUCTION_FAN_OUT = 16

export class RankTree {
  readonly #layout: TreeLayout
  readonly #memory: TreeMemory
  readonly #weightOf: ((value: Buffer) => number) | undefined
  readonly #reducer: Reducer | undefined

  constructor(options: RankTreeOptions) {
    const { rowPrefix, nodePrefix, salt, weightOf, reducer } = options
    const fanOut = options.fanOut ?? (reducer ? REDUCTION_FAN_OUT : COUNT_FAN_OUT)
    this.#layout = new TreeLayout({ rowPrefix, nodePrefix, salt, fanOut })
    this.#memory = options.memory ?? new TreeMemory()
    this.#weightOf = weightOf
    this.#reducer = reducer
  }

  /** The range of the nodes: cleared before a tree is rebuilt. */
  get nodeRange(): KeyRange {
    return this.#layout.nodeRange()
  }

  /**
   * The nodes that change together with these rows, one change a key and in the order of the keys. They belong into the
   * commit of the rows, which must be made for the state of the snapshot and no other.
   */
  async planChanges(snapshot: Snapshot, changes: readonly RowChange[]): Promise<PlannedNodes> {
    const rows = this.#itemChanges(changes)
    if (rows.length === 0) return { puts: [], deletes: [], moves: [] }
    const reader = this.#reader(snapshot)
    const reducing = this.#reducer !== undefined
    const touching = this.#touching(rows)
    const moved = !reducing && onlyMovesWeights(touching) ? await this.#moved(snapshot, rows, touching) : undefined
    if (moved) return moved
    const spans = await TouchedSpans.find(reader, this.#layout, touching, { reducing })
    return updateNodes(this.#layout, this.#reducer, rows, spans)
  }

  /**
   * Planned changes were committed to a state of the store, or none of its rows were changed: what is known of that state
   * is not read again in the one after it.
   */
  committed(before: number, after: number, { moves }: Pick<PlannedNodes, 'moves'> = NO_MOVES): void {
    if (moves) this.#memory.runs.follow(before, after, moves)
  }

  /** What all rows weigh. */
  total(snapshot: Snapshot): Promise<number> {
    return this.#counts(snapshot).total()
  }

  /** What all rows before the key weigh. */
  async rank(snapshot: Snapshot, key: Uint8Array): Promise<number> {
    return (await this.place(snapshot, key)).before
  }

  /** The same, and what all rows weigh. */
  place(snapshot: Snapshot, key: Uint8Array): Promise<PlaceInAll> {
    return this.#counts(snapshot).place(key)
  }

  /** What the rows from `from` (inclusive) to `to` (exclusive) weigh; an absent bound is open. */
  async countBetween(snapshot: Snapshot, from: Uint8Array | undefined, to: Uint8Array | undefined): Promise<number> {
    const counts = this.#counts(snapshot)
    const end = to ? (await counts.place(to)).before : await counts.total()
    return Math.max(0, end - (from ? (await counts.place(from)).before : 0))
  }

  /**
   * The key of the row with which the weight of all rows so far exceeds `position`: where rows weigh 0 or 1, the row
   * that has `position` weighing ones before it. Undefined when they all weigh no more than that.
   */
  async select(snapshot: Snapshot, position: number): Promise<Buffer | undefined> {
    assert(Number.isSafeInteger(position) && position >= 0, 'A position is a whole number, not negative.')
    return this.#counts(snapshot).select(position)
  }

  /** What has to be rereduced for a range. Only for a tree with reductions. */
  async reduceRange(
    snapshot: Snapshot,
    from: Uint8Array | undefined,
    to: Uint8Array | undefined,
  ): Promise<RangePart[]> {
    assert(this.#reducer, 'The tree keeps no reductions.')
    if (!from && !to) return this.#reduceAll(snapshot)
    return new RangeReduction(this.#reader(snapshot), this.#counts(snapshot)).reduce(from, to)
  }

  /**
   * The same, with the rows that follow the range up to the next boundary; with `reverse` those before it, backwards.
   * For callers that continue there: these rows are in the page that has to be read in any case.
   */
  async reduceThrough(
    snapshot: Snapshot,
    from: Uint8Array | undefined,
    to: Uint8Array | undefined,
    { reverse }: { readonly reverse: boolean },
  ): Promise<ReducedThrough> {
    assert(this.#reducer, 'The tree keeps no reductions.')
    return new RangeReduction(this.#reader(snapshot), this.#counts(snapshot)).reduceThrough(from, to, { reverse })
  }

  /** One node stands for all rows. */
  async #reduceAll(snapshot: Snapshot): Promise<RangePart[]> {
    const top = (await this.#reader(snapshot).sentinels()).at(-1)
    return top && top.value.length > 0 ? [{ kind: 'reductions', reductions: [top.value] }] : []
  }

  /** Makes the nodes of rows that are handed to it, in key order: for a first build. */
  builder(): TreeBuilder {
    return new TreeBuilder(this.#layout, this.#reducer, this.#weightOf)
  }

  /** All nodes as the rows of the snapshot ask for, whatever nodes it has. */
  rebuild(snapshot: Snapshot): AsyncGenerator<Put[]> {
    return rebuiltNodes(snapshot, this.#layout, this.builder())
  }

  /** Holds every node against the rows it stands for. Reads all rows and all nodes, a page at a time. */
  check(snapshot: Snapshot, options: TreeCheckOptions = {}): Promise<TreeFaults> {
    return checkNodes(snapshot, this.#layout, this.builder(), options)
  }

  #counts(snapshot: Snapshot): RowCounts {
    const rows = { weightOf: this.#weightOf, keepValues: false }
    const reader = new TreeReader(snapshot, this.#layout, rows, this.#memory.hints)
    return new RowCounts(snapshot, reader, this.#layout, this.#memory.runs, { keepsRows: this.#reducer === undefined })
  }

  #reader(snapshot: Snapshot): TreeReader {
    const rows = { weightOf: this.#weightOf, keepValues: this.#reducer !== undefined }
    return new TreeReader(snapshot, this.#layout, rows, this.#memory.hints)
  }

  /** Undefined where the tree has no nodes yet, so that the first ones have to be made. */
  async #moved(
    snapshot: Snapshot,
    rows: readonly ItemChange[],
    changes: readonly TouchingChange[],
  ): Promise<PlannedNodes | undefined> {
    const lookups: Lookup[] = []
    for (let level = 1; level <= this.#layout.levels; level++) {
      for (const { boundary } of changes) lookups.push({ level, key: boundary })
    }
    const nodes = (await this.#knownNodes(snapshot, changes)) ?? (await this.#reader(snapshot).find(lookups))
    if (!nodes[0]) return undefined
    const puts = movedWeights(this.#layout, rows, lookups, nodes)
    const moves = rows.map((row, i) => ({ boundary: changes[i]!.boundary, difference: difference(row) }))
    return { puts, deletes: [], moves }
  }

  /** The nodes above the changes, level by level from the lowest on, where all of them are known. */
  async #knownNodes(snapshot: Snapshot, changes: readonly TouchingChange[]): Promise<(Item | undefined)[] | undefined> {
    const { runs } = this.#memory
    if (runs.isEmpty) return undefined
    const tree = runs.knownOf(await snapshot.version())
    const paths: Item[][] = []
    for (const { boundary } of changes) {
      const path = tree?.nodesAt(boundary)
      if (!path) return undefined
      paths.push(path)
    }
    return Array.from({ length: this.#layout.levels }, (_, level) => paths.map((path) => path[level])).flat()
  }

  #itemChanges(changes: readonly RowChange[]): ItemChange[] {
    const items: ItemChange[] = []
    let last = SENTINEL
    for (const change of changes) {
      const key = asBuffer(change.key)
      if (compareBytes(last, key) >= 0) assert.fail('Changes of rows come in the order of their keys, none is empty.')
      last = key
      if (this.#changesNothing(change)) continue
      items.push({ key, before: change.before, after: this.#itemAfter(change, key) })
    }
    return items
  }

  #changesNothing({ before, after }: RowChange): boolean {
    return before === after && (before === undefined || !this.#reducer)
  }

  #itemAfter({ after, value }: RowChange, key: Buffer): Item | undefined {
    if (after === undefined) return undefined
    if (!Number.isSafeInteger(after) || after < 0) assert.fail('A weight is a whole number, not negative.')
    if (!this.#reducer) return { key, weight: after, value: NO_VALUE, next: undefined }
    assert(value, 'A reduction needs the value of a row that changes.')
    return { key, weight: after, value: asBuffer(value), next: undefined }
  }

  #touching(rows: readonly ItemChange[]): TouchingChange[] {
    return rows.map(({ key, before, after }) => {
      const boundary = this.#layout.boundaryOf(key)
      const kind = before === undefined ? 'inserted' : after === undefined ? 'removed' : 'kept'
      return { boundary, level: this.#layout.levelOf(boundary), kind }
    })
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  if (bytes instanceof Buffer) return bytes
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}

const NO_MOVES: Pick<PlannedNodes, 'moves'> = { moves: [] }

/** More rows are looked up level by level, since they meet in few nodes. */
const FEW = 8

/**
 * Whether the changes only move weights, as those of most single writes: no boundary comes or goes, so the nodes above the
 * rows stay as they are, apart from their weights, and nothing but these nodes has to be read. A row that goes may be the
 * last one of its level.
 */
function onlyMovesWeights(changes: readonly TouchingChange[]): boolean {
  return changes.length <= FEW && changes.every(({ level, kind }) => level === 0 && kind !== 'removed')
}

/** Those of the nodes that weigh something else. */
function movedWeights(
  layout: TreeLayout,
  rows: readonly ItemChange[],
  lookups: readonly Lookup[],
  nodes: readonly (Item | undefined)[],
): Put[] {
  const puts: Put[] = []
  // Where a level is not there, none above it is.
  for (let i = 0; i < nodes.length && nodes[i]; ) {
    const node = nodes[i]!
    const { level } = lookups[i]!
    let { weight } = node
    // Rows are in the order of their keys: those of a node are side by side.
    for (; lookups[i]?.level === level && isSame(nodes[i], node); i++) weight += difference(rows[i % rows.length]!)
    assert(weight >= 0, 'A tree and its rows disagree: a node would weigh less than nothing.')
    if (weight !== node.weight) puts.push([layout.storeKey(level, node.key), encodeNode({ ...node, weight })])
  }
  return puts
}

function isSame(node: Item | undefined, other: Item): boolean {
  return node !== undefined && (node === other || compareBytes(node.key, other.key) === 0)
}

function difference({ before = 0, after }: ItemChange): number {
  return (after?.weight ?? 0) - before
}
