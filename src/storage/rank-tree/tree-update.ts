/**
 * Works out which nodes change when rows do, level by level. The changed items of a level fall into spans of the next one.
 * The nodes of these spans change with them, and are the changed items of the next step. A span of counts that keeps its
 * boundaries is updated by a difference. Any other is cut and reduced again from its items.
 */
import assert from 'node:assert/strict'
import { compareBytes } from '../../encoding/bytes/short-bytes.ts'
import type { Put } from '../store.ts'
import type { Span } from './touched-spans.ts'
import {
  encodeNode,
  type Group,
  type Item,
  type ItemChange,
  NO_VALUE,
  type ReducibleRow,
  type Run,
  type TreeLayout,
  weightOfAll,
} from './tree-layout.ts'

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
  assert(run, 'A span that is split again was not read.')
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

/** A reduction is a byte string that is not empty; its meaning is the reducer's own. */
export interface Reducer {
  /** One reduction a group, in the order of the groups, none of which is empty. */
  reduce(groups: readonly (readonly ReducibleRow[])[]): Promise<readonly Uint8Array[]>
  rereduce(groups: readonly (readonly Uint8Array[])[]): Promise<readonly Uint8Array[]>
}

/** The nodes of `level` for groups of items of the level below. */
export async function summarise(
  level: number,
  groups: readonly Group[],
  reducer: Reducer | undefined,
): Promise<Item[]> {
  const reductions = reducer && (await reduceGroups(level, groups, reducer))
  return groups.map(({ start, items, next }, i) => ({
    key: start,
    next,
    weight: weightOfAll(items),
    value: reductions?.[i] ?? NO_VALUE,
  }))
}

async function reduceGroups(level: number, groups: readonly Group[], reducer: Reducer): Promise<Buffer[]> {
  // A sentinel without rows has no reduction, and adds nothing to the one above it.
  const inputs = groups.map(({ items }) => (level === 1 ? items : items.filter(({ value }) => value.length > 0)))
  const filled = inputs.filter((items) => items.length > 0)
  if (filled.length === 0) return inputs.map(() => NO_VALUE)
  const reduced =
    level === 1
      ? await reducer.reduce(filled)
      : await reducer.rereduce(filled.map((items) => items.map(({ value }) => value)))
  assert(reduced.length === filled.length, 'A reducer answers with one reduction a group.')
  let next = 0
  return inputs.map((items) => (items.length === 0 ? NO_VALUE : asReduction(reduced[next++]!)))
}

function asReduction(bytes: Uint8Array): Buffer {
  assert(bytes.length > 0, 'A reduction is not empty.')
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}
