/**
 * Covers a range of rows with as few items as the tree allows, in the order of the keys: rows up to the first boundary,
 * nodes of rising levels, nodes of falling levels, rows after the last boundary. The boundaries where the level changes
 * lie on the ways from the top to the two ends; all stretches between them are read in one turn.
 */
import type { CountedNode } from './known-runs.ts'
import type { RowCounts } from './row-counts.ts'
import { type Item, SENTINEL } from './tree-item.ts'
import { inTurns, type TreeReader } from './tree-reader.ts'

/** A run of items of one level. */
export interface Stretch {
  readonly level: number
  readonly items: readonly Item[]
}

interface Bounds {
  readonly level: number
  readonly from: Uint8Array | undefined
  readonly to: Uint8Array | undefined
}

/** From `from` (inclusive) to `to` (exclusive); an absent bound is open. */
export async function coverRange(
  reader: TreeReader,
  counts: RowCounts,
  from: Uint8Array | undefined,
  to: Uint8Array | undefined,
): Promise<Stretch[]> {
  const lowEnd = (await counts.path(from ?? SENTINEL)).reverse()
  const highEnd = (await counts.path(to)).reverse()
  const ceilings = lowEnd.map((node) => ceilingOf(node, from ?? SENTINEL))
  const floors = highEnd.map(({ key }) => key)
  const bounds = stretches(from, to, ceilings, floors)
  return inTurns(bounds, async ({ level, from, to }) => ({ level, items: await reader.range(level, from, to) }))
}

function stretches(
  from: Uint8Array | undefined,
  to: Uint8Array | undefined,
  ceilings: readonly (Buffer | undefined)[],
  floors: readonly (Buffer | undefined)[],
): Bounds[] {
  const rising: Bounds[] = []
  const falling: Bounds[] = []
  let level = 0
  let low = from
  let high = to
  for (const [i, ceiling] of ceilings.entries()) {
    const floor = floors[i]
    // No boundary of this level inside the range: those of higher levels are fewer still.
    if (!ceiling || !floor || Buffer.compare(ceiling, floor) > 0) break
    rising.push({ level, from: low, to: ceiling })
    falling.unshift({ level, from: floor, to: high })
    level = i + 1
    low = ceiling
    high = floor
  }
  return [...rising, { level, from: low, to: high }, ...falling].filter((each) => !isEmpty(each))
}

/** The first boundary at or after a key, given the last node at or before it. */
function ceilingOf({ key: boundary, next }: CountedNode, key: Uint8Array): Buffer | undefined {
  return boundary.equals(key) ? boundary : next
}

function isEmpty({ from = SENTINEL, to }: Bounds): boolean {
  return to !== undefined && Buffer.compare(from, to) >= 0
}
