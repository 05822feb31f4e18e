/** What a client is told when a user function fails: the identifier and reason given by the function or its runtime. */
import { RequestError } from '../document/request-error.ts'

/** Identifiers that stand for a fault of the request, by the status that they have. All others are faults of the function. */
const STATUSES: Readonly<Record<string, number>> = {
  bad_request: 400,
  query_parse_error: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  not_acceptable: 406,
  missing_stub: 412,
  bad_ctype: 415,
}

export function functionError(id: string, reason: unknown): RequestError {
  const status = Object.hasOwn(STATUSES, id) ? STATUSES[id] : undefined
  return new RequestError(status ?? 500, id === 'bad_ctype' ? 'bad_content_type' : id, reasonText(reason), reason)
}

/** For a design document in a language that nothing is configured for. */
export function unknownLanguage(language: string): RequestError {
  return new RequestError(500, 'unknown_query_language', language)
}

/** A reason that is no text is told as JSON. */
export function reasonText(reason: unknown): string {
  return typeof reason === 'string' ? reason : (JSON.stringify(reason) ?? String(reason))
}
