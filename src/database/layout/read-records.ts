/** Reads documents by their ids: record and tree of each, in two round trips at most; and how large bodies are. */
import type { RevisionTree } from '../../document/tree/revision-tree.ts'
import { decodeTree } from '../../document/tree/tree-codec.ts'
import { TimeSlice } from '../../runtime/time-slice.ts'
import type { Snapshot } from '../../storage/store.ts'
import type { WholeRecord } from '../writing/document-changes.ts'
import { type DocumentRecord, decodeRecord } from './document-record.ts'
import { bodyKey, documentKey, treeKey } from './keys.ts'
import { decodeBody, sizeOfBody } from './stored-body.ts'

export interface ReadRecord {
  readonly id: string
  readonly record: WholeRecord | undefined
}

export async function readRecords(snapshot: Snapshot, ids: readonly string[]): Promise<ReadRecord[]> {
  const slice = new TimeSlice()
  const read: ReadRecord[] = []
  for (let first = 0; first < ids.length; first += RECORDS_A_PORTION) {
    const some = ids.slice(first, first + RECORDS_A_PORTION)
    const records = await wholeRecords(snapshot, some, some.map(documentKey))
    for (const [i, id] of some.entries()) read.push({ id, record: records[i] })
    if (slice.isOverNow) await slice.pause()
  }
  return read
}

/** The same for somebody who has the keys; records only. */
export async function wholeRecords(
  snapshot: Snapshot,
  ids: readonly string[],
  keys: readonly Buffer[],
): Promise<(WholeRecord | undefined)[]> {
  if (ids.length > RECORDS_A_PORTION) return recordsInPortions(snapshot, ids, keys)
  const stored = await snapshot.getMany(keys)
  const records = stored.map((bytes) => bytes && decodeRecord(bytes))
  const apart = ids.filter((_, i) => records[i] && !records[i].tree)
  const trees = apart.length === 0 ? [] : await snapshot.getMany(apart.map(treeKey))
  let next = 0
  return records.map((record, i) => {
    if (!record) return undefined
    if (record.tree) return wholeRecord(record, record.tree, false)
    const tree = trees[next++]
    if (!tree) throw new Error(`The revision tree of '${ids[i]}' is not where its record says.`)
    return wholeRecord(record, decodeTree(tree), true)
  })
}

/** Others have their turn between two of them. */
const RECORDS_A_PORTION = 500

async function recordsInPortions(
  snapshot: Snapshot,
  ids: readonly string[],
  keys: readonly Buffer[],
): Promise<(WholeRecord | undefined)[]> {
  const slice = new TimeSlice()
  const records: (WholeRecord | undefined)[] = []
  for (let first = 0; first < ids.length; first += RECORDS_A_PORTION) {
    const end = first + RECORDS_A_PORTION
    for (const record of await wholeRecords(snapshot, ids.slice(first, end), keys.slice(first, end)))
      records.push(record)
    if (slice.isOverNow) await slice.pause()
  }
  return records
}

/** Member by member: of an object with hidden parts a spread takes several times as long. */
function wholeRecord(record: DocumentRecord, tree: RevisionTree, isTreeApart: boolean): WholeRecord {
  const { sequence, winner, deleted, body, bodyBytes, hasOldBodies, hasAttachments } = record
  return { sequence, winner, deleted, body, bodyBytes, hasOldBodies, hasAttachments, tree, isTreeApart }
}

/** How many bytes bodies take up. */
export async function bodySizes(snapshot: Snapshot, bodies: readonly number[]): Promise<number[]> {
  const stored = await snapshot.getMany(bodies.map(bodyKey))
  return stored.map((bytes, i) => {
    if (!bytes) throw new Error(`Body ${bodies[i]} is not where its tree says.`)
    return sizeOfBody(decodeBody(bytes))
  })
}
