/**
 * The row of a body (`b`): what the revision says of its attachments, then the JSON text. A revision has both or neither.
 * The bytes of an attachment are stored once and never changed. Revisions and copies of documents share them by number.
 *
 *   size of the attachment list, the attachment list, text
 */
import { NUMBER_BYTES, VarintReader, writeVarint } from '../../encoding/bytes/short-bytes.ts'
import type { PackedRowsWriter } from '../../storage/rows/packed-rows.ts'
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
  if (listedBytes === 0) return { text: bytes.subarray(start), attachments: NO_ATTACHMENTS }
  return { text: bytes.subarray(start), attachments: decodeAttachments(bytes.subarray(reader.at, start)) }
}

/** The offset of a stored body's text in a block; undefined where it has attachments. */
export function plainTextAt(block: Buffer, start: number): number | undefined {
  return block[start] === 0 ? start + 1 : undefined
}

/** The size of a revision: its text, and its attachments as they are stored. */
export function sizeOfBody({ text, attachments }: StoredBody): number {
  return attachments.reduce((sum, { storedLength }) => sum + storedLength, text.length)
}

export interface AttachmentRecord extends AttachmentContent {
  readonly name: string
  readonly contentType: string
  /** The generation of the revision that added it. */
  readonly revpos: number
}

/** Bytes in the store. */
export interface AttachmentContent {
  /** The number under which its chunks are stored. */
  readonly number: number
  /** Of the content as uploaded, in Base64. */
  readonly md5: string
  /** Size of the content as uploaded; of the gzip form where it was uploaded as gzip. */
  readonly length: number
  /** Set when the stored bytes are compressed. */
  readonly encoding: 'gzip' | undefined
  /** Size and MD5 of the stored bytes: those of the content unless the server compressed it. */
  readonly storedLength: number
  readonly storedMd5: string
  /** Size after decompression, where it was uploaded as gzip. */
  readonly unpackedLength?: number | undefined
}

/** Whether it was uploaded as gzip and is stored so: the digest of the decompressed content is not known. */
export function camePacked({ encoding, md5, storedMd5 }: AttachmentContent): boolean {
  return encoding !== undefined && md5 === storedMd5
}

/** In the order in which the document lists them. */
function encodeAttachments(attachments: readonly AttachmentRecord[]): Buffer {
  if (attachments.length === 0) return NONE
  return Buffer.from(
    JSON.stringify(
      attachments.map((attachment) => {
        const { name, contentType, revpos, number, md5, length } = attachment
        const plain = [name, contentType, revpos, number, md5, length]
        if (!attachment.encoding) return plain
        const { storedLength, storedMd5, unpackedLength } = attachment
        return [...plain, storedLength, storedMd5, ...(unpackedLength === undefined ? [] : [unpackedLength])]
      }),
    ),
  )
}

function decodeAttachments(bytes: Buffer): readonly AttachmentRecord[] {
  if (bytes.length === 0) return NO_ATTACHMENTS
  const rows: StoredRow[] = JSON.parse(bytes.toString())
  return rows.map(([name, contentType, revpos, number, md5, length, storedLength, storedMd5, unpackedLength]) => ({
    name,
    contentType,
    revpos,
    number,
    md5,
    length,
    encoding: storedLength === undefined ? undefined : 'gzip',
    storedLength: storedLength ?? length,
    storedMd5: storedMd5 ?? md5,
    unpackedLength,
  }))
}

export const NO_ATTACHMENTS: readonly AttachmentRecord[] = []

type StoredRow = [string, string, number, number, string, number, number?, string?, number?]

const NONE = Buffer.alloc(0)
