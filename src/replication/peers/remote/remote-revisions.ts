/**
 * Fetches revisions from a remote source: many in one reply where the server can do that, one document at a time where it
 * cannot. Documents come as JSON, small contents of their attachments too. Those with larger contents come as parts, their
 * contents as streams of any size.
 */
import type { HttpClient, HttpRequest } from '../../client/http-client.ts'
import { type HttpReply, HttpStatusError, ReplyTooLargeError } from '../../client/http-reply.ts'
import { pause, type RetryPolicy, TransientError } from '../../client/retries.ts'
import type { WantedDocument } from '../peer.ts'
import type { TransferredDocument } from '../transferred-document.ts'
import { OpenQuestions } from './open-questions.ts'
import {
  isMultipart,
  type MissingRevision,
  MixedReplyError,
  type ReceivedRevision,
  revisionsInJson,
  revisionsInParts,
} from './received-revisions.ts'
import { documentPath, escaped, JSON_BODY } from './remote-peer.ts'
import { cutPortion } from './revision-portions.ts'
import { UnreadTransfer } from './unread-transfer.ts'

export interface RevisionsContext {
  readonly client: HttpClient
  readonly signal: AbortSignal
  readonly retries: RetryPolicy
  /** The error for the caller of the replication. */
  told(error: unknown): unknown
}

type Received = readonly (ReceivedRevision | WantedDocument)[]

/** Revisions that are asked for together. */
const MOST_REVISIONS = 500
const FIRST_REVISIONS = 100
/** A reply of JSON is read as a whole: it is to have so many bytes, going by those before it. */
const REPLY_BYTES = 2 * 1024 * 1024
/** When it has more than these its documents are asked for as parts, which come one after the other. */
const MOST_REPLY_BYTES = 64 * 1024 * 1024
/** Of a reply about one document, which cannot come in another way. */
const LARGEST_REPLY_BYTES = 512 * 1024 * 1024
/** Documents of more bytes come as parts, one after the other. */
const LARGE_DOCUMENT_BYTES = 32 * 1024
/** Contents of a document that come inside of its JSON: to read so few as parts would cost several times as much. */
const INLINE_BYTES = 64 * 1024

export class RemoteRevisions {
  readonly #context: RevisionsContext
  /** Whether the server can send many revisions in one reply: unknown before it was asked. */
  #hasBulkGet: boolean | undefined
  /** Whether it sends them as parts: then contents are asked for too. */
  #sendsParts = false
  /** Of the documents that came as JSON so far. */
  #averageBytes = REPLY_BYTES / FIRST_REVISIONS

  constructor(context: RevisionsContext) {
    this.#context = context
  }

  async *read(wanted: readonly WantedDocument[]): AsyncGenerator<Received> {
    if (this.#hasBulkGet === false) return yield wanted
    for (let left = wanted; left.length > 0; ) {
      const isLarge = this.#averageBytes > LARGE_DOCUMENT_BYTES
      const { portion, rest } = cutPortion(left, isLarge ? MOST_REVISIONS : this.#revisionsAReply)
      left = rest
      yield* isLarge ? this.#readParts(portion) : this.#readJson(portion)
    }
  }

  /** The revisions of one document, with all contents that the target does not have. */
  async *stream(wanted: WantedDocument): AsyncGenerator<TransferredDocument> {
    for (let { revisions } = wanted; revisions.length > 0; ) {
      const { reply, asked } = await this.#openRevisions({ ...wanted, revisions })
      revisions = revisions.slice(asked)
      if (reply) yield* this.#answersIn(reply, wanted.id)
    }
  }

  /** Throws where a reply says nothing of the document: that is no answer. Other documents are left out. */
  async *#answersIn(reply: HttpReply, id: string): AsyncGenerator<TransferredDocument> {
    let answers = 0
    const onMissing = () => answers++
    const received = isMultipart(reply)
      ? revisionsInParts(reply, onMissing)
      : await revisionsInJson(reply, LARGEST_REPLY_BYTES, onMissing)
    for await (const document of received) {
      // Servers write lone surrogates of an id in forms of their own.
      if (!isKept(document, document.id.toWellFormed() === id.toWellFormed())) continue
      answers++
      yield document.hasStubs && !isMultipart(reply) && !(document instanceof UnreadTransfer)
        ? document.withFetched((id, revision, name) => this.#content(id, revision, name))
        : document
    }
    if (answers === 0) throw new TransientError('A reply says nothing of the revisions.')
  }

  get #revisionsAReply(): number {
    return Math.max(1, Math.min(MOST_REVISIONS, Math.floor(REPLY_BYTES / this.#averageBytes)))
  }

  /** Documents with attachments are asked for again, with their contents. */
  async *#readJson(wanted: readonly WantedDocument[]): AsyncGenerator<Received> {
    const questions = new OpenQuestions(wanted)
    yield* this.#repeated(questions, async function* (this: RemoteRevisions) {
      const reply = await this.#bulkGet(questions.left, { accept: JSON_ONLY })
      if (!reply) return yield questions.left
      const received = await revisionsInJson(reply, MOST_REPLY_BYTES, (missing) => questions.missing(missing)).catch(
        unfitForJson,
      )
      if (!received) {
        this.#averageBytes = LARGE_DOCUMENT_BYTES + 1
        return yield* this.#readParts(wanted)
      }
      const documents = received.filter((document) => isKept(document, questions.isNew(document)))
      const bytes = documents.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
      if (documents.length > 0) this.#averageBytes = (this.#averageBytes + (3 * bytes) / documents.length) / 4
      const stubbed = contentBytes(documents)
      yield stubbed.size === 0 ? documents : documents.filter((each) => isKept(each, !stubbed.has(each.id)))
      yield questions.left.filter(({ id }) => !stubbed.has(id))
      if (stubbed.size > 0) yield* this.#readContents(wanted, stubbed)
    })
  }

  /** Those of the documents that have attachments, with how many bytes their contents have in all. */
  async *#readContents(
    wanted: readonly WantedDocument[],
    stubbed: ReadonlyMap<string, number>,
  ): AsyncGenerator<Received> {
    const parted: WantedDocument[] = []
    let inlined: WantedDocument[] = []
    let bytes = 0
    for (const each of wanted) {
      const size = stubbed.get(each.id)
      if (size === undefined) continue
      // What the target has already is left out of parts, and not of JSON.
      if (size > INLINE_BYTES || each.known.length > 0) {
        parted.push(each)
        continue
      }
      if (bytes + size > INLINE_REPLY_BYTES) {
        yield* this.#readInline(inlined)
        inlined = []
        bytes = 0
      }
      inlined.push(each)
      bytes += size
    }
    if (inlined.length > 0) yield* this.#readInline(inlined)
    if (parted.length > 0) yield* this.#readParts(parted)
  }

  async *#readInline(wanted: readonly WantedDocument[]): AsyncGenerator<Received> {
    const questions = new OpenQuestions(wanted)
    yield* this.#repeated(questions, async function* (this: RemoteRevisions) {
      const reply = await this.#bulkGet(questions.left, { accept: JSON_ONLY, contents: true })
      const onMissing = (missing: MissingRevision) => questions.missing(missing)
      const received = reply && (await revisionsInJson(reply, MOST_REPLY_BYTES, onMissing).catch(unfitForJson))
      // Some servers send no contents in JSON.
      if (received) {
        yield received.filter((document) => isKept(document, !document.hasStubs && questions.isNew(document)))
      }
      const { left } = questions
      if (left.length > 0) yield* this.#readParts(left)
    })
  }

  async *#readParts(wanted: readonly WantedDocument[]): AsyncGenerator<Received> {
    const questions = new OpenQuestions(wanted)
    yield* this.#repeated(questions, async function* (this: RemoteRevisions) {
      const reply = await this.#bulkGet(questions.left, { accept: PARTS, contents: this.#sendsParts })
      // Where there are no parts, contents are fetched for each document by itself.
      if (!reply || !isMultipart(reply)) {
        await reply?.discard()
        return yield questions.left
      }
      const stubbed = new Map<string, WantedDocument>()
      for await (const document of revisionsInParts(reply, (missing) => questions.missing(missing))) {
        const asked = questions.asked(document.id)
        // Some servers send no contents, though the target has nothing that a stub could stand for.
        if (asked?.known.length === 0 && document.hasStubs) stubbed.set(document.id, asked)
        else if (questions.isNew(document)) yield [document]
      }
      yield [...stubbed.values(), ...questions.left.filter(({ id }) => !stubbed.has(id))]
    })
  }

  /** What a broken reply did not bring is asked for again. */
  async *#repeated(
    questions: OpenQuestions,
    attempt: (this: RemoteRevisions) => AsyncGenerator<Received>,
  ): AsyncGenerator<Received> {
    const { signal, retries, told } = this.#context
    for (let failures = 0; ; ) {
      const before = questions.size
      try {
        return yield* attempt.call(this)
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof TransientError)) throw told(error)
        failures = questions.size < before ? 1 : failures + 1
        // A server that cannot do this at all fails each time: one at a time it may succeed.
        if (failures > retries.retries) return yield questions.left
        await pause(failures, error.retryAfterMs, signal)
      }
    }
  }

  /** Undefined where the server has no such resource, or finds the request too large. */
  async #bulkGet(
    wanted: readonly WantedDocument[],
    { accept, contents = false }: BulkGetOptions,
  ): Promise<HttpReply | undefined> {
    const isJson = accept === JSON_ONLY
    const docs = wanted.flatMap(({ id, revisions, known }) =>
      // Inside of JSON contents would be whole in memory.
      revisions.map((rev) => ({ id, rev, ...(isJson || known.length === 0 ? {} : { atts_since: known }) })),
    )
    // Whether contents are packed decides in which form they are asked for.
    const attachments = contents ? { attachments: 'true' } : isJson ? { att_encoding_info: 'true' } : {}
    const request: HttpRequest = {
      method: 'POST',
      path: '_bulk_get',
      query: { revs: 'true', latest: 'true', ...attachments },
      headers: { ...JSON_BODY, accept },
      body: JSON.stringify({ docs }),
      signal: this.#context.signal,
    }
    try {
      const reply = await this.#context.client.send(request)
      this.#hasBulkGet = true
      if (!isJson) this.#sendsParts = isMultipart(reply)
      return reply
    } catch (error) {
      if (error instanceof HttpStatusError && error.status === 413) return undefined
      const isMissing = error instanceof HttpStatusError || isUnimplemented(error)
      if (!isMissing || this.#hasBulkGet) throw error
      this.#hasBulkGet = false
      return undefined
    }
  }

  /**
   * Asks for as many of the revisions as the URL can hold. Those that the target has go into it too, as long as there is
   * room for them. There is no reply where there is no such document.
   */
  async #openRevisions({ id, revisions, known }: WantedDocument): Promise<AskedRevisions> {
    const { client, signal, told } = this.#context
    const path = documentPath(id)
    for (let limit = LONGEST_URL; ; limit = Math.floor(limit / 2)) {
      const wanted = fitting(revisions, limit - path.length, 1)
      const query = { revs: 'true', open_revs: JSON.stringify(wanted), latest: 'true' }
      const since = fitting(newestFirst(known), limit - path.length - encodeURIComponent(query.open_revs).length, 0)
      try {
        const reply = await client.send({
          method: 'GET',
          path,
          query: since.length === 0 ? query : { ...query, atts_since: JSON.stringify(since) },
          headers: { accept: 'multipart/mixed' },
          signal,
        })
        return { reply, asked: wanted.length }
      } catch (error) {
        if (!(error instanceof HttpStatusError)) throw error
        if (error.status === 404 && (await this.#hasDatabase())) return { reply: undefined, asked: wanted.length }
        const isTooLong = TOO_LONG.has(error.status)
        const canBeShorter = since.length > 0 || wanted.length > 1
        if (!isTooLong || !canBeShorter || limit < SHORTEST_URL) throw told(error)
      }
    }
  }

  /** Whether what is missing is a document, and not all of them. */
  async #hasDatabase(): Promise<boolean> {
    const { client, signal } = this.#context
    try {
      await client.exchange({ method: 'GET', path: '', signal }, (reply) => reply.discard())
      return true
    } catch (error) {
      if (error instanceof HttpStatusError) return false
      throw error
    }
  }

  async *#content(id: string, revision: string, name: string): AsyncGenerator<Buffer> {
    const { client, signal } = this.#context
    const path = `${documentPath(id)}/${name.split('/').map(escaped).join('/')}`
    const headers = { accept: '*/*', 'accept-encoding': 'identity' }
    const reply = await client.send({ method: 'GET', path, query: { rev: revision }, headers, signal })
    yield* reply.pieces()
  }
}

interface BulkGetOptions {
  readonly accept: typeof JSON_ONLY | typeof PARTS
  /** Whether contents of attachments are to come too. */
  readonly contents?: boolean
}

/** Contents that are asked for together: as Base64, and in the request that takes them on, they are in memory again. */
const INLINE_REPLY_BYTES = 512 * 1024

/** How many bytes are missing where documents have stubs, by their ids; infinity where that is not known. */
function contentBytes(documents: readonly ReceivedRevision[]): Map<string, number> {
  const found = new Map<string, number>()
  for (const document of documents) {
    if (!document.hasStubs) continue
    const bytes = document.stubbedBytes ?? Number.POSITIVE_INFINITY
    found.set(document.id, (found.get(document.id) ?? 0) + bytes)
  }
  return found
}

/** What is not kept is released. */
function isKept(document: ReceivedRevision, keeps: boolean): boolean {
  if (!keeps) document.release()
  return keeps
}

interface AskedRevisions {
  readonly reply: HttpReply | undefined
  /** How many of them the reply is about. */
  readonly asked: number
}

const JSON_ONLY = 'application/json'
const PARTS = 'multipart/mixed, multipart/related'

/** What servers say of a request line, or of a head, that is longer than they take. */
const TOO_LONG = new Set([414, 431])

/** A server reads at least so long a request line; below the second it is not worth while to try. */
const LONGEST_URL = 7000
const SHORTEST_URL = 200

/** Undefined where the documents have to be read one after the other. */
function unfitForJson(error: unknown): undefined {
  if (!(error instanceof MixedReplyError || error instanceof ReplyTooLargeError)) throw error
}

function isUnimplemented(error: unknown): boolean {
  return error instanceof TransientError && error.cause instanceof HttpStatusError && error.cause.status === 501
}

function newestFirst(revisions: readonly string[]): string[] {
  return revisions.toSorted((a, b) => Number.parseInt(b, 10) - Number.parseInt(a, 10))
}

/** As many of the revisions as so many characters of a URL can hold, and at least so many. */
function fitting(revisions: readonly string[], limit: number, least: number): readonly string[] {
  let length = encodeURIComponent('[]').length
  let count = 0
  for (const revision of revisions) {
    length += encodeURIComponent(`"${revision}",`.toWellFormed()).length
    if (length > limit && count >= least) break
    count++
  }
  return revisions.slice(0, count)
}
