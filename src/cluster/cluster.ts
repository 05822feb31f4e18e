/**
 * What the nodes of a server tell each other. One node at a time is the primary: it holds the data for writing. Its term is
 * the fencing number of that lease; each new primary has a higher one. All others are secondaries.
 */

/** The primary's side: how it reaches the secondaries. */
export interface Cluster {
  readonly term: number
  /** How many secondaries are connected. */
  readonly size: number
  /**
   * Sends each secondary the signal that is made for it, or nothing where that is undefined. Each gets its signals in the
   * order in which they were sent, or connects anew.
   */
  publish(signalFor: (member: object) => unknown): void
  /**
   * Resolves when every secondary has taken the notice over, or is gone; undefined where there is none. One that does not
   * answer in time is cut off: it begins anew with the state of then.
   */
  announce(notice: unknown): Promise<void> | undefined
  /** What every secondary answers. Those that are gone meanwhile are left out. */
  gather(request: unknown): Promise<unknown[]>
}

/** One node has nobody to tell. */
export const ALONE: Cluster = {
  term: 1,
  size: 0,
  publish: () => {},
  announce: () => undefined,
  gather: async () => [],
}
