/**
 * Leases on work that one server of several does at a time, such as the build of an index. Each grant has a number that grows,
 * the fencing number. A commit that carries it is refused by the store once another server has the lease, whatever the old
 * holder believes.
 */

/** Carried by a commit: it is made only while this grant of the lease counts. */
export interface LeaseProof {
  readonly name: string
  readonly fence: number
  /** The uuid of the engine that granted it. No other engine can check it: they pass it over. */
  readonly engine: string
}

export interface WorkLease {
  readonly proof: LeaseProof
  /** Aborted when the lease is lost or released. */
  readonly signal: AbortSignal
  release(): Promise<void>
}

export interface WorkLeases {
  /** How long a server that does not renew its leases keeps them. */
  readonly durationMs: number
  /** Undefined while anybody holds it, this server included. */
  take(name: string): Promise<WorkLease | undefined>
  /** Whether anybody holds it, this server included. */
  isHeld(name: string): Promise<boolean>
}

/** The leases for work on a store; undefined where no other server uses it. */
export type LeasesOf = (store: string) => WorkLeases | undefined

/**
 * Does work that no other server does meanwhile; resolves to undefined where one is doing it. Without leases there is no other
 * server, and the work is given none. The signal of the work is aborted when the lease is lost.
 */
export async function leased<T>(
  leases: WorkLeases | undefined,
  name: string,
  work: (lease: WorkLease | undefined) => Promise<T>,
): Promise<{ readonly result: T } | undefined> {
  if (!leases) return { result: await work(undefined) }
  const lease = await leases.take(name)
  if (!lease) return undefined
  try {
    return { result: await work(lease) }
  } finally {
    await lease.release()
  }
}

/**
 * Does work that other servers may do too, and holds the lease meanwhile if it is free: only to show that the work is being
 * done. Short work takes none.
 */
export async function shown<T>(leases: WorkLeases | undefined, name: string, work: () => Promise<T>): Promise<T> {
  if (!leases) return work()
  let taking: Promise<WorkLease | undefined> | undefined
  const timer = setTimeout(() => {
    taking = leases.take(name).catch(() => undefined)
  }, SHOWN_AFTER_MS)
  try {
    return await work()
  } finally {
    clearTimeout(timer)
    await (await taking)?.release()
  }
}

const SHOWN_AFTER_MS = 50

/** One of both, or neither. */
export function eitherSignal(signal: AbortSignal, lease: WorkLease | undefined): AbortSignal {
  return lease ? AbortSignal.any([signal, lease.signal]) : signal
}
