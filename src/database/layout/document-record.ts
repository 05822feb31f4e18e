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
  writeDecimal,
  writeHexadecimal,
  writeVarint,
} from '../../encoding/bytes/short-bytes.ts'
import { quoteText } from '../../encoding/json/json-text-splice.ts'
import type { PackedRowsWriter } from '../../storage/rows/packed-rows.ts'

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

const DELETED = 1
const HEX_HASH = 2
const OLD_BODIES = 4
const TREE_INSIDE = 8
const TREE_APART = 16
const ATTACHMENTS = 32

/** A larger tree has a row of its own. */
const TREE_INSIDE_BYTES = 200

const HEX_HASH_BYTES = 16

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

/** Reads what a listing needs from the records of a block, one after the other, without an object for each. */
export class RecordReader {
  deleted = false
  /** The number of the winner's body, and its size. */
  body = 0
  bodyBytes = 0
  /** Whether there is more than one revision. */
  hasHistory = false
  #block: Buffer = NOTHING
  #at = 0
  #generation = 0
  #hashEnd = 0
  #isHex = false

  /** Reads the record at this offset of the block. */
  read(block: Buffer, start: number): void {
    const flags = block[start]!
    this.#block = block
    this.#at = start + 1
    this.#passOverNumber()
    this.deleted = (flags & DELETED) !== 0
    this.hasHistory = (flags & (TREE_INSIDE | TREE_APART)) !== 0
    this.body = this.#number()
    this.bodyBytes = this.#number()
    this.#generation = this.#number()
    this.#isHex = (flags & HEX_HASH) !== 0
    const hashBytes = this.#isHex ? HEX_HASH_BYTES : this.#number()
    this.#hashEnd = this.#at + hashBytes
  }

  get winner(): RevisionId {
    const hash = this.#block.toString(this.#isHex ? 'hex' : 'utf8', this.#at, this.#hashEnd)
    return formatRevision(this.#generation, hash)
  }

  /** The most bytes that `writeRevision` may write. */
  get mostRevisionBytes(): number {
    return GENERATION_BYTES + MOST_ESCAPED_BYTES * (this.#hashEnd - this.#at)
  }

  /** Writes the winner as JSON text, with its quotes, and returns where it ends. */
  writeRevision(target: Buffer, position: number): number {
    if (!this.#isHex) return position + target.write(quoteText(this.winner), position)
    let at = position
    target[at++] = QUOTE
    at = writeDecimal(target, at, this.#generation)
    target[at++] = DASH
    const block = this.#block
    for (let hash = this.#at; hash < this.#hashEnd; hash++) {
      const byte = block[hash]!
      target[at++] = HEX_DIGITS[byte >> 4]!
      target[at++] = HEX_DIGITS[byte & 0xf]!
    }
    target[at++] = QUOTE
    return at
  }

  #number(): number {
    let value = 0
    for (let unit = 1; ; unit *= 0x80) {
      const byte = this.#block[this.#at++]!
      if (byte < 0x80) return value + byte * unit
      value += (byte - 0x80) * unit
    }
  }

  #passOverNumber(): void {
    while (this.#block[this.#at++]! >= 0x80) {}
  }
}

const NOTHING = Buffer.alloc(0)
const QUOTE = 0x22
const DASH = 0x2d
const HEX_DIGITS = Buffer.from('0123456789abcdef')

/** Quotes, fifteen digits and a dash, and some more. */
const GENERATION_BYTES = 20
/** The longest escape of one byte in JSON. */
const MOST_ESCAPED_BYTES = 6

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
