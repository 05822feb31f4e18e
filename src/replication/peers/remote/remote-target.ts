/** A remote database as the target: revisions are sent many at a time, those with large attachments as streams. */
import assert from 'node:assert/strict'
import { isLocalId, type RevisionId, readRevision } from '../../../document/ids.ts'
import { quoteText } from '../../../encoding/json/json-text-splice.ts'
import { isObject } from '../../../encoding/json/json-value.ts'
import { newBoundary, relatedBody, relatedLength } from '../../../multipart/multipart-writer.ts'
import { ReusedBuffers } from '../../../runtime/reused-buffers.ts'
import type { HttpClient, HttpRequest, SentStream } from '../../client/http-client.ts'
import { type HttpReply, HttpStatusError, ReplyTooLargeError } from '../../client/http-reply.ts'
import { isRefusal } from '../../client/refusals.ts'
import { DamagedContentError, RefusedWriteError, TransientError } from '../../client/retries.ts'
import type { ChangedDocument, DocumentWriter, TargetPeer, WantedDocument, WriteListener } from '../peer.ts'
import type { TransferredDocument } from '../transferred-document.ts'
import { documentPath, JSON_BODY, RemotePeer } from './remote-peer.ts'
import { portions, revisionsIn } from './revision-portions.ts'

export class RemoteTarget extends RemotePeer implements TargetPeer {
  /** Creates the database unless it is there. */
  async create(query: Readonly<Record<string, string>>): Promise<void> {
    try {
      await this.client.exchange({ method: 'PUT', path: '', query, signal: this.signal }, (reply) => reply.discard())
    } catch (error) {
      if (!(error instanceof HttpStatusError)) throw error
      if (error.status === 412) return
      // Who may not create databases may still use one that is there.
      const isThere = await this.information().then(
        () => true,
        () => false,
      )
      if (!isThere) throw this.told(error)
    }
  }

  async missing(changes: readonly ChangedDocument[]): Promise<WantedDocument[]> {
    const found: WantedDocument[] = []
    for (const some of portions(changes, REVISIONS_A_REQUEST)) found.push(...(await this.#missing(some)))
    return found
  }

  /** A request that is too large for the server is sent again in halves, as is one with something that it cannot read. */
  async #missing(changes: readonly ChangedDocument[]): Promise<WantedDocument[]> {
    const body = `{${changes.map(askedText).join(',')}}`
    const request: HttpRequest = { method: 'POST', path: '_revs_diff', headers: JSON_BODY, body, signal: this.signal }
    try {
      return await this.client.exchange(request, async (reply) => differencesIn(await reply.json(), changes))
    } catch (error) {
      const count = revisionsIn(changes)
      const status = error instanceof HttpStatusError ? error.status : undefined
      const isTooLarge = error instanceof ReplyTooLargeError || status === 413
      // A revision that is not valid there is read all the same, and refused when it is written.
      if (status === 400 && count < 2)
        return changes.map(({ id, revisions, only }) => ({ id, revisions, known: NONE, only }))
      if ((!isTooLarge && status !== 400) || count < 2) throw this.told(error)
      const found: WantedDocument[] = []
      for (const half of portions(changes, Math.ceil(count / 2))) found.push(...(await this.#missing(half)))
      return found
    }
  }

  writer(listener: WriteListener): DocumentWriter {
    return new RemoteWriter(this.client, this.signal, listener, (error) => this.told(error))
  }
}

/** A member of what is asked. To put all of them into one object first would take longer than to write it. */
function askedText({ id, revisions }: ChangedDocument): string {
  return `${quoteText(id)}:[${revisions.map(quoteText).join(',')}]`
}

/** Revisions that the target is asked about together. */
const REVISIONS_A_REQUEST = 20_000

/** Only what was asked about: a target must not choose what it gets. */
function differencesIn(value: unknown, asked: readonly ChangedDocument[]): WantedDocument[] {
  if (!isObject(value)) throw new TransientError('The differences are not an object.')
  return asked.flatMap(({ id, revisions, only }): WantedDocument[] => {
    if (!Object.hasOwn(value, id)) return []
    const difference = value[id]
    if (!isObject(difference) || !Array.isArray(difference.missing)) {
      throw new TransientError('A difference does not say what is missing.')
    }
    const known = ancestorsIn(difference.possible_ancestors)
    // Nearly always one revision was asked about, and is missing.
    if (revisions.length === 1 && difference.missing.length === 1 && difference.missing[0] === revisions[0]) {
      return [{ id, revisions, known, only }]
    }
    // Servers may write a revision in a form of their own.
    const missing = new Set(difference.missing.map((each) => readRevision(each) ?? each))
    const wanted = revisions.filter((each) => missing.has(readRevision(each) ?? each))
    if (wanted.length < missing.size)
      throw new TransientError('A difference names revisions that were not asked about.')
    return wanted.length === 0 ? [] : [{ id, revisions: wanted, known, only }]
  })
}

function ancestorsIn(value: unknown): readonly RevisionId[] {
  return Array.isArray(value) ? value.flatMap((each) => readRevision(each) ?? []) : NONE
}

const NONE: readonly RevisionId[] = []

/** A bulk request is sent when it has this many bytes or documents. */
const BULK_BYTES = 768 * 1024
const BULK_DOCUMENTS = 1000

/** What every write says: a checkpoint flushes, so that a single write need not. */
const NOT_FLUSHED = { 'x-service-full-commit': 'false', 'x-couch-full-commit': 'false' }

interface PendingText {
  readonly document: TransferredDocument
  readonly text: Buffer
}

class RemoteWriter implements DocumentWriter {
  readonly #client: HttpClient
  readonly #signal: AbortSignal
  readonly #listener: WriteListener
  readonly #told: (error: unknown) => unknown
  #pending: PendingText[] = []
  #pendingBytes = 0
  /** The bulk request that is under way: the next one is filled meanwhile. */
  #sending: Promise<void> = Promise.resolve()

  constructor(client: HttpClient, signal: AbortSignal, listener: WriteListener, told: (error: unknown) => unknown) {
    this.#client = client
    this.#signal = signal
    this.#listener = listener
    this.#told = told
  }

  async add(document: TransferredDocument): Promise<void> {
    const { attachments } = document
    if (isLocalId(document.id)) {
      this.#refused(document, 'bad_request', 'Local documents are not replicated.')
      document.release()
      return
    }
    const text = attachments.length === 0 ? document.text() : document.inlineText()
    if (text === undefined) return this.#put(document)
    // No target looks at the digest beside a content that is inline.
    document.checkContents()
    const bytes = await text
    // Without a text, nobody would notice that the document was not sent.
    assert(bytes.length > 0)
    this.#pending.push({ document, text: bytes })
    this.#pendingBytes += bytes.length
    if (this.#pendingBytes >= BULK_BYTES || this.#pending.length >= BULK_DOCUMENTS) await this.#sendPending()
  }

  async finish(): Promise<void> {
    await this.#sendPending()
    await this.#sending
  }

  abandon(): void {
    for (const { document } of this.#pending) document.release()
    this.#pending = []
    this.#sending.catch(() => {})
  }

  async #sendPending(): Promise<void> {
    await this.#sending
    const pending = this.#pending
    if (pending.length === 0) return
    this.#pending = []
    this.#pendingBytes = 0
    this.#sending = this.#sendBulk(pending).finally(() => {
      for (const { document } of pending) document.release()
    })
    this.#sending.catch(() => {})
  }

  /** A request that is refused as a whole is sent again in halves, down to the document that is to blame. */
  async #sendBulk(pending: readonly PendingText[]): Promise<void> {
    try {
      const failures = await this.#postBulk(pending)
      for (const [document, { error, reason }] of failures) this.#refused(document, error, reason)
      if (failures.size < pending.length) this.#listener.written(pending.length - failures.size)
    } catch (error) {
      if (!(error instanceof HttpStatusError) || FATAL.has(error.status)) throw this.#told(error)
      if (pending.length > 1) {
        const half = Math.ceil(pending.length / 2)
        await this.#sendBulk(pending.slice(0, half))
        await this.#sendBulk(pending.slice(half))
      } else if (pending[0]) this.#refused(pending[0].document, error.error, error.reason)
    }
  }

  async #postBulk(pending: readonly PendingText[]): Promise<Map<TransferredDocument, Failure>> {
    const pieces: Buffer[] = [BULK_BEGIN]
    for (const [i, { text }] of pending.entries()) {
      if (i > 0) pieces.push(COMMA)
      pieces.push(text)
    }
    pieces.push(BULK_END)
    const body = bulkBodies.joined(pieces)
    const request: HttpRequest = {
      method: 'POST',
      path: '_bulk_docs',
      headers: { ...JSON_BODY, ...NOT_FLUSHED },
      body,
      signal: this.#signal,
    }
    const failures = await this.#client.exchange(request, async (reply) => failuresIn(await reply.json(), pending))
    // Where it failed some of it may still be on its way to the socket.
    bulkBodies.giveBack(body)
    return failures
  }

  async #put(document: TransferredDocument): Promise<void> {
    try {
      const request = this.#putRequest(document)
      if (document.isRepeatable) await this.#client.exchange(request, confirmed)
      // Its contents can be read only once: the caller creates them again and retries.
      else await confirmed(await this.#client.send(request))
      this.#listener.written(1)
    } catch (error) {
      if (isRefusal(error)) throw new RefusedWriteError(error.message, { cause: error.cause })
      if (!(error instanceof HttpStatusError) || error.status === 404) throw this.#told(error)
      this.#refused(document, error.error, error.reason)
    } finally {
      document.release()
    }
  }

  #putRequest(document: TransferredDocument): HttpRequest {
    const boundary = newBoundary()
    const json = document.text()
    const attachments = document.attachments.map(({ name, contentType, encoding, length, content }) => {
      const measured = () => (length === undefined ? content() : ofLength(content(), length, name))
      return { name, contentType, encoding, length: length ?? 0, content: measured }
    })
    const isMeasured = document.attachments.every(({ length }) => length !== undefined)
    const source = { json, attachments }
    const body: SentStream = {
      length: isMeasured ? relatedLength(source, boundary) : undefined,
      chunks: () => relatedBody(source, boundary),
    }
    return {
      method: 'PUT',
      path: documentPath(document.id),
      query: { new_edits: 'false' },
      headers: { ...NOT_FLUSHED, 'content-type': `multipart/related; boundary="${boundary}"` },
      body,
      signal: this.#signal,
    }
  }

  #refused(document: TransferredDocument, error: string, reason: string): void {
    if (error === 'missing_stub') this.#listener.stubMissing(document)
    else this.#listener.failed(document, `${error}: ${reason}`)
  }
}

/** Throws where a content has another length than was announced. */
async function* ofLength(pieces: AsyncIterable<Buffer>, length: number, name: string): AsyncGenerator<Buffer> {
  let left = length
  for await (const piece of pieces) {
    left -= piece.length
    if (left < 0) throw new DamagedContentError(name)
    yield piece
  }
  if (left > 0) throw new DamagedContentError(name)
}

/** The peer refuses everything, and not what it was sent. */
const FATAL = new Set([401, 403, 404])

/** Buffers of bulk requests, used again: memory that is new for each would be garbage of megabytes a second. */
const bulkBodies = new ReusedBuffers({ largestBytes: 2 * BULK_BYTES, most: 4 })

const BULK_BEGIN = Buffer.from('{"new_edits":false,"docs":[')
const BULK_END = Buffer.from(']}')
const COMMA = Buffer.from(',')

interface Failure {
  readonly error: string
  readonly reason: string
}

/** A status alone is no confirmation: something between the servers may have answered. */
async function confirmed(reply: HttpReply): Promise<void> {
  const value = await reply.json()
  if (!isObject(value) || value.ok !== true) throw new TransientError('A write was not confirmed.')
}

/** Servers list all documents, or only those that they refuse. */
function failuresIn(value: unknown, pending: readonly PendingText[]): Map<TransferredDocument, Failure> {
  if (!Array.isArray(value)) throw new TransientError('The outcome of a bulk request is not a list.')
  const failures = new Map<TransferredDocument, Failure>()
  for (const entry of value) {
    if (!isObject(entry)) throw new TransientError('An outcome of a bulk request cannot be read.')
    const { id, rev, error, reason } = entry
    if (error === undefined) continue
    const refused = pending.filter(({ document }) => id === document.id && isRevisionOf(document, rev))
    if (refused.length === 0) throw new TransientError('A bulk request refuses a document that was not sent.')
    const failure = {
      error: String(error),
      reason: typeof reason === 'string' ? reason : JSON.stringify(reason ?? null),
    }
    for (const { document } of refused) failures.set(document, failure)
  }
  return failures
}

/** Servers may leave out the revision: then all of them are meant. */
function isRevisionOf({ revision }: TransferredDocument, told: unknown): boolean {
  return typeof told !== 'string' || told === revision || readRevision(told) === revision
}
