/** What a replication ends with when it cannot go on, as its caller is told. */
import { RequestError } from '../document/request-error.ts'

/** `status`: 404 for a database of this server, 500 for one of another. */
export function databaseNotFound(shown: string, status: 404 | 500): RequestError {
  return new RequestError(status, 'db_not_found', `could not open ${shown}`)
}

export function unauthorizedPeer(shown: string): RequestError {
  return new RequestError(500, 'unauthorized', `unauthorized to access or create database ${shown}`)
}

/** A failure without an identifier of its own. */
export function replicationFailure(reason: string): RequestError {
  return new RequestError(500, 'error', reason)
}

export function checkpointFailure(reason: string): RequestError {
  return new RequestError(500, 'checkpoint_commit_failure', reason)
}

export function cancelled(): RequestError {
  return new RequestError(500, 'cancelled', 'The replication was cancelled.')
}

/** A cancel of a replication that does not run. */
export function noSuchReplication(id: string): RequestError {
  return new RequestError(404, 'not found', `There is no replication ${id}.`)
}

/** Any failure as one line for people: `db_not_found: could not open x`. */
export function reasonOf(error: unknown): string {
  if (error instanceof RequestError) return error.error === 'error' ? error.reason : `${error.error}: ${error.reason}`
  return error instanceof Error ? error.message : String(error)
}
