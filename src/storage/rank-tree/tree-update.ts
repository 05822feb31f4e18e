/**
 * Works out which nodes change when rows do. Level by level: the changed items of a level fall into spans of the next
 * one, whose nodes change with them, and those are the changed items in their turn. Only spans of counts that keep
 * their boundaries are moved by a difference; everything else is made again out of what it stands for.
 */
import assert from 'node:assert/strict'
import { compareBytes } from '../../encoding/bytes/byte-order.ts'
import type { Put } from '../rows/row.ts'
import { cut, merge } from './item-groups.ts'
import { type Reducer, summarise } from './summary.ts'
import type { Span } from './touched-spans.ts'
import { encodeNode, type Group, type Item, type ItemChange, weightOfAll } from './tree-item.ts'
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
      if (after) puts.push([layout.storeKey(level, key), encodeNode(after)])
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
  const parts = distribute(spans, changes).map((part) => changedSpan(layout, level, part))
  const nodes = await summarise(
    level,
    parts.flatMap(({ groups }) => groups),
    reducer,
  )
  const changed: ItemChange[] = []
  let next = 0
  for (const { moved, groups, before } of parts) {
    if (moved) changed.push(moved)
    const after = nodes.slice(next, next + groups.length)
    next += groups.length
    // A reduction is made of values, which may have changed under the same weight.
    for (const change of differences(before, after, { reducing: reducer !== undefined })) changed.push(change)
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
    while (next < changes.length && (!following || compareBytes(changes[next]!.key, following.start) < 0)) next++
    if (next > first) parts.push({ span, changes: changes.slice(first, next) })
  }
  assert(next === changes.length, 'A change lies in none of the spans.')
  return parts
}

/** A span after its changes: the groups to make nodes of, or the node that only moves. */
interface ChangedSpan {
  readonly groups: readonly Group[]
  /** The groups that the nodes of the span stood for before. */
  readonly before: readonly Group[]
  readonly moved: ItemChange | undefined
}

const NO_GROUPS: readonly Group[] = []

function changedSpan(layout: TreeLayout, level: number, { span, changes }: SpanChanges): ChangedSpan {
  const { start, node, run } = span
  if (!span.isCutAnew) return { groups: NO_GROUPS, before: NO_GROUPS, moved: node && move(node, changes) }
  assert(run, 'A span that is cut anew was not read.')
  const items = merge(run.items, changes)
  const levelGoes = run.end === undefined && start.length === 0 && items.every(({ key }) => key.length === 0)
  return {
    groups: levelGoes ? NO_GROUPS : cut(layout, level, { ...run, items }),
    before: node ? cut(layout, level, run) : NO_GROUPS,
    moved: undefined,
  }
}

function move(node: Item, changes: readonly ItemChange[]): ItemChange | undefined {
  let { weight } = node
  for (const { before = 0, after } of changes) weight += (after?.weight ?? 0) - before
  assert(weight >= 0, 'A tree and its rows disagree: a node would weigh less than nothing.')
  if (weight === node.weight) return undefined
  return { key: node.key, before: node.weight, after: { ...node, weight } }
}

/** From the nodes that were to those that are; both lists in the order of their keys. */
function* differences(
  before: readonly Group[],
  after: readonly Item[],
  { reducing }: { readonly reducing: boolean },
): Generator<ItemChange> {
  let next = 0
  for (const node of after) {
    while (next < before.length && Buffer.compare(before[next]!.start, node.key) < 0) yield gone(before[next++]!)
    const old = before[next]?.start.equals(node.key) ? before[next++] : undefined
    const weight = old && weightOfAll(old.items)
    const isSame = weight === node.weight && isSameKey(old?.next, node.next)
    if (reducing || !isSame) yield { key: node.key, before: weight, after: node }
  }
  while (next < before.length) yield gone(before[next++]!)
}

function gone({ start, items }: Group): ItemChange {
  return { key: start, before: weightOfAll(items), after: undefined }
}

function isSameKey(a: Buffer | undefined, b: Buffer | undefined): boolean {
  return a && b ? a.equals(b) : a === b
}
