/**
 * The connections among the nodes of a server. One node at a time is the primary: it holds the lease to write. Its term is the
 * fencing number of that lease; each new primary has a higher one. All others are secondaries.
 */

/** The primary's side: how it reaches the secondaries. */
export interface Cluster {
  readonly term: number
  /** How many secondaries are connected. */
  readonly size: number
  /**
   * Sends each secondary the signal that is made for it; nothing where that is undefined. A secondary gets its signals in order.
   * One that misses a signal connects again.
   */
  publish(signalFor: (member: object) => unknown): void
  /**
   * Resolves when every secondary has acknowledged the notice or is gone; undefined where there are no secondaries. One that
   * does not answer in time is disconnected, and gets the whole state when it connects again.
   */
  announce(notice: unknown): Promise<void> | undefined
  /** The answers of all secondaries. Those that are gone meanwhile are left out. */
  gather(request: unknown): Promise<unknown[]>
}

/** A server with a single node. */
export const ALONE: Cluster = {
  term: 1,
  size: 0,
  publish: () => {},
  announce: () => undefined,
  gather: async () => [],
}
