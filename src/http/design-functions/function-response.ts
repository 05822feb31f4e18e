/**
 * The response object of a user function, or of an external program, as a reply. The function decides what the client
 * gets, but it cannot split the response: what is not valid in a head or a body is refused.
 */

import type { RequestError } from '../../document/request-error.ts'
import { decodeBase64 } from '../../encoding/json/base64-text.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { FunctionResponse } from '../../functions/functions.ts'
import { OWN_REPLY_HEADERS } from '../../wire/reply.ts'
import { isHeaderName, isHeaderValue } from '../../wire/request.ts'
import type { Headers, WholeAnswer } from '../server/answer.ts'
import { HttpError } from '../server/errors.ts'

export interface ResponseDefaults {
  /** 200 unless given. */
  readonly status?: number
  /** Replace headers of the function that have the same names. */
  readonly fixed?: Headers
  /** Defaults: headers of the function with the same names replace them. */
  readonly usual?: Headers
}

/** The whole reply. */
export function responseAnswer(response: FunctionResponse, defaults: ResponseDefaults = {}): WholeAnswer {
  return { kind: 'whole', ...responseHead(response, defaults), body: bodyOf(response) }
}

/** What the reply begins with. */
export function responseHead(
  response: FunctionResponse,
  { status = 200, fixed = {}, usual = {} }: ResponseDefaults = {},
): { readonly status: number; readonly headers: Headers } {
  for (const [name, value] of Object.entries(response)) {
    if (!MEMBERS.has(name)) throw invalid(JSON.stringify({ [name]: value }))
  }
  const headers = new HeaderList()
  headers.set('Content-Type', impliedType(response))
  headers.set('X-Content-Type-Options', 'nosniff')
  for (const [name, value] of Object.entries(usual)) headers.set(name, value)
  for (const [name, value] of sentHeaders(response.headers)) headers.set(name, value)
  for (const [name, value] of Object.entries(fixed)) headers.set(name, value)
  return { status: statusOf(response.code) ?? status, headers: headers.all() }
}

const MEMBERS = new Set(['code', 'headers', 'body', 'base64', 'json', 'stop'])

const IMPLIED_TYPES: Readonly<Record<string, string>> = {
  body: 'text/html; charset=utf-8',
  base64: 'application/binary',
  json: 'application/json',
}

/** By the last of the members that hold the body. */
function impliedType(response: FunctionResponse): string {
  const last = Object.keys(response).findLast((name) => Object.hasOwn(IMPLIED_TYPES, name))
  return IMPLIED_TYPES[last ?? 'json'] ?? 'application/json'
}

/** As bytes: a text goes out in one piece with the head, in one encoding, and that of the head is another one. */
function bodyOf(response: FunctionResponse): Buffer {
  if (Object.hasOwn(response, 'json')) return Buffer.from(`${JSON.stringify(response.json)}\n`)
  // Of the two, the one that was written last.
  const last = Object.keys(response).findLast((name) => name === 'body' || name === 'base64')
  return last === 'base64' ? decoded(response.base64) : Buffer.from(textOf(response.body ?? ''))
}

function decoded(value: unknown): Buffer {
  const bytes = typeof value === 'string' ? decodeBase64(value) : undefined
  if (!bytes) throw invalid('base64 cannot be decoded')
  return bytes
}

/** A final status: 1xx statuses are not allowed. */
function statusOf(code: unknown): number | undefined {
  if (code === undefined || code === null) return undefined
  const status = Number(code)
  if (!Number.isInteger(status) || status < 200 || status > 999) throw invalid(JSON.stringify({ code }))
  return status
}

/** Headers that functions cannot set. */
const OF_SERVER = new Set([...OWN_REPLY_HEADERS, 'content-length'])

function sentHeaders(headers: unknown): [name: string, value: string][] {
  if (headers === undefined || headers === null) return []
  if (!isObject(headers)) throw invalid(JSON.stringify({ headers }))
  const sent = Object.entries(headers)
    .filter(([name]) => !OF_SERVER.has(name.toLowerCase()))
    .map(([name, value]): [string, string] => [name, headerText(name, textOf(value))])
  const characters = sent.reduce((sum, [name, value]) => sum + name.length + value.length, 0)
  if (characters > MOST_CHARACTERS) throw invalid('headers are too long')
  return sent
}

/** Of all headers together: clients refuse a longer head. */
const MOST_CHARACTERS = 64 * 1024

/** As bytes of UTF-8, as headers that are not ASCII are sent. */
function headerText(name: string, value: string): string {
  const text = Buffer.from(value).toString('latin1')
  if (!isHeaderName(name) || !isHeaderValue(text)) throw invalid(JSON.stringify({ [name]: value }))
  return text
}

function textOf(value: unknown): string {
  return typeof value === 'string'
    ? value
    : isObject(value) || Array.isArray(value)
      ? JSON.stringify(value)
      : `${value}`
}

/** Headers by case-insensitive names, in the spelling of the server where it uses them. */
class HeaderList {
  readonly #headers = new Map<string, readonly [name: string, value: string]>()

  set(name: string, value: string): void {
    const lower = name.toLowerCase()
    this.#headers.set(lower, [OWN_SPELLING.get(lower) ?? name, value])
  }

  all(): Headers {
    return Object.fromEntries(this.#headers.values())
  }
}

const OWN_SPELLING = new Map(
  [
    'Access-Control-Allow-Credentials',
    'Access-Control-Allow-Origin',
    'Access-Control-Expose-Headers',
    'Cache-Control',
    'Content-Type',
    'Set-Cookie',
    'Vary',
  ].map((name) => [name.toLowerCase(), name]),
)

function invalid(what: string): RequestError {
  return new HttpError(500, 'external_response_error', `Invalid data from external server: ${what}`)
}
