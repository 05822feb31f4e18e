/** A revision of a local database in transfer to a target. Its text is passed on as it is stored. */
import type { AttachmentStore } from '../../database/attachments/attachment-store.ts'
import type { AttachmentRecord } from '../../database/layout/stored-body.ts'
import type { OpenedDocument } from '../../database/reading/document-text.ts'
import { followsText, inlineText, wantedAttachments } from '../../database/reading/document-text.ts'
import type { AttachmentField } from '../../document/document-fields.ts'
import type { StoredForm, TransferredAttachment, TransferredDocument } from './transferred-document.ts'

/** What is sent inline: larger contents, or more of them, are sent as parts of their own. */
const INLINE_ATTACHMENTS = 8
const INLINE_BYTES = 64 * 1024

export class OpenedTransfer implements TransferredDocument {
  readonly isRepeatable = true
  readonly id: string
  readonly revision: string
  readonly sizeBytes: number
  readonly #document: OpenedDocument
  readonly #store: AttachmentStore
  readonly #release: (() => void) | undefined

  /** `release` frees the contents of its attachments. */
  constructor(document: OpenedDocument, store: AttachmentStore, release?: () => void) {
    this.#document = document
    this.#store = store
    this.#release = release
    this.id = document.parts.id
    this.revision = document.revision
    this.sizeBytes = document.parts.body.length + FIXED_BYTES
  }

  get attachments(): readonly TransferredAttachment[] {
    if (this.#document.attachments.length === 0) return NONE
    return wantedAttachments(this.#document).map((record) => this.#transferred(record))
  }

  stored(): StoredForm {
    const { parts, deleted, attachments } = this.#document
    const path = parts.revisions
    if (!path) throw new Error('A revision is sent without its history.')
    return { path, deleted, body: parts.body, attachments: attachments.length === 0 ? NO_FIELDS : this.#fields() }
  }

  text(): Buffer {
    return followsText(this.#document)
  }

  inlineText(): Promise<Buffer> | undefined {
    const { attachments } = this.#document
    const isSmall =
      attachments.length <= INLINE_ATTACHMENTS && attachments.every(({ length }) => length <= INLINE_BYTES)
    if (!isSmall || wantedAttachments(this.#document).length < attachments.length) return undefined
    return collected(inlineText(this.#document, this.#store).chunks())
  }

  /** They come out of the store as they went into it. */
  checkContents(): void {}

  release(): void {
    this.#release?.()
  }

  #transferred(record: AttachmentRecord): TransferredAttachment {
    const { name, contentType, storedLength, storedMd5, encoding, length } = record
    return {
      name,
      contentType,
      length: storedLength,
      encoding,
      unpackedLength: length,
      digest: `md5-${storedMd5}`,
      record,
      content: () => this.#store.read(record),
    }
  }

  #fields(): AttachmentField[] {
    const wanted = new Set(wantedAttachments(this.#document).map(({ name }) => name))
    return this.#document.attachments.map(({ name, contentType, revpos }) => {
      const kind = wanted.has(name) ? { follows: true } : { stub: true }
      return { name, text: Buffer.from(JSON.stringify({ content_type: contentType, revpos, ...kind })) }
    })
  }
}

/** About what the underscore members take. */
const FIXED_BYTES = 150

const NONE: readonly TransferredAttachment[] = []
const NO_FIELDS: readonly AttachmentField[] = []

async function collected(chunks: AsyncIterable<string | Buffer>): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const chunk of chunks) pieces.push(typeof chunk === 'string' ? Buffer.from(chunk) : chunk)
  return Buffer.concat(pieces)
}
