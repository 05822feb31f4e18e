/**
 * Writes frames of a backup into a database. Revisions keep their ids and histories, attachments their digests and the form
 * in which they were stored. Nothing is validated: what was once accepted comes back. Writing the same frames again changes
 * nothing.
 */
import type { StagedAttachment } from '../database/attachments/attachment-store.ts'
import type { Database } from '../database/database.ts'
import type { AttachmentContent } from '../database/layout/stored-body.ts'
import type { DocumentEdit, EditedAttachment } from '../database/writing/edit.ts'
import { parseDocument, replicatedPath, type SentDocument } from '../document/document-fields.ts'
import { formatRevision } from '../document/ids.ts'
import { badRequest } from '../document/request-error.ts'
import { isObject } from '../encoding/json/json-value.ts'
import type { ContentHead } from './database-frames.ts'
import { BackupDamagedError, type Frame, readFrames } from './frame.ts'

export interface Restored {
  readonly revisions: number
  readonly locals: number
  readonly refused: readonly RefusedRevision[]
}

export interface RefusedRevision {
  readonly id: string
  readonly rev: string
  readonly error: string
  readonly reason: string
}

export interface RestoreLimits {
  readonly largestFrame: number
}

/** Throws the client's error if the frames are not valid; the documents before are written. */
export async function restoreFrames(
  database: Database,
  source: AsyncIterable<Buffer>,
  { largestFrame }: RestoreLimits,
): Promise<Restored> {
  const writer = new RevisionWriter(database)
  const frames = framesOf(source, largestFrame)
  try {
    for (let next = await frames.next(); !next.done; next = await frames.next()) {
      const frame = next.value
      if (frame.kind === 'content') await writer.addContent(contentIn(frame), frames)
      else if (frame.kind === 'revision') await writer.addRevision(parseDocument(frame.payload))
      else if (frame.kind === 'local') await writer.addLocal(parseDocument(frame.payload))
      // Only for readers that may stop there.
      else if (frame.kind === 'position') continue
      else throw badRequest(`A frame '${frame.kind}' cannot be restored.`)
    }
    return await writer.finish()
  } catch (error) {
    if (error instanceof BackupDamagedError) throw badRequest(`The frames are damaged. ${error.message}`)
    throw error
  } finally {
    writer.release()
  }
}

async function* framesOf(source: AsyncIterable<Buffer>, largestPayload: number): AsyncGenerator<Frame, undefined> {
  for await (const frames of readFrames(source, { bare: true, largestPayload })) yield* frames
  return undefined
}

/** What is committed together. */
const EDITS_A_COMMIT = 1000
const COMMIT_BYTES = 4 * 1024 * 1024
/** Limit on the refusals that are listed. */
const MOST_REFUSALS = 1000

class RevisionWriter {
  readonly #database: Database
  /** The document whose attachments were received, by their numbers in the backup. */
  #document: string | undefined
  readonly #contents = new Map<number, StagedAttachment>()
  /** Attachments that are released after the next commit. */
  readonly #used: StagedAttachment[] = []
  #edits: DocumentEdit[] = []
  #bytes = 0
  #revisions = 0
  #locals = 0
  readonly #refused: RefusedRevision[] = []

  constructor(database: Database) {
    this.#database = database
  }

  async addContent(head: ContentHead, frames: AsyncIterator<Frame, undefined>): Promise<void> {
    if (this.#document !== head.id) this.#begin(head.id)
    const staged = await this.#database.attachments.stageCopy(contentBytes(frames, head), recordOf(head))
    this.#contents.get(head.content)?.release()
    this.#contents.set(head.content, staged)
    for (const [, value] of staged.puts) this.#bytes += value.length
  }

  async addRevision(document: SentDocument): Promise<void> {
    const { id, deleted, body } = document
    if (id === undefined) throw badRequest('A revision has no id.')
    const path = replicatedPath(document)
    if (this.#document !== id) this.#begin(id)
    const attachments = document.attachments.map(({ name, text }) => this.#attachment(id, name, text))
    await this.#add({ kind: 'replicated', id, path, deleted, body, attachments })
  }

  async addLocal({ id, body }: SentDocument): Promise<void> {
    if (id === undefined) throw badRequest('A local document has no id.')
    await this.#add({ kind: 'local', id, parent: 'any', deleted: false, body })
  }

  async finish(): Promise<Restored> {
    await this.#commit()
    return { revisions: this.#revisions, locals: this.#locals, refused: this.#refused }
  }

  release(): void {
    for (const staged of [...this.#used, ...this.#contents.values()]) staged.release()
    this.#used.length = 0
    this.#contents.clear()
  }

  /** Contents of the document before are not needed any more. */
  #begin(id: string): void {
    this.#document = id
    this.#used.push(...this.#contents.values())
    this.#contents.clear()
  }

  #attachment(id: string, name: string, text: Buffer): EditedAttachment {
    const { content, contentType, revpos } = referenceIn(name, text)
    const staged = this.#contents.get(content)
    if (!staged) throw badRequest(`The content of the attachment '${name}' of '${id}' does not come before it.`)
    return { ...staged.content, name, contentType, revpos, puts: staged.puts, sharesPuts: true }
  }

  async #add(edit: DocumentEdit): Promise<void> {
    this.#edits.push(edit)
    this.#bytes += edit.body.length
    if (this.#edits.length >= EDITS_A_COMMIT || this.#bytes >= COMMIT_BYTES) await this.#commit()
  }

  async #commit(): Promise<void> {
    const edits = this.#edits
    this.#edits = []
    this.#bytes = 0
    if (edits.length === 0) return
    const outcomes = await this.#database.write(edits)
    for (const [i, outcome] of outcomes.entries()) {
      const edit = edits[i]!
      if (outcome.outcome === 'written' && edit.kind === 'local') this.#locals++
      else if (outcome.outcome === 'written') this.#revisions++
      else if (this.#refused.length < MOST_REFUSALS) {
        const { error, reason } = outcome.error
        this.#refused.push({ id: edit.id, rev: revisionOf(edit), error, reason })
      }
    }
    for (const staged of this.#used.splice(0)) staged.release()
  }
}

function revisionOf(edit: DocumentEdit): string {
  return edit.kind === 'replicated' ? formatRevision(edit.path.start, edit.path.hashes[0] ?? '') : '0-1'
}

async function* contentBytes(frames: AsyncIterator<Frame, undefined>, head: ContentHead): AsyncGenerator<Buffer> {
  for (let bytes = 0; bytes < head.stored_length; ) {
    const next = await frames.next()
    if (next.done || next.value.kind !== 'bytes') throw badRequest('The bytes of a content are not all there.')
    bytes += next.value.payload.length
    if (bytes > head.stored_length) throw badRequest('A content has more bytes than it says.')
    yield next.value.payload
  }
}

function contentIn({ payload }: Frame): ContentHead {
  const value: unknown = JSON.parse(payload.toString())
  if (!isContentHead(value)) throw badRequest("A frame 'content' cannot be understood.")
  return value
}

function isContentHead(value: unknown): value is ContentHead {
  return (
    isObject(value) &&
    typeof value.id === 'string' &&
    isCount(value.content) &&
    isCount(value.length) &&
    isCount(value.stored_length) &&
    isDigest(value.digest) &&
    isDigest(value.stored_digest) &&
    (value.encoding === undefined || value.encoding === 'gzip') &&
    (value.unpacked_length === undefined || isCount(value.unpacked_length))
  )
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function isDigest(value: unknown): value is string {
  return typeof value === 'string' && /^md5-[A-Za-z0-9+/]{22}==$/.test(value)
}

function recordOf(head: ContentHead): AttachmentContent {
  return {
    number: head.content,
    md5: head.digest.slice('md5-'.length),
    length: head.length,
    encoding: head.encoding,
    storedLength: head.stored_length,
    storedMd5: head.stored_digest.slice('md5-'.length),
    unpackedLength: head.unpacked_length,
  }
}

interface ContentReference {
  readonly content: number
  readonly contentType: string
  readonly revpos: number
}

function referenceIn(name: string, text: Buffer): ContentReference {
  const value: unknown = JSON.parse(text.toString())
  if (isObject(value) && isCount(value.content) && isCount(value.revpos) && typeof value.content_type === 'string') {
    return { content: value.content, contentType: value.content_type, revpos: value.revpos }
  }
  throw badRequest(`The attachment '${name}' does not say what its content is.`)
}
