/**
 * The revisions of one document: a forest, for a document may be created more than once, and its oldest revisions are
 * forgotten. Never changed; edits make a new tree that shares what stays. A revision, generation and hash, is in it once.
 */
import assert from 'node:assert'
import type { HashList } from './hash-list.ts'
import { formatRevision, generationOf, hashOf, type RevisionId, type RevisionPath } from './revision-id.ts'

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

export class RevisionTree {
  readonly branches: readonly Branch[]

  constructor(branches: readonly Branch[]) {
    assert(branches.length > 0, 'a document has a revision')
    this.branches = branches
  }

  /** The last revisions of all branches, in no particular order: see `winner.ts`. */
  leaves(): RevisionNode[] {
    return this.branches.map((branch, number) => this.nodeAt({ branch: number, index: branch.bodies.length - 1 }))
  }

  find(revision: RevisionId): RevisionNode | undefined {
    const place = this.locate(generationOf(revision), hashOf(revision))
    return place === undefined ? undefined : this.nodeAt(place)
  }

  isLeaf(revision: RevisionId): boolean {
    const place = this.locate(generationOf(revision), hashOf(revision))
    return place !== undefined && this.isLeafAt(place)
  }

  /** The leaves that descend from a revision, itself when it is one; none when it is unknown. */
  leavesBelow(revision: RevisionId): RevisionNode[] {
    const place = this.locate(generationOf(revision), hashOf(revision))
    if (place === undefined) return []
    const generation = generationOf(revision)
    return this.leaves().filter((_, branch) => this.#passes(branch, place.branch, generation))
  }

  /** A revision and its ancestors, newest first, as far back as they are known; none when it is unknown. */
  ancestry(revision: RevisionId): RevisionNode[] {
    const nodes: RevisionNode[] = []
    let place = this.locate(generationOf(revision), hashOf(revision))
    while (place !== undefined) {
      nodes.push(this.nodeAt(place))
      place = this.#parentOf(place)
    }
    return nodes
  }

  /** The nearest ancestor of a path's newest revision that has a body: what its attachments may refer to. */
  nearestBody(path: RevisionPath): RevisionNode | undefined {
    for (let index = 1; index < path.hashes.length; index++) {
      const known = this.find(formatRevision(path.start - index, path.hashes[index]!))
      if (known !== undefined) return this.ancestry(known.revision).find((node) => node.status !== 'missing')
    }
    return undefined
  }

  /** Those of the given revisions that the tree does not know, with a body or without. */
  missing(revisions: readonly RevisionId[]): RevisionId[] {
    return revisions.filter((revision) => this.locate(generationOf(revision), hashOf(revision)) === undefined)
  }

  /** Leaves from which a missing revision may descend: those of a lower generation than some of the missing. */
  possibleAncestors(missing: readonly RevisionId[]): RevisionId[] {
    const highest = missing.reduce((generation, revision) => Math.max(generation, generationOf(revision)), 0)
    return this.leaves()
      .filter((leaf) => leaf.generation < highest)
      .map((leaf) => leaf.revision)
  }

  /** Whether any revision but the leaves has a body. */
  hasInnerBodies(): boolean {
    return this.branches.some(({ bodies }) => {
      for (let index = bodies.length - 2; index >= 0; index--) if (bodies[index] !== 0) return true
      return false
    })
  }

  /** The numbers of all bodies the tree holds. */
  bodies(): number[] {
    return this.branches.flatMap((branch) => branch.bodies.filter((body) => body !== 0).map(Math.abs))
  }

  locate(generation: number, hash: string): Place | undefined {
    for (let number = 0; number < this.branches.length; number++) {
      const branch = this.branches[number]!
      const index = generation - branch.start
      if (index >= 0 && index < branch.bodies.length && branch.hashes.at(index) === hash)
        return { branch: number, index }
    }
    return undefined
  }

  nodeAt(place: Place): RevisionNode {
    const branch = this.branches[place.branch]!
    const body = branch.bodies[place.index]!
    const generation = branch.start + place.index
    const hash = branch.hashes.at(place.index)
    const status = body === 0 ? 'missing' : body > 0 ? 'live' : 'deleted'
    return { revision: formatRevision(generation, hash), generation, hash, status, body: Math.abs(body) }
  }

  isLeafAt(place: Place): boolean {
    return place.index === this.branches[place.branch]!.bodies.length - 1
  }

  /** The branch without a parent that a branch comes from, directly or not. */
  rootBranchOf(branch: number): number {
    let root = branch
    while (this.branches[root]!.parent !== NO_PARENT) root = this.branches[root]!.parent
    return root
  }

  #parentOf(place: Place): Place | undefined {
    if (place.index > 0) return { branch: place.branch, index: place.index - 1 }
    const { parent, start } = this.branches[place.branch]!
    return parent === NO_PARENT ? undefined : { branch: parent, index: start - 1 - this.branches[parent]!.start }
  }

  /** Whether the way from a branch's leaf to its root passes the revision of that generation on another branch. */
  #passes(from: number, branch: number, generation: number): boolean {
    let highest = leafGeneration(this.branches[from]!)
    for (let number = from; number !== NO_PARENT; number = this.branches[number]!.parent) {
      if (number === branch) return highest >= generation
      highest = this.branches[number]!.start - 1
    }
    return false
  }
}

export function leafGeneration(branch: Branch): number {
  return branch.start + branch.bodies.length - 1
}
