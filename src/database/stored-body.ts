/**
 * A body as it is stored: what the document says of its attachments, then the JSON text. The two are kept together,
 * since a revision has both or neither.
 *
 *   size of the attachments' part, that part, text
 */
import { VarintReader, writeVarint } from '../encoding/varint.ts'
import { type AttachmentRecord, decodeAttachments, encodeAttachments } from './attachment-record.ts'

export interface StoredBody {
  readonly text: Buffer
  readonly attachments: readonly AttachmentRecord[]
}

export function encodeBody({ text, attachments }: StoredBody): Buffer {
  const listed = encodeAttachments(attachments)
  const bytes = Buffer.allocUnsafe(8 + listed.length + text.length)
  let at = writeVarint(bytes, 0, listed.length)
  at += listed.copy(bytes, at)
  at += text.copy(bytes, at)
  return bytes.subarray(0, at)
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
