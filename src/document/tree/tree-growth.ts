/**
 * Adds a path of revisions that another server sent to a revision tree. Bodies are never overwritten, and known revisions keep
 * their places.
 */

import type { RevisionPath } from '../ids.ts'
import { type Branch, HashList, NO_PARENT, type Place, type StoredBody } from './branch.ts'
import { RevisionTree } from './revision-tree.ts'

/**
 * Adds a path whose newest revision has that body. It is joined at a common revision, at either end. Without one it becomes
 * another root, with its newest `limit` revisions. Returns the same tree when nothing is new.
 */
export function graft(
  tree: RevisionTree | undefined,
  path: RevisionPath,
  body: StoredBody,
  limit = Number.POSITIVE_INFINITY,
): RevisionTree {
  const length = Math.min(path.hashes.length, limit)
  if (tree === undefined) return new RevisionTree([rootBranch(path, 0, length, body)])
  const known = newestKnown(tree, path, 0)
  if (known === undefined) return tree.withBranch(rootBranch(path, 0, length, body))
  const grown =
    known.index === 0 ? fill(tree, known.place, body) : grow(tree, known.place, segment(path, 0, known.index, body))
  return addOlder(grown, path, known.index)
}

/** Revisions that follow one another, oldest first. */
interface Segment {
  readonly hashes: HashList
  readonly bodies: readonly StoredBody[]
}

/** The revisions of a path from `newest` up to `end`, without bodies except the newest. */
function segment(path: RevisionPath, newest: number, end: number, body: StoredBody): Segment {
  const bodies = new Array<StoredBody>(end - newest).fill(0)
  bodies[bodies.length - 1] = body
  return { hashes: HashList.of(path.hashes.slice(newest, end).reverse()), bodies }
}

function rootBranch(path: RevisionPath, newest: number, end: number, body: StoredBody): Branch {
  return { parent: NO_PARENT, start: path.start - end + 1, ...segment(path, newest, end, body) }
}

/** The newest revision of the path, from `from` on, that the tree has. */
function newestKnown(
  tree: RevisionTree,
  path: RevisionPath,
  from: number,
): { index: number; place: Place } | undefined {
  for (let index = from; index < path.hashes.length; index++) {
    const place = tree.locate(path.start - index, path.hashes[index]!)
    if (place !== undefined) return { index, place }
  }
  return undefined
}

function grow(tree: RevisionTree, from: Place, added: Segment): RevisionTree {
  const branch = tree.branch(from.branch)
  if (tree.isLeafAt(from)) return tree.withGrown(from.branch, joined(branch, added))
  return tree.withBranch({ parent: from.branch, start: branch.start + from.index + 1, ...added })
}

function fill(tree: RevisionTree, place: Place, body: StoredBody): RevisionTree {
  const branch = tree.branch(place.branch)
  if (branch.bodies[place.index] !== 0) return tree
  const filled = { ...branch, bodies: branch.bodies.with(place.index, body) }
  return tree.withGrown(place.branch, filled)
}

/**
 * A path may reach further back than the tree, even to another root of it. Where the two have different histories of a
 * revision, the one known first stays.
 */
function addOlder(tree: RevisionTree, path: RevisionPath, knownIndex: number): RevisionTree {
  const place = tree.locate(path.start - knownIndex, path.hashes[knownIndex]!)!
  const rootNumber = tree.rootBranchOf(place.branch)
  const root = tree.branch(rootNumber)
  const rootIndex = path.start - root.start
  const isOldest = rootIndex >= path.hashes.length - 1
  if (isOldest || path.hashes[rootIndex] !== root.hashes.at(0)) return tree

  const known = newestKnown(tree, path, rootIndex + 1)
  const end = known?.index ?? path.hashes.length
  const older = end > rootIndex + 1 ? rootBranch(path, rootIndex + 1, end, 0) : undefined
  const lengthened = older === undefined ? root : { ...joined(older, root), start: older.start }
  const result = tree.withRoot(rootNumber, lengthened)
  if (known === undefined) return result
  return addOlder(attachRoot(result, rootNumber, known.place), path, known.index)
}

/** Makes a root branch a descendant of a revision of another tree. */
function attachRoot(tree: RevisionTree, root: number, below: Place): RevisionTree {
  if (!tree.isLeafAt(below)) {
    return tree.withRoot(root, { ...tree.branch(root), parent: below.branch })
  }
  // The branch that ended here is extended, and takes over the forks of the root.
  const whole = joined(tree.branch(below.branch), tree.branch(root))
  const branches = tree.branches.with(below.branch, whole).map((branch) => ({
    ...branch,
    parent: renumbered(branch.parent === root ? below.branch : branch.parent, root),
  }))
  return new RevisionTree(branches.toSpliced(root, 1))
}

function renumbered(branch: number, removed: number): number {
  return branch > removed ? branch - 1 : branch
}

function joined(older: Branch, newer: Segment): Branch {
  return { ...older, hashes: older.hashes.concat(newer.hashes), bodies: [...older.bodies, ...newer.bodies] }
}
