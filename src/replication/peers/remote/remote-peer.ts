/** A remote database as a peer, over HTTP. */
import { conflict, RequestError } from '../../../document/request-error.ts'
import { isJsonValue, isObject, type JsonValue } from '../../../encoding/json/json-value.ts'
import type { HttpClient, HttpRequest } from '../../client/http-client.ts'
import { type HttpReply, HttpStatusError } from '../../client/http-reply.ts'
import { TransientError } from '../../client/retries.ts'
import { databaseNotFound, unauthorizedPeer } from '../../replication-error.ts'
import type { Peer, PeerInformation, StoredLog } from '../peer.ts'
import { FIRST_SEQUENCE } from '../sequence.ts'

/** How long the last checkpoint may take after the replication was stopped. */
const LAST_WORDS_MS = 5000

/** Larger than any log or database information. */
const SMALL_REPLY_BYTES = 4 * 1024 * 1024

type Call = Omit<HttpRequest, 'signal'>

/** What remote sources and targets have in common. */
export class RemotePeer implements Peer {
  readonly shown: string
  protected readonly client: HttpClient
  protected readonly signal: AbortSignal
  #lastSignal: AbortSignal | undefined

  constructor(shown: string, client: HttpClient, signal: AbortSignal) {
    this.shown = shown
    this.client = client
    this.signal = signal
  }

  async information(): Promise<PeerInformation> {
    const value = await this.json({ method: 'GET', path: '' })
    if (!isObject(value)) throw databaseNotFound(this.shown, 'failed')
    const { update_seq, instance_start_time } = value
    return {
      updateSequence: isJsonValue(update_seq) ? update_seq : FIRST_SEQUENCE,
      instanceStartTime: typeof instance_start_time === 'string' ? instance_start_time : undefined,
    }
  }

  async readLog(id: string): Promise<StoredLog | undefined> {
    const request = { method: 'GET' as const, path: `_local/${id}`, signal: this.#logSignal() }
    try {
      const value = await this.client.exchange(request, (reply) => reply.json(SMALL_REPLY_BYTES))
      if (!isObject(value)) throw new TransientError('A log is not an object.')
      const { _rev: revision, _id: _, ...members } = value
      return { revision: String(revision), members: members as Record<string, JsonValue> }
    } catch (error) {
      if (error instanceof HttpStatusError && error.status === 404) return undefined
      throw this.told(error)
    }
  }

  async writeLog(id: string, log: object, revision: string | undefined): Promise<string> {
    const body = JSON.stringify({ ...(revision === undefined ? {} : { _rev: revision }), ...log })
    const request = {
      method: 'PUT' as const,
      path: `_local/${id}`,
      headers: JSON_BODY,
      body,
      signal: this.#logSignal(),
    }
    try {
      const value = await this.client.exchange(request, (reply) => reply.json(SMALL_REPLY_BYTES))
      return isObject(value) && typeof value.rev === 'string' ? value.rev : ''
    } catch (error) {
      if (error instanceof HttpStatusError && error.status === 409) throw conflict()
      throw this.told(error)
    }
  }

  async flush(): Promise<string | undefined> {
    const request = {
      method: 'POST' as const,
      path: '_ensure_full_commit',
      headers: JSON_BODY,
      signal: this.#logSignal(),
    }
    try {
      const value = await this.client.exchange({ ...request, body: '' }, (reply) => reply.json(SMALL_REPLY_BYTES))
      const time = isObject(value) ? value.instance_start_time : undefined
      return typeof time === 'string' ? time : undefined
    } catch (error) {
      // Other servers may lack this endpoint: what they acknowledged is then taken to be on disk.
      if (error instanceof HttpStatusError && [400, 403, 404, 405, 410].includes(error.status)) return undefined
      throw this.told(error)
    }
  }

  protected async json(call: Call): Promise<unknown> {
    return this.exchange(call, (reply) => reply.json(SMALL_REPLY_BYTES))
  }

  protected async exchange<T>(call: Call, use: (reply: HttpReply) => Promise<T>): Promise<T> {
    try {
      return await this.client.exchange({ ...call, signal: this.signal }, use)
    } catch (error) {
      throw this.told(error)
    }
  }

  /** The error of a replication if the peer refuses access. */
  protected told(error: unknown): unknown {
    if (!(error instanceof HttpStatusError)) return error
    const { status } = error
    if (status === 401 || status === 403) return unauthorizedPeer(this.shown)
    if (status === 404) return databaseNotFound(this.shown, 'failed')
    return new RequestError('failed', error.error, error.reason)
  }

  /** Logs are also written after the replication was stopped. */
  #logSignal(): AbortSignal {
    if (!this.signal.aborted) return this.signal
    // One deadline for all remaining requests.
    this.#lastSignal ??= AbortSignal.timeout(LAST_WORDS_MS)
    return this.#lastSignal
  }
}

export const JSON_BODY = { 'content-type': 'application/json' }

/** Escaped for a path. */
export function documentPath(id: string): string {
  if (id.startsWith('_design/')) return `_design/${escaped(id.slice('_design/'.length))}`
  return escaped(id)
}

/** A path segment. An id that is not valid Unicode cannot be a document. */
export function escaped(segment: string): string {
  return encodeURIComponent(segment.toWellFormed())
}
