/**
 * What lies where in the store of an index. Rows of a view are in the order of their answer: sort key, document id,
 * number among the document's rows of that key. Their values hold the line of the reply, ready to be sent.
 */
import { VarintReader, writeVarint } from '../encoding/varint.ts'

const DOCUMENT = 0x64
const META = 0x6d
const NODE = 0x6e
const ROW = 0x72

/** The numbers of the index and what it belongs to. */
export const STATE_KEY = Buffer.of(META, 0x73)

/** Which rows a document made. */
export function documentKey(id: Uint8Array): Buffer {
  const key = Buffer.allocUnsafe(documentKeyBytes(id))
  writeDocumentKey(key, 0, id)
  return key
}

export function documentKeyBytes(id: Uint8Array): number {
  return 1 + id.length
}

/** Writes the key at the position and returns where it ends. */
export function writeDocumentKey(target: Buffer, position: number, id: Uint8Array): number {
  target[position] = DOCUMENT
  target.set(id, position + 1)
  return position + 1 + id.length
}

/** The id in such a key; undefined where the key is of something else. */
export function idOfDocumentKey(key: Buffer): Buffer | undefined {
  return key[0] === DOCUMENT ? key.subarray(1) : undefined
}

/** All rows of a view begin with this. */
export function rowPrefix(view: number): Buffer {
  return Buffer.of(ROW, view >> 8, view & 0xff)
}

/** All nodes of a view's rank tree begin with this. */
export function nodePrefix(view: number): Buffer {
  return Buffer.of(NODE, view >> 8, view & 0xff)
}

/** How long a row's prefix is, whatever the view. */
export const ROW_PREFIX_BYTES = 3

/** The key of a row, its prefix included; rank trees take it without. The id is escaped. */
export function rowKey(view: number, sortKey: Uint8Array, escapedId: Uint8Array, number: number): Buffer {
  const key = Buffer.allocUnsafe(rowKeyBytes(sortKey, escapedId))
  writeRowKey(key, 0, view, sortKey, escapedId, number)
  return key
}

export function rowKeyBytes(sortKey: Uint8Array, escapedId: Uint8Array): number {
  return ROW_PREFIX_BYTES + sortKey.length + escapedId.length + 5
}

/** Writes the key at the position and returns where it ends. */
export function writeRowKey(
  target: Buffer,
  position: number,
  view: number,
  sortKey: Uint8Array,
  escapedId: Uint8Array,
  number: number,
): number {
  target[position] = ROW
  target[position + 1] = view >> 8
  target[position + 2] = view & 0xff
  let at = position + ROW_PREFIX_BYTES
  target.set(sortKey, at)
  at += sortKey.length
  target.set(escapedId, at)
  at += escapedId.length
  target[at] = END_OF_ID
  return target.writeUInt32BE(number, at + 1)
}

/** The number of the view that a row belongs to; undefined where the key is of something else. */
export function viewOfRowKey(key: Buffer): number | undefined {
  return key[0] === ROW ? key.readUInt16BE(1) : undefined
}

/** Rows of a sort key lie from the sort key itself up to this. */
export function endOfKey(sortKey: Uint8Array): Buffer {
  return Buffer.concat([sortKey, BEYOND])
}

/** Where the rows of one document among those of a sort key begin. */
export function startOfId(sortKey: Uint8Array, id: string): Buffer {
  return Buffer.concat([sortKey, idBytes(id)])
}

/** Where they end. */
export function endOfId(sortKey: Uint8Array, id: string): Buffer {
  return Buffer.concat([sortKey, idBytes(id), BEYOND_ID])
}

/** A row as it is stored: where key and value begin in the line, then the line. */
export function encodeRow(parts: RowParts): Buffer {
  const row = Buffer.allocUnsafe(largestRowBytes(parts))
  return row.subarray(0, writeRow(row, 0, parts))
}

/** At least as many as the row takes. */
export function largestRowBytes({ id, key, value }: RowParts): number {
  return ROW_OVERHEAD_BYTES + id.length + key.length + value.length
}

/** Writes the row at the position and returns where it ends. */
export function writeRow(target: Buffer, position: number, { id, key, value, exact }: RowParts): number {
  const keyAt = BEFORE_ID.length + id.length + BEFORE_KEY.length
  const valueAt = keyAt + key.length + BEFORE_VALUE.length
  target[position] = exact ? 1 : 0
  let at = writeVarint(target, writeVarint(target, position + 1, keyAt), valueAt)
  for (const piece of [BEFORE_ID, id, BEFORE_KEY, key, BEFORE_VALUE, value]) {
    target.set(piece, at)
    at += piece.length
  }
  target[at] = CLOSE
  return at + 1
}

/** JSON texts, that of the id too. */
export interface RowParts {
  readonly id: Uint8Array
  readonly key: Uint8Array
  readonly value: Uint8Array
  /** Whether rows with the same exact sort key have equal keys for certain. */
  readonly exact: boolean
}

/** A stored row, read. All are views of the stored bytes. */
export class StoredRow {
  readonly exact: boolean
  /** `{"id":…,"key":…,"value":…}` */
  readonly line: Buffer
  readonly #keyAt: number
  readonly #valueAt: number

  constructor(stored: Buffer) {
    this.exact = stored[0] === 1
    const reader = new VarintReader(stored, 1)
    this.#keyAt = reader.number()
    this.#valueAt = reader.number()
    this.line = stored.subarray(reader.at)
  }

  get id(): Buffer {
    return this.line.subarray(BEFORE_ID.length, this.#keyAt - BEFORE_KEY.length)
  }

  get key(): Buffer {
    return this.line.subarray(this.#keyAt, this.#valueAt - BEFORE_VALUE.length)
  }

  get value(): Buffer {
    return this.line.subarray(this.#valueAt, -1)
  }
}

/** Where the line begins in a stored row that begins at a place of a larger block. */
export function lineStart(block: Uint8Array, rowStart: number): number {
  let at = rowStart + 1
  while (block[at++]! >= 0x80) {}
  while (block[at++]! >= 0x80) {}
  return at
}

/** The sort key out of the key of a row, given the id of its document. */
export function sortKeyOfRow(key: Buffer, id: string): Buffer {
  return key.subarray(0, key.length - idBytes(id).length - NUMBER_BYTES - 1)
}

const BEFORE_ID = Buffer.from('{"id":')
const BEFORE_KEY = Buffer.from(',"key":')
const BEFORE_VALUE = Buffer.from(',"value":')
const CLOSE = 0x7d
const VARINT_BYTES = 8
const ROW_OVERHEAD_BYTES = 2 + 2 * VARINT_BYTES + BEFORE_ID.length + BEFORE_KEY.length + BEFORE_VALUE.length
const NUMBER_BYTES = 4

/** Ends an id; a zero byte within one is followed by `ESCAPED`. Numbers stay below 2^31, so none looks like that. */
const END_OF_ID = 0x00
const ESCAPED = 0xff
const BEYOND_ID = Buffer.of(END_OF_ID, ESCAPED)
/** Above every byte of an id. */
const BEYOND = Buffer.of(0xff)

function idBytes(id: string): Buffer {
  return escapeId(Buffer.from(id))
}

/** An id as it is part of a row's key. */
export function escapeId(bytes: Buffer): Buffer {
  if (!bytes.includes(END_OF_ID)) return bytes
  return Buffer.from(Array.from(bytes).flatMap((byte) => (byte === END_OF_ID ? [END_OF_ID, ESCAPED] : [byte])))
}
