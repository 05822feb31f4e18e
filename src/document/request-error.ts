/**
 * Why a request cannot be done, in the terms of the database: a kind, the identifier that the interface has for it, and a
 * reason. Thrown anywhere; what it becomes in HTTP is decided in `http/server/errors.ts`.
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
  /** The reason as the reply has it: functions of users may give any JSON value. */
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

/** An id that no document can have. Release 3 has an identifier for it; in dialect 1.6 it is a `bad_request`. */
export function illegalDocumentId(reason: string): RequestError {
  return new RequestError('invalid', 'illegal_docid', reason)
}

/** Parameters of a query that cannot be meant. */
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

/** Counts as a failure of the server in the reference and for its clients, though the fault is the client's. */
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
