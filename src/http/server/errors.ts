/**
 * The one table that maps domain errors to HTTP statuses and to the identifiers of the interface. Errors of the
 * protocol itself carry their status.
 */
import type { Dialect } from '../../config/dialect.ts'
import { badRequest, type ErrorKind, notFound, RequestError } from '../../document/request-error.ts'
import { BudgetExceededError } from '../../runtime/memory-budget.ts'
import {
  CommitFailedError,
  EngineUnavailableError,
  FileDamagedError,
  NoDescriptorsError,
  StoreGoneError,
  TooManyReadersError,
  ValueTooLargeError,
} from '../../storage/storage-error.ts'
import { BodyAbortedError } from '../../wire/incoming-body.ts'

const STATUSES: Readonly<Record<ErrorKind, number>> = {
  invalid: 400,
  unauthorized: 401,
  forbidden: 403,
  'not found': 404,
  'not acceptable': 406,
  conflict: 409,
  'precondition failed': 412,
  'too large': 413,
  'unsupported type': 415,
  'all or nothing': 417,
  failed: 500,
  unavailable: 503,
}

/** An error of the protocol, with a status of its own. */
export class HttpError extends RequestError {
  override readonly name: string = 'HttpError'
  readonly status: number

  constructor(status: number, error: string, reason: string) {
    super(status < 500 ? 'invalid' : 'failed', error, reason)
    this.status = status
  }
}

/** Names the methods that the path has. */
export class MethodNotAllowedError extends HttpError {
  override readonly name = 'MethodNotAllowedError'
  readonly allow: string

  constructor(allow: string, reason = `Only ${allow} allowed`) {
    super(405, 'method_not_allowed', reason)
    this.allow = allow
  }
}

export function statusOf(error: RequestError): number {
  return error instanceof HttpError ? error.status : STATUSES[error.kind]
}

/** An error with its identifier in this dialect. */
export function inDialect(error: RequestError, dialect: Dialect): RequestError {
  return dialect === '1.6' && error.error === 'illegal_docid' ? badRequest(error.reason) : error
}

/** Any error as one that can be answered. */
export function requestErrorOf(error: unknown): RequestError {
  if (error instanceof RequestError) return error
  // The database was deleted while the request was under way.
  if (error instanceof StoreGoneError) return notFound('no_db_file')
  const reason = error instanceof Error ? error.message : String(error)
  if (error instanceof CommitFailedError) return new RequestError('failed', 'commit_failed', reason)
  if (error instanceof ValueTooLargeError) return new RequestError('too large', 'too_large', reason)
  if (error instanceof FileDamagedError) return new RequestError('failed', 'file_corrupted', reason)
  // The client is gone, and nothing is wrong with the server.
  if (error instanceof BodyAbortedError) return badRequest(reason)
  const isBusy =
    error instanceof BudgetExceededError ||
    error instanceof TooManyReadersError ||
    error instanceof NoDescriptorsError ||
    error instanceof EngineUnavailableError
  if (isBusy) return new RequestError('unavailable', 'service_unavailable', reason)
  return new RequestError('failed', 'unknown_error', reason)
}
