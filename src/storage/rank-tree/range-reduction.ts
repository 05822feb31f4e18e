/** What a range of rows is reduced from: reductions of nodes, most of which are cached, and the rows at its ends. */
import { compareBytes } from '../../encoding/bytes/short-bytes.ts'
import type { KeptRows, Piece } from './kept-rows.ts'
import type { CountedNode, CountedRun, RowCounts } from './row-counts.ts'
import { type Item, type ReducibleRow, SENTINEL, weightOfAll } from './tree-layout.ts'
import type { TreeReader } from './tree-reader.ts'

/** What a range of rows reduces to, in key order: rows at its edges, reductions of what lies between. */
export type RangePart =
  | { readonly kind: 'rows'; readonly rows: readonly ReducibleRow[] }
  | { readonly kind: 'reductions'; readonly reductions: readonly Buffer[] }

/** What a range reduces to, and what lies next to it. */
export interface ReducedThrough {
  readonly parts: readonly RangePart[]
  /** What the rows of the range weigh. */
  readonly weight: number
  /** The rows next to the range, in the order of reading. */
  readonly beyond: readonly ReducibleRow[]
  /** Where reading goes on: all rows up to this key were given, or, in reverse, all from it on. Undefined at the end of all. */
  readonly position: Buffer | undefined
}

export class RangeReduction {
  readonly #reader: TreeReader
  readonly #counts: RowCounts

  constructor(reader: TreeReader, counts: RowCounts) {
    this.#reader = reader
    this.#counts = counts
  }

  /** From `from` (inclusive) to `to` (exclusive); an absent bound is open. */
  async reduce(from: Uint8Array = SENTINEL, to: Uint8Array | undefined): Promise<RangePart[]> {
    const parts: RangePart[] = []
    const lowPath = await this.#counts.path(from)
    const highPath = to && isBefore(to, lowPath.at(-1)?.next) ? lowPath : await this.#counts.path(to)
    const [low, high] = [lowPath.at(-1), highPath.at(-1)]
    if (low && high && isShort(low, high)) {
      addPart(parts, rowPart(await this.#rowsOf(low.key.equals(high.key) ? [low] : [low, high], from, to)))
      return parts
    }
    for (const part of coverRange({ from, to }, lowPath, highPath)) {
      addPart(
        parts,
        isRowSpan(part) ? rowPart(await this.#reader.range(0, part.from, part.to)) : await this.#nodePart(part),
      )
    }
    return parts
  }

  async reduceThrough(
    from: Uint8Array = SENTINEL,
    to: Uint8Array | undefined,
    { reverse }: { readonly reverse: boolean },
  ): Promise<ReducedThrough> {
    const lowPath = await this.#counts.path(from)
    const highPath = await this.#counts.path(to)
    const edge = (reverse ? lowPath : highPath).at(-1)
    const position = reverse ? edge?.key : edge?.next
    const parts: RangePart[] = []
    let weight = 0
    let beyond: readonly Item[] | undefined
    for (const part of coverRange({ from, to }, lowPath, highPath)) {
      if (!isRowSpan(part)) {
        addPart(parts, await this.#nodePart(part))
        weight += part.run.weightBetween(part.first, part.end)
        continue
      }
      const isEdge = reverse ? part.from === from : part.to === to
      if (!isEdge) {
        const rows = await this.#reader.range(0, part.from, part.to)
        addPart(parts, rowPart(rows))
        weight += weightOfAll(rows)
        continue
      }
      const inside: Item[] = []
      const outside: Item[] = []
      for (const row of await this.#piece(edge)) {
        // The other end lies beyond the piece, unless all of the range is in it.
        const isAfter = part.from !== from || compareBytes(row.key, from) >= 0
        const isBefore = !to || part.to !== to || compareBytes(row.key, to) < 0
        if (isAfter && isBefore) inside.push(row)
        else if (reverse ? isBefore : isAfter) outside.push(row)
      }
      beyond = outside
      addPart(parts, rowPart(inside))
      weight += weightOfAll(inside)
    }
    // The range ends at a boundary: rows next to it lie in another piece than its own.
    if (!beyond) beyond = !reverse && to ? await this.#piece(edge) : []
    return { parts, weight, beyond: reverse ? beyond.toReversed() : beyond, position }
  }

  /** Rows of one node of the lowest level, or of two neighbours. They are read in one go the first time, and kept the second. */
  async #rowsOf(nodes: readonly CountedNode[], from: Uint8Array, to: Uint8Array | undefined): Promise<Item[]> {
    const kept = await this.#counts.keptRows()
    let isWorthKeeping = true
    for (const node of nodes) isWorthKeeping = kept.isWorthKeeping(node) && isWorthKeeping
    if (!isWorthKeeping) return this.#reader.range(0, from, to)
    const rows: Item[] = []
    for (const node of nodes) {
      const piece = kept.get(node) ?? (await this.#read(node, kept))
      for (const row of piece.between(from, to)) rows.push(row)
    }
    return rows
  }

  /** All rows that a node of the lowest level stands for. They are kept: the same groups are often asked for again. */
  async #piece(node: CountedNode | undefined): Promise<readonly Item[]> {
    if (!node) return []
    const kept = await this.#counts.keptRows()
    return (kept.get(node) ?? (await this.#read(node, kept))).between(undefined, undefined)
  }

  async #read(node: CountedNode, kept: KeptRows): Promise<Piece> {
    return kept.keep(node, await this.#reader.range(0, node.key, node.next))
  }

  async #nodePart({ level, run, first, end, from, to }: NodeSpan): Promise<RangePart> {
    const reductions = run.reductions(first, end)
    if (reductions) return { kind: 'reductions', reductions }
    const nodes = await this.#reader.range(level, from, to)
    return { kind: 'reductions', reductions: nodes.map(({ value }) => value).filter(({ length }) => length > 0) }
  }
}

/** Whether a range lies in one node of the lowest level, or in two neighbours: its rows are read in one go then. */
function isShort(low: CountedNode, high: CountedNode): boolean {
  return low.key.equals(high.key) || (low.next?.equals(high.key) ?? false)
}

function isBefore(key: Uint8Array, boundary: Buffer | undefined): boolean {
  return boundary !== undefined && compareBytes(key, boundary) < 0
}

function rowPart(rows: readonly ReducibleRow[]): RangePart {
  return { kind: 'rows', rows }
}

function addPart(parts: RangePart[], part: RangePart): void {
  if ((part.kind === 'rows' ? part.rows : part.reductions).length > 0) parts.push(part)
}

/** The end of a range that is not bounded is the sentinel below and undefined above. */
interface RangeEnds {
  readonly from: Uint8Array
  readonly to: Uint8Array | undefined
}

/** Rows, which have to be read, or nodes of one run. */
type CoverPart = RowSpan | NodeSpan

interface RowSpan extends RangeEnds {
  readonly level: 0
}

interface NodeSpan extends RangeEnds {
  readonly level: number
  readonly run: CountedRun
  /** The first of the nodes and the one after the last, by their indexes in the run. */
  readonly first: number
  readonly end: number
}

function isRowSpan(part: CoverPart): part is RowSpan {
  return part.level === 0
}

/** The paths lead to the last node at or before each end of the range, the highest level first. */
function coverRange(
  { from, to }: RangeEnds,
  lowPath: readonly CountedNode[],
  highPath: readonly CountedNode[],
): CoverPart[] {
  const rising: CoverPart[] = []
  const falling: CoverPart[] = []
  let low = from
  let high = to
  // The nodes of the level below whose boundaries are `low` and `high`.
  let lowNode: CountedNode | undefined
  let highNode: CountedNode | undefined
  let level = 0
  for (let i = lowPath.length - 1; i >= 0; i--) {
    const nextLow = lowPath[i]!
    const nextHigh = highPath[i]!
    const ceiling = ceilingOf(nextLow, from)
    const floor = nextHigh.key
    // No boundary of this level inside the range: those of higher levels are fewer still.
    if (!ceiling || Buffer.compare(ceiling, floor) > 0) break
    rising.push(
      lowNode
        ? nodes(level, lowNode.run, indexFrom(lowNode, from), lowNode.run.length, low, ceiling)
        : rows(low, ceiling),
    )
    falling.unshift(highNode ? nodes(level, highNode.run, 0, highNode.index, floor, high) : rows(floor, high))
    low = ceiling
    high = floor
    lowNode = nextLow
    highNode = nextHigh
    level++
  }
  const middle =
    lowNode && highNode
      ? nodes(level, lowNode.run, indexFrom(lowNode, from), highNode.index, low, high)
      : rows(low, high)
  return [...rising, middle, ...falling].filter((each) => !isEmpty(each))
}

function rows(from: Uint8Array, to: Uint8Array | undefined): RowSpan {
  return { level: 0, from, to }
}

function nodes(
  level: number,
  run: CountedRun,
  first: number,
  end: number,
  from: Uint8Array,
  to: Uint8Array | undefined,
): NodeSpan {
  return { level, run, first, end, from, to }
}

/** The first boundary at or after a key, given the last node at or before it. */
function ceilingOf({ key: boundary, next }: CountedNode, key: Uint8Array): Buffer | undefined {
  return boundary.equals(key) ? boundary : next
}

/** The index of the first node at or after a key, given the last one at or before it. */
function indexFrom({ key: boundary, index }: CountedNode, key: Uint8Array): number {
  return boundary.equals(key) ? index : index + 1
}

function isEmpty({ from = SENTINEL, to }: RangeEnds): boolean {
  return to !== undefined && Buffer.compare(from, to) >= 0
}
