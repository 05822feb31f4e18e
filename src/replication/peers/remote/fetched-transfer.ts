/** A revision that a remote source sent as JSON with stubs; its attachments are fetched one by one. */

import { documentText } from '../../../database/reading/document-text.ts'
import type { AttachmentField, SentDocument } from '../../../document/document-fields.ts'
import { replicatedPath } from '../../../document/document-fields.ts'
import { quoteText } from '../../../encoding/json/json-text-splice.ts'
import type { StoredForm, TransferredAttachment, TransferredDocument } from '../transferred-document.ts'

/** Gets the content of an attachment of a revision. */
export type FetchContent = (id: string, revision: string, name: string) => AsyncIterable<Buffer>

export class FetchedTransfer implements TransferredDocument {
  readonly isRepeatable = true
  readonly id: string
  readonly revision: string
  readonly attachments: readonly TransferredAttachment[]
  readonly #document: SentDocument
  readonly #fields: readonly AttachmentField[]

  constructor(document: SentDocument, id: string, revision: string, fetch: FetchContent) {
    this.id = id
    this.revision = revision
    this.#document = document
    const stubs = document.attachments.map(stubIn)
    this.attachments = stubs.flatMap((stub) => {
      return stub.isStub ? [{ ...stub.transferred, content: () => fetch(id, revision, stub.transferred.name) }] : []
    })
    this.#fields = stubs.map(({ field }) => field)
  }

  get sizeBytes(): number {
    return this.#document.body.length
  }

  stored(): StoredForm {
    const { deleted, body } = this.#document
    return { path: replicatedPath(this.#document), deleted, body, attachments: this.#fields }
  }

  text(): Buffer {
    const { deleted, body, revision } = this.#document
    if (revision === undefined) throw new Error('A revision is sent without its id.')
    const listed = this.#fields.map(({ name, text }) => `${quoteText(name)}:${text.toString()}`)
    const attachments = Buffer.from(`{${listed.join(',')}}`)
    const revisions = replicatedPath(this.#document)
    return documentText({ id: this.id, revision, body, deleted, revisions, attachments })
  }

  inlineText(): Promise<Buffer> | undefined {
    return undefined
  }

  /** They follow, and are checked by the receiver. */
  checkContents(): void {}

  release(): void {}
}

interface Stub {
  readonly isStub: boolean
  /** The stub as it is sent with its content. */
  readonly field: AttachmentField
  readonly transferred: Omit<TransferredAttachment, 'content'>
}

function stubIn(field: AttachmentField): Stub {
  const { name } = field
  const members: Record<string, unknown> = JSON.parse(field.text.toString())
  const { stub, content_type: type, length, digest, ...others } = members
  const transferred = {
    name,
    contentType: typeof type === 'string' ? type : 'application/octet-stream',
    length: typeof length === 'number' ? length : undefined,
    unpackedLength: undefined,
    encoding: undefined,
    digest: typeof digest === 'string' ? digest : undefined,
  }
  if (stub !== true) return { isStub: false, field, transferred }
  // The content is requested uncompressed, however it is stored there.
  const { encoding: _, encoded_length: __, ...kept } = others
  const following = { content_type: transferred.contentType, ...kept, length, digest, follows: true }
  return { isStub: true, field: { name, text: Buffer.from(JSON.stringify(following)) }, transferred }
}
