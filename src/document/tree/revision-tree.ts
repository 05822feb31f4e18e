/**
 * The revisions of one document: a forest, since a document may be created more than once, and its oldest revisions are
 * removed. Immutable: an edit makes a new tree that shares what stays. No revision is in it twice.
 */

import assert from 'node:assert'
import { formatRevision, generationOf, hashOf, isHexadecimal, type RevisionId, type RevisionPath } from '../ids.ts'
import {
  type Branch,
  BranchList,
  compareLeaves,
  HashList,
  leafGeneration,
  NO_PARENT,
  type Place,
  RevisionIndex,
  type RevisionNode,
  type StoredBody,
} from './branch.ts'
import { RevisionLine } from './revision-line.ts'

export class RevisionTree {
  /** The whole tree where it is a single line, as most are: these need no list of branches. */
  #line: RevisionLine | undefined
  #list: BranchList | undefined
  /** Caches. A tree that is made from this one takes them over: thousands of edits may follow. */
  #index: RevisionIndex | undefined
  #lookups = 0
  #best: number | undefined
  #longest: number | undefined

  constructor(branches: readonly Branch[] | BranchList | RevisionLine) {
    if (branches instanceof RevisionLine) {
      this.#line = branches
      return
    }
    assert(branches.length > 0, 'a document has a revision')
    this.#list = branches instanceof BranchList ? branches : BranchList.of(branches)
  }

  /** The tree as a line, where it is one. */
  get line(): RevisionLine | undefined {
    if (this.#line || this.branchCount > 1) return this.#line
    const { start, hashes, bodies } = this.branch(0)
    this.#line = RevisionLine.of(start, hashes, bodies)
    return this.#line
  }

  get branches(): readonly Branch[] {
    return this.#branches.all()
  }

  get branchCount(): number {
    return this.#line ? 1 : this.#branches.length
  }

  branch(number: number): Branch {
    return this.#branches.at(number)
  }

  /** This tree and one more branch. */
  withBranch(branch: Branch): RevisionTree {
    const grown = new RevisionTree(this.#branches.append(branch))
    grown.#takeOver(this, this.branchCount, 0)
    return grown
  }

  /** This tree with a branch that is extended, or has more bodies. */
  withGrown(number: number, branch: Branch): RevisionTree {
    const grown = new RevisionTree(this.#branches.replace(number, branch))
    grown.#takeOver(this, number, this.branch(number).bodies.length)
    return grown
  }

  /** This tree with a branch that begins elsewhere and has the same leaf. */
  withRoot(number: number, branch: Branch): RevisionTree {
    const changed = new RevisionTree(this.#branches.replace(number, branch))
    changed.#best = this.#best
    return changed
  }

  /** The last revisions of all branches, in no particular order: see `winner.ts`. */
  leaves(): RevisionNode[] {
    return this.branches.map((_, number) => this.leafOf(number))
  }

  leafOf(branch: number): RevisionNode {
    return this.nodeAt({ branch, index: this.branch(branch).bodies.length - 1 })
  }

  /** The leaf that comes first in the order of `winner.ts`. */
  bestLeaf(): RevisionNode {
    if (this.#line) return this.#line.leaf
    this.#best ??= this.#findBest()
    return this.leafOf(this.#best)
  }

  /** The largest number of revisions on a path from a leaf to its root. */
  longestLine(): number {
    this.#longest ??= this.branches.reduce((longest, _, number) => Math.max(longest, this.#lineOf(number)), 0)
    return this.#longest
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
    if (this.isLeafAt(place)) return [this.nodeAt(place)]
    const generation = generationOf(revision)
    const numbers = Array.from(this.branches.keys())
    return numbers
      .filter((number) => this.#passes(number, place.branch, generation))
      .map((number) => this.leafOf(number))
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
    if (this.#line) return this.#line.hasInnerBodies
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
    if (this.#line) return locateIn(this.#line, generation, hash)
    if (this.branchCount <= FEW_BRANCHES) return this.#lookThrough(generation, hash)
    if (!this.#index && ++this.#lookups > FEW_LOOKUPS) this.#index = new RevisionIndex(this.branches)
    return this.#index ? this.#index.find(generation, hash) : this.#lookThrough(generation, hash)
  }

  nodeAt(place: Place): RevisionNode {
    if (this.#line && place.index === this.#line.count - 1) return this.#line.leaf
    const branch = this.branch(place.branch)
    const body = branch.bodies[place.index]!
    const generation = branch.start + place.index
    const hash = branch.hashes.at(place.index)
    const status = body === 0 ? 'missing' : body > 0 ? 'live' : 'deleted'
    return { revision: formatRevision(generation, hash), generation, hash, status, body: Math.abs(body) }
  }

  isLeafAt(place: Place): boolean {
    if (this.#line) return place.index === this.#line.count - 1
    return place.index === this.branch(place.branch).bodies.length - 1
  }

  /** The branch without a parent that a branch comes from, directly or not. */
  rootBranchOf(branch: number): number {
    let root = branch
    while (this.branch(root).parent !== NO_PARENT) root = this.branch(root).parent
    return root
  }

  get #branches(): BranchList {
    this.#list ??= BranchList.of(this.#line ? [branchOf(this.#line)] : [])
    return this.#list
  }

  #lookThrough(generation: number, hash: string): Place | undefined {
    const firstByte = Number.parseInt(hash.slice(0, 2), 16)
    for (let number = 0; number < this.branchCount; number++) {
      const { start, hashes, bodies } = this.branch(number)
      const index = generation - start
      if (index < 0 || index >= bodies.length || !hashes.mayBeginWith(index, firstByte)) continue
      if (hashes.at(index) === hash) return { branch: number, index }
    }
    return undefined
  }

  /** `before` is this tree but for one branch, which had so many revisions there. */
  #takeOver(before: RevisionTree, changed: number, known: number): void {
    this.#lookups = before.#lookups
    // Moved, not shared: the older tree makes another one if it needs it.
    this.#index = before.#index
    before.#index = undefined
    this.#index?.add(changed, this.branch(changed), known)
    if (before.#longest !== undefined) this.#longest = Math.max(before.#longest, this.#lineOf(changed))
    if (before.#best !== undefined) this.#best = this.#bestAfter(before, before.#best, changed)
  }

  /** The best leaf after the leaf of one branch changed; undefined where all leaves must be compared. */
  #bestAfter(before: RevisionTree, best: number, changed: number): number | undefined {
    const leaf = this.leafOf(changed)
    if (changed !== best) return compareLeaves(leaf, this.leafOf(best)) < 0 ? changed : best
    return compareLeaves(leaf, before.leafOf(best)) <= 0 ? best : undefined
  }

  #findBest(): number {
    let best = 0
    let bestLeaf = this.leafOf(best)
    for (let number = 1; number < this.branchCount; number++) {
      const leaf = this.leafOf(number)
      if (compareLeaves(leaf, bestLeaf) >= 0) continue
      best = number
      bestLeaf = leaf
    }
    return best
  }

  #lineOf(branch: number): number {
    return leafGeneration(this.branch(branch)) - this.branch(this.rootBranchOf(branch)).start + 1
  }

  #parentOf(place: Place): Place | undefined {
    if (place.index > 0) return { branch: place.branch, index: place.index - 1 }
    // A line has no parent: its branches need not be made.
    if (this.#line) return undefined
    const { parent, start } = this.branch(place.branch)
    return parent === NO_PARENT ? undefined : { branch: parent, index: start - 1 - this.branch(parent).start }
  }

  /** Whether the way from a branch's leaf to its root passes the revision of that generation on another branch. */
  #passes(from: number, branch: number, generation: number): boolean {
    let highest = leafGeneration(this.branch(from))
    for (let number = from; number !== NO_PARENT; number = this.branch(number).parent) {
      if (number === branch) return highest >= generation
      highest = this.branch(number).start - 1
    }
    return false
  }
}

/** Up to this number a search is faster than making an index. */
const FEW_BRANCHES = 16
const FEW_LOOKUPS = 8

function branchOf(line: RevisionLine): Branch {
  return { parent: NO_PARENT, start: line.start, hashes: line.hashes(), bodies: line.bodies() }
}

function locateIn(line: RevisionLine, generation: number, hash: string): Place | undefined {
  const index = generation - line.start
  if (index < 0 || index >= line.count || line.hashAt(index) !== hash) return undefined
  return { branch: 0, index }
}

/** The tree of a document that has one revision. */
export function plantRevision(revision: RevisionId, body: StoredBody): RevisionTree {
  const line = RevisionLine.single(revision, body)
  if (line) return new RevisionTree(line)
  const hashes = HashList.of([hashOf(revision)])
  return new RevisionTree([{ parent: NO_PARENT, start: generationOf(revision), hashes, bodies: [body] }])
}

/** Adds the newest revision of a branch, with its body. */
export function extendLeaf(tree: RevisionTree, leaf: Place, hash: string, body: StoredBody): RevisionTree {
  const { line } = tree
  if (line && isHexadecimal(hash)) return new RevisionTree(line.extended(hash, body))
  const branch = tree.branch(leaf.branch)
  const longer = { ...branch, hashes: branch.hashes.append(hash), bodies: [...branch.bodies, body] }
  return tree.withGrown(leaf.branch, longer)
}
