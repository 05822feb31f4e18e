/**
 * A revision in transfer from a source to a target: in the stored form of a local database, or as the JSON text of a
 * remote one. It is converted only if the target needs the other form.
 */
import type { AttachmentContent } from '../../database/layout/stored-body.ts'
import type { AttachmentField } from '../../document/document-fields.ts'
import type { RevisionPath } from '../../document/ids.ts'

export interface TransferredDocument {
  readonly id: string
  readonly revision: string
  /** About how many bytes of JSON it takes, inline contents included. */
  readonly sizeBytes: number
  /** Contents that come with it, in the order in which the text announces them. */
  readonly attachments: readonly TransferredAttachment[]
  /** Whether contents can be read again, and in any order. */
  readonly isRepeatable: boolean
  /** As a database stores it. */
  stored(): StoredForm
  /** JSON with `_revisions`; its attachments are stubs, inline or announced as following. */
  text(): Buffer
  /** JSON with all contents inline; undefined where they are too large for that, or can be read only once. */
  inlineText(): Promise<Buffer> | undefined
  /** Throws `DamagedContentError` where a content in the text of `text()` is not what the source announced. */
  checkContents(): void
  /** Releases what it holds. May be called more than once. */
  release(): void
}

export interface StoredForm {
  readonly path: RevisionPath
  readonly deleted: boolean
  /** Without underscore members. */
  readonly body: Buffer
  readonly attachments: readonly AttachmentField[]
}

export interface TransferredAttachment {
  readonly name: string
  readonly contentType: string
  /** Of the bytes that are sent; undefined where the sender did not say. */
  readonly length: number | undefined
  readonly encoding: 'gzip' | undefined
  /** The uncompressed content, if it is known. */
  readonly unpackedLength: number | undefined
  /** `md5-…` of the bytes that are sent, where it is known. */
  readonly digest: string | undefined
  /** What the local source knows of it. */
  readonly record?: AttachmentContent | undefined
  content(): AsyncIterable<Buffer>
}
