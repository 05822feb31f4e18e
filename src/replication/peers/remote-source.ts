/**
 * A remote database as the source. Its feed is read in pages, or followed line by line; revisions are fetched many at a
 * time where the server can do that, and one document at a time where it cannot.
 */
import { isJsonValue, isObject } from '../../encoding/json/json-value.ts'
import type { HttpRequest } from '../client/http-client.ts'
import { type HttpReply, HttpStatusError } from '../client/http-reply.ts'
import { jsonLines } from '../client/json-lines.ts'
import { pause, type RetryPolicy, TransientError } from '../client/retries.ts'
import { replicationFailure } from '../replication-error.ts'
import type { ReplicationFilter } from '../replication-request.ts'
import type { ChangeBatch, ChangedDocument, FeedOptions, SourcePeer, WantedDocument } from './peer.ts'
import { isMultipart, revisionsInJson, revisionsInParts } from './received-revisions.ts'
import { documentPath, escaped, JSON_BODY, RemotePeer } from './remote-peer.ts'
import type { SentTransfer } from './sent-transfer.ts'
import type { Sequence } from './sequence.ts'
import type { TransferredDocument } from './transferred-document.ts'

export interface RemoteSourceOptions {
  readonly retries: RetryPolicy
  readonly timeoutMs: number
}

/** Changes of a page of the feed. */
const PAGE_ROWS = 2000
/** A heartbeat comes three times before silence is too long, and not all the time. */
const LEAST_HEARTBEAT_MS = 1000
/** A feed that ends sooner is not asked for again at once. */
const SHORT_FEED_MS = 1000
const LONG_FEED_MS = 10_000

export class RemoteSource extends RemotePeer implements SourcePeer {
  readonly #options: RemoteSourceOptions
  /** Whether it sends them as parts, so that large contents can come with them. */
  #sendsParts = false
  /** Whether the server can send many revisions in one reply: unknown before it was asked. */
  #hasBulkGet: boolean | undefined
  /** Set where the server does not filter by ids: its whole feed is read then. */
  #filtersHere = false

  constructor(...[shown, client, signal, options]: [...ConstructorParameters<typeof RemotePeer>, RemoteSourceOptions]) {
    super(shown, client, signal)
    this.#options = options
  }

  async *changes(options: FeedOptions): AsyncGenerator<ChangeBatch> {
    let { since } = options
    let failures = 0
    for (;;) {
      const begunMs = performance.now()
      try {
        const feed = options.continuous ? this.#followed(since, options) : this.#paged(since, options)
        for await (const batch of feed) {
          failures = 0
          since = batch.lastSequence
          yield batch
        }
        if (!options.continuous) return
        if (performance.now() - begunMs < SHORT_FEED_MS) await pause(1, undefined, this.signal)
      } catch (error) {
        this.signal.throwIfAborted()
        if (error instanceof HttpStatusError && error.status === 405 && !this.#filtersHere) {
          this.#filtersHere = options.filter?.kind === 'documents'
          if (this.#filtersHere) continue
        }
        if (!(error instanceof TransientError)) throw this.told(error)
        // A feed that was open for long does not fail again and again.
        failures = performance.now() - begunMs > LONG_FEED_MS ? 1 : failures + 1
        if (failures > this.#options.retries.retries)
          throw this.told(error.cause instanceof HttpStatusError ? error.cause : error)
        await pause(failures, error.retryAfterMs, this.signal)
      }
    }
  }

  async filterSource({ design, name }: Extract<ReplicationFilter, { kind: 'function' }>): Promise<string> {
    const id = `_design/${design}`
    const told = (reason: string) =>
      replicationFailure(`Couldn't open document \`${id}\` from source database \`${this.shown}\`: ${reason}`)
    try {
      const request = { method: 'GET' as const, path: documentPath(id), signal: this.signal }
      const value = await this.client.exchange(request, (reply) => reply.json())
      const filters = isObject(value) ? value.filters : undefined
      const source = isObject(filters) && Object.hasOwn(filters, name) ? filters[name] : undefined
      if (typeof source === 'string') return source
    } catch (error) {
      throw error instanceof HttpStatusError ? told(error.reason) : error
    }
    throw told(`it has no filter \`${name}\``)
  }

  async *read(wanted: readonly WantedDocument[]): AsyncGenerator<SentTransfer | WantedDocument> {
    if (this.#hasBulkGet === false) return yield* wanted
    for (let first = 0; first < wanted.length; first += DOCUMENTS_A_REQUEST) {
      yield* this.#readTogether(wanted.slice(first, first + DOCUMENTS_A_REQUEST))
    }
  }

  async *stream(wanted: WantedDocument): AsyncGenerator<TransferredDocument> {
    const reply = await this.#openRevisions(wanted)
    if (isMultipart(reply)) return yield* revisionsInParts(reply)
    for (const document of await revisionsInJson(reply)) {
      yield document.hasStubs
        ? document.withFetched((id, revision, name) => this.#content(id, revision, name))
        : document
    }
  }

  async *#content(id: string, revision: string, name: string): AsyncGenerator<Buffer> {
    const path = `${documentPath(id)}/${name.split('/').map(escaped).join('/')}`
    const headers = { accept: '*/*', 'accept-encoding': 'identity' }
    const reply = await this.client.send({
      method: 'GET',
      path,
      query: { rev: revision },
      headers,
      signal: this.signal,
    })
    yield* reply.pieces()
  }

  /** All of them in one reply; what a broken one did not bring is asked for again. */
  async *#readTogether(wanted: readonly WantedDocument[]): AsyncGenerator<SentTransfer | WantedDocument> {
    const left = new Map(wanted.map((each) => [each.id, each]))
    for (let failures = 0; left.size > 0; ) {
      const before = left.size
      try {
        const reply = await this.#bulkGet([...left.values()])
        if (!reply) return yield* left.values()
        yield* this.#received(reply, left)
        return
      } catch (error) {
        this.signal.throwIfAborted()
        if (!(error instanceof TransientError)) throw this.told(error)
        failures = left.size < before ? 1 : failures + 1
        // A server that cannot do this at all fails each time: one at a time it may succeed.
        if (failures > this.#options.retries.retries) return yield* left.values()
        await pause(failures, error.retryAfterMs, this.signal)
      }
    }
  }

  /** Documents come in the order in which they were asked for: one is whole when the next one begins. */
  async *#received(reply: HttpReply, left: Map<string, WantedDocument>): AsyncGenerator<SentTransfer | WantedDocument> {
    if (!isMultipart(reply)) {
      const stubbed = new Set<string>()
      for (const document of await revisionsInJson(reply)) {
        // Contents are fetched as streams, whatever their size.
        if (document.hasStubs) stubbed.add(document.id)
        else yield document
      }
      for (const id of stubbed) {
        const wanted = left.get(id)
        if (wanted) yield wanted
      }
      left.clear()
      return
    }
    let last: string | undefined
    const stubbed = new Map<string, WantedDocument>()
    for await (const document of revisionsInParts(reply)) {
      if (last !== undefined && last !== document.id) left.delete(last)
      last = document.id
      const wanted = left.get(document.id)
      // Some servers send no contents, though the target has nothing that a stub could stand for.
      if (wanted?.known.length === 0 && document.hasStubs) stubbed.set(document.id, wanted)
      else yield document
    }
    left.clear()
    yield* stubbed.values()
  }

  /** Undefined where the server has no such resource. */
  async #bulkGet(wanted: readonly WantedDocument[]): Promise<HttpReply | undefined> {
    const docs = wanted.flatMap(({ id, revisions, known }) =>
      revisions.map((rev) => ({ id, rev, ...(known.length === 0 ? {} : { atts_since: known }) })),
    )
    const request: HttpRequest = {
      method: 'POST',
      path: '_bulk_get',
      // Inside of JSON contents would be whole in memory: they are asked for where they come as parts.
      query: { revs: 'true', latest: 'true', ...(this.#sendsParts ? { attachments: 'true' } : {}) },
      headers: { ...JSON_BODY, accept: 'multipart/mixed, multipart/related' },
      body: JSON.stringify({ docs }),
      signal: this.signal,
    }
    try {
      const reply = await this.client.send(request)
      this.#hasBulkGet = true
      this.#sendsParts = isMultipart(reply)
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
    for (let limit = LONGEST_URL; ; limit = Math.floor(limit / 2)) {
      const query = { revs: 'true', open_revs: JSON.stringify(revisions), latest: 'true' }
      const since = fitting(known, limit - documentPath(id).length - encodeURIComponent(query.open_revs).length)
      try {
        return await this.client.send({
          method: 'GET',
          path: documentPath(id),
          query: since.length === 0 ? query : { ...query, atts_since: JSON.stringify(since) },
          headers: { accept: 'multipart/mixed' },
          signal: this.signal,
        })
      } catch (error) {
        const isTooLong = error instanceof HttpStatusError && error.status === 414 && since.length > 0
        if (!isTooLong || limit < SHORTEST_URL) throw this.told(error)
      }
    }
  }

  async *#paged(start: Sequence, options: FeedOptions): AsyncGenerator<ChangeBatch> {
    let next = this.#page(start, options)
    for (;;) {
      const { changes, lastSequence, isEnd } = await next
      if (!isEnd) {
        // The next page is on its way while this one is worked on.
        next = this.#page(lastSequence, options)
        next.catch(() => {})
      }
      yield* this.#batches(changes, lastSequence, options)
      if (isEnd) return
    }
  }

  async #page(since: Sequence, options: FeedOptions): Promise<FeedPage> {
    const request = this.#feedRequest(since, options, { feed: 'normal', limit: String(PAGE_ROWS) })
    const value = await (await this.client.send(request)).json()
    const results = isObject(value) ? value.results : undefined
    if (!isObject(value) || !Array.isArray(results)) throw new TransientError('A feed has no results.')
    const changes = results.map(changeIn)
    const told = value.last_seq
    const lastSequence = isJsonValue(told) && told !== null ? told : (changes.at(-1)?.sequence ?? since)
    return { changes, lastSequence, isEnd: changes.length < PAGE_ROWS }
  }

  async *#followed(since: Sequence, options: FeedOptions): AsyncGenerator<ChangeBatch> {
    const heartbeat = Math.max(LEAST_HEARTBEAT_MS, Math.floor(this.#options.timeoutMs / 3))
    const request = this.#feedRequest(since, options, { feed: 'continuous', heartbeat: String(heartbeat) })
    const reply = await this.client.send({ ...request, isFeed: true })
    for await (const lines of jsonLines(reply.pieces())) {
      const changes = lines.flatMap((line) => (isObject(line) && line.id !== undefined ? [changeIn(line)] : []))
      const last = lines.at(-1)
      // An orderly end says where it is.
      const end = isObject(last) && last.id === undefined && isJsonValue(last.last_seq) ? last.last_seq : undefined
      const lastSequence = end ?? changes.at(-1)?.sequence
      if (lastSequence !== undefined) yield* this.#batches(changes, lastSequence, options)
    }
  }

  #feedRequest(since: Sequence, { leaves, filter }: FeedOptions, own: Readonly<Record<string, string>>): HttpRequest {
    const style = { style: leaves === 'all' ? 'all_docs' : 'main_only', since: JSON.stringify(since), ...own }
    const { signal } = this
    const path = '_changes'
    if (filter?.kind === 'documents' && !this.#filtersHere) {
      const body = JSON.stringify({ doc_ids: filter.ids })
      return { method: 'POST', path, query: { filter: '_doc_ids', ...style }, headers: JSON_BODY, body, signal }
    }
    if (filter?.kind === 'selector') {
      const body = JSON.stringify({ selector: filter.selector })
      return { method: 'POST', path, query: { filter: '_selector', ...style }, headers: JSON_BODY, body, signal }
    }
    if (filter?.kind !== 'function') return { method: 'GET', path, query: style, signal }
    const query = { ...filter.parameters, filter: `${filter.design}/${filter.name}`, ...style }
    return { method: 'GET', path, query, signal }
  }

  *#batches(
    changes: readonly SequencedChange[],
    lastSequence: Sequence,
    { filter, batchSize }: FeedOptions,
  ): Generator<ChangeBatch> {
    const ids = this.#filtersHere && filter?.kind === 'documents' ? new Set(filter.ids) : undefined
    for (let first = 0; first < changes.length; first += batchSize) {
      const some = changes.slice(first, first + batchSize)
      const isLast = first + batchSize >= changes.length
      const passing = ids ? some.filter(({ id }) => ids.has(id)) : some
      yield { changes: passing, lastSequence: isLast ? lastSequence : (some.at(-1)?.sequence ?? lastSequence) }
    }
    if (changes.length === 0) yield { changes: [], lastSequence }
  }
}

/** Documents that are asked for together. They are used as they come, so that their sizes do not matter. */
const DOCUMENTS_A_REQUEST = 500

/** A server reads at least so long a request line; below the second it is not worth while to try. */
const LONGEST_URL = 7000
const SHORTEST_URL = 200

interface SequencedChange extends ChangedDocument {
  readonly sequence: Sequence
}

interface FeedPage {
  readonly changes: readonly SequencedChange[]
  readonly lastSequence: Sequence
  readonly isEnd: boolean
}

function changeIn(row: unknown): SequencedChange {
  if (!isObject(row) || typeof row.id !== 'string' || !Array.isArray(row.changes) || !isJsonValue(row.seq)) {
    throw new TransientError('A change of the feed cannot be read.')
  }
  const revisions = row.changes.flatMap((each) => (isObject(each) && typeof each.rev === 'string' ? [each.rev] : []))
  return { id: row.id, revisions, sequence: row.seq }
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
