/** What a handler answers, and the one place that sends it. */
import type { ServerResponse } from 'node:http'
import { RequestError } from '../document/request-error.ts'
import type { Call } from './call.ts'

export type Headers = Readonly<Record<string, string>>

export interface Answer {
  readonly status: number
  readonly headers: Headers
  /** JSON text; its type is negotiated when it is sent. */
  readonly json: string
}

export function json(
  value: unknown,
  { status = 200, headers = {} }: { status?: number; headers?: Headers } = {},
): Answer {
  return { status, headers, json: `${JSON.stringify(value)}\n` }
}

export function errorAnswer(error: RequestError): Answer {
  const headers = error instanceof MethodNotAllowedError ? { Allow: error.allow } : {}
  return json({ error: error.error, reason: error.reason }, { status: error.status, headers })
}

/** Tells the methods that the path has. */
export class MethodNotAllowedError extends RequestError {
  readonly allow: string

  constructor(allow: string) {
    super(405, 'method_not_allowed', `Only ${allow} allowed`)
    this.allow = allow
  }
}

export function send(call: Call, response: ServerResponse, answer: Answer): void {
  const body = Buffer.from(answer.json)
  response.writeHead(answer.status, {
    'Cache-Control': 'must-revalidate',
    'Content-Type': call.acceptsJson ? 'application/json' : 'text/plain;charset=utf-8',
    'Content-Length': body.length,
    // What is left of a body that nobody read must not be taken for the next request.
    ...(call.request.complete ? {} : { Connection: 'close' }),
    ...answer.headers,
  })
  response.end(body)
}
