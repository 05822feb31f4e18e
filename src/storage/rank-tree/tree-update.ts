/**
 * Works out which nodes change when rows do. Level by level: the changed items of a level fall into spans of the next
 * one, whose nodes change with them, and those are the changed items in their turn. Only spans of counts that keep
 * their boundaries are moved by a difference; everything else is made again out of what it stands for.
 */
import assert from 'node:assert/strict'
import type { Put } from '../store.ts'
import { cut, merge } from './item-groups.ts'
import { type Reducer, summarise } from './summary.ts'
import type { Span } from './touched-spans.ts'
import { encodeNode, type Group, type Item, type ItemChange, NO_VALUE, weightOfAll } from './tree-item.ts'
import type { TreeLayout } from './tree-layout.ts'

export interface NodeChanges {
  readonly puts: Put[]
  readonly deletes: Buffer[]
}

export async function updateNodes(
  layout: TreeLayout,
  reducer: Reducer | undefined,
  rows: readonly ItemChange[],
  spans: readonly (readonly Span[])[],
): Promise<NodeChanges> {
  const puts: Put[] = []
  const deletes: Buffer[] = []
  let changes = rows
  for (let level = 1; level <= layout.levels && changes.length > 0; level++) {
    changes = await changedNodes(layout, reducer, level, spans[level] ?? [], changes)
    for (const { key, after } of changes) {
      if (after) puts.push([layout.storeKey(level, key), encodeNode(after.weight, after.value)])
      else deletes.push(layout.storeKey(level, key))
    }
  }
  return { puts, deletes }
}

/** The nodes of a level that change, in the order of their keys. */
async function changedNodes(
  layout: TreeLayout,
  reducer: Reducer | undefined,
  level: number,
  spans: readonly Span[],
  changes: readonly ItemChange[],
): Promise<ItemChange[]> {
  const parts = distribute(spans, changes).map((part) => recut(layout, level, part))
  const nodes = await summarise(
    level,
    parts.flatMap(({ groups }) => groups),
    reducer,
  )
  const changed: ItemChange[] = []
  let next = 0
  for (const part of parts) {
    if (part.moved) changed.push(part.moved)
    const made = nodes.slice(next, next + part.groups.length)
    next += made.length
    for (const change of differences(part.weightsBefore, made)) {
      // A reduction is made of values, which may have changed under the same weight.
      if (reducer || change.before !== change.after?.weight) changed.push(change)
    }
  }
  return changed
}

interface SpanChanges {
  readonly span: Span
  readonly changes: readonly ItemChange[]
}

/** Every change goes to the last span that begins at or before it: the finder saw to it that this is the right one. */
function distribute(spans: readonly Span[], changes: readonly ItemChange[]): SpanChanges[] {
  const parts: SpanChanges[] = []
  let next = 0
  for (const [i, span] of spans.entries()) {
    const following = spans[i + 1]
    const first = next
    while (next < changes.length && (!following || Buffer.compare(changes[next]!.key, following.start) < 0)) next++
    if (next > first) parts.push({ span, changes: changes.slice(first, next) })
  }
  assert(next === changes.length, 'A change lies in none of the spans.')
  return parts
}

/** A span after its changes: the groups to make nodes of, or the node that only moves. */
interface ChangedSpan {
  readonly groups: readonly Group[]
  /** What the nodes of the span weighed before, by their boundaries. */
  readonly weightsBefore: readonly Pick<Item, 'key' | 'weight'>[]
  readonly moved: ItemChange | undefined
}

const UNTOUCHED: ChangedSpan = { groups: [], weightsBefore: [], moved: undefined }

function recut(layout: TreeLayout, level: number, { span, changes }: SpanChanges): ChangedSpan {
  const { start, weight, interval } = span
  if (!span.isCutAnew) return weight === undefined ? UNTOUCHED : moved(start, weight, changes)
  assert(interval, 'A span that is cut anew was not read.')
  const weightsBefore = cut(layout, level, start, interval.items).map((group) => ({
    key: group.start,
    weight: weightOfAll(group.items),
  }))
  const items = merge(interval.items, changes)
  const levelGoes = interval.last && start.length === 0 && items.every(({ key }) => key.length === 0)
  return {
    groups: levelGoes ? [] : cut(layout, level, start, items),
    weightsBefore: weight === undefined ? [] : weightsBefore,
    moved: undefined,
  }
}

function moved(start: Buffer, before: number, changes: readonly ItemChange[]): ChangedSpan {
  let weight = before
  for (const change of changes) weight += (change.after?.weight ?? 0) - (change.before ?? 0)
  assert(weight >= 0, 'A tree and its rows disagree: a node would weigh less than nothing.')
  if (weight === before) return UNTOUCHED
  return { ...UNTOUCHED, moved: { key: start, before, after: { key: start, weight, value: NO_VALUE } } }
}

/** From the nodes that were to those that are; both lists in the order of their keys. */
function* differences(before: readonly Pick<Item, 'key' | 'weight'>[], after: readonly Item[]): Generator<ItemChange> {
  let next = 0
  for (const node of after) {
    while (next < before.length && Buffer.compare(before[next]!.key, node.key) < 0) yield gone(before[next++]!)
    const same = next < before.length && before[next]!.key.equals(node.key)
    yield { key: node.key, before: same ? before[next++]!.weight : undefined, after: node }
  }
  while (next < before.length) yield gone(before[next++]!)
}

function gone({ key, weight }: Pick<Item, 'key' | 'weight'>): ItemChange {
  return { key, before: weight, after: undefined }
}
