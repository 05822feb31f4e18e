/**
 * Connections on which something came in. They are served together, once all that the system had for us is read: many
 * requests then take the same step one after the other, while the processor still knows the way. Served each at once,
 * with a turn through the system between two of them, a small request costs twice as much.
 */
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
  for (const arrival of all) arrival.serve()
}
