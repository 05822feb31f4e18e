/**
 * What a revision says of an attachment, and where its bytes lie. Bytes are stored once and never changed; revisions,
 * and copies of documents, that have the same attachment refer to the same ones.
 */

export interface AttachmentRecord extends AttachmentContent {
  readonly name: string
  readonly contentType: string
  /** The generation of the revision that brought it. */
  readonly revpos: number
}

/** Bytes in the store. */
export interface AttachmentContent {
  /** The number under which its chunks are stored. */
  readonly number: number
  /** Of the content as uploaded, in Base64. */
  readonly md5: string
  /** Bytes of the content; where it came packed already, of what came. */
  readonly length: number
  /** Set when the stored bytes are packed. */
  readonly encoding: 'gzip' | undefined
  /** Bytes that are stored, and their MD5: those of the content unless we packed it. */
  readonly storedLength: number
  readonly storedMd5: string
}

/** In the order in which the document lists them. */
export function encodeAttachments(attachments: readonly AttachmentRecord[]): Buffer {
  if (attachments.length === 0) return NONE
  return Buffer.from(
    JSON.stringify(
      attachments.map(({ name, contentType, revpos, number, md5, length, encoding, storedLength, storedMd5 }) => {
        const plain = [name, contentType, revpos, number, md5, length]
        return encoding ? [...plain, storedLength, storedMd5] : plain
      }),
    ),
  )
}

export function decodeAttachments(bytes: Buffer): readonly AttachmentRecord[] {
  if (bytes.length === 0) return NO_ATTACHMENTS
  const rows: StoredRow[] = JSON.parse(bytes.toString())
  return rows.map(([name, contentType, revpos, number, md5, length, storedLength, storedMd5]) => ({
    name,
    contentType,
    revpos,
    number,
    md5,
    length,
    encoding: storedLength === undefined ? undefined : 'gzip',
    storedLength: storedLength ?? length,
    storedMd5: storedMd5 ?? md5,
  }))
}

export const NO_ATTACHMENTS: readonly AttachmentRecord[] = []

type StoredRow = [string, string, number, number, string, number, number?, string?]

const NONE = Buffer.alloc(0)
