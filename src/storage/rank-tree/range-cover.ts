/**
 * Covers a range of rows with as few items as the tree allows, in the order of the keys: rows up to the first boundary,
 * nodes of rising levels, nodes of falling levels, rows after the last boundary. All boundaries where the level changes
 * are looked up in one turn and all stretches between them read in the next: two round trips, however many levels.
 */
import { type Item, SENTINEL } from './tree-item.ts'
import type { TreeLayout } from './tree-layout.ts'
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
  layout: TreeLayout,
  from: Uint8Array | undefined,
  to: Uint8Array | undefined,
): Promise<Stretch[]> {
  const levels = Array.from({ length: layout.levels }, (_, i) => i + 1)
  const found = await reader.find([
    ...levels.map((level) => ({ level, key: from ?? SENTINEL })),
    ...levels.map((level) => ({ level, key: to })),
  ])
  const ceilings = found.slice(0, layout.levels).map((node) => ceilingOf(node, from ?? SENTINEL))
  const floors = found.slice(layout.levels).map((node) => node?.key)
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
function ceilingOf(node: Item | undefined, key: Uint8Array): Buffer | undefined {
  return node?.key.equals(key) ? node.key : node?.next
}

function isEmpty({ from = SENTINEL, to }: Bounds): boolean {
  return to !== undefined && Buffer.compare(from, to) >= 0
}
