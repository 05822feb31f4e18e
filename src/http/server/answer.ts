/** What a handler answers, and how it is sent: the one place that writes replies. */

import { hash } from 'node:crypto'
import type { RequestError } from '../../document/request-error.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import { version } from '../../runtime/version.ts'
import { headerLine } from '../../wire/reply.ts'
import { type Feed, sendFeed } from '../changes/feed.ts'
import type { Call } from './call.ts'
import { MethodNotAllowedError, statusOf } from './errors.ts'

export type Headers = Readonly<Record<string, string>>

/** A reply that is complete before it is sent. JSON, its type negotiated, unless its headers say otherwise. */
export interface WholeAnswer {
  readonly kind: 'whole'
  readonly status: number
  readonly headers: Headers
  readonly body: string | Buffer
  /** Sent without a Content-Length, as a longer one would be. */
  readonly isChunked?: boolean
  /** A file of the administration interface: not counted among the replies. */
  readonly isFile?: boolean
}

/** A reply that is generated while it is sent, with backpressure. */
export interface StreamedAnswer {
  readonly kind: 'streamed'
  readonly status: number
  readonly headers: Headers
  readonly chunks: AsyncIterable<string | Buffer>
  /** Whether nobody else uses the buffers of the chunks: their memory is freed as soon as they are sent. */
  readonly ownsChunks?: boolean
  readonly isFile?: boolean
  /** The head is sent at once, though the body may not begin for a long time. */
  readonly isFlushed?: boolean
  /** The feed that produces the chunks, if these are sent as they are: it may push texts beside them. */
  readonly feed?: Feed | undefined
  /** Headers that occur several times, beside the others. */
  readonly repeatedHeaders?: readonly (readonly [name: string, value: string])[] | undefined
  /** Releases what the chunks are read from; called in every case. */
  release(): void
}

export type Answer = WholeAnswer | StreamedAnswer

interface AnswerOptions {
  readonly status?: number
  readonly headers?: Headers
}

interface StreamOptions extends AnswerOptions {
  readonly ownsChunks?: boolean
  readonly isFlushed?: boolean
  readonly feed?: Feed
  readonly repeatedHeaders?: StreamedAnswer['repeatedHeaders']
  readonly release?: () => void
}

export function json(value: unknown, options: AnswerOptions = {}): Answer {
  return jsonText(JSON.stringify(value), options)
}

/** A JSON text that is complete. */
export function jsonText(text: string | Buffer, { status = 200, headers = {} }: AnswerOptions = {}): Answer {
  const body = typeof text === 'string' ? `${text}\n` : Buffer.concat([text, NEWLINE])
  return { kind: 'whole', status, headers, body }
}

/** A streamed reply. */
export function streamed(
  chunks: AsyncIterable<string | Buffer>,
  {
    status = 200,
    headers = {},
    ownsChunks = false,
    isFlushed = false,
    feed,
    repeatedHeaders,
    release = () => {},
  }: StreamOptions = {},
): StreamedAnswer {
  return { kind: 'streamed', status, headers, chunks, ownsChunks, isFlushed, feed, repeatedHeaders, release }
}

export function notModified(tag: string): Answer {
  return { kind: 'whole', status: 304, headers: { ETag: tag }, body: '' }
}

export function redirect(status: number, location: string): Answer {
  return { kind: 'whole', status, headers: { Location: location }, body: '' }
}

export function errorAnswer(error: RequestError): Answer {
  const status = statusOf(error)
  return json({ error: error.error, reason: error.reasonValue }, { status, headers: errorHeaders(error, status) })
}

/** In seconds. Overload is usually short. */
export const RETRY_AFTER = '1'

function errorHeaders(error: RequestError, status: number): Headers {
  if (error instanceof MethodNotAllowedError) return { Allow: error.allow }
  return status === 503 ? { 'Retry-After': RETRY_AFTER } : {}
}

const NEWLINE = Buffer.from('\n')

/** Who answers. */
export const SERVER_LINE = headerLine('Server', `Service/${version} (Node.js/${process.versions.node})`)
const CACHE_LINE = headerLine('Cache-Control', 'must-revalidate')
const JSON_LINE = headerLine('Content-Type', 'application/json')
const TEXT_LINE = headerLine('Content-Type', 'text/plain;charset=utf-8')

/** What most replies begin with. */
const JSON_HEAD = SERVER_LINE + CACHE_LINE + JSON_LINE

/**
 * Clients refuse longer headers. In a success only `Location` and `ETag` can be so long, from ids and revisions that
 * clients chose: they are left out.
 */
const HEADER_LIMIT_CHARACTERS = 7_000

/** The header lines. Those of the answer win. The reply adds the Content-Length. */
function headOf(call: Call, { headers, status }: Answer): string {
  let head = beginOfHead(call, headers, status) + requestIdLine(call)
  for (const name in headers) {
    const value = headers[name]!
    const isSent = name !== 'Content-Length' && (value.length <= HEADER_LIMIT_CHARACTERS || status >= 300)
    if (isSent) head += headerLine(name, value)
  }
  return head
}

/** Well-formed by itself: see `requestId`. */
function requestIdLine({ dialect, requestId }: Call): string {
  return `${dialect === '3' ? 'X-Couch-Request-ID: ' : 'X-Service-Request-ID: '}${requestId}\r\n`
}

function beginOfHead(call: Call, headers: Headers, status: number): string {
  const isCached = headers['Cache-Control'] !== undefined
  const hasType = headers['Content-Type'] !== undefined || status === 304 || status === 204
  if (!isCached && !hasType && call.sendsJsonType) return JSON_HEAD
  const type = hasType ? '' : call.sendsJsonType ? JSON_LINE : TEXT_LINE
  return `${SERVER_LINE}${isCached ? '' : CACHE_LINE}${type}`
}

export function sendWhole(call: Call, answer: WholeAnswer): void {
  call.reply.send(answer.status, headOf(call, answer), answer.body, answer.isChunked)
}

export async function sendStreamed(call: Call, answer: StreamedAnswer): Promise<void> {
  try {
    await stream(call, answer)
  } finally {
    answer.release()
  }
}

async function stream(call: Call, answer: StreamedAnswer): Promise<void> {
  const { reply } = call
  const size = answer.headers['Content-Length']
  const repeated = answer.repeatedHeaders?.map(([name, value]) => headerLine(name, value)).join('') ?? ''
  reply.begin(answer.status, headOf(call, answer) + repeated, size === undefined ? undefined : Number(size))
  if (call.request.method === 'HEAD' || call.method === 'HEAD') {
    reply.end()
    return
  }
  if (answer.isFlushed) return sendFeed(reply, answer.chunks, answer.feed)
  const { ownsChunks = false } = answer
  const slice = new TimeSlice()
  for await (const chunk of answer.chunks) {
    // Leaving the loop ends the producer of the chunks.
    if (reply.isGone) return
    const isTaken = ownsChunks && typeof chunk !== 'string' ? reply.writeOwned(chunk) : reply.write(chunk)
    if (!isTaken) await reply.drained()
    // Chunks that are ready come without a turn of the event loop, however many there are.
    else if (slice.isOverNow) await slice.pause()
  }
  reply.end()
}

/** A text of a reply with what encloses it, as one piece: each piece of a streamed reply costs a write. */
export function enclosed(before: string, text: Buffer, after: string): Buffer {
  return Buffer.concat([Buffer.from(before), text, Buffer.from(after)])
}

/**
 * The `ETag` of an answer that has no revision: a digest of everything that the answer depends on. Quotes included: 128
 * bits with the digits and capital letters. The parts must be JSON values.
 */
export function entityTag(...parts: readonly unknown[]): string {
  const digest = hash('md5', JSON.stringify(parts))
  return `"${BigInt(`0x${digest}`).toString(36).toUpperCase()}"`
}
