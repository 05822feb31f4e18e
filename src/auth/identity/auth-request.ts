/** A request as authentication sees it. */
import { isUtf8 } from 'node:buffer'

export interface AuthRequest {
  /** The method that was sent. */
  readonly method: string
  /** The target as it was sent. */
  readonly url: string
  /** By lower-case names; several of one name are one list. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** Whether the connection itself is encrypted. */
  readonly isSecure: boolean
  /** The address that the client connected to, where it does not name one. */
  readonly localAddress: string
  /** The same object for requests of the same connection, where that is known. */
  readonly connection?: object
}

/** Headers come as bytes; names in them are UTF-8 wherever they can be. */
export function utf8HeaderOf(request: Pick<AuthRequest, 'headers'>, name: string): string | undefined {
  const value = request.headers[name]
  if (value === undefined) return undefined
  const bytes = Buffer.from(value, 'latin1')
  return isUtf8(bytes) ? bytes.toString() : value
}

/** Of a header with a neutral name and a CouchDB name, the neutral one counts. */
export function eitherHeaderOf(
  request: Pick<AuthRequest, 'headers'>,
  neutral: string,
  usual: string,
): string | undefined {
  return utf8HeaderOf(request, neutral) ?? utf8HeaderOf(request, usual)
}

/** The path of the target, still escaped, and its query. */
export function targetOf({ url }: Pick<AuthRequest, 'url'>): { path: string; query: string } {
  const target = url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?]*/i, '')
  const end = target.indexOf('?')
  return end < 0 ? { path: target, query: '' } : { path: target.slice(0, end), query: target.slice(end + 1) }
}
