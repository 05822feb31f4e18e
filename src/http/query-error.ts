/** What the client is told of a query parameter that cannot be meant. */
import { RequestError } from '../document/request-error.ts'

export function queryParseError(reason: string): RequestError {
  return new RequestError(400, 'query_parse_error', reason)
}
