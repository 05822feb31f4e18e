/** Tells replies that would go on for ever that their listener closes: they end then, as they would at any other time. */
import type { ServerResponse } from 'node:http'

const LEAVING = Symbol('leaving')
const told = new WeakSet<ServerResponse>()

/** The listener of this reply closes. */
export function leave(response: ServerResponse): void {
  told.add(response)
  response.emit(LEAVING)
}

/** Calls back when the listener closes, at once if it is closing; returns how to stop that. */
export function onLeaving(response: ServerResponse, listener: () => void): () => void {
  if (told.has(response)) listener()
  else response.once(LEAVING, listener)
  return () => response.off(LEAVING, listener)
}
