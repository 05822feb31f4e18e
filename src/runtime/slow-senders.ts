/**
 * Tells which clients hold memory for a body that they send too slowly. A least rate on the average of a whole body is not enough:
 * a client that sends nearly all of it at once may then trickle for hours.
 */

/** The client whose body is received. */
export interface Sender {
  /** Bytes received so far. */
  readonly receivedBytes: number
  /** Whether the server waits for more. */
  readonly isAwaited: boolean
  /** Refuses the request and closes its connection. */
  cutOff(): void
}

export interface Holder {
  readonly bytes: number
  readonly sender: Sender | undefined
}

export class SlowSenders<Lease extends Holder> {
  #sampledMs = 0
  /** What each had sent when the samples were taken. */
  #samples = new Map<Lease, number>()

  /** From here on it is measured what they send. */
  sample(holders: Iterable<Lease>, nowMs: number): void {
    this.#sampledMs = nowMs
    this.#samples = new Map()
    for (const lease of holders) if (lease.sender) this.#samples.set(lease, lease.sender.receivedBytes)
  }

  /** Those who would take longer than this to send as much as they hold, the slowest first. */
  slowerThan(turnoverMs: number, nowMs: number): Lease[] {
    const elapsedMs = nowMs - this.#sampledMs
    const slow: { readonly lease: Lease; readonly turnoverMs: number }[] = []
    for (const [lease, receivedBytes] of this.#samples) {
      // What a client is not asked for it cannot send.
      if (lease.bytes === 0 || !lease.sender?.isAwaited) continue
      const sentBytes = lease.sender.receivedBytes - receivedBytes
      const itsTurnoverMs = (lease.bytes / sentBytes) * elapsedMs
      if (itsTurnoverMs > turnoverMs) slow.push({ lease, turnoverMs: itsTurnoverMs })
    }
    // Infinity minus infinity is not a number.
    slow.sort((a, b) => (a.turnoverMs === b.turnoverMs ? b.lease.bytes - a.lease.bytes : b.turnoverMs - a.turnoverMs))
    return slow.map(({ lease }) => lease)
  }
}
