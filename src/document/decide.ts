/**
 * Decides an edit of a document: the new revision tree, or a conflict. Pure, so that the writer may decide the same edit again
 * when the document changed meanwhile.
 */
import assert from 'node:assert'
import { formatRevision, generationOf, hashOf, type RevisionId, type RevisionPath } from './ids.ts'
import { newRevision, type RevisionContent } from './revisions/new-revision.ts'
import { winner } from './revisions/winner.ts'
import type { Place, RevisionNode, StoredBody } from './tree/branch.ts'
import type { RevisionLine } from './tree/revision-line.ts'
import { extendLeaf, plantRevision, RevisionTree } from './tree/revision-tree.ts'
import { encodeTree } from './tree/tree-codec.ts'
import { graft } from './tree/tree-growth.ts'
import { droppedBodies, stem } from './tree/tree-pruning.ts'

/** A new revision made by this server, as the child of a leaf. */
export interface InteractiveEdit {
  /** `branching`: where the parent is not a leaf, makes a new branch instead of a conflict. */
  readonly kind: 'interactive' | 'branching'
  readonly parent: RevisionId | undefined
  readonly content: RevisionContent
  /** The number that its body gets if the edit is written; above 0. */
  readonly body: number
}

/** A revision that another server made, with its history. */
export interface ReplicatedEdit {
  readonly kind: 'replicated'
  readonly path: RevisionPath
  readonly deleted: boolean
  readonly body: number
}

export type Edit = InteractiveEdit | ReplicatedEdit

export type Decision =
  | { readonly outcome: 'conflict' }
  /** The revision is stored already: the edit succeeds and nothing is written. */
  | { readonly outcome: 'known'; readonly revision: RevisionId }
  | Written

export interface Written {
  readonly outcome: 'written'
  readonly revision: RevisionId
  readonly tree: RevisionTree
  readonly winner: RevisionNode
  /** False when the tree had the body already and only gained older revisions. */
  readonly storesBody: boolean
  /** Bodies of revisions that were removed from the tree. */
  readonly droppedBodies: readonly number[]
}

/** `tree` is the document as it is, undefined when it does not exist. */
export function decide(tree: RevisionTree | undefined, edit: Edit, revisionLimit: number): Decision {
  if (edit.body <= 0) assert.fail('bodies are numbered from 1')
  if (edit.kind === 'replicated') return replicate(tree, edit, revisionLimit)
  const parent = parentOf(tree, edit)
  if (parent === 'conflict') return edit.kind === 'branching' ? branchOff(tree, edit, revisionLimit) : CONFLICT
  return append(tree, parent, edit, revisionLimit)
}

/** The parent of the revision that an edit would make, or `conflict`. */
export function parentRevision(
  tree: RevisionTree | undefined,
  edit: Omit<InteractiveEdit, 'body'>,
): RevisionId | undefined | 'conflict' {
  const parent = parentOf(tree, edit)
  if (parent === 'conflict') return edit.kind === 'branching' ? edit.parent : parent
  return tree === undefined || parent === 'none' ? undefined : tree.nodeAt(parent).revision
}

const CONFLICT: Decision = { outcome: 'conflict' }

/** The leaf that the edit extends; `none` where it creates a document. */
function parentOf(tree: RevisionTree | undefined, edit: Omit<InteractiveEdit, 'body'>): Place | 'none' | 'conflict' {
  if (tree === undefined) return edit.parent === undefined ? 'none' : 'conflict'
  if (edit.parent !== undefined) return leafAt(tree, edit.parent)
  const current = winner(tree)
  // Re-creation continues from the tombstone, so generations never decrease. A second deletion must name the revision.
  if (current.status !== 'deleted' || edit.content.deleted) return 'conflict'
  return leafAt(tree, current.revision)
}

function leafAt(tree: RevisionTree, revision: RevisionId): Place | 'conflict' {
  const place = tree.locate(generationOf(revision), hashOf(revision))
  return place !== undefined && tree.isLeafAt(place) ? place : 'conflict'
}

function append(
  tree: RevisionTree | undefined,
  parent: Place | 'none',
  edit: InteractiveEdit,
  revisionLimit: number,
): Decision {
  const body = storedBody(edit.content.deleted, edit.body)
  if (tree === undefined || parent === 'none') {
    const revision = newRevision(undefined, edit.content)
    return written(plantRevision(revision, body), revision, revisionLimit)
  }
  const { revision: named, hash: parentHash } = tree.nodeAt(parent)
  const revision = newRevision(named, edit.content)
  const hash = hashOf(revision)
  // Another server made the same edit and sent it without its history: both become one revision.
  if (tree.find(revision)) {
    return merge(tree, { start: generationOf(revision), hashes: [hash, parentHash] }, body, revisionLimit)
  }
  return written(extendLeaf(tree, parent, hash, body), revision, revisionLimit)
}

/** For a parent that is not a leaf, is unknown, or is missing. */
function branchOff(tree: RevisionTree | undefined, edit: InteractiveEdit, revisionLimit: number): Decision {
  const { parent } = edit
  if (parent !== undefined && generationOf(parent) === 0) return CONFLICT
  const revision = newRevision(parent, edit.content)
  const hashes = parent === undefined ? [hashOf(revision)] : [hashOf(revision), hashOf(parent)]
  const path = { start: generationOf(revision), hashes }
  return merge(tree, path, storedBody(edit.content.deleted, edit.body), revisionLimit)
}

function replicate(tree: RevisionTree | undefined, edit: ReplicatedEdit, revisionLimit: number): Decision {
  const { path } = edit
  assert(path.hashes.length > 0 && path.start >= path.hashes.length, 'a path goes back to generation 1 at most')
  return merge(tree, path, storedBody(edit.deleted, edit.body), revisionLimit)
}

/** Adds a path that may be known already, in part or whole. */
function merge(
  before: RevisionTree | undefined,
  path: RevisionPath,
  body: StoredBody,
  revisionLimit: number,
): Decision {
  const revision = formatRevision(path.start, path.hashes[0]!)
  // Most replicated documents are new here and have one revision: there is nothing to join.
  if (before === undefined && path.hashes.length === 1) {
    return written(plantRevision(revision, body), revision, revisionLimit)
  }
  const decision = written(graft(before, path, body, revisionLimit), revision, revisionLimit)
  const storesBody = decision.tree.find(revision)?.body === Math.abs(body)
  if (before !== undefined && !storesBody && isSame(before, decision.tree)) return { outcome: 'known', revision }
  return { ...decision, storesBody }
}

function written(grown: RevisionTree, revision: RevisionId, revisionLimit: number): Written {
  if (grown.line) return writtenLine(grown, grown.line, revision, revisionLimit)
  const tree = stem(grown, revisionLimit)
  const dropped = droppedBodies(grown, tree)
  return { outcome: 'written', revision, tree, winner: winner(tree), storesBody: true, droppedBodies: dropped }
}

/** The same where the tree is a single branch: its newest revision wins. */
function writtenLine(grown: RevisionTree, all: RevisionLine, revision: RevisionId, revisionLimit: number): Written {
  const { line, dropped } = all.cutTo(revisionLimit)
  const tree = line === all ? grown : new RevisionTree(line)
  return { outcome: 'written', revision, tree, winner: line.leaf, storesBody: true, droppedBodies: dropped }
}

function isSame(left: RevisionTree, right: RevisionTree): boolean {
  return left === right || encodeTree(left).equals(encodeTree(right))
}

function storedBody(deleted: boolean, body: number): StoredBody {
  return deleted ? -body : body
}
