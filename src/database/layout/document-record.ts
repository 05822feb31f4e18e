/**
 * The row of a document (`d`): enough to list it, to read its winner and to update it, and little more, so that scans stay
 * fast. A long revision tree has a row of its own. And the row of a local document (`l`).
 *
 *   flags, sequence, body number and size of the winner, its generation and hash, the tree where it is short
 */
import { formatRevision, generationOf, hashOf, type RevisionId } from '../../document/ids.ts'
import { plantRevision, type RevisionTree } from '../../document/tree/revision-tree.ts'
import { decodeTree, encodeTree } from '../../document/tree/tree-codec.ts'
import {
  copyShort,
  NUMBER_BYTES,
  VarintReader,
  writeHexadecimal,
  writeVarint,
} from '../../encoding/bytes/short-bytes.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import type { PackedRowsWriter } from '../../storage/rows/packed-rows.ts'
import type { Snapshot } from '../../storage/store.ts'
import { documentKey, treeKey } from './keys.ts'

export interface DocumentRecord {
  /** Of its last change. */
  readonly sequence: number
  readonly winner: RevisionId
  /** Whether the winner is a tombstone. */
  readonly deleted: boolean
  /** The number of the winner's body, and its size. */
  readonly body: number
  readonly bodyBytes: number
  /** Whether the tree has bodies that compaction drops. */
  readonly hasOldBodies: boolean
  /** Whether any of its bodies may have attachments. */
  readonly hasAttachments: boolean
  /** Undefined where it has a row of its own. */
  readonly tree: RevisionTree | undefined
}

export const DELETED = 1
export const HEX_HASH = 2
const OLD_BODIES = 4
export const TREE_INSIDE = 8
export const TREE_APART = 16
const ATTACHMENTS = 32

/** A larger tree has a row of its own. */
const TREE_INSIDE_BYTES = 200

export const HEX_HASH_BYTES = 16

/** Adds the row of a record; returns the tree if it needs a row of its own. */
export function addRecord(
  rows: PackedRowsWriter,
  key: Buffer,
  record: DocumentRecord & { readonly tree: RevisionTree },
): Buffer | undefined {
  const { winner } = record
  const tree = isSingle(record.tree) ? undefined : encodeTree(record.tree)
  const isApart = tree !== undefined && tree.length > TREE_INSIDE_BYTES
  rows.reserve(key.length + 1 + 5 * NUMBER_BYTES + 3 * winner.length + TREE_INSIDE_BYTES)
  const { block, end } = rows
  const valueAt = end + copyShort(key, block, end)
  const dash = winner.indexOf('-')
  const isHex = winner.length - dash - 1 === 2 * HEX_HASH_BYTES
  block[valueAt] =
    (record.deleted ? DELETED : 0) |
    (isHex ? HEX_HASH : 0) |
    (record.hasOldBodies ? OLD_BODIES : 0) |
    (record.hasAttachments ? ATTACHMENTS : 0) |
    (isApart ? TREE_APART : tree ? TREE_INSIDE : 0)
  let at = writeVarint(block, valueAt + 1, record.sequence)
  at = writeVarint(block, at, record.body)
  at = writeVarint(block, at, record.bodyBytes)
  at = writeVarint(block, at, generationOf(winner))
  if (isHex) at = writeHexadecimal(block, at, winner, dash + 1)
  else {
    const hash = hashOf(winner)
    at = writeVarint(block, at, Buffer.byteLength(hash))
    at += block.write(hash, at)
  }
  if (tree && !isApart) at += tree.copy(block, at)
  rows.close(valueAt, at)
  return isApart ? tree : undefined
}

export function decodeRecord(bytes: Buffer): DocumentRecord {
  return new StoredRecord(bytes)
}

/** A record as it was read. Its tree is decoded on demand: most readers want only the winner. */
class StoredRecord implements DocumentRecord {
  readonly sequence: number
  readonly winner: RevisionId
  readonly deleted: boolean
  readonly body: number
  readonly bodyBytes: number
  readonly hasOldBodies: boolean
  readonly hasAttachments: boolean
  readonly #bytes: Buffer
  readonly #treeStart: number
  #tree: RevisionTree | undefined

  constructor(bytes: Buffer) {
    const flags = bytes[0]!
    const reader = new VarintReader(bytes, 1)
    this.sequence = reader.number()
    this.body = reader.number()
    this.bodyBytes = reader.number()
    this.winner = readRevision(reader, bytes, flags)
    this.deleted = (flags & DELETED) !== 0
    this.hasOldBodies = (flags & OLD_BODIES) !== 0
    this.hasAttachments = (flags & ATTACHMENTS) !== 0
    this.#bytes = bytes
    this.#treeStart = reader.at
  }

  get tree(): RevisionTree | undefined {
    const flags = this.#bytes[0]!
    if ((flags & TREE_APART) !== 0) return undefined
    this.#tree ??=
      (flags & TREE_INSIDE) !== 0
        ? decodeTree(this.#bytes.subarray(this.#treeStart))
        : plantRevision(this.winner, this.deleted ? -this.body : this.body)
    return this.#tree
  }
}

/** What a listing needs, without decoding the rest. */
export function summarizeRecord(bytes: Buffer): {
  deleted: boolean
  winner: RevisionId
  body: number
  bodyBytes: number
  sequence: number
} {
  const flags = bytes[0]!
  const reader = new VarintReader(bytes, 1)
  const sequence = reader.number()
  const body = reader.number()
  const bodyBytes = reader.number()
  return { deleted: (flags & DELETED) !== 0, winner: readRevision(reader, bytes, flags), body, bodyBytes, sequence }
}

/** Tombstones do not count among the documents. */
export function weightOfRecord(bytes: Buffer): number {
  return (bytes[0]! & DELETED) !== 0 ? 0 : 1
}

/** Whether there is more than one revision: bodies that compaction drops, or more history than the limit allows. */
export function recordHasHistory(bytes: Buffer): boolean {
  return (bytes[0]! & (TREE_INSIDE | TREE_APART)) !== 0
}

export function recordHasAttachments(bytes: Buffer): boolean {
  return (bytes[0]! & ATTACHMENTS) !== 0
}

function readRevision(reader: VarintReader, bytes: Buffer, flags: number): RevisionId {
  const generation = reader.number()
  const isHex = (flags & HEX_HASH) !== 0
  const size = isHex ? HEX_HASH_BYTES : reader.number()
  const start = reader.at
  reader.at += size
  return formatRevision(generation, bytes.toString(isHex ? 'hex' : 'utf8', start, start + size))
}

/** A tree of one revision holds nothing that the record does not. */
function isSingle(tree: RevisionTree): boolean {
  return tree.branchCount === 1 && (tree.line ? tree.line.count === 1 : tree.branch(0).bodies.length === 1)
}

/** A record together with its tree, whether the tree is part of the row or has its own. */
export type WholeRecord = DocumentRecord & { readonly tree: RevisionTree; readonly isTreeApart?: boolean }

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

/** The same for callers that have the keys; records only. */
export async function wholeRecords(
  snapshot: Snapshot,
  ids: readonly string[],
  keys: readonly Buffer[],
): Promise<(WholeRecord | undefined)[]> {
  if (ids.length > RECORDS_A_PORTION) return recordsInPortions(snapshot, ids, keys)
  const stored = await snapshot.getMany(keys)
  if (stored.every((bytes) => bytes === undefined)) return stored.map(() => undefined)
  const records = stored.map((bytes) => bytes && decodeRecord(bytes))
  const apart = ids.filter((_, i) => records[i] && !records[i].tree)
  const trees = apart.length === 0 ? [] : await snapshot.getMany(apart.map(treeKey))
  let next = 0
  return records.map((record, i) => {
    if (!record) return undefined
    if (record.tree) return wholeRecord(record, record.tree, false)
    const tree = trees[next++]
    if (!tree) throw new Error(`The revision tree of '${ids[i]}' is missing.`)
    return wholeRecord(record, decodeTree(tree), true)
  })
}

/** Records between two yields to the event loop. */
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

/** Member by member: a spread of an object with private fields takes several times as long. */
function wholeRecord(record: DocumentRecord, tree: RevisionTree, isTreeApart: boolean): WholeRecord {
  const { sequence, winner, deleted, body, bodyBytes, hasOldBodies, hasAttachments } = record
  return { sequence, winner, deleted, body, bodyBytes, hasOldBodies, hasAttachments, tree, isTreeApart }
}

/** A document that is not replicated: its revisions are counted, and it is in no index and no feed. */
export interface LocalDocument {
  /** How often it was written. */
  readonly count: number
  readonly text: Buffer
}

export function encodeLocal({ count, text }: LocalDocument): Buffer {
  const bytes = Buffer.allocUnsafe(8 + text.length)
  const at = writeVarint(bytes, 0, count)
  return bytes.subarray(0, at + text.copy(bytes, at))
}

export function decodeLocal(bytes: Buffer): LocalDocument {
  const reader = new VarintReader(bytes, 0)
  const count = reader.number()
  return { count, text: bytes.subarray(reader.at) }
}

export function localRevision(count: number): RevisionId {
  return formatRevision(0, String(count))
}

/** The count in the revision of a local document; undefined where it is not one. */
export function localCount(revision: RevisionId): number | undefined {
  const hash = hashOf(revision)
  return generationOf(revision) === 0 && /^\d{1,15}$/.test(hash) ? Number(hash) : undefined
}
