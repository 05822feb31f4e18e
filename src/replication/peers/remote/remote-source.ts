/** A remote database as the source. Its changes feed is read in pages, or line by line if continuous. */
import { isJsonValue, isObject } from '../../../encoding/json/json-value.ts'
import type { HttpRequest } from '../../client/http-client.ts'
import { HttpStatusError, ReplyTooLargeError } from '../../client/http-reply.ts'
import { jsonLines } from '../../client/json-lines.ts'
import { pause, type RetryPolicy, TransientError } from '../../client/retries.ts'
import { replicationFailure } from '../../replication-error.ts'
import type { ReplicationFilter } from '../../replication-request.ts'
import type { ChangeBatch, ChangedDocument, FeedOptions, SourcePeer, WantedDocument } from '../peer.ts'
import { isSameSequence, type Sequence } from '../sequence.ts'
import type { TransferredDocument } from '../transferred-document.ts'
import { documentPath, JSON_BODY, RemotePeer } from './remote-peer.ts'
import { RemoteRevisions } from './remote-revisions.ts'

export interface RemoteSourceOptions {
  readonly retries: RetryPolicy
  readonly timeoutMs: number
}

/** Changes of a page of the feed, at first. */
const PAGE_ROWS = 2000
/** A third of the timeout, so that three heartbeats are missed before it. */
const LEAST_HEARTBEAT_MS = 1000
/** A feed that ends sooner is requested again after a pause. */
const SHORT_FEED_MS = 1000
const LONG_FEED_MS = 10_000

export class RemoteSource extends RemotePeer implements SourcePeer {
  readonly #options: RemoteSourceOptions
  readonly #revisions: RemoteRevisions
  /** Set where the server does not filter by ids: its whole feed is read then. */
  #filtersHere = false
  #pageRows = PAGE_ROWS

  constructor(...[shown, client, signal, options]: [...ConstructorParameters<typeof RemotePeer>, RemoteSourceOptions]) {
    super(shown, client, signal)
    this.#options = options
    const told = (error: unknown) => this.told(error)
    this.#revisions = new RemoteRevisions({ client, signal, retries: options.retries, told })
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
        // The failures before a feed that stayed open for long do not count.
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
      if (!(error instanceof HttpStatusError)) throw error
      // If the database itself is missing or refused, that is the error.
      await this.information()
      throw told(error.reason)
    }
    throw told(`it has no filter \`${name}\``)
  }

  read(wanted: readonly WantedDocument[]): AsyncIterable<readonly (TransferredDocument | WantedDocument)[]> {
    return this.#revisions.read(wanted)
  }

  stream(wanted: WantedDocument): AsyncIterable<TransferredDocument> {
    return this.#revisions.stream(wanted)
  }

  async *#paged(start: Sequence, options: FeedOptions): AsyncGenerator<ChangeBatch> {
    let since = start
    let next = this.#page(since, options)
    for (;;) {
      const { changes, lastSequence, isEnd } = await next
      if (!isEnd) {
        // The next page is fetched while this one is processed.
        next = this.#page(lastSequence, options)
        next.catch(() => {})
      }
      yield* this.#batches(changes, { since, lastSequence }, options)
      since = lastSequence
      if (isEnd) return
    }
  }

  /** A page that is too large is requested again with fewer rows, as are later ones. */
  async #page(since: Sequence, options: FeedOptions): Promise<FeedPage> {
    for (;;) {
      try {
        return await this.#pageOf(this.#pageRows, since, options)
      } catch (error) {
        if (!(error instanceof ReplyTooLargeError) || this.#pageRows === 1) throw error
        this.#pageRows = Math.ceil(this.#pageRows / 4)
      }
    }
  }

  async #pageOf(rows: number, since: Sequence, options: FeedOptions): Promise<FeedPage> {
    const request = this.#feedRequest(since, options, { feed: 'normal', limit: String(rows) })
    const value = await (await this.client.send(request)).json()
    const results = isObject(value) ? value.results : undefined
    if (!isObject(value) || !Array.isArray(results)) throw new TransientError('A feed has no results.')
    const changes = results.map(changeIn)
    const told = value.last_seq
    const lastSequence = isJsonValue(told) && told !== null ? told : (lastNamed(changes) ?? since)
    const isLast = isEnd(changes.length, rows, value.pending)
    // It would be read for ever.
    if (!isLast && isSameSequence(lastSequence, since)) throw new TransientError('The feed does not advance.')
    return { changes, lastSequence, isEnd: isLast }
  }

  async *#followed(start: Sequence, options: FeedOptions): AsyncGenerator<ChangeBatch> {
    let since = start
    const heartbeat = Math.max(LEAST_HEARTBEAT_MS, Math.floor(this.#options.timeoutMs / 3))
    const request = this.#feedRequest(since, options, { feed: 'continuous', heartbeat: String(heartbeat) })
    const reply = await this.client.send({ ...request, isFeed: true })
    for await (const lines of jsonLines(reply.pieces())) {
      const changes = lines.flatMap((line) => (isObject(line) && line.id !== undefined ? [changeIn(line)] : []))
      const last = lines.at(-1)
      // A regular end has `last_seq`.
      const end = isObject(last) && last.id === undefined && isJsonValue(last.last_seq) ? last.last_seq : undefined
      const lastSequence = end ?? lastNamed(changes) ?? since
      if (changes.length > 0 || end != null) yield* this.#batches(changes, { since, lastSequence }, options)
      since = lastSequence
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
    { since, lastSequence }: FeedSection,
    { filter, batchSize }: FeedOptions,
  ): Generator<ChangeBatch> {
    let reached = since
    // Some servers do not filter by ids, and do not say so.
    const ids = filter?.kind === 'documents' ? new Set(filter.ids) : undefined
    for (let first = 0; first < changes.length; first += batchSize) {
      const some = changes.slice(first, first + batchSize)
      const isLast = first + batchSize >= changes.length
      const passing = ids ? some.filter(({ id }) => ids.has(id)) : some
      // A batch never stands for changes that come after it.
      reached = isLast ? lastSequence : (lastNamed(some) ?? reached)
      yield { changes: passing, lastSequence: reached }
    }
    if (changes.length === 0) yield { changes: [], lastSequence }
  }
}

interface SequencedChange extends ChangedDocument {
  readonly sequence: Sequence
}

/** Where changes begin and end in the feed. */
interface FeedSection {
  readonly since: Sequence
  readonly lastSequence: Sequence
}

/** Servers may name the sequences of some changes only. Undefined where they name none of these. */
function lastNamed(changes: readonly SequencedChange[]): Sequence | undefined {
  return changes.findLast(({ sequence }) => sequence !== null)?.sequence
}

interface FeedPage {
  readonly changes: readonly SequencedChange[]
  readonly lastSequence: Sequence
  readonly isEnd: boolean
}

/** Servers may give fewer changes than were asked for: those that say how many are left are believed. */
function isEnd(rows: number, asked: number, pending: unknown): boolean {
  if (rows === 0) return true
  return typeof pending === 'number' ? pending === 0 : rows < asked
}

function changeIn(row: unknown): SequencedChange {
  if (!isObject(row) || typeof row.id !== 'string' || !Array.isArray(row.changes) || !isJsonValue(row.seq)) {
    throw new TransientError('A change of the feed cannot be read.')
  }
  return { id: row.id, revisions: row.changes.map(revisionOf), sequence: row.seq }
}

function revisionOf(change: unknown): string {
  if (isObject(change) && typeof change.rev === 'string') return change.rev
  throw new TransientError('A change of the feed has no revision.')
}
