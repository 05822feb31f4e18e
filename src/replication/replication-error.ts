/** The errors that end a replication, as its caller gets them. */
import { RequestError } from '../document/request-error.ts'

/** `not found` for a database of this server, `failed` for one of another. */
export function databaseNotFound(shown: string, kind: 'not found' | 'failed'): RequestError {
  return new RequestError(kind, 'db_not_found', `could not open ${shown}`)
}

export function unauthorizedPeer(shown: string): RequestError {
  return new RequestError('failed', 'unauthorized', `unauthorized to access or create database ${shown}`)
}

/** A failure without an identifier of its own. */
export function replicationFailure(reason: string): RequestError {
  return new RequestError('failed', 'error', reason)
}

export function checkpointFailure(reason: string): RequestError {
  return new RequestError('failed', 'checkpoint_commit_failure', reason)
}

export function cancelled(): RequestError {
  return new RequestError('failed', 'cancelled', 'The replication was cancelled.')
}

/** A cancel of a replication that does not run. */
export function noSuchReplication(id: string): RequestError {
  return new RequestError('not found', 'not found', `There is no replication ${id}.`)
}

/** Any failure as one line: `db_not_found: could not open x`. */
export function reasonOf(error: unknown): string {
  if (error instanceof RequestError) return error.error === 'error' ? error.reason : `${error.error}: ${error.reason}`
  return error instanceof Error ? error.message : String(error)
}
