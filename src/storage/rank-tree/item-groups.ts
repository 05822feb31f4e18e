/** Pure work on runs of items: merging changes into them, and cutting them where the next level has a boundary. */
import assert from 'node:assert/strict'
import { compareBytes } from '../../encoding/bytes/byte-order.ts'
import type { Group, Item, ItemChange } from './tree-item.ts'
import type { TreeLayout } from './tree-layout.ts'

/** The items as they are after the changes. Both lists are in the order of their keys. */
export function merge(items: readonly Item[], changes: readonly ItemChange[]): Item[] {
  const merged: Item[] = []
  let next = 0
  for (const change of changes) {
    while (next < items.length && compareBytes(items[next]!.key, change.key) < 0) merged.push(items[next++]!)
    const found = next < items.length && items[next]!.key.equals(change.key)
    if (found !== (change.before !== undefined)) assert.fail('A change list does not fit the rows it is made for.')
    if (found) next++
    if (change.after) merged.push(change.after)
  }
  while (next < items.length) merged.push(items[next++]!)
  return merged
}

/** A run of items and the boundaries it lies between; the one at its end is undefined where the level ends. */
export interface Run {
  readonly start: Buffer
  readonly items: readonly Item[]
  readonly end: Buffer | undefined
}

/** The groups that nodes of `level` stand for, out of items of the level below. The first is there even when empty. */
export function cut(layout: TreeLayout, level: number, { start, items, end }: Run): Group[] {
  let group: Group = { start, items: [], next: end }
  const groups = [group]
  for (const item of items) {
    const boundary = layout.reachOf(item) >= level ? layout.boundaryOf(item.key) : undefined
    if (boundary && !boundary.equals(group.start)) {
      group.next = boundary
      group = { start: boundary, items: [], next: end }
      groups.push(group)
    }
    group.items.push(item)
  }
  return groups
}
