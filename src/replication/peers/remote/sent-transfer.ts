/** A revision that a remote source sent, on its way to a target. Its text is passed on as it came. */
import { hash } from 'node:crypto'
import { entryOf } from '../../../database/attachments/attachment-edits.ts'
import { attachmentMembers } from '../../../document/attachment-text.ts'
import { type AttachmentField, replicatedPath, type SentDocument } from '../../../document/document-fields.ts'
import { RequestError } from '../../../document/request-error.ts'
import { freeBytes } from '../../../encoding/bytes/byte-sink.ts'
import { decodeBase64 } from '../../../encoding/json/base64-text.ts'
import { documentIn } from '../../../scan/json-body.ts'
import { DamagedContentError, TransientError } from '../../client/retries.ts'
import { isAsAnnounced } from '../announced-content.ts'
import type { StoredForm, TransferredAttachment, TransferredDocument } from '../transferred-document.ts'
import { type FetchContent, FetchedTransfer } from './fetched-transfer.ts'
import { UnreadTransfer } from './unread-transfer.ts'

export class SentTransfer implements TransferredDocument {
  readonly isRepeatable: boolean
  readonly id: string
  readonly revision: string
  readonly sizeBytes: number
  readonly attachments: readonly TransferredAttachment[]
  readonly #text: Buffer
  readonly #document: SentDocument
  #onRelease: (() => void) | undefined

  /** `contents` are those that follow; where they are left out there are none. */
  static async read(text: Buffer, contents?: FollowingContents): Promise<SentTransfer | UnreadTransfer> {
    try {
      return new SentTransfer(text, await documentIn(text, { keepsText: true }), contents)
    } catch (error) {
      if (!(error instanceof RequestError)) throw error
      const unread = UnreadTransfer.of(text, error)
      if (unread) return unread
      // What is no document was damaged on its way.
      throw new TransientError(`A document cannot be read: ${error.reason}`, { cause: error })
    }
  }

  /** One that was read out of a larger text, which may be freed when all of its documents are released. */
  static of(text: Buffer, document: SentDocument, onRelease: () => void): SentTransfer {
    const transfer = new SentTransfer(text, document, undefined)
    transfer.#onRelease = onRelease
    return transfer
  }

  private constructor(text: Buffer, document: SentDocument, contents: FollowingContents | undefined) {
    const { id, revision, attachments } = document
    if (id === undefined || revision === undefined) throw new TransientError('A document came without id or revision.')
    this.id = id
    this.revision = revision
    this.sizeBytes = text.length
    this.#text = text
    this.#document = document
    this.attachments = contents && attachments.length > 0 ? followingAttachments(attachments, contents) : NONE
    this.isRepeatable = this.attachments.length === 0
  }

  /** Whether contents of attachments are neither in the text nor follow it. */
  get hasStubs(): boolean {
    // A field may hold a whole content: it is parsed only where it may be a stub.
    return this.#document.attachments.some((field) => field.text.includes(STUB) && entryIn(field).kind === 'stub')
  }

  /** How many bytes its stubs stand for; undefined where one of them does not say, or where they are packed. */
  get stubbedBytes(): number | undefined {
    let bytes = 0
    for (const { text } of this.#document.attachments) {
      const { stub, length, encoding }: Record<string, unknown> = JSON.parse(text.toString())
      if (stub !== true) continue
      if (typeof length !== 'number' || encoding !== undefined) return undefined
      bytes += length
    }
    return bytes
  }

  checkContents(): void {
    for (const { name, text } of this.#document.attachments) {
      const { members, data } = attachmentMembers(text)
      const content = data ?? (typeof members.data === 'string' ? decodeBase64(members.data) : undefined)
      if (!content) continue
      const { digest } = members
      const isDamaged = typeof digest === 'string' && !isAsAnnounced(digest, hash('md5', content, 'base64'))
      // It was decoded for this alone.
      freeBytes(content)
      if (isDamaged) throw new DamagedContentError(name)
    }
  }

  /** The revisions that it descends from, as far as it says. */
  get ancestors(): readonly string[] {
    const { start, hashes } = replicatedPath(this.#document)
    return hashes.map((hash, i) => `${start - i}-${hash}`)
  }

  /** The same with the contents of its stubs fetched one by one. */
  withFetched(fetch: FetchContent): FetchedTransfer {
    return new FetchedTransfer(this.#document, this.id, this.revision, fetch)
  }

  stored(): StoredForm {
    const { deleted, body, attachments } = this.#document
    return { path: replicatedPath(this.#document), deleted, body, attachments }
  }

  text(): Buffer {
    return this.#text
  }

  inlineText(): Promise<Buffer> | undefined {
    // What can be read once is streamed.
    return undefined
  }

  release(): void {
    this.#onRelease?.()
    this.#onRelease = undefined
  }
}

/** Contents that come after the text, one after the other. */
export interface FollowingContents {
  /** The bytes of the attachment that comes next, which must have this name. */
  next(name: string): AsyncIterable<Buffer>
}

const NONE: readonly TransferredAttachment[] = []

function entryIn({ name, text, data }: AttachmentField) {
  return entryOf(name, JSON.parse(text.toString()), data ?? EMPTY)
}

const EMPTY = Buffer.alloc(0)
/** As minified text has it. */
const STUB = '"stub":true'

function followingAttachments(
  fields: readonly AttachmentField[],
  contents: FollowingContents,
): readonly TransferredAttachment[] {
  return fields.flatMap((field): TransferredAttachment[] => {
    const entry = entryIn(field)
    if (entry.kind !== 'follows') return []
    const { name, contentType = 'application/octet-stream', encoding, encodedLength, length, digest } = entry
    return [
      {
        name,
        contentType,
        encoding,
        length: encoding ? encodedLength : length,
        unpackedLength: length,
        digest,
        content: () => contents.next(name),
      },
    ]
  })
}
