/**
 * A body as it is stored: what the document says of its attachments, then the JSON text. The two are kept together,
 * since a revision has both or neither.
 *
 *   size of the attachments' part, that part, text
 */
import { NUMBER_BYTES, VarintReader, writeVarint } from '../../encoding/bytes/varint.ts'
import type { PackedRowsWriter } from '../../storage/rows/packed-rows.ts'
import { type AttachmentRecord, decodeAttachments, encodeAttachments } from './attachment-record.ts'
import { BODY_KEY_BYTES, writeBodyKey } from './keys.ts'

export interface StoredBody {
  readonly text: Buffer
  readonly attachments: readonly AttachmentRecord[]
}

/** Adds the row of a body. */
export function addBody(rows: PackedRowsWriter, number: number, { text, attachments }: StoredBody): void {
  const listed = encodeAttachments(attachments)
  rows.reserve(BODY_KEY_BYTES + NUMBER_BYTES + listed.length + text.length)
  const { block } = rows
  const valueAt = writeBodyKey(block, rows.end, number)
  let at = writeVarint(block, valueAt, listed.length)
  if (listed.length > 0) at += listed.copy(block, at)
  at += text.copy(block, at)
  rows.close(valueAt, at)
}

export function decodeBody(bytes: Buffer): StoredBody {
  const reader = new VarintReader(bytes, 0)
  const listedBytes = reader.number()
  const start = reader.at + listedBytes
  return { text: bytes.subarray(start), attachments: decodeAttachments(bytes.subarray(reader.at, start)) }
}

/** Where the text begins of a body that is stored in a block; undefined where there are attachments. */
export function plainTextAt(block: Buffer, start: number): number | undefined {
  return block[start] === 0 ? start + 1 : undefined
}

/** What a revision takes up: its text, and its attachments as they are stored. */
export function sizeOfBody({ text, attachments }: StoredBody): number {
  return attachments.reduce((sum, { storedLength }) => sum + storedLength, text.length)
}
