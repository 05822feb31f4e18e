/** What a handler answers. */
import { RequestError } from '../../document/request-error.ts'
import type { DirectOutput } from '../changes/feed-output.ts'

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
  /** Beside the others: those that are there several times. */
  readonly repeatedHeaders?: readonly (readonly [name: string, value: string])[] | undefined
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
  readonly repeatedHeaders?: StreamedAnswer['repeatedHeaders']
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
  { status = 200, headers = {}, isFlushed = false, direct, repeatedHeaders, release = () => {} }: StreamOptions = {},
): StreamedAnswer {
  return { kind: 'streamed', status, headers, chunks, isFlushed, direct, repeatedHeaders, release }
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
