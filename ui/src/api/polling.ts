/**
 * The polling interval. A request that is refused is not repeated; a server that does not respond is polled until it is
 * back.
 */
import { ApiError } from './client.ts'

export function every(intervalMs: number): (query: { state: { error: Error | null } }) => number | false {
  return ({ state }) => (state.error instanceof ApiError ? false : intervalMs)
}
