/** Reads documents for a client: by id, revision or leaf, with as much history as requested. */

import { isLocalId, type RevisionId } from '../../document/ids.ts'
import { notFound } from '../../document/request-error.ts'
import { conflicts, deletedConflicts, leavesBestFirst } from '../../document/revisions/winner.ts'
import { compareLeaves, pathOfAncestry, type RevisionNode } from '../../document/tree/branch.ts'
import type { RevisionTree } from '../../document/tree/revision-tree.ts'
import type { DatabaseView, DocumentRows } from '../database-view.ts'
import { type DocumentRecord, localRevision } from '../layout/document-record.ts'
import { NO_ATTACHMENTS, type StoredBody } from '../layout/stored-body.ts'
import type { OpenedDocument } from './document-text.ts'

export interface HistoryOptions {
  /** `_revisions` */
  readonly revisions?: boolean
  /** Revisions that the reader has: what attachments they brought it knows. */
  readonly known?: readonly RevisionId[] | undefined
}

export interface RevisionOptions extends HistoryOptions {
  /** Take the leaves that descend from the revision instead of it. */
  readonly latest?: boolean
}

/** Options that only apply to the winner. */
export interface ReadOptions extends HistoryOptions {
  readonly revisionsInfo?: boolean
  readonly conflicts?: boolean
  readonly deletedConflicts?: boolean
  readonly localSequence?: boolean
}

/** The document as it is now. Throws when there is none, or when it is deleted. */
export async function openDocument(view: DatabaseView, id: string, options: ReadOptions = {}): Promise<OpenedDocument> {
  if (isLocalId(id)) return openLocal(view, id)
  const record = await winnerOf(view, id)
  const { winner: revision } = record
  if (!needsTree(options)) return openedWinner(view, id, record, await view.body(record.body), options)
  const [body, tree] = await Promise.all([view.body(record.body), view.tree(id, record)])
  const parts = {
    id,
    revision,
    body: body.text,
    ...historyOf(tree, revision, options),
    localSequence: options.localSequence ? record.sequence : undefined,
  }
  const knownGeneration = generationKnown(tree, revision, options.known)
  return seen(view, { revision, deleted: false, parts, attachments: body.attachments, knownGeneration })
}

/**
 * The same without a snapshot. Undefined where that takes more than the record and the body, or where the body is gone: the
 * document was written and compacted meanwhile.
 */
export async function openLatest(
  rows: DocumentRows,
  id: string,
  options: ReadOptions,
): Promise<OpenedDocument | undefined> {
  if (isLocalId(id)) return openLocal(rows, id)
  if (needsTree(options)) return undefined
  const record = await winnerOf(rows, id)
  const body = await rows.findBody(record.body)
  return body && openedWinner(rows, id, record, body, options)
}

async function winnerOf(rows: DocumentRows, id: string): Promise<DocumentRecord> {
  const record = await rows.record(id)
  if (!record) throw notFound('missing')
  // Users with restricted access do not see old revisions.
  if (record.deleted) throw notFound(rows.reading ? 'missing' : 'deleted')
  return record
}

function openedWinner(
  rows: DocumentRows,
  id: string,
  { winner: revision, sequence }: DocumentRecord,
  { text, attachments }: StoredBody,
  { localSequence = false }: ReadOptions,
): OpenedDocument {
  const parts = { id, revision, body: text, localSequence: localSequence ? sequence : undefined }
  return seen(rows, { revision, deleted: false, parts, attachments, knownGeneration: 0 })
}

/** One revision, a tombstone too. With `latest`, the best leaf that descends from it. */
export async function openRevision(
  view: DatabaseView,
  id: string,
  revision: RevisionId,
  options: RevisionOptions = {},
): Promise<OpenedDocument> {
  if (isLocalId(id)) return openLocal(view, id, revision)
  const record = await view.record(id)
  if (!record) throw notFound('missing')
  const tree = await view.tree(id, record)
  const node = options.latest ? tree.leavesBelow(revision).sort(compareLeaves)[0] : tree.find(revision)
  if (!node || node.status === 'missing') throw notFound('missing')
  return seen(view, await openNode(view, id, tree, node, options))
}

export type FoundRevision =
  | { readonly found: true; readonly document: OpenedDocument }
  | { readonly found: false; readonly revision: RevisionId }

/** Several revisions, or all leaves: first those found, then those that are not. All of them at once in memory. */
export async function openRevisions(
  view: DatabaseView,
  id: string,
  wanted: 'all' | readonly RevisionId[],
  options: RevisionOptions = {},
): Promise<FoundRevision[]> {
  const { tree, nodes, missing } = await chooseRevisions(view, id, wanted, options)
  const opened = tree ? await Promise.all(nodes.map((node) => openNode(view, id, tree, node, options))) : []
  const documents = readableOf(view, opened)
  // One that is hidden looks like one that is not there.
  if (opened.length > 0 && documents.length === 0) return absent(wanted)
  return [
    ...documents.map((document) => ({ found: true as const, document })),
    ...missing.map((revision) => ({ found: false as const, revision })),
  ]
}

/** The revisions that are meant, not opened yet. */
export interface ChosenRevisions {
  /** Undefined where there is no such document. */
  readonly tree: RevisionTree | undefined
  readonly nodes: readonly RevisionNode[]
  readonly missing: readonly RevisionId[]
}

export async function chooseRevisions(
  view: DatabaseView,
  id: string,
  wanted: 'all' | readonly RevisionId[],
  { latest = false }: RevisionOptions = {},
): Promise<ChosenRevisions> {
  const record = await view.record(id)
  const tree = record && (await view.tree(id, record))
  if (!tree) return { tree: undefined, nodes: [], missing: wanted === 'all' ? [] : wanted }
  if (wanted === 'all') return { tree, nodes: leavesBestFirst(tree), missing: [] }
  const nodes = new Map<RevisionId, RevisionNode>()
  const missing: RevisionId[] = []
  for (const revision of wanted) {
    const found = latest ? tree.leavesBelow(revision).sort(compareLeaves) : [tree.find(revision)]
    const readable = found.filter((node) => node !== undefined && node.status !== 'missing')
    if (readable.length === 0) missing.push(revision)
    for (const node of readable) if (node) nodes.set(node.revision, node)
  }
  return { tree, nodes: [...nodes.values()], missing }
}

function absent(wanted: 'all' | readonly RevisionId[]): FoundRevision[] {
  return wanted === 'all' ? [] : wanted.map((revision) => ({ found: false, revision }))
}

/** What of a document the reader may see. */
function seen(view: DocumentRows, document: OpenedDocument): OpenedDocument {
  if (!view.reading) return document
  const readable = view.reading.readable(document)
  if (!readable) throw notFound('missing')
  return readable
}

function readableOf({ reading }: DatabaseView, documents: readonly OpenedDocument[]): readonly OpenedDocument[] {
  if (!reading) return documents
  return documents.map((document) => reading.readable(document)).filter((document) => document !== undefined)
}

async function openNode(
  view: DatabaseView,
  id: string,
  tree: RevisionTree,
  node: RevisionNode,
  options: HistoryOptions,
): Promise<OpenedDocument> {
  return opened(id, tree, node, await view.body(node.body), options)
}

/** One of the revisions that were chosen in an earlier state; undefined where its body is gone by now. */
export async function openChosen(
  view: DatabaseView,
  id: string,
  tree: RevisionTree,
  node: RevisionNode,
  options: HistoryOptions,
): Promise<OpenedDocument | undefined> {
  const body = await view.findBody(node.body)
  return body && opened(id, tree, node, body, options)
}

function opened(
  id: string,
  tree: RevisionTree,
  node: RevisionNode,
  body: StoredBody,
  options: HistoryOptions,
): OpenedDocument {
  const { revision } = node
  const deleted = node.status === 'deleted'
  const history = historyOf(tree, revision, { revisions: options.revisions ?? false })
  return {
    revision,
    deleted,
    parts: { id, revision, body: body.text, deleted, ...history },
    attachments: body.attachments,
    knownGeneration: generationKnown(tree, revision, options.known),
  }
}

function needsTree(options: ReadOptions): boolean {
  return Boolean(
    options.revisions ||
      options.revisionsInfo ||
      options.conflicts ||
      options.deletedConflicts ||
      options.known?.length,
  )
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

/** The newest of the revision's ancestors, itself included, that is among those known; 0 when none is. */
function generationKnown(tree: RevisionTree, revision: RevisionId, known: readonly RevisionId[] = []): number {
  if (known.length === 0) return 0
  const wanted = new Set(known)
  return tree.ancestry(revision).find((node) => wanted.has(node.revision))?.generation ?? 0
}

async function openLocal(view: DocumentRows, id: string, wanted?: RevisionId): Promise<OpenedDocument> {
  const local = await view.local(id)
  const revision = localRevision(local?.count ?? 0)
  if (!local || (wanted !== undefined && wanted !== revision)) throw notFound('missing')
  const parts = { id, revision, body: local.text }
  return { revision, deleted: false, parts, attachments: NO_ATTACHMENTS, knownGeneration: 0 }
}
