/**
 * Collects what a commit does to documents as rows of the store: record, tree, change, rank and the database's numbers
 * always move together, and only here.
 */
import type { RevisionTree } from '../document/revision-tree.ts'
import { leavesBestFirst } from '../document/winner.ts'
import { compareBytes } from '../encoding/byte-order.ts'
import type { RankTree, RowChange } from '../storage/rank-tree/rank-tree.ts'
import type { Put, Snapshot } from '../storage/store.ts'
import { encodeChange } from './change-row.ts'
import type { DatabaseState } from './database-state.ts'
import { type DocumentRecord, encodeRecord } from './document-record.ts'
import { bodyKey, changeKey, documentKey, treeKey } from './keys.ts'
import { encodeBody, type StoredBody } from './stored-body.ts'

/** A record together with its tree, wherever that lies. */
export type WholeRecord = DocumentRecord & { readonly tree: RevisionTree; readonly isTreeApart?: boolean }

export class DocumentChanges {
  readonly puts: Put[] = []
  readonly deletes: Uint8Array[] = []
  readonly #rankChanges: RowChange[] = []
  readonly #newBodies = new Map<number, Buffer>()

  #documents = 0
  #tombstones = 0
  #bodyBytes = 0

  /** One document as it was and as it will be; undefined where it is not there. */
  replace(id: string, before: WholeRecord | undefined, after: WholeRecord | undefined): void {
    const key = documentKey(id)
    const encoded = after && encodeRecord(after)
    if (encoded) this.puts.push([key, encoded.record])
    else this.deletes.push(key)
    if (encoded?.tree) this.puts.push([treeKey(id), encoded.tree])
    else if (before?.isTreeApart) this.deletes.push(treeKey(id))
    if (before?.sequence !== after?.sequence) {
      if (before) this.deletes.push(changeKey(before.sequence))
      if (after) this.puts.push([changeKey(after.sequence), changeOf(id, after)])
    }
    const weightBefore = weightOf(before)
    const weightAfter = weightOf(after)
    if (weightBefore !== weightAfter) {
      this.#rankChanges.push({ key: key.subarray(1), before: weightBefore, after: weightAfter })
    }
    this.#documents += (weightAfter ?? 0) - (weightBefore ?? 0)
    this.#tombstones += (weightAfter === 0 ? 1 : 0) - (weightBefore === 0 ? 1 : 0)
    this.#bodyBytes += (after?.bodyBytes ?? 0) - (before?.bodyBytes ?? 0)
  }

  /** The numbers of the database with what was replaced. */
  counted(state: DatabaseState): DatabaseState {
    return {
      ...state,
      documentCount: state.documentCount + this.#documents,
      deletedCount: state.deletedCount + this.#tombstones,
      bodyBytes: state.bodyBytes + this.#bodyBytes,
    }
  }

  putBody(number: number, body: StoredBody): void {
    this.#newBodies.set(number, encodeBody(body))
  }

  /** A body may be dropped by the very commit that would have brought it. */
  dropBodies(bodies: readonly number[]): void {
    for (const body of bodies) if (!this.#newBodies.delete(body)) this.deletes.push(bodyKey(body))
  }

  /** Adds the bodies and the nodes of the rank tree; the last thing to be done. */
  async finish(snapshot: Snapshot, ranks: RankTree): Promise<void> {
    for (const [number, body] of this.#newBodies) this.puts.push([bodyKey(number), body])
    this.#rankChanges.sort((a, b) => compareBytes(a.key, b.key))
    const { puts, deletes } = await ranks.planChanges(snapshot, this.#rankChanges)
    for (const put of puts) this.puts.push(put)
    for (const key of deletes) this.deletes.push(key)
  }
}

/** Tombstones weigh nothing: they are no documents to anybody who counts. */
function weightOf(record: WholeRecord | undefined): number | undefined {
  return record && (record.deleted ? 0 : 1)
}

function changeOf(id: string, { sequence, deleted, body, tree, winner }: WholeRecord): Buffer {
  const leaves = tree.branchCount === 1 ? [winner] : leavesBestFirst(tree).map(({ revision }) => revision)
  return encodeChange(sequence, { id, leaves, deleted, body })
}
