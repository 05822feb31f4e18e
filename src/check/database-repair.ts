/**
 * Rebuilds what can be derived from the records, trees and bodies of a database: the fields of records, the changes, the counts
 * and the rank tree; and records from changes. Rows that belong to no document are removed, unless they may be all that is left
 * of one. Rows that cannot be derived are never changed. An interrupted repair starts again from the beginning. Nothing else may
 * use the database meanwhile.
 */
import { addChange } from '../database/layout/change-row.ts'
import { addRecord, type DocumentRecord, decodeRecord } from '../database/layout/document-record.ts'
import {
  BODY_PREFIX,
  bodyKey,
  CHANGE_PREFIX,
  changeKey,
  type DatabaseState,
  DOCUMENT_PREFIX,
  decodeState,
  documentKey,
  EXPIRY_PREFIX,
  encodeState,
  IDENTITY_KEY,
  INITIAL_STATE,
  idOfDocumentKey,
  isExpiryKey,
  numberOfBodyKey,
  PURGE_PREFIX,
  STATE_KEY,
  sequenceOfChangeKey,
  TREE_PREFIX,
  treeKey,
} from '../database/layout/keys.ts'
import { decodeBody, sizeOfBody } from '../database/layout/stored-body.ts'
import { leavesBestFirst, winner } from '../document/revisions/winner.ts'
import type { RevisionTree } from '../document/tree/revision-tree.ts'
import { decodeTree } from '../document/tree/tree-codec.ts'
import { PackedRowsWriter, unpacked } from '../storage/rows/packed-rows.ts'
import type { KeyRange, Put, Snapshot, Store } from '../storage/store.ts'
import { hasNumbers, hasTreeInside, idOfChange, pagesOf, rankTreeOf, rowsOf, sequenceOf } from './checked-rows.ts'
import { salvagedRecord } from './lost-record.ts'
import { NumberSet } from './number-set.ts'

/** How many rows were written or removed. */
export async function repairDatabase(store: Store): Promise<number> {
  return new DatabaseRepair(store).run()
}

const OPERATIONS_A_COMMIT = 5_000

class DatabaseRepair {
  readonly #store: Store
  #puts: Put[] = []
  #deletes: Uint8Array[] = []
  #rows = 0
  /** Sequences that a document has. */
  readonly #sequences = new NumberSet()
  readonly #bodies = new NumberSet()
  /** False where records are missing or unreadable: rows that may belong to them stay. */
  #isSafeToRemove = true
  /** Trees of records that were rebuilt. */
  readonly #salvaged = new Set<string>()
  #nextSequence = 0

  constructor(store: Store) {
    this.#store = store
  }

  async run(): Promise<number> {
    using snapshot = this.#store.snapshot()
    const state = await readState(snapshot)
    this.#nextSequence = Math.max(state.updateSequence, await lastNumber(snapshot, CHANGE_PREFIX)) + 1
    const counted = await this.#repairRecords(snapshot)
    const found = counted.documentCount + counted.deletedCount
    if (found < state.documentCount + state.deletedCount) this.#isSafeToRemove = false
    if (this.#isSafeToRemove) await this.#removeStrays(snapshot)
    const repaired: DatabaseState = {
      ...state,
      ...counted,
      updateSequence: Math.max(state.updateSequence, this.#nextSequence - 1),
      nextBody: Math.max(state.nextBody, (await lastNumber(snapshot, BODY_PREFIX)) + 1),
      purgeSequence: Math.max(state.purgeSequence, await lastNumber(snapshot, PURGE_PREFIX)),
    }
    await this.#removeQueueFaults(snapshot)
    this.#put(STATE_KEY, encodeState(repaired), await snapshot.get(STATE_KEY))
    await this.#commit()
    snapshot.release()
    await this.#rebuildRanks()
    return this.#rows
  }

  async #repairRecords(
    snapshot: Snapshot,
  ): Promise<Pick<DatabaseState, 'documentCount' | 'deletedCount' | 'bodyBytes'>> {
    let documentCount = 0
    let deletedCount = 0
    let bodyBytes = 0
    const add = async (id: string, found: FoundRecord, before: Buffer | undefined) => {
      const record = await this.#rightRecord(snapshot, found)
      await this.#putRecord(snapshot, id, record, before)
      if (record.deleted) deletedCount++
      else documentCount++
      bodyBytes += record.bodyBytes
    }
    for await (const page of pagesOf(snapshot, rowsOf(DOCUMENT_PREFIX))) {
      for (let row = 0; row < page.length; row++) {
        const id = idOfDocumentKey(page.key(row))
        const found = await understood(snapshot, id, page.value(row))
        if (!found) {
          this.#isSafeToRemove = false
          continue
        }
        await add(id, found, page.value(row))
      }
      if (this.#puts.length >= OPERATIONS_A_COMMIT) await this.#commit()
    }
    for await (const { id, found } of this.#lostRecords(snapshot)) {
      this.#salvaged.add(id)
      await add(id, found, undefined)
    }
    return { documentCount, deletedCount, bodyBytes }
  }

  /** Documents that have changes and no records. The last change of a document counts. */
  async *#lostRecords(snapshot: Snapshot): AsyncGenerator<{ readonly id: string; readonly found: FoundRecord }> {
    const lost = new Map<string, FoundRecord>()
    for await (const page of pagesOf(snapshot, rowsOf(CHANGE_PREFIX))) {
      for (let row = 0; row < page.length; row++) {
        const id = idOfChange(page.value(row))
        if (id === undefined || (await snapshot.get(documentKey(id)))) continue
        const found = await salvagedRecord(snapshot, sequenceOfChangeKey(page.key(row)), page.value(row))
        if (found) lost.set(id, found)
        else this.#isSafeToRemove = false
      }
    }
    for (const [id, found] of lost) yield { id, found }
  }

  /** The record that its tree and bodies imply. */
  async #rightRecord(snapshot: Snapshot, { record, tree }: FoundRecord): Promise<WholeRecord> {
    const best = winner(tree)
    let { bodyBytes, hasAttachments } = record
    for (const number of tree.bodies()) {
      this.#bodies.add(number)
      const stored = await snapshot.get(bodyKey(number))
      try {
        const body = stored && decodeBody(stored)
        if (!body) continue
        hasAttachments ||= body.attachments.length > 0
        if (number === best.body) bodyBytes = sizeOfBody(body)
      } catch {
        // Its content is lost, and the check reports it.
      }
    }
    const isTaken = record.sequence < 1 || !this.#sequences.add(record.sequence)
    const sequence = isTaken ? this.#nextSequence++ : record.sequence
    if (isTaken) this.#sequences.add(sequence)
    return {
      sequence,
      winner: best.revision,
      deleted: best.status === 'deleted',
      body: best.body,
      bodyBytes,
      hasOldBodies: tree.bodies().length > tree.branches.length,
      hasAttachments,
      tree,
    }
  }

  async #putRecord(snapshot: Snapshot, id: string, record: WholeRecord, before: Buffer | undefined): Promise<void> {
    const rows = new PackedRowsWriter(1024, 2)
    const key = documentKey(id)
    const treeApart = addRecord(rows, key, record)
    const leaves = leavesBestFirst(record.tree).map(({ revision }) => revision)
    addChange(rows, record.sequence, { key, leaves, deleted: record.deleted, body: record.body })
    const [document, change] = [...unpacked(rows)]
    if (document) this.#put(document[0], document[1], before)
    if (change) this.#put(change[0], change[1], await snapshot.get(changeKey(record.sequence)))
    if (treeApart) this.#put(treeKey(id), treeApart, await snapshot.get(treeKey(id)))
  }

  /** Changes, trees and bodies that belong to no document. */
  async #removeStrays(snapshot: Snapshot): Promise<void> {
    for await (const page of pagesOf(snapshot, rowsOf(CHANGE_PREFIX))) {
      for (let row = 0; row < page.length; row++) {
        const sequence = sequenceOfChangeKey(page.key(row))
        const id = idOfChange(page.value(row))
        const record = id === undefined ? undefined : await snapshot.get(documentKey(id))
        const isLast = record !== undefined && sequenceOf(record) === sequence
        // The row was just rebuilt, and is not a stray.
        if (!isLast && !this.#sequences.has(sequence)) await this.#delete(page.key(row))
      }
    }
    for await (const page of pagesOf(snapshot, rowsOf(TREE_PREFIX), { keysOnly: true })) {
      for (let row = 0; row < page.length; row++) {
        const id = page.key(row).toString('utf8', 1)
        if (this.#salvaged.has(id)) continue
        const record = await snapshot.get(documentKey(id))
        if (!record || hasTreeInside(record)) await this.#delete(page.key(row))
      }
    }
    for await (const page of pagesOf(snapshot, rowsOf(BODY_PREFIX), { keysOnly: true })) {
      for (let row = 0; row < page.length; row++) {
        if (!this.#bodies.has(numberOfBodyKey(page.key(row)))) await this.#delete(page.key(row))
      }
    }
  }

  async #removeQueueFaults(snapshot: Snapshot): Promise<void> {
    for await (const page of pagesOf(
      snapshot,
      { from: EXPIRY_PREFIX, to: afterKey(EXPIRY_PREFIX) },
      { keysOnly: true },
    )) {
      for (let row = 0; row < page.length; row++) if (!isExpiryKey(page.key(row))) await this.#delete(page.key(row))
    }
  }

  async #rebuildRanks(): Promise<void> {
    using snapshot = this.#store.snapshot()
    const identity = await snapshot.get(IDENTITY_KEY)
    if (!identity) return
    const ranks = rankTreeOf(Buffer.from(String(JSON.parse(identity.toString()).salt), 'hex'))
    const { wrong, extra } = await ranks.check(snapshot).catch(() => ({ wrong: 1, extra: 1 }))
    if (wrong === 0 && extra === 0) return
    // Removed first, since a commit takes only a part of them.
    for await (const page of pagesOf(snapshot, ranks.nodeRange, { keysOnly: true })) {
      for (let row = 0; row < page.length; row++) await this.#delete(page.key(row))
    }
    await this.#commit()
    for await (const puts of ranks.rebuild(snapshot)) {
      for (const [key, value] of puts) this.#put(key, value, undefined)
      if (this.#puts.length >= OPERATIONS_A_COMMIT) await this.#commit()
    }
    await this.#commit()
  }

  #put(key: Uint8Array, value: Uint8Array, before: Buffer | undefined): void {
    if (before?.equals(value)) return
    this.#puts.push([Buffer.from(key), Buffer.from(value)])
  }

  async #delete(key: Buffer): Promise<void> {
    this.#deletes.push(Buffer.from(key))
    if (this.#deletes.length >= OPERATIONS_A_COMMIT) await this.#commit()
  }

  async #commit(): Promise<void> {
    const [puts, deletes] = [this.#puts, this.#deletes]
    this.#puts = []
    this.#deletes = []
    if (puts.length + deletes.length === 0) return
    this.#rows += puts.length + deletes.length
    await this.#store.commit({ puts, deletes })
  }
}

type WholeRecord = DocumentRecord & { readonly tree: RevisionTree }

interface FoundRecord {
  readonly record: DocumentRecord
  readonly tree: RevisionTree
}

/** Undefined where the record or its tree is lost. */
async function understood(snapshot: Snapshot, id: string, value: Buffer): Promise<FoundRecord | undefined> {
  try {
    const record = decodeRecord(value)
    if (record.tree) return { record, tree: record.tree }
    const stored = await snapshot.get(treeKey(id))
    return stored && { record, tree: decodeTree(stored) }
  } catch {
    return undefined
  }
}

async function readState(snapshot: Snapshot): Promise<DatabaseState> {
  try {
    const stored = await snapshot.get(STATE_KEY)
    const state = stored ? decodeState(stored) : INITIAL_STATE
    return hasNumbers(state) ? state : INITIAL_STATE
  } catch {
    return INITIAL_STATE
  }
}

/** The end of all keys with this prefix. */
function afterKey(prefix: Buffer): Buffer {
  const after = Buffer.from(prefix)
  after[after.length - 1]! += 1
  return after
}

/** The highest number among the keys with a prefix; 0 where there is none. */
async function lastNumber(snapshot: Snapshot, prefix: Buffer): Promise<number> {
  const range: KeyRange = { ...rowsOf(prefix), reverse: true }
  const page = await snapshot.page(range, { rows: 1, keysOnly: true })
  return page.length > 0 ? numberOfBodyKey(page.key(0)) : 0
}
