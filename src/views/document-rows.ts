/**
 * Which rows a document made, as the index keeps it: so that they can be removed when the document changes. Their keys
 * are kept without the id, which they all share.
 *
 *   of each row: number of the view, number among the document's rows of that key, length and bytes of the sort key
 */
import { VarintReader, writeVarint } from '../encoding/varint.ts'

export interface DocumentRow {
  readonly view: number
  readonly number: number
  readonly sortKey: Buffer
}

const VARINT_BYTES = 5

export function encodeDocumentRows(rows: readonly DocumentRow[]): Buffer {
  const bytes = Buffer.allocUnsafe(documentRowsBytes(rows))
  return bytes.subarray(0, writeDocumentRows(bytes, 0, rows))
}

/** At least as many as the rows take. */
export function documentRowsBytes(rows: readonly DocumentRow[]): number {
  let size = 0
  for (const { sortKey } of rows) size += 3 * VARINT_BYTES + sortKey.length
  return size
}

/** Writes the rows at the position and returns where they end. */
export function writeDocumentRows(target: Buffer, position: number, rows: readonly DocumentRow[]): number {
  let at = position
  for (const { view, number, sortKey } of rows) {
    at = writeVarint(target, at, view)
    at = writeVarint(target, at, number)
    at = writeVarint(target, at, sortKey.length)
    target.set(sortKey, at)
    at += sortKey.length
  }
  return at
}

/** The sort keys are slices of the bytes. */
export function decodeDocumentRows(bytes: Buffer): DocumentRow[] {
  const rows: DocumentRow[] = []
  const reader = new VarintReader(bytes, 0)
  while (reader.at < bytes.length) {
    const view = reader.number()
    const number = reader.number()
    const size = reader.number()
    rows.push({ view, number, sortKey: bytes.subarray(reader.at, reader.at + size) })
    reader.at += size
  }
  return rows
}
