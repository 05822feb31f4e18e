/**
 * A local database as the target: revisions go through its write queue, many in a commit, and are validated with the
 * rights of the user.
 */
import type { Configuration } from '../../config/configuration.ts'
import {
  type AnnouncedContent,
  type AttachmentEdits,
  type AttachmentPolicy,
  attachmentEdits,
  attachmentPolicy,
  NO_EDITS,
} from '../../database/attachments/attachment-edits.ts'
import type { StagedAttachment } from '../../database/attachments/attachment-store.ts'
import type { Database } from '../../database/database.ts'
import type { DatabaseView } from '../../database/database-view.ts'
import { revisionDifferences } from '../../database/reading/revision-differences.ts'
import type { ReplicatedEdit } from '../../database/writing/edit.ts'
import { isLocalId, type RevisionId, readRevision } from '../../document/ids.ts'
import { badRequest, RequestError, tooLarge } from '../../document/request-error.ts'
import { DamagedContentError } from '../client/retries.ts'
import type { LocalAddress } from './address.ts'
import { isAsAnnounced } from './announced-content.ts'
import { LocalPeer, type LocalServices, type OpenedLocal } from './local-peer.ts'
import type { ChangedDocument, DocumentWriter, TargetPeer, WantedDocument, WriteListener } from './peer.ts'
import type { StoredForm, TransferredAttachment, TransferredDocument } from './transferred-document.ts'

export class LocalTarget extends LocalPeer implements TargetPeer {
  readonly #configuration: Configuration

  constructor({ shown }: LocalAddress, { database, reopen }: OpenedLocal, { configuration }: LocalServices) {
    super(shown, database, reopen)
    this.#configuration = configuration
  }

  async missing(changes: readonly ChangedDocument[]): Promise<WantedDocument[]> {
    this.checkPresence()
    await this.checkRights()
    using view = this.database.view()
    const records = view.reading ? undefined : await view.records(changes.map(({ id }) => id))
    const wanted: WantedDocument[] = []
    const present: ChangedDocument[] = []
    for (let i = 0; i < changes.length; i++) {
      const change = changes[i]!
      // If the document does not exist, all revisions are missing.
      if (!records || records[i]?.record) present.push(change)
      else wanted.push({ id: change.id, revisions: change.revisions, known: NONE, only: change.only })
    }
    if (present.length > 0) for (const each of await missingOf(view, present)) wanted.push(each)
    return wanted
  }

  writer(listener: WriteListener): DocumentWriter {
    return new LocalWriter(this.database, this.#configuration, listener, () => this.checkPresence())
  }
}

const NONE: readonly string[] = []

/** What is missing of documents that may be here. */
async function missingOf(view: DatabaseView, changes: readonly ChangedDocument[]): Promise<readonly WantedDocument[]> {
  const asked = new Map<string, RevisionId[]>()
  const unreadable: WantedDocument[] = []
  for (const { id, revisions } of changes) {
    const readable = revisions.flatMap((each) => readRevision(each) ?? [])
    asked.set(id, readable)
    if (readable.length === revisions.length) continue
    // A revision id that is not valid here is requested, and refused when it is written.
    const others = revisions.filter((each) => readRevision(each) === undefined)
    unreadable.push({ id, revisions: others, known: [] })
  }
  const differences = await revisionDifferences(view, asked)
  const missing = [...differences].map(([id, difference]) => ({
    id,
    revisions: difference.missing,
    known: difference.possibleAncestors,
  }))
  return unreadable.length === 0 ? missing : withMore(missing, unreadable)
}

/** Each document once. */
function withMore(wanted: readonly WantedDocument[], more: readonly WantedDocument[]): WantedDocument[] {
  const all = new Map(wanted.map((each) => [each.id, each]))
  for (const each of more) {
    const { revisions = [], known = [] } = all.get(each.id) ?? {}
    all.set(each.id, { id: each.id, revisions: [...revisions, ...each.revisions], known })
  }
  return [...all.values()]
}

/** What is committed together. */
const DOCUMENTS_A_COMMIT = 1000
const COMMIT_BYTES = 4 * 1024 * 1024

interface PendingEdit {
  readonly document: TransferredDocument
  readonly edit: ReplicatedEdit
  release(): void
}

class LocalWriter implements DocumentWriter {
  readonly #database: Database
  readonly #policy: AttachmentPolicy
  readonly #listener: WriteListener
  readonly #checkPresence: () => void
  readonly #largestDocument: number
  #pending: PendingEdit[] = []
  #pendingBytes = 0

  constructor(database: Database, configuration: Configuration, listener: WriteListener, checkPresence: () => void) {
    this.#database = database
    this.#policy = { ...attachmentPolicy(configuration), checkInline: checkAnnounced }
    this.#listener = listener
    this.#checkPresence = checkPresence
    this.#largestDocument = configuration.integer('service', 'max_document_size')
  }

  add(document: TransferredDocument): Promise<void> | undefined {
    const form = this.#formOf(document)
    if (!form) return undefined
    if (form.attachments.length > 0) return this.#addLater(document, form)
    return this.#push({ document, edit: editOf(document, form, NO_EDITS), release: () => document.release() })
  }

  async #addLater(document: TransferredDocument, form: StoredForm): Promise<void> {
    const pending = await this.#pend(document, form)
    if (pending) await this.#push(pending)
  }

  /** A promise if the batch is full and must be written. */
  #push(pending: PendingEdit): Promise<void> | undefined {
    this.#pending.push(pending)
    this.#pendingBytes += pending.document.sizeBytes + bytesOf(pending.edit)
    const isFull = this.#pending.length >= DOCUMENTS_A_COMMIT || this.#pendingBytes >= COMMIT_BYTES
    return isFull ? this.finish() : undefined
  }

  /** Undefined if the document is refused at once. */
  #formOf(document: TransferredDocument): StoredForm | undefined {
    try {
      if (isLocalId(document.id)) throw badRequest('Local documents are not replicated.')
      const form = document.stored()
      if (form.body.length > this.#largestDocument) throw tooLarge()
      return form
    } catch (error) {
      this.#refuse(document, error)
      return undefined
    }
  }

  /** Other errors are thrown. */
  #refuse(document: TransferredDocument, error: unknown): void {
    if (!(error instanceof RequestError)) throw error
    this.#refused(document, error)
    document.release()
  }

  async finish(onFlushing?: () => void): Promise<void> {
    const pending = this.#pending
    if (pending.length === 0) return
    this.#pending = []
    this.#pendingBytes = 0
    this.#checkPresence()
    try {
      const edits = pending.map(({ edit }) => edit)
      const outcomes = await this.#database.write(edits, onFlushing)
      let written = 0
      for (const [i, outcome] of outcomes.entries()) {
        if (outcome.outcome === 'written') written++
        else this.#refused(pending[i]!.document, outcome.error)
      }
      if (written > 0) this.#listener.written(written)
    } finally {
      for (const each of pending) each.release()
    }
  }

  abandon(): void {
    for (const { release } of this.#pending) release()
    this.#pending = []
  }

  /** Undefined where the document is refused. */
  async #pend(document: TransferredDocument, form: StoredForm): Promise<PendingEdit | undefined> {
    try {
      const edits = await this.#attachments(document, form)
      const release = () => {
        edits.release()
        document.release()
      }
      return { document, edit: editOf(document, form, edits), release }
    } catch (error) {
      this.#refuse(document, error)
      return undefined
    }
  }

  async #attachments(document: TransferredDocument, { path, attachments }: StoredForm): Promise<AttachmentEdits> {
    const followed = new Map<string, StagedAttachment>()
    try {
      for (const each of document.attachments) followed.set(each.name, await this.#staged(each))
      const parent = { kind: 'replicated' as const, path }
      return await attachmentEdits(this.#database, document.id, attachments, parent, this.#policy, followed)
    } catch (error) {
      for (const staged of followed.values()) staged.release()
      throw error
    }
  }

  async #staged(attachment: TransferredAttachment): Promise<StagedAttachment> {
    const { name, contentType, encoding, record, digest, length } = attachment
    const store = this.#database.attachments
    if (record) return store.stageCopy(attachment.content(), record)
    const policy = this.#policy
    const staged = await store.stage(attachment.content(), {
      packLevel: encoding ? undefined : policy.levelFor(contentType),
      encoding,
      length: encoding ? attachment.unpackedLength : undefined,
      limit: policy.limitFor(name),
    })
    const { md5, storedLength, length: contentLength } = staged.content
    const received = encoding ? storedLength : contentLength
    const isWhole = (length === undefined || length === received) && isAsAnnounced(digest, md5)
    if (isWhole) return staged
    staged.release()
    throw new DamagedContentError(name)
  }

  #refused(document: TransferredDocument, error: RequestError): void {
    if (error.error === 'missing_stub') this.#listener.stubMissing(document)
    else this.#listener.failed(document, `${error.error}: ${error.reason}`)
  }
}

function editOf(
  { id }: TransferredDocument,
  { path, deleted, body }: StoredForm,
  { attachments, refusal }: AttachmentEdits,
): ReplicatedEdit {
  return { kind: 'replicated', id, path, deleted, body, attachments, refusal }
}

function checkAnnounced({ name, digest }: AnnouncedContent, md5: string): void {
  if (!isAsAnnounced(digest, md5)) throw new DamagedContentError(name)
}

/** What attachments hold in memory until the commit. */
function bytesOf({ attachments = [] }: ReplicatedEdit): number {
  let bytes = 0
  for (const { puts } of attachments) for (const [, value] of puts) bytes += value.length
  return bytes
}
