/** Reads documents as a client asks for them: by id, revision or leaf, with as much of their history as is wanted. */

import { isLocalId } from '../document/document-id.ts'
import { documentText, pathOfAncestry } from '../document/document-text.ts'
import { notFound } from '../document/request-error.ts'
import type { RevisionId } from '../document/revision-id.ts'
import type { RevisionNode, RevisionTree } from '../document/revision-tree.ts'
import { compareLeaves, conflicts, deletedConflicts, leavesBestFirst } from '../document/winner.ts'
import type { DatabaseView } from './database-view.ts'
import { localRevision } from './local-document.ts'

export interface ReadOptions {
  /** `_revisions` */
  readonly revisions?: boolean
  /** `_revs_info`, `_conflicts`, `_deleted_conflicts` and `_local_seq`: of the winner only. */
  readonly revisionsInfo?: boolean
  readonly conflicts?: boolean
  readonly deletedConflicts?: boolean
  readonly localSequence?: boolean
}

export interface OpenedDocument {
  readonly revision: RevisionId
  readonly deleted: boolean
  /** The document as JSON text. */
  readonly text: Buffer
}

/** The document as it is now. Throws when there is none, or when it is deleted. */
export async function openDocument(view: DatabaseView, id: string, options: ReadOptions = {}): Promise<OpenedDocument> {
  if (isLocalId(id)) return openLocal(view, id)
  const record = await view.record(id)
  if (!record) throw notFound('missing')
  if (record.deleted) throw notFound('deleted')
  const wantsTree = options.revisions || options.revisionsInfo || options.conflicts || options.deletedConflicts
  const [body, tree] = await Promise.all([view.body(record.body), wantsTree ? view.tree(id, record) : undefined])
  const { winner: revision } = record
  const text = documentText({
    id,
    revision,
    body: body.text,
    ...(tree && historyOf(tree, revision, options)),
    localSequence: options.localSequence ? record.sequence : undefined,
  })
  return { revision, deleted: false, text }
}

/** One revision, a tombstone too. With `latest`, the best leaf that descends from it. */
export async function openRevision(
  view: DatabaseView,
  id: string,
  revision: RevisionId,
  options: { readonly revisions?: boolean; readonly latest?: boolean } = {},
): Promise<OpenedDocument> {
  if (isLocalId(id)) return openLocal(view, id, revision)
  const record = await view.record(id)
  if (!record) throw notFound('missing')
  const tree = await view.tree(id, record)
  const node = options.latest ? tree.leavesBelow(revision).sort(compareLeaves)[0] : tree.find(revision)
  if (!node || node.status === 'missing') throw notFound('missing')
  return openNode(view, id, tree, node, options)
}

export type FoundRevision =
  | { readonly found: true; readonly document: OpenedDocument }
  | { readonly found: false; readonly revision: RevisionId }

/** Several revisions, or all leaves: first those found, then those that are not. */
export async function openRevisions(
  view: DatabaseView,
  id: string,
  wanted: 'all' | readonly RevisionId[],
  options: { readonly revisions?: boolean; readonly latest?: boolean } = {},
): Promise<FoundRevision[]> {
  const record = await view.record(id)
  const tree = record && (await view.tree(id, record))
  if (!tree) return wanted === 'all' ? [] : wanted.map((revision) => ({ found: false, revision }))
  const nodes = new Map<RevisionId, RevisionNode>()
  const missing: FoundRevision[] = []
  for (const revision of wanted === 'all' ? leavesBestFirst(tree).map((leaf) => leaf.revision) : wanted) {
    const found = options.latest ? tree.leavesBelow(revision).sort(compareLeaves) : [tree.find(revision)]
    const readable = found.filter((node) => node !== undefined && node.status !== 'missing')
    if (readable.length === 0) missing.push({ found: false, revision })
    for (const node of readable) if (node) nodes.set(node.revision, node)
  }
  const documents = await Promise.all([...nodes.values()].map((node) => openNode(view, id, tree, node, options)))
  return [...documents.map((document) => ({ found: true as const, document })), ...missing]
}

async function openNode(
  view: DatabaseView,
  id: string,
  tree: RevisionTree,
  node: RevisionNode,
  { revisions = false }: { readonly revisions?: boolean },
): Promise<OpenedDocument> {
  const body = await view.body(node.body)
  const deleted = node.status === 'deleted'
  const text = documentText({
    id,
    revision: node.revision,
    body: body.text,
    deleted,
    ...historyOf(tree, node.revision, { revisions }),
  })
  return { revision: node.revision, deleted, text }
}

function historyOf(tree: RevisionTree, revision: RevisionId, options: ReadOptions) {
  const ancestry = options.revisions || options.revisionsInfo ? tree.ancestry(revision) : []
  return {
    revisions: options.revisions ? pathOfAncestry(ancestry) : undefined,
    revisionsInfo: options.revisionsInfo ? ancestry : undefined,
    conflicts: options.conflicts ? conflicts(tree) : undefined,
    deletedConflicts: options.deletedConflicts ? deletedConflicts(tree) : undefined,
  }
}

async function openLocal(view: DatabaseView, id: string, wanted?: RevisionId): Promise<OpenedDocument> {
  const local = await view.local(id)
  const revision = localRevision(local?.count ?? 0)
  if (!local || (wanted !== undefined && wanted !== revision)) throw notFound('missing')
  return { revision, deleted: false, text: documentText({ id, revision, body: local.text }) }
}
