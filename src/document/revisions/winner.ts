/**
 * Which revision a document shows when it has several: every server that knows the same leaves chooses the same one,
 * whatever order they came in.
 */

import type { RevisionId } from '../ids.ts'
import { compareLeaves, type RevisionNode } from '../tree/branch.ts'
import type { RevisionTree } from '../tree/revision-tree.ts'

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
