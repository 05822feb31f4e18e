/** What a handler answers, and the one place that sends it. */
import type { ServerResponse } from 'node:http'
import { RequestError } from '../document/request-error.ts'
import { version } from '../runtime/version.ts'
import { taken } from './back-pressure.ts'
import type { Call } from './call.ts'
import { type DirectOutput, sendFeed } from './feed-output.ts'

export type Headers = Readonly<Record<string, string>>

/** A reply that is whole before it is sent. JSON, its type negotiated, unless its headers say otherwise. */
export interface WholeAnswer {
  readonly kind: 'whole'
  readonly status: number
  readonly headers: Headers
  readonly body: string | Buffer
  /** Sent without its length, as it would be were it longer. */
  readonly isChunked?: boolean
  /** A file of the interface for people: not counted among the replies. */
  readonly isFile?: boolean
}

/** A reply that is made while it is sent, as fast as the client takes it. */
export interface StreamedAnswer {
  readonly kind: 'streamed'
  readonly status: number
  readonly headers: Headers
  readonly chunks: AsyncIterable<string | Buffer>
  readonly isFile?: boolean
  /** The head goes out at once, though there may be nothing to say for a long time. */
  readonly isFlushed?: boolean
  /** A way for texts beside the chunks, where these go out as they are. */
  readonly direct?: DirectOutput | undefined
  /** Lets go of what the chunks are made of; called in every case. */
  release(): void
}

export type Answer = WholeAnswer | StreamedAnswer

interface AnswerOptions {
  readonly status?: number
  readonly headers?: Headers
}

interface StreamOptions extends AnswerOptions {
  readonly isFlushed?: boolean
  readonly direct?: DirectOutput
  readonly release?: () => void
}

export function json(value: unknown, options: AnswerOptions = {}): Answer {
  return jsonText(JSON.stringify(value), options)
}

/** A JSON text that is ready. */
export function jsonText(text: string | Buffer, { status = 200, headers = {} }: AnswerOptions = {}): Answer {
  const body = typeof text === 'string' ? `${text}\n` : Buffer.concat([text, NEWLINE])
  return { kind: 'whole', status, headers, body }
}

/** A reply that is made while it is sent. */
export function streamed(
  chunks: AsyncIterable<string | Buffer>,
  { status = 200, headers = {}, isFlushed = false, direct, release = () => {} }: StreamOptions = {},
): StreamedAnswer {
  return { kind: 'streamed', status, headers, chunks, isFlushed, direct, release }
}

export function notModified(tag: string): Answer {
  return { kind: 'whole', status: 304, headers: { ETag: tag }, body: '' }
}

export function redirect(status: number, location: string): Answer {
  return { kind: 'whole', status, headers: { Location: location }, body: '' }
}

/** Tells the methods that the path has. */
export class MethodNotAllowedError extends RequestError {
  readonly allow: string

  constructor(allow: string, reason = `Only ${allow} allowed`) {
    super(405, 'method_not_allowed', reason)
    this.allow = allow
  }
}

export function errorAnswer(error: RequestError): Answer {
  return json({ error: error.error, reason: error.told }, { status: error.status, headers: errorHeaders(error) })
}

/** In seconds. What the server has too much of at a moment is soon over. */
const RETRY_AFTER = '1'

function errorHeaders(error: RequestError): Headers {
  if (error instanceof MethodNotAllowedError) return { Allow: error.allow }
  return error.status === 503 ? { 'Retry-After': RETRY_AFTER } : {}
}

const NEWLINE = Buffer.from('\n')

const SERVER = `Service/${version} (Node.js/${process.versions.node})`

/**
 * Clients refuse replies with more. Of what succeeded only addresses and tags can be so long, from ids and revisions
 * that somebody chose: better without them than no reply at all.
 */
const HEADER_LIMIT_CHARACTERS = 7_000

/** Names and values in turn: the form that goes out with the least work. Headers of the answer win. */
function headOf(call: Call, { headers, status }: Answer): string[] {
  const head = ['Server', SERVER]
  if (headers['Cache-Control'] === undefined) head.push('Cache-Control', 'must-revalidate')
  if (headers['Content-Type'] === undefined && status !== 304 && status !== 204) {
    head.push('Content-Type', call.acceptsJson ? 'application/json' : 'text/plain;charset=utf-8')
  }
  // What is left of a body that nobody read must not be taken for the next request.
  if (!call.request.complete) head.push('Connection', 'close')
  for (const name in headers) {
    const value = headers[name]!
    if (value.length <= HEADER_LIMIT_CHARACTERS || status >= 300) head.push(name, value)
  }
  return head
}

/** So much goes out in one write together with the head. */
const ONE_WRITE_BYTES = 64 * 1024

export function sendWhole(call: Call, answer: WholeAnswer): void {
  const { response } = call
  const head = headOf(call, answer)
  const { status, body } = answer
  const sizeBytes = sizeOf(body)
  if (status !== 304 && status !== 204 && !answer.isChunked) head.push('Content-Length', String(sizeBytes))
  response.writeHead(status, head)
  if (sizeBytes > ONE_WRITE_BYTES) response.end(body)
  else if (response.chunkedEncoding) endWithChunk(response, body)
  // As one string with the head it is one write; Latin-1 gives the bytes as they are.
  else if (typeof body !== 'string') response.end(body.toString('latin1'), 'latin1')
  else response.end(body)
}

/** Frames the body itself, as its only chunk: each piece that the response puts around it would be written apart. */
function endWithChunk(response: ServerResponse, body: string | Buffer): void {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const chunk = bytes.length === 0 ? '' : `${bytes.length.toString(16)}\r\n${bytes.toString('latin1')}\r\n`
  response.chunkedEncoding = false
  response.end(`${chunk}0\r\n\r\n`, 'latin1')
}

function sizeOf(body: string | Buffer): number {
  return typeof body === 'string' ? Buffer.byteLength(body) : body.length
}

export async function sendStreamed(call: Call, answer: StreamedAnswer): Promise<void> {
  try {
    await stream(call, answer)
  } finally {
    answer.release()
  }
}

async function stream(call: Call, answer: StreamedAnswer): Promise<void> {
  const { response } = call
  response.writeHead(answer.status, headOf(call, answer))
  if (call.request.method === 'HEAD' || call.method === 'HEAD') {
    response.end()
    return
  }
  if (answer.isFlushed) return sendFeed(response, answer.chunks, answer.direct)
  for await (const chunk of answer.chunks) {
    // Leaving the loop ends the work of who makes the chunks.
    if (response.destroyed) return
    if (!response.write(chunk)) await taken(response)
  }
  response.end()
}
