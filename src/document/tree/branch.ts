/** The parts of a revision tree: its branches, and places and revisions in them. */

import { compareHashes, type RevisionId } from '../revisions/revision-id.ts'
import type { HashList } from './hash-list.ts'

export type RevisionStatus = 'live' | 'deleted' | 'missing'

export interface RevisionNode {
  readonly revision: RevisionId
  readonly generation: number
  readonly hash: string
  /** `missing`: known from someone's history, or compacted. */
  readonly status: RevisionStatus
  /** The number of the stored body; 0 when missing. */
  readonly body: number
}

/**
 * A line of revisions, oldest first, that ends in a leaf: there are as many branches as leaves. It forks from the revision
 * of generation `start - 1` of branch number `parent`, which is never that branch's last, or has no parent.
 */
export interface Branch {
  readonly parent: number
  readonly start: number
  readonly hashes: HashList
  readonly bodies: readonly StoredBody[]
}

/** The number of a body, negative for a tombstone's, 0 where there is none. */
export type StoredBody = number

export const NO_PARENT = -1

/** Where a revision is: number of its branch, index in it. */
export interface Place {
  readonly branch: number
  readonly index: number
}

export function leafGeneration(branch: Branch): number {
  return branch.start + branch.bodies.length - 1
}

/** Orders leaves, best first: live before deleted, then the higher generation, then the higher hash. */
export function compareLeaves(left: RevisionNode, right: RevisionNode): number {
  if ((left.status === 'deleted') !== (right.status === 'deleted')) return left.status === 'deleted' ? 1 : -1
  return right.generation - left.generation || compareHashes(right.hash, left.hash)
}
