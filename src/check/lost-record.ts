/**
 * Rebuilds the missing record of a document from its change. With its tree nothing is lost; without it, a document of one leaf
 * keeps its newest revision and loses its history.
 */
import { decodeChange } from '../database/layout/change-row.ts'
import type { DocumentRecord } from '../database/layout/document-record.ts'
import { bodyKey, treeKey } from '../database/layout/keys.ts'
import { decodeBody, sizeOfBody } from '../database/layout/stored-body.ts'
import { generationOf, hashOf, type RevisionId } from '../document/ids.ts'
import { HashList, NO_PARENT } from '../document/tree/branch.ts'
import { RevisionTree } from '../document/tree/revision-tree.ts'
import { decodeTree } from '../document/tree/tree-codec.ts'
import type { Snapshot } from '../storage/store.ts'

export interface SalvagedRecord {
  readonly record: DocumentRecord
  readonly tree: RevisionTree
  readonly hasHistory: boolean
}

/** Undefined where too little of the document is left. */
export async function salvagedRecord(
  snapshot: Snapshot,
  sequence: number,
  stored: Buffer,
): Promise<SalvagedRecord | undefined> {
  try {
    const { id, leaves, deleted, body } = decodeChange(stored)
    const apart = await snapshot.get(treeKey(id))
    const [winner] = leaves
    if (winner === undefined || (!apart && leaves.length !== 1)) return undefined
    const tree = apart ? decodeTree(apart) : treeOfOne(winner, deleted ? -body : body)
    const row = await snapshot.get(bodyKey(body))
    if (!row) return undefined
    const text = decodeBody(row)
    const record = {
      sequence,
      winner,
      deleted,
      body,
      bodyBytes: sizeOfBody(text),
      hasOldBodies: false,
      hasAttachments: text.attachments.length > 0,
      tree,
    }
    return { record, tree, hasHistory: apart !== undefined || generationOf(winner) === 1 }
  } catch {
    return undefined
  }
}

function treeOfOne(revision: RevisionId, body: number): RevisionTree {
  const hashes = HashList.of([hashOf(revision)])
  return new RevisionTree([{ parent: NO_PARENT, start: generationOf(revision), hashes, bodies: [body] }])
}
