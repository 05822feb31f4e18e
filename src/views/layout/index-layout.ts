/**
 * The keys and values in the store of an index. Rows of a view are in the order of the reply: sort key, document id, ordinal
 * among the document's rows of that key. Their values hold the line of the reply, ready to be sent.
 */
import { copyBytes, VarintReader, varintBytes, writeVarint } from '../../encoding/bytes/short-bytes.ts'

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
  return copyBytes(target, position + 1, id, 0, id.length)
}

/** The id in such a key; undefined where the key is of something else. */
export function idOfDocumentKey(key: Buffer): Buffer | undefined {
  return key[0] === DOCUMENT ? key.subarray(1) : undefined
}

/** All rows of a view begin with this. */
export function rowPrefix(view: number): Buffer {
  rowPrefixes[view] ??= Buffer.of(ROW, view >> 8, view & 0xff)
  return rowPrefixes[view]
}

/** Shared by all queries; must not be changed. */
const rowPrefixes: Buffer[] = []

/** All nodes of a view's rank tree begin with this. */
export function nodePrefix(view: number): Buffer {
  return Buffer.of(NODE, view >> 8, view & 0xff)
}

/** How long a row's prefix is, whatever the view. */
export const ROW_PREFIX_BYTES = 3

/** What identifies a row of a document. */
export interface RowPlace {
  readonly view: number
  /** Tells rows of one key from each other: they are in the raw order of their values. */
  readonly number: number
  /** The sort key lies in it from `sortKeyAt` to `keyAt`. */
  readonly block: Buffer
  readonly sortKeyAt: number
  readonly keyAt: number
}

/** The key of a row, its prefix included; rank trees take it without. The id is escaped. */
export function rowKey(view: number, sortKey: Buffer, escapedId: Uint8Array, number: number): Buffer {
  return rowKeyOf({ view, number, block: sortKey, sortKeyAt: 0, keyAt: sortKey.length }, escapedId)
}

/** The scope is that of the document's partition where rows lie by it. */
export function rowKeyOf(place: RowPlace, escapedId: Uint8Array, scope: Uint8Array = NO_SCOPE): Buffer {
  const key = Buffer.allocUnsafe(rowKeyBytes(place, escapedId, scope))
  writeRowKey(key, 0, place, escapedId, scope)
  return key
}

export function rowKeyBytes(
  { sortKeyAt, keyAt }: RowPlace,
  escapedId: Uint8Array,
  scope: Uint8Array = NO_SCOPE,
): number {
  return ROW_PREFIX_BYTES + scope.length + (keyAt - sortKeyAt) + escapedId.length + 5
}

/** Writes the key at the position and returns where it ends. */
export function writeRowKey(
  target: Buffer,
  position: number,
  place: RowPlace,
  escapedId: Uint8Array,
  scope: Uint8Array = NO_SCOPE,
): number {
  const { view, number, block, sortKeyAt, keyAt } = place
  target[position] = ROW
  target[position + 1] = view >> 8
  target[position + 2] = view & 0xff
  const scopeEnd = copyBytes(target, position + ROW_PREFIX_BYTES, scope, 0, scope.length)
  let at = copyBytes(target, scopeEnd, block, sortKeyAt, keyAt)
  at = copyBytes(target, at, escapedId, 0, escapedId.length)
  target[at] = END_OF_ID
  return target.writeUInt32BE(number, at + 1)
}

/**
 * Where the rows of a partition lie: in an index by partition the keys of rows begin with this, before the sort key. No
 * scope is a prefix of another one.
 */
export function scopeOfPartition(partition: string): Buffer {
  return Buffer.concat([idBytes(partition), END_OF_SCOPE])
}

/** The scope of a document's rows. Documents without a partition share a scope that cannot be queried. */
export function scopeOfDocument(escapedId: Uint8Array): Buffer {
  const end = escapedId.indexOf(COLON)
  return Buffer.concat([escapedId.subarray(0, Math.max(0, end)), END_OF_SCOPE])
}

export const NO_SCOPE = new Uint8Array(0)

/** The number of the view that the row with a key at this place belongs to; undefined where the key is of something else. */
export function viewOfRowKey(block: Buffer, keyAt: number): number | undefined {
  return block[keyAt] === ROW ? block.readUInt16BE(keyAt + 1) : undefined
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

/** Key and value of a row, side by side in a block: up to `valueAt` the one, up to `end` the other. */
export interface RowText {
  readonly block: Buffer
  readonly keyAt: number
  readonly valueAt: number
  readonly end: number
  /** Whether rows with the same exact sort key have equal keys for certain. */
  readonly exact: boolean
}

/** A row as it is stored: where key and value begin in the line, then the line. All are JSON texts. */
export function encodeRowText(quotedId: Uint8Array, text: RowText): Buffer {
  const row = Buffer.allocUnsafe(rowBytes(quotedId, text))
  writeRow(row, 0, quotedId, text)
  return row
}

/** How many the row takes. */
function rowBytes(quotedId: Uint8Array, { keyAt, valueAt, end }: RowText): number {
  const keyInLine = BEFORE_ID.length + quotedId.length + BEFORE_KEY.length
  const valueInLine = keyInLine + valueAt - keyAt + BEFORE_VALUE.length
  return 1 + varintBytes(keyInLine) + varintBytes(valueInLine) + valueInLine + end - valueAt + 1
}

/** At least as many as the row takes. */
export function largestRowBytes(quotedId: Uint8Array, { keyAt, end }: RowText): number {
  return ROW_OVERHEAD_BYTES + quotedId.length + end - keyAt
}

/** Writes the row at the position and returns where it ends. */
export function writeRow(target: Buffer, position: number, quotedId: Uint8Array, text: RowText): number {
  const { block, keyAt, valueAt, end, exact } = text
  const keyInLine = BEFORE_ID.length + quotedId.length + BEFORE_KEY.length
  const valueInLine = keyInLine + valueAt - keyAt + BEFORE_VALUE.length
  target[position] = exact ? 1 : 0
  let at = writeVarint(target, writeVarint(target, position + 1, keyInLine), valueInLine)
  at = copyBytes(target, at, BEFORE_ID, 0, BEFORE_ID.length)
  at = copyBytes(target, at, quotedId, 0, quotedId.length)
  at = copyBytes(target, at, BEFORE_KEY, 0, BEFORE_KEY.length)
  at = copyBytes(target, at, block, keyAt, valueAt)
  at = copyBytes(target, at, BEFORE_VALUE, 0, BEFORE_VALUE.length)
  at = copyBytes(target, at, block, valueAt, end)
  target[at] = CLOSE
  return at + 1
}

/** A stored row, read. All are views of the stored bytes. */
export class StoredRow {
  readonly exact: boolean
  readonly block: Buffer
  readonly #lineAt: number
  readonly #keyAt: number
  readonly #valueAt: number
  readonly #end: number

  /** The row may be a part of a larger block. */
  constructor(block: Buffer, start = 0, end = block.length) {
    this.exact = isExactAt(block, start)
    const reader = new VarintReader(block, start + 1)
    const keyInLine = reader.number()
    const valueInLine = reader.number()
    this.block = block
    this.#lineAt = reader.at
    this.#keyAt = reader.at + keyInLine
    this.#valueAt = reader.at + valueInLine
    this.#end = end
  }

  /** `{"id":…,"key":…,"value":…}` */
  get line(): Buffer {
    return this.block.subarray(this.#lineAt, this.#end)
  }

  get id(): Buffer {
    return this.block.subarray(this.#lineAt + BEFORE_ID.length, this.#keyAt - BEFORE_KEY.length)
  }

  /** Where the text of the id lies in the block, without its quotes. */
  get idAt(): number {
    return this.#lineAt + BEFORE_ID.length + 1
  }

  get idEnd(): number {
    return this.#keyAt - BEFORE_KEY.length - 1
  }

  get key(): Buffer {
    return this.block.subarray(this.#keyAt, this.#valueAt - BEFORE_VALUE.length)
  }

  get value(): Buffer {
    return this.block.subarray(this.#valueAt, this.#end - 1)
  }

  /** The value where it is a number of digits alone, as most numbers are; other values have to be parsed. */
  get plainNumber(): number | undefined {
    return plainNumberIn(this.block, this.#valueAt, this.#end - 1)
  }
}

/** The number that a JSON text is, where that has digits alone. */
export function plainNumberIn(text: Buffer, start = 0, end = text.length): number | undefined {
  if (end === start || end - start > EXACT_DIGITS) return undefined
  let number = 0
  for (let at = start; at < end; at++) {
    const digit = text[at]! - ZERO
    if (digit < 0 || digit > 9) return undefined
    number = 10 * number + digit
  }
  return number
}

const ZERO = 0x30
/** Numbers of more digits may not be exact. */
const EXACT_DIGITS = 15

/** Whether the stored row that begins there has an exact sort key. */
export function isExactAt(block: Uint8Array, rowStart: number): boolean {
  return block[rowStart] === 1
}

/** Where the line begins in a stored row that begins at a place of a larger block. */
export function lineStart(block: Uint8Array, rowStart: number): number {
  let at = rowStart + 1
  while (block[at++]! >= 0x80) {}
  while (block[at++]! >= 0x80) {}
  return at
}

/** The sort key out of the key of a row, with its scope, given the id of its document. */
export function sortKeyOfRow(key: Buffer, id: string): Buffer {
  return key.subarray(0, key.length - idBytes(id).length - NUMBER_BYTES - 1)
}

const BEFORE_ID = Buffer.from('{"id":')
const BEFORE_KEY = Buffer.from(',"key":')
const BEFORE_VALUE = Buffer.from(',"value":')
const CLOSE = 0x7d
const VARINT_BYTES = 8
/** Of a number below 2^31. */
const SHORT_VARINT_BYTES = 5
const ROW_OVERHEAD_BYTES = 2 + 2 * VARINT_BYTES + BEFORE_ID.length + BEFORE_KEY.length + BEFORE_VALUE.length
const NUMBER_BYTES = 4

/** Ends an id; a zero byte within one is followed by `ESCAPED`. Numbers stay below 2^31, so none looks like that. */
const END_OF_ID = 0x00
const ESCAPED = 0xff
/** What follows the zero is never `ESCAPED`, so this cannot be part of a name. */
const END_OF_SCOPE = Buffer.of(END_OF_ID, 0x01)
const COLON = 0x3a
const BEYOND_ID = Buffer.of(END_OF_ID, ESCAPED)
/** Above every byte of an id. */
const BEYOND = Buffer.of(0xff)

function idBytes(id: string): Buffer {
  return escapeId(Buffer.from(id))
}

/** An id as it is part of a row's key. */
export function escapeId(bytes: Buffer): Buffer {
  if (!hasZero(bytes)) return bytes
  return Buffer.from(Array.from(bytes).flatMap((byte) => (byte === END_OF_ID ? [END_OF_ID, ESCAPED] : [byte])))
}

/** A loop is faster: ids are short. */
function hasZero(bytes: Buffer): boolean {
  for (let i = 0; i < bytes.length; i++) if (bytes[i] === END_OF_ID) return true
  return false
}

/**
 * The value of a `d` row: the rows that a document made, so that they can be removed when the document changes. Their keys
 * are kept without the id, which they share. Of each row: number of the view, ordinal among the document's rows of that key,
 * length and bytes of the sort key.
 */
export function encodeDocumentRows(rows: readonly RowPlace[]): Buffer {
  const bytes = Buffer.allocUnsafe(encodedRowsBytes(rows))
  writeDocumentRows(bytes, 0, rows)
  return bytes
}

function encodedRowsBytes(rows: readonly RowPlace[]): number {
  let size = 0
  for (const { view, number, sortKeyAt, keyAt } of rows) {
    const keyBytes = keyAt - sortKeyAt
    size += varintBytes(view) + varintBytes(number) + varintBytes(keyBytes) + keyBytes
  }
  return size
}

/** At least as many as the rows take. */
export function documentRowsBytes(rows: readonly RowPlace[]): number {
  let size = 0
  for (const { sortKeyAt, keyAt } of rows) size += 3 * SHORT_VARINT_BYTES + keyAt - sortKeyAt
  return size
}

/** Writes the rows at the position and returns where they end. */
export function writeDocumentRows(target: Buffer, position: number, rows: readonly RowPlace[]): number {
  let at = position
  for (const { view, number, block, sortKeyAt, keyAt } of rows) {
    at = writeVarint(target, at, view)
    at = writeVarint(target, at, number)
    at = writeVarint(target, at, keyAt - sortKeyAt)
    at = copyBytes(target, at, block, sortKeyAt, keyAt)
  }
  return at
}

/** The sort keys stay in these bytes. */
export function decodeDocumentRows(bytes: Buffer): RowPlace[] {
  const rows: RowPlace[] = []
  const reader = new VarintReader(bytes, 0)
  while (reader.at < bytes.length) {
    const view = reader.number()
    const number = reader.number()
    const size = reader.number()
    const sortKeyAt = reader.at
    reader.at += size
    rows.push({ view, number, block: bytes, sortKeyAt, keyAt: reader.at })
  }
  return rows
}
