/**
 * The error of a request in the terms of the database: a kind, the error identifier of the HTTP interface, and a reason. It may
 * be thrown anywhere; `http/server/errors.ts` maps it to an HTTP status.
 */
export type ErrorKind =
  | 'invalid'
  | 'unauthorized'
  | 'forbidden'
  | 'not found'
  | 'not acceptable'
  | 'conflict'
  | 'precondition failed'
  | 'too large'
  | 'unsupported type'
  | 'all or nothing'
  | 'failed'
  | 'unavailable'

export class RequestError extends Error {
  override readonly name: string = 'RequestError'
  readonly kind: ErrorKind
  readonly error: string
  readonly reason: string
  /** The reason in the reply: user functions may give any JSON value. */
  readonly reasonValue: unknown

  constructor(kind: ErrorKind, error: string, reason: string, reasonValue: unknown = reason) {
    super(`${error}: ${reason}`)
    this.kind = kind
    this.error = error
    this.reason = reason
    this.reasonValue = reasonValue
  }
}

export function badRequest(reason: string): RequestError {
  return new RequestError('invalid', 'bad_request', reason)
}

export function invalidJson(): RequestError {
  return badRequest('invalid_json')
}

/** An invalid document id. Dialect 3 has an identifier for it; in dialect 1.6 it is a `bad_request`. */
export function illegalDocumentId(reason: string): RequestError {
  return new RequestError('invalid', 'illegal_docid', reason)
}

/** Query parameters that are not valid. */
export function queryParseError(reason: string): RequestError {
  return new RequestError('invalid', 'query_parse_error', reason)
}

export function notFound(reason = 'missing'): RequestError {
  return new RequestError('not found', 'not_found', reason)
}

export function conflict(): RequestError {
  return new RequestError('conflict', 'conflict', 'Document update conflict.')
}

export function missingStub(reason: string): RequestError {
  return new RequestError('precondition failed', 'missing_stub', reason)
}

/** A 500 in CouchDB, and so for its clients, though the request is at fault. */
export function docValidation(reason: string): RequestError {
  return new RequestError('failed', 'doc_validation', reason)
}

export function tooLarge(): RequestError {
  return new RequestError('too large', 'too_large', 'the request entity is too large')
}

/** More documents, attachments, keys or revisions in one request than are allowed. */
export function tooManyItems(limit: number): RequestError {
  return new RequestError('too large', 'too_large', `The request has more than ${limit} items; send it in parts.`)
}
