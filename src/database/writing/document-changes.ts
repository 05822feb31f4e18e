/**
 * Collects the row changes of a commit: record, tree, change, rank and the counts of the database always change together,
 * and only here.
 */

import { leavesBestFirst } from '../../document/revisions/winner.ts'
import { compareBytes } from '../../encoding/bytes/short-bytes.ts'
import type { RankTree, RowChange } from '../../storage/rank-tree/rank-tree.ts'
import { PackedRowsWriter } from '../../storage/rows/packed-rows.ts'
import type { Put, Snapshot } from '../../storage/store.ts'
import { addChange, type NewChange } from '../layout/change-row.ts'
import { addRecord, type WholeRecord } from '../layout/document-record.ts'
import { bodyKey, changeKey, type DatabaseState, documentKey, treeKey } from '../layout/keys.ts'
import { addBody, type StoredBody, sizeOfBody } from '../layout/stored-body.ts'

/** How much is expected to change: memory for it is allocated at once. */
export interface ExpectedChanges {
  readonly documents: number
  readonly bodyBytes: number
}

export class DocumentChanges {
  readonly puts: Put[] = []
  readonly deletes: Uint8Array[] = []
  /** The rows of documents, changes and bodies, packed: no object is created for a row. */
  readonly packed: PackedRowsWriter
  readonly #rankChanges: RowChange[] = []
  readonly #newBodies = new Map<number, StoredBody>()

  #documents = 0
  #tombstones = 0
  #bodyBytes = 0

  constructor({ documents, bodyBytes }: ExpectedChanges = A_FEW) {
    this.packed = new PackedRowsWriter(bodyBytes + documents * ROWS_BYTES, documents * ROWS)
  }

  /** One document before and after the commit; undefined where it does not exist. */
  replace(
    id: string,
    before: WholeRecord | undefined,
    after: WholeRecord | undefined,
    key: Buffer = documentKey(id),
  ): void {
    const tree = after && addRecord(this.packed, key, after)
    if (!after) this.deletes.push(key)
    if (tree) this.puts.push([treeKey(id), tree])
    else if (before?.isTreeApart) this.deletes.push(treeKey(id))
    if (before?.sequence !== after?.sequence) {
      if (before) this.deletes.push(changeKey(before.sequence))
      if (after) addChange(this.packed, after.sequence, changeOf(key, after))
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

  /** The state with the counts of what was replaced. */
  counted(state: DatabaseState): DatabaseState {
    return {
      ...state,
      documentCount: state.documentCount + this.#documents,
      deletedCount: state.deletedCount + this.#tombstones,
      bodyBytes: state.bodyBytes + this.#bodyBytes,
    }
  }

  putBody(number: number, body: StoredBody): void {
    this.#newBodies.set(number, body)
  }

  /** The size of a body that the changes add; undefined where they do not add it. */
  sizeOfNewBody(number: number): number | undefined {
    const body = this.#newBodies.get(number)
    return body && sizeOfBody(body)
  }

  /** A body may be dropped by the same commit that would have added it. */
  dropBodies(bodies: readonly number[]): void {
    for (const body of bodies) if (!this.#newBodies.delete(body)) this.deletes.push(bodyKey(body))
  }

  /** Adds the bodies and the nodes of the rank tree. To be called last. */
  async finish(snapshot: Snapshot, ranks: RankTree): Promise<void> {
    for (const [number, body] of this.#newBodies) addBody(this.packed, number, body)
    this.#rankChanges.sort((a, b) => compareBytes(a.key, b.key))
    const { puts, deletes } = await ranks.planChanges(snapshot, this.#rankChanges)
    for (const put of puts) this.puts.push(put)
    for (const key of deletes) this.deletes.push(key)
  }
}

/** Tombstones weigh nothing: they are not counted as documents. */
function weightOf(record: WholeRecord | undefined): number | undefined {
  return record && (record.deleted ? 0 : 1)
}

function changeOf(key: Buffer, { deleted, body, tree, winner }: WholeRecord): NewChange {
  const leaves = tree.branchCount === 1 ? [winner] : leavesBestFirst(tree).map(({ revision }) => revision)
  return { key, leaves, deleted, body }
}

/** A document usually has three rows: record, change and body. `ROWS_BYTES` is their size without the text of the body. */
const ROWS = 3
const ROWS_BYTES = 320
const A_FEW: ExpectedChanges = { documents: 4, bodyBytes: 0 }
