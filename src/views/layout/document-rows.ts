/**
 * Which rows a document made, as the index keeps it: so that they can be removed when the document changes. Their keys
 * are kept without the id, which they all share.
 *
 *   of each row: number of the view, number among the document's rows of that key, length and bytes of the sort key
 */
import { copyBytes } from '../../encoding/bytes/short-bytes.ts'
import { VarintReader, writeVarint } from '../../encoding/bytes/varint.ts'
import type { RowPlace } from './index-layout.ts'

const VARINT_BYTES = 5

export function encodeDocumentRows(rows: readonly RowPlace[]): Buffer {
  const bytes = Buffer.allocUnsafe(documentRowsBytes(rows))
  return bytes.subarray(0, writeDocumentRows(bytes, 0, rows))
}

/** At least as many as the rows take. */
export function documentRowsBytes(rows: readonly RowPlace[]): number {
  let size = 0
  for (const { sortKeyAt, keyAt } of rows) size += 3 * VARINT_BYTES + keyAt - sortKeyAt
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
