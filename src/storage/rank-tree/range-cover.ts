/**
 * Covers a range of rows with as few items as the tree allows, in the order of the keys: rows up to the first boundary,
 * nodes of rising levels, nodes of falling levels, rows after the last boundary. All nodes lie in the runs on the paths
 * from the top to the two ends, so once these are known only the rows have to be read.
 */
import type { CountedNode, CountedRun } from './known-runs.ts'
import { SENTINEL } from './tree-item.ts'

/** The end of a range that is not bounded is the sentinel below and undefined above. */
export interface RangeEnds {
  readonly from: Uint8Array
  readonly to: Uint8Array | undefined
}

/** Rows, which have to be read, or nodes of one run. */
export type CoverPart = RowSpan | NodeSpan

export interface RowSpan extends RangeEnds {
  readonly level: 0
}

export interface NodeSpan extends RangeEnds {
  readonly level: number
  readonly run: CountedRun
  /** The first of the nodes and the one after the last, by their indexes in the run. */
  readonly first: number
  readonly end: number
}

export function isRowSpan(part: CoverPart): part is RowSpan {
  return part.level === 0
}

/** The paths lead to the last node at or before each end of the range, the highest level first. */
export function coverRange(
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
