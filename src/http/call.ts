/**
 * One request as handlers see it: where it goes, what it asks for, who can be told. Parsed here and nowhere else, from
 * the raw path, since names may hold slashes and percent signs that a router must not touch.
 */
import type { IncomingMessage } from 'node:http'
import { badRequest } from '../document/request-error.ts'

export class Call {
  readonly request: IncomingMessage
  readonly method: string
  /** The path, split at its slashes and then decoded; empty segments do not count. */
  readonly segments: readonly string[]
  readonly #queryText: string
  #query: URLSearchParams | undefined

  constructor(request: IncomingMessage, url: string) {
    this.request = request
    this.method = request.method ?? 'GET'
    const end = url.indexOf('?')
    const path = end < 0 ? url : url.slice(0, end)
    this.#queryText = end < 0 ? '' : url.slice(end + 1)
    this.segments = pathSegments(path)
  }

  header(name: string): string | undefined {
    const value = this.request.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

  /** The value of a query parameter; of a repeated one the last counts. */
  query(name: string): string | undefined {
    this.#query ??= new URLSearchParams(this.#queryText)
    return this.#query.getAll(name).at(-1)
  }

  /** A whole number that is not negative. */
  queryCount(name: string): number | undefined {
    const text = this.query(name)
    if (text === undefined) return undefined
    if (!/^\d{1,15}$/.test(text)) throw badRequest(`The query parameter '${name}' is not a whole number: ${text}`)
    return Number(text)
  }

  /** Whether the client names JSON among what it accepts; otherwise it gets the same as plain text. */
  get acceptsJson(): boolean {
    return JSON_ACCEPTED.test(this.header('accept') ?? '')
  }
}

/** `application/json`, with parameters or without, but not one that is weighed with nothing. */
const JSON_ACCEPTED = /(^|[,\s])application\/json\s*(?!\s*;\s*q=0(\.0*)?\s*(,|;|$))(;|,|\s|$)/i

function pathSegments(path: string): string[] {
  const segments: string[] = []
  for (const segment of path.split('/')) {
    // A plus is a blank everywhere but in the name of a database, which may have one and never has a blank.
    if (segment !== '') segments.push(decode(segments.length === 0 ? segment : segment.replaceAll('+', ' ')))
  }
  return segments
}

/** An incomplete escape stands for itself. */
function decode(segment: string): string {
  if (!segment.includes('%')) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    return decodeBytes(segment)
  }
}

function decodeBytes(segment: string): string {
  const bytes = segment.replace(/%([0-9a-f]{2})/gi, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  )
  return Buffer.from(bytes, 'latin1').toString()
}
