/**
 * Which revision a document shows when it has several: every server that knows the same leaves chooses the same one,
 * whatever order they came in.
 */
import { compareHashes, type RevisionId } from './revision-id.ts'
import type { RevisionNode, RevisionTree } from './revision-tree.ts'

/** Orders leaves, best first: live before deleted, then the higher generation, then the higher hash. */
export function compareLeaves(left: RevisionNode, right: RevisionNode): number {
  if ((left.status === 'deleted') !== (right.status === 'deleted')) return left.status === 'deleted' ? 1 : -1
  return right.generation - left.generation || compareHashes(right.hash, left.hash)
}

/** The leaf that the document shows; a tombstone only when there is nothing else. */
export function winner(tree: RevisionTree): RevisionNode {
  return tree.bestLeaf()
}

export function leavesBestFirst(tree: RevisionTree): RevisionNode[] {
  return tree.leaves().sort(compareLeaves)
}

/** The live leaves that lost, best first. */
export function conflicts(tree: RevisionTree): RevisionId[] {
  return losers(tree, 'live')
}

/** The tombstones that lost, best first. */
export function deletedConflicts(tree: RevisionTree): RevisionId[] {
  return losers(tree, 'deleted')
}

function losers(tree: RevisionTree, status: 'live' | 'deleted'): RevisionId[] {
  return leavesBestFirst(tree)
    .slice(1)
    .filter((leaf) => leaf.status === status)
    .map((leaf) => leaf.revision)
}
