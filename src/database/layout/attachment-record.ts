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
  /** Bytes that the content unpacks to, where it came packed. */
  readonly unpackedLength?: number | undefined
}

/** Whether the bytes are as they came, and came packed: nobody knows the digest of what they unpack to. */
export function camePacked({ encoding, md5, storedMd5 }: AttachmentContent): boolean {
  return encoding !== undefined && md5 === storedMd5
}

/** In the order in which the document lists them. */
export function encodeAttachments(attachments: readonly AttachmentRecord[]): Buffer {
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

export function decodeAttachments(bytes: Buffer): readonly AttachmentRecord[] {
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
