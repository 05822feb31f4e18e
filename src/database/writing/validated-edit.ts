/**
 * The input of validation functions for an edit: the new document and the one it follows. It is read for many edits in a few
 * round trips. Edits that cannot succeed, or need no validation, are recognized on the way.
 */

import {
  formatRevision,
  generationOf,
  hashOf,
  isDesignId,
  type RevisionId,
  type RevisionPath,
} from '../../document/ids.ts'
import type { RevisionNode } from '../../document/tree/branch.ts'
import { pathOfAncestry } from '../../document/tree/branch.ts'
import type { RevisionTree } from '../../document/tree/revision-tree.ts'
import { membersOf, quoteText, spliceObject } from '../../encoding/json/json-text-splice.ts'
import type { DatabaseView } from '../database-view.ts'
import type { WholeRecord } from '../layout/document-record.ts'
import { stubMembersText, stubText } from '../reading/document-text.ts'
import type { DocumentEdit, LocalEdit } from './edit.ts'

export type EditInput =
  | { readonly kind: 'exempt' }
  /** The revision that it names as its parent is not a leaf. */
  | { readonly kind: 'conflict' }
  | { readonly kind: 'validated'; readonly document: string; readonly previous: string | null }

/** An edit of a document that has revisions. */
export type BodyEdit = Exclude<DocumentEdit, LocalEdit>

/** Validation functions do not see design documents, which only administrators write, nor local ones, which are not replicated. */
export function needsValidation(edit: DocumentEdit): edit is BodyEdit {
  return edit.kind !== 'local' && !isDesignId(edit.id)
}

/** One input for each edit, in order, and the sequences of the documents. */
export async function editInputs(
  view: DatabaseView,
  edits: readonly BodyEdit[],
): Promise<{ inputs: EditInput[]; sequences: Map<string, number> }> {
  const found = await view.records([...new Set(edits.map(({ id }) => id))])
  const records = new Map(found.map(({ id, record }) => [id, record]))
  const followed = edits.map((edit) => followedBy(edit, records.get(edit.id)))
  const stored = followed.filter((each) => typeof each === 'object')
  const bodies = (await view.bodies(stored.map(({ node }) => node.body))).values()
  const inputs = edits.map((edit, i): EditInput => {
    const previous = followed[i]
    if (previous === 'conflict' || previous === 'exempt') return { kind: previous }
    if (previous === undefined) return { kind: 'validated', document: newText(edit), previous: null }
    const { value: body } = bodies.next()
    if (!body) throw new Error(`No body was read for '${edit.id}'.`)
    return { kind: 'validated', document: newText(edit), previous: oldText(edit.id, previous, body) }
  })
  return { inputs, sequences: new Map(found.map(({ id, record }) => [id, record?.sequence ?? 0])) }
}

/** A revision whose body is there. */
interface Followed {
  readonly tree: RevisionTree
  readonly node: RevisionNode
}

/** The stored revision that the edit follows; undefined where there is none. */
function followedBy(edit: BodyEdit, record: WholeRecord | undefined): Followed | 'conflict' | 'exempt' | undefined {
  if (edit.kind === 'replicated') return ancestorOf(edit.path, record?.tree)
  const { parent } = edit
  if (parent === undefined) {
    const begins = !record || (record.deleted && !edit.deleted) || edit.kind === 'branching'
    return begins ? undefined : 'conflict'
  }
  if (!record?.tree.isLeaf(parent)) return edit.kind === 'branching' ? undefined : 'conflict'
  return withBody(record.tree, record.tree.find(parent))
}

function ancestorOf(path: RevisionPath, tree: RevisionTree | undefined): Followed | 'exempt' | undefined {
  if (!tree) return undefined
  const known = tree.find(newestOf(path))
  // A stored revision was accepted before.
  if (known && known.status !== 'missing') return 'exempt'
  return withBody(tree, tree.nearestBody(path))
}

function withBody(tree: RevisionTree, node: RevisionNode | undefined): Followed | undefined {
  return node && node.status !== 'missing' ? { tree, node } : undefined
}

function newestOf({ start, hashes: [hash = ''] }: RevisionPath): RevisionId {
  return formatRevision(start, hash)
}

function oldText(
  id: string,
  { tree, node }: Followed,
  { text, attachments }: Awaited<ReturnType<DatabaseView['body']>>,
): string {
  const { revision } = node
  const deleted = node.status === 'deleted'
  const revisions = pathOfAncestry(tree.ancestry(revision))
  const parts = { id, revision, body: text, deleted, revisions }
  return stubText({ revision, deleted, parts, attachments, knownGeneration: 0 }).toString()
}

/** As it was sent: a new document has no revision yet, a replicated one has its own, all others that of their parent. */
function newText(edit: BodyEdit): string {
  const path = pathOf(edit)
  const revision = path.start === 0 ? '' : `"_rev":${quoteText(newestOf(path))}`
  const generation = edit.kind === 'replicated' ? path.start : path.start + 1
  const stubs = (edit.attachments ?? []).map(
    (attachment) =>
      `${quoteText(attachment.name)}:{${stubMembersText({ ...attachment, revpos: attachment.revpos ?? generation })}}`,
  )
  return spliceObject([
    `"_id":${quoteText(edit.id)}`,
    revision,
    membersOf(edit.body),
    edit.deleted ? '"_deleted":true' : '',
    `"_revisions":${JSON.stringify({ start: path.start, ids: path.hashes })}`,
    stubs.length === 0 ? '' : `"_attachments":{${stubs.join(',')}}`,
  ]).toString()
}

function pathOf(edit: BodyEdit): RevisionPath {
  if (edit.kind === 'replicated') return edit.path
  const { parent } = edit
  return parent === undefined ? NO_PATH : { start: generationOf(parent), hashes: [hashOf(parent)] }
}

const NO_PATH: RevisionPath = { start: 0, hashes: [] }
