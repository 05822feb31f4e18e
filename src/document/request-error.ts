/**
 * What a client gets when its request cannot be done: status, identifier and reason of the reply. Thrown anywhere, turned
 * into a reply in one place.
 */
export class RequestError extends Error {
  override readonly name = 'RequestError'
  readonly status: number
  readonly error: string
  readonly reason: string
  /** The reason as the reply has it: functions of users may give any JSON value. */
  readonly told: unknown

  constructor(status: number, error: string, reason: string, told: unknown = reason) {
    super(`${status} ${error}: ${reason}`)
    this.status = status
    this.error = error
    this.reason = reason
    this.told = told
  }
}

export function badRequest(reason: string): RequestError {
  return new RequestError(400, 'bad_request', reason)
}

export function invalidJson(): RequestError {
  return badRequest('invalid_json')
}

/** Parameters of a query that cannot be meant. */
export function queryParseError(reason: string): RequestError {
  return new RequestError(400, 'query_parse_error', reason)
}

export function notFound(reason = 'missing'): RequestError {
  return new RequestError(404, 'not_found', reason)
}

export function conflict(): RequestError {
  return new RequestError(409, 'conflict', 'Document update conflict.')
}

export function missingStub(reason: string): RequestError {
  return new RequestError(412, 'missing_stub', reason)
}

/** The status is the one that the reference and its clients have for it, though the fault is the client's. */
export function docValidation(reason: string): RequestError {
  return new RequestError(500, 'doc_validation', reason)
}

export function tooLarge(): RequestError {
  return new RequestError(413, 'too_large', 'the request entity is too large')
}

/** More documents, attachments, keys or revisions in one request than are allowed. */
export function tooManyItems(limit: number): RequestError {
  return new RequestError(413, 'too_large', `The request has more than ${limit} items; send it in parts.`)
}
