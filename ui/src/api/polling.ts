/** Asking again and again: not those who said that one may not. A server that is gone is asked until it is back. */
import { ApiError } from './client.ts'

export function every(intervalMs: number): (query: { state: { error: Error | null } }) => number | false {
  return ({ state }) => (state.error instanceof ApiError ? false : intervalMs)
}
