/**
 * Turns groups of items into the nodes that stand for them. Weights are added up here; reductions are made by whoever
 * knows what the rows mean, all groups of a level in one call.
 */
import assert from 'node:assert/strict'
import { type Group, type Item, NO_VALUE, weightOfAll } from './tree-item.ts'

/** A reduction is a byte string that is not empty; its meaning is the reducer's own. */
export interface Reducer {
  /** One reduction a group, in the order of the groups, none of which is empty. */
  reduce(groups: readonly (readonly ReducibleRow[])[]): Promise<readonly Uint8Array[]>
  rereduce(groups: readonly (readonly Uint8Array[])[]): Promise<readonly Uint8Array[]>
}

export interface ReducibleRow {
  /** Without the prefix of the rows. */
  readonly key: Buffer
  readonly value: Buffer
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
