/**
 * Connections on which something came in. They are served together, once all that the system had for us is read: many
 * requests then take the same step one after the other, while the processor still knows the way. Served each at once,
 * with a turn through the system between two of them, a small request costs twice as much. Where that takes long, those
 * that are left wait for the next turn.
 */

/** Hundreds of small requests. What else there is to do must not wait for much longer. */
const TURN_MS = 10

export interface Arrival {
  /** Does what there is to do with what came in. */
  serve(): void
}

let waiting: Arrival[] = []

/** Must be called once only until it is served. */
export function serveTogether(arrival: Arrival): void {
  if (waiting.push(arrival) === 1) setImmediate(serveAll)
}

function serveAll(): void {
  const all = waiting
  waiting = []
  const endMs = performance.now() + TURN_MS
  for (const [i, arrival] of all.entries()) {
    arrival.serve()
    if (i === all.length - 1 || performance.now() < endMs) continue
    // New ones are behind these: each is served in its order.
    if (waiting.length === 0) setImmediate(serveAll)
    waiting = [...all.slice(i + 1), ...waiting]
    return
  }
}
