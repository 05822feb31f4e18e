/**
 * Removes revisions from a revision tree: those beyond the revision limit, purged branches, and bodies that compaction drops.
 * Leaves stay unless they are purged, and so does the winner.
 */
import assert from 'node:assert'
import { generationOf, hashOf, type RevisionId } from '../ids.ts'
import { type Branch, leafGeneration, NO_PARENT } from './branch.ts'
import { RevisionTree } from './revision-tree.ts'

/**
 * Cuts each branch to its newest `limit` revisions. A revision that several branches share stays while one of them needs it, so
 * a cut may leave several roots. Returns the same tree when nothing is cut.
 */
export function stem(tree: RevisionTree, limit: number): RevisionTree {
  assert(limit >= 1, 'a leaf is kept')
  if (tree.branchCount === 1) return stemLine(tree, tree.branch(0), limit)
  if (tree.longestLine() <= limit) return tree

  const spans: Span[][] = tree.branches.map(() => [])
  for (const [number, branch] of tree.branches.entries()) {
    const lowest = leafGeneration(branch) - limit + 1
    let to = leafGeneration(branch)
    for (let on = number; on !== NO_PARENT && to >= lowest; on = tree.branch(on).parent) {
      const { start } = tree.branch(on)
      spans[on]!.push({ from: Math.max(lowest, start), to })
      to = start - 1
    }
  }
  return retain(tree, spans.map(merged))
}

/** The usual tree, a single branch. */
function stemLine(tree: RevisionTree, branch: Branch, limit: number): RevisionTree {
  const count = branch.bodies.length
  if (count <= limit) return tree
  const hashes = branch.hashes.slice(count - limit, count)
  return new RevisionTree([
    { ...branch, start: branch.start + count - limit, hashes, bodies: branch.bodies.slice(-limit) },
  ])
}

/** Removes the given revisions that are leaves, each with its branch down to the fork. The result may be empty. */
export function purge(
  tree: RevisionTree,
  revisions: readonly RevisionId[],
): { readonly tree: RevisionTree | undefined; readonly purged: readonly RevisionId[] } {
  const purged = [...new Set(revisions)].filter((revision) => tree.isLeaf(revision))
  if (purged.length === 0) return { tree, purged }
  const branches = new Set(purged.map((revision) => tree.locate(generationOf(revision), hashOf(revision))?.branch))
  return { tree: withoutLeaves(tree, (branch) => branches.has(branch)), purged }
}

/** The tree after compaction: only leaves have bodies. Returns the same tree when it has no others. */
export function withLeafBodiesOnly(tree: RevisionTree): RevisionTree {
  const hasOthers = tree.branches.some(
    (branch) => branch.bodies.findIndex((body) => body !== 0) < branch.bodies.length - 1,
  )
  if (!hasOthers) return tree
  const branches = tree.branches.map((branch) => {
    const last = branch.bodies.length - 1
    return { ...branch, bodies: branch.bodies.map((body, index) => (index === last ? body : 0)) }
  })
  return new RevisionTree(branches)
}

/** The bodies that one tree has and the other does not: their rows can be deleted. */
export function droppedBodies(before: RevisionTree, after: RevisionTree | undefined): number[] {
  if (before === after) return []
  const kept = new Set(after?.bodies())
  return before.bodies().filter((body) => !kept.has(body))
}

/** Generations of one branch, both ends included. */
interface Span {
  readonly from: number
  readonly to: number
}

/** The other leaves and their ancestors. */
function withoutLeaves(tree: RevisionTree, isRemoved: (branch: number) => boolean): RevisionTree | undefined {
  /** For each branch the newest generation that is needed. */
  const needed = new Map<number, number>()
  for (const [number, branch] of tree.branches.entries()) {
    if (isRemoved(number)) continue
    let to = leafGeneration(branch)
    for (let on = number; on !== NO_PARENT; on = tree.branch(on).parent) {
      const before = needed.get(on)
      needed.set(on, Math.max(before ?? 0, to))
      // An earlier leaf passed here and marked everything down to the root.
      if (before !== undefined) break
      to = tree.branch(on).start - 1
    }
  }
  if (needed.size === 0) return undefined
  const spans = tree.branches.map(({ start }, number): Span[] => {
    const to = needed.get(number)
    return to === undefined ? [] : [{ from: start, to }]
  })
  return retain(tree, spans)
}

/** Joins spans that overlap or touch. */
function merged(spans: readonly Span[]): Span[] {
  const result: Span[] = []
  for (const span of spans.toSorted((left, right) => left.from - right.from)) {
    const last = result.at(-1)
    if (last !== undefined && span.from <= last.to + 1) {
      result[result.length - 1] = { from: last.from, to: Math.max(last.to, span.to) }
    } else {
      result.push(span)
    }
  }
  return result
}

/** A span that is kept, and the kept piece that its first revision descends from. */
interface Piece extends Span {
  readonly branch: Branch
  above: Piece | undefined
  /** The piece that continues where this one ends; undefined when it ends in a leaf. */
  next: Piece | undefined
}

/** The tree of the given spans of each branch. Where the end of a branch is removed, a fork from there takes its place. */
function retain(tree: RevisionTree, spans: readonly (readonly Span[])[]): RevisionTree {
  const pieces = tree.branches.map((branch, number) =>
    spans[number]!.map((span): Piece => ({ ...span, branch, above: undefined, next: undefined })),
  )
  const all = pieces.flat()
  for (const piece of all) {
    const { parent, start } = piece.branch
    if (parent === NO_PARENT || piece.from > start) continue
    piece.above = pieces[parent]!.find((other) => other.from < start && other.to >= start - 1)
    if (piece.above?.to === start - 1) piece.above.next ??= piece
  }

  const chains = all.filter((piece) => piece.to === leafGeneration(piece.branch)).map(chainTo)
  const branchOf = new Map<Piece, number>()
  for (const [number, chain] of chains.entries()) for (const piece of chain) branchOf.set(piece, number)
  assert(branchOf.size === all.length, 'what is kept ends in a leaf')
  return new RevisionTree(
    chains.map((chain) => {
      const above = chain[0]!.above
      return { ...wholeOf(chain), parent: above === undefined ? NO_PARENT : branchOf.get(above)! }
    }),
  )
}

/** The pieces that form one branch, oldest first, up to the one that ends in a leaf. */
function chainTo(last: Piece): Piece[] {
  const chain = [last]
  for (let piece = last; piece.above?.next === piece; piece = piece.above) chain.unshift(piece.above)
  return chain
}

function wholeOf(chain: readonly Piece[]): Omit<Branch, 'parent'> {
  const parts = chain.map(({ branch, from, to }) => ({
    hashes: branch.hashes.slice(from - branch.start, to + 1 - branch.start),
    bodies: branch.bodies.slice(from - branch.start, to + 1 - branch.start),
  }))
  return {
    start: chain[0]!.from,
    hashes: parts.map((part) => part.hashes).reduce((older, newer) => older.concat(newer)),
    bodies: parts.flatMap((part) => part.bodies),
  }
}
