/**
 * Makes the nodes for rows that come in key order, without reading any: for first builds, and to verify a tree. It keeps the
 * nodes since the last `drain` and one open group a level.
 */
import type { KeyRange, Put, Snapshot } from '../store.ts'
import {
  decodeNode,
  encodeNode,
  type Group,
  type Item,
  NO_VALUE,
  PlacedRow,
  SENTINEL,
  type TreeLayout,
} from './tree-layout.ts'
import { type Reducer, summarise } from './tree-update.ts'

const LARGE_VALUE_BYTES = 16 * 1024

export class TreeBuilder {
  readonly #layout: TreeLayout
  readonly #reducer: Reducer | undefined
  readonly #weightOf: ((value: Buffer) => number) | undefined
  /** By level less one. */
  readonly #levels: LevelBuilder[]
  /** By level less one. */
  readonly #finished: Put[][]

  constructor(layout: TreeLayout, reducer: Reducer | undefined, weightOf?: (value: Buffer) => number) {
    this.#layout = layout
    this.#reducer = reducer
    this.#weightOf = weightOf
    this.#levels = Array.from({ length: layout.levels }, (_, i) => new LevelBuilder(layout, i + 1))
    this.#finished = this.#levels.map(() => [])
  }

  /** The next row; its key is without the prefix of the rows. Both buffers are kept until the next drain. */
  add(key: Buffer, value: Buffer): void {
    this.#levels[0]!.add({ key, weight: this.#weightOf ? this.#weightOf(value) : 1, value, next: undefined })
  }

  /** The next row, as a part of a block, which is kept until the next drain. */
  addWithin(block: Buffer, keyAt: number, valueAt: number, end: number): void {
    const weight = this.#weightOf ? this.#weightOf(block.subarray(valueAt, end)) : 1
    if (!this.#reducer && end - valueAt > LARGE_VALUE_BYTES) {
      // The value is not needed any more, and would keep the whole block alive.
      this.#levels[0]!.add({
        key: Buffer.from(block.subarray(keyAt, valueAt)),
        weight,
        value: NO_VALUE,
        next: undefined,
      })
      return
    }
    this.#levels[0]!.add(new PlacedRow(block, keyAt, valueAt, end, weight))
  }

  /**
   * Nodes that are finished. Called every some thousand rows: each call reduces once a level. All that this and `finish`
   * give out is in the order of their keys; so nodes of higher levels, which are few, wait for the end.
   */
  async drain(): Promise<Put[]> {
    await this.#take((level) => level.takeClosed())
    return this.#finished[0]?.splice(0) ?? []
  }

  /** All other nodes. Nothing may be added afterwards. */
  async finish(): Promise<Put[]> {
    await this.#take((level) => level.takeAll())
    return this.#finished.flat()
  }

  async #take(take: (level: LevelBuilder) => Group[]): Promise<void> {
    for (const [i, level] of this.#levels.entries()) {
      const nodes = await summarise(i + 1, take(level), this.#reducer)
      for (const node of nodes) {
        this.#finished[i]?.push([this.#layout.storeKey(i + 1, node.key), encodeNode(node)])
        this.#levels[i + 1]?.add(node)
      }
    }
  }
}

/** Groups the items of the level below as they come. */
class LevelBuilder {
  readonly #layout: TreeLayout
  readonly #level: number
  #open: Group = { start: SENTINEL, items: [], next: undefined }
  #closed: Group[] = []
  /** A level is there when the one below has more than its sentinel. */
  #isThere = false

  constructor(layout: TreeLayout, level: number) {
    this.#layout = layout
    this.#level = level
  }

  add(item: Item): void {
    // Most items are no boundary: nothing need be made of their keys.
    if (this.#layout.reachOf(item) >= this.#level) this.#begin(this.#layout.boundaryOf(item.key))
    else this.#isThere = true
    this.#open.items.push(item)
  }

  #begin(boundary: Buffer): void {
    // The sentinel of the level below: this level begins with it.
    if (boundary.length === 0) return
    this.#isThere = true
    if (boundary.equals(this.#open.start)) return
    this.#open.next = boundary
    this.#closed.push(this.#open)
    this.#open = { start: boundary, items: [], next: undefined }
  }

  takeClosed(): Group[] {
    const closed = this.#closed
    this.#closed = []
    return closed
  }

  takeAll(): Group[] {
    return this.#isThere ? [...this.takeClosed(), this.#open] : []
  }
}

const ROWS_A_DRAIN = 4096

/** All nodes as the rows of the snapshot ask for, whatever nodes it has. */
export async function* rebuiltNodes(
  snapshot: Snapshot,
  layout: TreeLayout,
  builder: TreeBuilder,
): AsyncGenerator<Put[]> {
  const offset = layout.keyOffset(0)
  let undrained = 0
  for (let rest: KeyRange | undefined = layout.range(0); rest; ) {
    const page = await snapshot.page(rest)
    for (let row = 0; row < page.length; row++) builder.add(page.key(row).subarray(offset), page.value(row))
    undrained += page.length
    if (undrained >= ROWS_A_DRAIN) {
      yield await builder.drain()
      undrained = 0
    }
    rest = page.next
  }
  yield await builder.finish()
}

export interface TreeCheckOptions {
  /** Leaves the reductions out, for who cannot make them. */
  readonly weightsOnly?: boolean
}

export interface TreeFaults {
  /** Nodes that are missing or wrong. */
  readonly wrong: number
  /** Nodes that should not exist. */
  readonly extra: number
}

/** Holds every node against the rows it stands for. Reads all rows and all nodes, a page at a time. */
export async function checkNodes(
  snapshot: Snapshot,
  layout: TreeLayout,
  builder: TreeBuilder,
  options: TreeCheckOptions,
): Promise<TreeFaults> {
  const isRight = options.weightsOnly ? hasSameWeight : hasSameBytes
  let expected = 0
  let right = 0
  let present = 0
  for await (const puts of rebuiltNodes(snapshot, layout, builder)) {
    const stored = await snapshot.getMany(puts.map(([key]) => key))
    expected += puts.length
    right += puts.filter(([, value], i) => stored[i] !== undefined && isRight(stored[i], value)).length
    present += stored.filter((value) => value !== undefined).length
  }
  let nodes = 0
  for (let rest: KeyRange | undefined = layout.nodeRange(); rest; ) {
    const page = await snapshot.page(rest, { keysOnly: true })
    nodes += page.length
    rest = page.next
  }
  return { wrong: expected - right, extra: nodes - present }
}

function hasSameBytes(stored: Buffer, value: Uint8Array): boolean {
  return stored.equals(value)
}

function hasSameWeight(stored: Buffer, value: Uint8Array): boolean {
  const [found, right] = [decodeNode(SENTINEL, stored), decodeNode(SENTINEL, Buffer.from(value))]
  return found.weight === right.weight && (found.next ?? SENTINEL).equals(right.next ?? SENTINEL)
}
