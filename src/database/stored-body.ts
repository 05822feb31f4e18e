/**
 * A body as it is stored: what the document says of its attachments, then the JSON text. The two are kept together,
 * since a revision has both or neither.
 *
 *   size of the attachments' part, that part, text
 */
import { VarintReader, writeVarint } from '../encoding/varint.ts'

export interface StoredBody {
  readonly text: Buffer
}

export function encodeBody({ text }: StoredBody): Buffer {
  const bytes = Buffer.allocUnsafe(1 + text.length)
  text.copy(bytes, writeVarint(bytes, 0, 0))
  return bytes
}

export function decodeBody(bytes: Buffer): StoredBody {
  const reader = new VarintReader(bytes, 0)
  const attachmentBytes = reader.number()
  return { text: bytes.subarray(reader.at + attachmentBytes) }
}
