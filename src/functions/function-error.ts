/** The error of a failed user function: the identifier and reason given by the function or its runtime. */
import { type ErrorKind, RequestError } from '../document/request-error.ts'

/** Identifiers that stand for a fault of the request. All others are faults of the function. */
const KINDS: Readonly<Record<string, ErrorKind>> = {
  bad_request: 'invalid',
  query_parse_error: 'invalid',
  unauthorized: 'unauthorized',
  forbidden: 'forbidden',
  not_found: 'not found',
  not_acceptable: 'not acceptable',
  missing_stub: 'precondition failed',
  bad_ctype: 'unsupported type',
}

export function functionError(id: string, reason: unknown): RequestError {
  const kind = Object.hasOwn(KINDS, id) ? KINDS[id] : undefined
  return new RequestError(kind ?? 'failed', id === 'bad_ctype' ? 'bad_content_type' : id, reasonText(reason), reason)
}

/** For a design document in a language that nothing is configured for. */
export function unknownLanguage(language: string): RequestError {
  return new RequestError('failed', 'unknown_query_language', language)
}

/** A reason that is not a string is sent as JSON. */
export function reasonText(reason: unknown): string {
  return typeof reason === 'string' ? reason : (JSON.stringify(reason) ?? String(reason))
}
