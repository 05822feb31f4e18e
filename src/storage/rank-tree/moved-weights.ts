/**
 * The changes of most single writes, made the short way: no boundary comes or goes, and no reductions are kept. Then the nodes
 * above the rows stay as they are, apart from their weights, and nothing but these nodes has to be read.
 */
import assert from 'node:assert/strict'
import { compareBytes } from '../../encoding/bytes/short-bytes.ts'
import type { Put } from '../store.ts'
import type { TouchingChange } from './touched-spans.ts'
import { encodeNode, type Item, type ItemChange, type TreeLayout } from './tree-layout.ts'
import type { Lookup, TreeReader } from './tree-reader.ts'

/** More rows are looked up level by level, since they meet in few nodes. */
const FEW = 8

/** Whether the changes only move weights. A row that goes may be the last one of its level. */
export function onlyMovesWeights(changes: readonly TouchingChange[]): boolean {
  return changes.length <= FEW && changes.every(({ level, kind }) => level === 0 && kind !== 'removed')
}

/** The nodes that weigh something else; undefined where the tree has none yet, so that the first ones have to be made. */
export async function movedWeights(
  reader: TreeReader,
  layout: TreeLayout,
  rows: readonly ItemChange[],
  changes: readonly TouchingChange[],
): Promise<Put[] | undefined> {
  const lookups: Lookup[] = []
  for (let level = 1; level <= layout.levels; level++) {
    for (const { boundary } of changes) lookups.push({ level, key: boundary })
  }
  const nodes = await reader.find(lookups)
  if (!nodes[0]) return undefined
  const puts: Put[] = []
  // Where a level is not there, none above it is.
  for (let i = 0; i < nodes.length && nodes[i]; ) {
    const node = nodes[i]!
    const { level } = lookups[i]!
    let { weight } = node
    // Rows are in the order of their keys: those of a node are side by side.
    for (; lookups[i]?.level === level && isSame(nodes[i], node); i++) weight += difference(rows[i % rows.length]!)
    assert(weight >= 0, 'A tree and its rows disagree: a node would weigh less than nothing.')
    if (weight !== node.weight) puts.push([layout.storeKey(level, node.key), encodeNode({ ...node, weight })])
  }
  return puts
}

function isSame(node: Item | undefined, other: Item): boolean {
  return node !== undefined && (node === other || compareBytes(node.key, other.key) === 0)
}

function difference({ before = 0, after }: ItemChange): number {
  return (after?.weight ?? 0) - before
}
