/**
 * Opens revisions of many documents in one state: all records in one read, all bodies in another. Replicators ask for
 * hundreds at a time. For readers who may see everything.
 */

import type { RevisionId } from '../../document/ids.ts'
import { compareLeaves, pathOfAncestry, type RevisionNode } from '../../document/tree/branch.ts'
import type { RevisionTree } from '../../document/tree/revision-tree.ts'
import type { OnlyRevision } from '../changes/stored-changes.ts'
import type { DatabaseView } from '../database-view.ts'
import { BodyMissingError, bodyPlaces, bodyPlacesWithin } from '../layout/read-bodies.ts'
import { decodeBody } from '../layout/stored-body.ts'
import type { OpenedDocument } from './document-text.ts'

export interface AskedRevisions {
  readonly id: string
  readonly revisions: readonly RevisionId[]
}

export interface OpenedRevisions {
  readonly id: string
  readonly documents: readonly OpenedDocument[]
  /** Those of the asked revisions that are not there. */
  readonly missing: readonly RevisionId[]
  /** Whether its revisions do not fit into memory together: none is opened, and they are to be read in portions. */
  readonly isTooLarge: boolean
}

export interface OpenManyOptions {
  /** The leaves that a revision has become, in place of the revision itself. */
  readonly latest: boolean
  /** Whether the history of each revision is wanted. */
  readonly revisions: boolean
}

/** Bodies that are held together: a portion ends with the document that reaches it. */
const PORTION_BYTES = 1024 * 1024
/** The same where documents have several revisions, whose sizes are not known before they are read. */
const MEASURED_BYTES = 2 * PORTION_BYTES

/** The first of the asked documents, as many as may be held together; one at least. */
export async function openMany(
  view: DatabaseView,
  asked: readonly AskedRevisions[],
  options: OpenManyOptions,
): Promise<OpenedRevisions[]> {
  const chosen = await chooseMany(view, asked, options)
  const numbers: number[] = []
  for (const { nodes } of chosen) for (const { body } of nodes) numbers.push(body)
  const isEstimated = chosen.some(({ nodes }) => nodes.length > 1)
  const places = isEstimated
    ? await bodyPlacesWithin(view.snapshot, numbers, MEASURED_BYTES)
    : await bodyPlaces(view.snapshot, numbers)
  const opened: OpenedRevisions[] = []
  let next = 0
  for (const { id, tree, nodes, missing } of chosen) {
    if (next + nodes.length > places.length) {
      if (opened.length === 0) opened.push({ id, documents: [], missing: [], isTooLarge: true })
      break
    }
    const documents = nodes.map((node): OpenedDocument => {
      const { block, start, end } = places[next++]!
      const { text, attachments } = decodeBody(block.subarray(start, end))
      const { revision } = node
      const deleted = node.status === 'deleted'
      const revisions = options.revisions && tree ? pathOfAncestry(tree.ancestry(revision)) : undefined
      const parts = { id, revision, body: text, deleted, revisions }
      return { revision, deleted, parts, attachments, knownGeneration: 0 }
    })
    opened.push({ id, documents, missing, isTooLarge: false })
  }
  return opened
}

/** A document as its change describes it. */
export interface OnlyDocument {
  readonly id: string
  readonly only: OnlyRevision
}

/**
 * The same for documents of one revision each: their bodies are all that is read. Undefined if there are none, or if a
 * body is gone since the change was read: the caller then reads the record.
 */
export async function openOnly(
  { snapshot }: DatabaseView,
  asked: readonly OnlyDocument[],
): Promise<OpenedDocument[] | undefined> {
  if (asked.length === 0) return undefined
  const numbers = asked.map(({ only }) => only.body)
  const places = await bodyPlacesWithin(snapshot, numbers, PORTION_BYTES).catch(isGone)
  return places?.map(({ block, start, end }, i): OpenedDocument => {
    const { id, only } = asked[i]!
    const { revision, hash, deleted } = only
    const { text: body, attachments } = decodeBody(block.subarray(start, end))
    const parts = { id, revision, body, deleted, revisions: { start: 1, hashes: [hash] } }
    return { revision, deleted, parts, attachments, knownGeneration: 0 }
  })
}

function isGone(error: unknown): undefined {
  if (!(error instanceof BodyMissingError)) throw error
}

interface ChosenNodes {
  readonly id: string
  readonly tree: RevisionTree | undefined
  readonly nodes: readonly RevisionNode[]
  readonly missing: readonly RevisionId[]
}

async function chooseMany(
  view: DatabaseView,
  asked: readonly AskedRevisions[],
  { latest }: OpenManyOptions,
): Promise<ChosenNodes[]> {
  const records = await view.records(asked.map(({ id }) => id))
  const chosen: ChosenNodes[] = []
  let bytes = 0
  for (let i = 0; i < asked.length && bytes < PORTION_BYTES; i++) {
    const { id, revisions } = asked[i]!
    const record = records[i]?.record
    const nodes = record
      ? choose(id, record.tree, revisions, latest)
      : { id, tree: undefined, nodes: [], missing: revisions }
    chosen.push(nodes)
    // Other leaves are taken for as large as the winner.
    bytes += nodes.nodes.length * (record?.bodyBytes ?? 0)
  }
  return chosen
}

function choose(id: string, tree: RevisionTree, revisions: readonly RevisionId[], latest: boolean): ChosenNodes {
  const [first] = revisions
  if (first !== undefined && revisions.length === 1) {
    const nodes = readable(tree, first, latest)
    return { id, tree, nodes, missing: nodes.length === 0 ? revisions : [] }
  }
  // Two revisions may have become the same leaf.
  const nodes = new Map<RevisionId, RevisionNode>()
  const missing: RevisionId[] = []
  for (const revision of revisions) {
    const found = readable(tree, revision, latest)
    for (const node of found) nodes.set(node.revision, node)
    if (found.length === 0) missing.push(revision)
  }
  return { id, tree, nodes: [...nodes.values()], missing }
}

/** The stored body of a revision, if it has one. */
function readable(tree: RevisionTree, revision: RevisionId, latest: boolean): RevisionNode[] {
  if (latest) {
    const leaves = tree.leavesBelow(revision)
    if (leaves.length > 1) leaves.sort(compareLeaves)
    return leaves.every(hasBody) ? leaves : leaves.filter(hasBody)
  }
  const node = tree.find(revision)
  return node && hasBody(node) ? [node] : []
}

function hasBody({ status }: RevisionNode): boolean {
  return status !== 'missing'
}
