/**
 * Fetches revisions from a remote source: many in one reply where the server can do that, one document at a time where it
 * cannot. Documents come as JSON; those with attachments come as parts, their contents as streams of any size.
 */
import type { HttpClient, HttpRequest } from '../client/http-client.ts'
import { type HttpReply, HttpStatusError } from '../client/http-reply.ts'
import { pause, type RetryPolicy, TransientError } from '../client/retries.ts'
import type { WantedDocument } from './peer.ts'
import {
  isMultipart,
  MixedReplyError,
  type ReceivedRevision,
  revisionsInJson,
  revisionsInParts,
} from './received-revisions.ts'
import { documentPath, escaped, JSON_BODY } from './remote-peer.ts'
import type { TransferredDocument } from './transferred-document.ts'
import { UnreadTransfer } from './unread-transfer.ts'

export interface RevisionsContext {
  readonly client: HttpClient
  readonly signal: AbortSignal
  readonly retries: RetryPolicy
  /** What the caller of the replication is told. */
  told(error: unknown): unknown
}

type Received = readonly (ReceivedRevision | WantedDocument)[]

/** Documents that are asked for together. */
const MOST_DOCUMENTS = 500
const FIRST_DOCUMENTS = 100
/** A reply of JSON is read as a whole: it is to have so many bytes, going by those before it. */
const REPLY_BYTES = 2 * 1024 * 1024
/** Documents of more bytes come as parts, one after the other. */
const LARGE_DOCUMENT_BYTES = 32 * 1024

export class RemoteRevisions {
  readonly #context: RevisionsContext
  /** Whether the server can send many revisions in one reply: unknown before it was asked. */
  #hasBulkGet: boolean | undefined
  /** Whether it sends them as parts: then contents are asked for too. */
  #sendsParts = false
  /** Of the documents that came as JSON so far. */
  #averageBytes = REPLY_BYTES / FIRST_DOCUMENTS

  constructor(context: RevisionsContext) {
    this.#context = context
  }

  async *read(wanted: readonly WantedDocument[]): AsyncGenerator<Received> {
    if (this.#hasBulkGet === false) return yield wanted
    for (let first = 0; first < wanted.length; ) {
      const isLarge = this.#averageBytes > LARGE_DOCUMENT_BYTES
      const some = wanted.slice(first, first + (isLarge ? MOST_DOCUMENTS : this.#documentsAReply))
      first += some.length
      yield* isLarge ? this.#readParts(some) : this.#readJson(some)
    }
  }

  /** The revisions of one document, with all contents that the target does not have. */
  async *stream(wanted: WantedDocument): AsyncGenerator<TransferredDocument> {
    const reply = await this.#openRevisions(wanted)
    if (isMultipart(reply)) return yield* revisionsInParts(reply)
    for (const document of await revisionsInJson(reply)) {
      yield document.hasStubs && !(document instanceof UnreadTransfer)
        ? document.withFetched((id, revision, name) => this.#content(id, revision, name))
        : document
    }
  }

  get #documentsAReply(): number {
    return Math.max(1, Math.min(MOST_DOCUMENTS, Math.floor(REPLY_BYTES / this.#averageBytes)))
  }

  /** Documents with attachments are asked for again, as parts. */
  async *#readJson(wanted: readonly WantedDocument[]): AsyncGenerator<Received> {
    const left = new Map(wanted.map((each) => [each.id, each]))
    yield* this.#repeated(left, async function* (this: RemoteRevisions) {
      const troubled = new Set<string>()
      const reply = await this.#bulkGet([...left.values()], JSON_ONLY)
      if (!reply) return yield [...left.values()]
      const documents = await revisionsInJson(reply, (id) => troubled.add(id)).catch(oneByOne)
      if (!documents) {
        left.clear()
        return yield* this.#readParts(wanted)
      }
      const bytes = documents.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
      if (documents.length > 0) this.#averageBytes = (this.#averageBytes + (3 * bytes) / documents.length) / 4
      const stubbed = new Set(documents.filter(({ hasStubs }) => hasStubs).map(({ id }) => id))
      left.clear()
      yield stubbed.size === 0 ? documents : documents.filter(({ id }) => !stubbed.has(id))
      yield wanted.filter(({ id }) => troubled.has(id))
      if (stubbed.size > 0) yield* this.#readParts(wanted.filter(({ id }) => stubbed.has(id)))
    })
  }

  /** Documents come in the order in which they were asked for: one is whole when the next one begins. */
  async *#readParts(wanted: readonly WantedDocument[]): AsyncGenerator<Received> {
    const left = new Map(wanted.map((each) => [each.id, each]))
    yield* this.#repeated(left, async function* (this: RemoteRevisions) {
      const reply = await this.#bulkGet([...left.values()], PARTS)
      // Where there are no parts, contents are fetched for each document by itself.
      if (!reply || !isMultipart(reply)) {
        await reply?.discard()
        return yield [...left.values()]
      }
      let last: string | undefined
      const stubbed = new Map<string, WantedDocument>()
      const troubled = new Set<string>()
      for await (const document of revisionsInParts(reply, (id) => troubled.add(id))) {
        if (last !== undefined && last !== document.id) left.delete(last)
        last = document.id
        const asked = left.get(document.id)
        // Some servers send no contents, though the target has nothing that a stub could stand for.
        if (asked?.known.length === 0 && document.hasStubs) stubbed.set(document.id, asked)
        else yield [document]
      }
      left.clear()
      yield [...stubbed.values(), ...wanted.filter(({ id }) => troubled.has(id) && !stubbed.has(id))]
    })
  }

  /** What a broken reply did not bring is asked for again. */
  async *#repeated(
    left: ReadonlyMap<string, WantedDocument>,
    attempt: (this: RemoteRevisions) => AsyncGenerator<Received>,
  ): AsyncGenerator<Received> {
    const { signal, retries, told } = this.#context
    for (let failures = 0; ; ) {
      const before = left.size
      try {
        return yield* attempt.call(this)
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof TransientError)) throw told(error)
        failures = left.size < before ? 1 : failures + 1
        // A server that cannot do this at all fails each time: one at a time it may succeed.
        if (failures > retries.retries) return yield [...left.values()]
        await pause(failures, error.retryAfterMs, signal)
      }
    }
  }

  /** Undefined where the server has no such resource. */
  async #bulkGet(wanted: readonly WantedDocument[], accept: string): Promise<HttpReply | undefined> {
    const isJson = accept === JSON_ONLY
    const docs = wanted.flatMap(({ id, revisions, known }) =>
      // Inside of JSON contents would be whole in memory.
      revisions.map((rev) => ({ id, rev, ...(isJson || known.length === 0 ? {} : { atts_since: known }) })),
    )
    const contents = !isJson && this.#sendsParts ? { attachments: 'true' } : {}
    const request: HttpRequest = {
      method: 'POST',
      path: '_bulk_get',
      query: { revs: 'true', latest: 'true', ...contents },
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
      const isMissing = error instanceof HttpStatusError || isUnimplemented(error)
      if (!isMissing || this.#hasBulkGet) throw error
      this.#hasBulkGet = false
      return undefined
    }
  }

  /** The revisions that the target has go into the URL, as long as it may be. */
  async #openRevisions({ id, revisions, known }: WantedDocument): Promise<HttpReply> {
    const { client, signal, told } = this.#context
    for (let limit = LONGEST_URL; ; limit = Math.floor(limit / 2)) {
      const query = { revs: 'true', open_revs: JSON.stringify(revisions), latest: 'true' }
      const since = fitting(known, limit - documentPath(id).length - encodeURIComponent(query.open_revs).length)
      try {
        return await client.send({
          method: 'GET',
          path: documentPath(id),
          query: since.length === 0 ? query : { ...query, atts_since: JSON.stringify(since) },
          headers: { accept: 'multipart/mixed' },
          signal,
        })
      } catch (error) {
        const isTooLong = error instanceof HttpStatusError && error.status === 414 && since.length > 0
        if (!isTooLong || limit < SHORTEST_URL) throw told(error)
      }
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

const JSON_ONLY = 'application/json'
const PARTS = 'multipart/mixed, multipart/related'

/** A server reads at least so long a request line; below the second it is not worth while to try. */
const LONGEST_URL = 7000
const SHORTEST_URL = 200

/** Undefined where one of the documents cannot be read along with the others. */
function oneByOne(error: unknown): undefined {
  if (!(error instanceof MixedReplyError)) throw error
}

function isUnimplemented(error: unknown): boolean {
  return error instanceof TransientError && error.cause instanceof HttpStatusError && error.cause.status === 501
}

/** As many of the revisions as may stand in a URL, the newest first. */
function fitting(known: readonly string[], limit: number): readonly string[] {
  const newest = known.toSorted((a, b) => Number.parseInt(b, 10) - Number.parseInt(a, 10))
  let length = encodeURIComponent('[]').length
  const some: string[] = []
  for (const revision of newest) {
    length += encodeURIComponent(`"${revision}",`).length
    if (length > limit) break
    some.push(revision)
  }
  return some
}
