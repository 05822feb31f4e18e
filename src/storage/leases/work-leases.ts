/**
 * Leases on work that one server of several does at a time, such as the build of an index. Each grant has a number that grows,
 * the fencing number. A commit that carries it is refused by the store once another server has the lease, whatever the old
 * holder believes.
 */

/** Carried by a commit: it is made only while this grant of the lease counts. */
export interface LeaseProof {
  readonly name: string
  readonly fence: number
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
}

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

/** One of both, or neither. */
export function eitherSignal(signal: AbortSignal, lease: WorkLease | undefined): AbortSignal {
  return lease ? AbortSignal.any([signal, lease.signal]) : signal
}
