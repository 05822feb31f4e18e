/**
 * What lies where in the store of an index. Rows of a view are in the order of their answer: sort key, document id,
 * number among the document's rows of that key. Their values hold the line of the reply, ready to be sent.
 */
import { VarintReader, writeVarint } from '../encoding/varint.ts'

const ROW = 0x72
const NODE = 0x6e

/** All rows of a view begin with this. */
export function rowPrefix(view: number): Buffer {
  return Buffer.of(ROW, view >> 8, view & 0xff)
}

/** All nodes of a view's rank tree begin with this. */
export function nodePrefix(view: number): Buffer {
  return Buffer.of(NODE, view >> 8, view & 0xff)
}

/** The key of a row without its prefix: rank trees take it so. */
export function rowKey(sortKey: Uint8Array, id: string, number: number): Buffer {
  const end = Buffer.of(END_OF_ID, number >>> 24, (number >>> 16) & 0xff, (number >>> 8) & 0xff, number & 0xff)
  return Buffer.concat([sortKey, idBytes(id), end])
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
export function encodeRow({ id, key, value, exact }: RowParts): Buffer {
  const keyAt = BEFORE_ID + id.length + BEFORE_KEY.length
  const valueAt = keyAt + key.length + BEFORE_VALUE.length
  const row = Buffer.allocUnsafe(1 + 2 * VARINT_BYTES + valueAt + value.length + 1)
  row[0] = exact ? 1 : 0
  let at = writeVarint(row, writeVarint(row, 1, keyAt), valueAt)
  at += row.write('{"id":', at, 'latin1')
  row.set(id, at)
  at += id.length
  at += row.write(BEFORE_KEY, at, 'latin1')
  row.set(key, at)
  at += key.length
  at += row.write(BEFORE_VALUE, at, 'latin1')
  row.set(value, at)
  at += value.length
  row[at++] = CLOSE
  return row.subarray(0, at)
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
    return this.line.subarray(BEFORE_ID, this.#keyAt - BEFORE_KEY.length)
  }

  get key(): Buffer {
    return this.line.subarray(this.#keyAt, this.#valueAt - BEFORE_VALUE.length)
  }

  get value(): Buffer {
    return this.line.subarray(this.#valueAt, -1)
  }
}

const BEFORE_ID = '{"id":'.length
const BEFORE_KEY = ',"key":'
const BEFORE_VALUE = ',"value":'
const CLOSE = 0x7d
const VARINT_BYTES = 8

/** Ends an id; a zero byte within one is followed by `ESCAPED`. Numbers stay below 2^31, so none looks like that. */
const END_OF_ID = 0x00
const ESCAPED = 0xff
const BEYOND_ID = Buffer.of(END_OF_ID, ESCAPED)
/** Above every byte of an id. */
const BEYOND = Buffer.of(0xff)

function idBytes(id: string): Buffer {
  const bytes = Buffer.from(id)
  if (!bytes.includes(END_OF_ID)) return bytes
  return Buffer.from(Array.from(bytes).flatMap((byte) => (byte === END_OF_ID ? [END_OF_ID, ESCAPED] : [byte])))
}
