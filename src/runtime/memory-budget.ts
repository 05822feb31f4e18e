/**
 * A bound on the memory of all requests together. A request that needs more waits until others release some, the oldest
 * first; small ones are always served. A waiter is refused after a timeout, or at once in a deadlock, where all holders
 * wait for more: then the youngest one, so that the oldest can finish. Before that, clients that hold memory and send
 * very slowly are aborted.
 */
import { totalmem } from 'node:os'
import type { Derived } from '../config/configuration.ts'
import { type Sender, SlowSenders } from './slow-senders.ts'

export interface BudgetLimits {
  readonly limitBytes: number
  /** How long one waits at most. */
  readonly waitMs: number
}

/** There is no room now; later there may be. */
export class BudgetExceededError extends Error {
  override readonly name = 'BudgetExceededError'

  constructor() {
    super('Too many request bodies are being received; try again later.')
  }
}

/** Up to so much is given out of a part that large ones cannot use up. */
const SMALL_BYTES = 64 * 1024
const SMALL_SHARE = 1 / 8

/** How often slow clients are searched for during a wait. */
const SLOW_CHECK_WAITS = 1 / 4
/** A client is slow if it would take longer to send as much as it holds, in waits. */
const SLOW_TURNOVER_WAITS = 10

interface Waiter {
  readonly lease: MemoryLease
  readonly bytes: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
  timer: NodeJS.Timeout | undefined
}

export class MemoryBudget {
  readonly #limits: Derived<BudgetLimits>
  #heldBytes = 0
  #leases = 0
  /** From the oldest lease to the youngest. */
  readonly #waiters: Waiter[] = []
  /** Those that hold more than a little for a client. */
  readonly #holders = new Set<MemoryLease>()
  readonly #slow = new SlowSenders<MemoryLease>()
  #slowCheck: NodeJS.Timeout | undefined

  /** The limits may change. */
  constructor(limits: Derived<BudgetLimits>) {
    this.#limits = limits
  }

  get limitBytes(): number {
    return this.#limits.current.limitBytes
  }

  get heldBytes(): number {
    return this.#heldBytes
  }

  /** Requests that wait for their share. */
  get waiting(): number {
    return this.#waiters.length
  }

  /** An empty lease, to be released. A slow client that holds memory may be disconnected in favour of others that wait. */
  lease(sender?: Sender): MemoryLease {
    return new MemoryLease(this, this.#leases++, sender)
  }

  /** For leases: more for one of them. A promise where it has to wait; that rejects with `BudgetExceededError`. */
  acquire(lease: MemoryLease, bytes: number): Promise<void> | undefined {
    if (this.#fits(lease, bytes) && !this.#isOvertaking(lease, bytes)) {
      this.#heldBytes += bytes
      return undefined
    }
    return new Promise((resolve, reject) => {
      const waiter: Waiter = { lease, bytes, resolve, reject, timer: undefined }
      const index = this.#waiters.findIndex((other) => other.lease.order > lease.order)
      this.#waiters.splice(index < 0 ? this.#waiters.length : index, 0, waiter)
      this.#startTimer(waiter)
      this.#endDeadlock()
      if (this.#waiters.length > 0) this.#watchSlow()
    })
  }

  /** For leases: one of them holds more than a little for a client. */
  holdsMuch(lease: MemoryLease): void {
    this.#holders.add(lease)
  }

  /** For leases: one of them needs less. */
  reduce(bytes: number): void {
    this.#heldBytes -= bytes
    this.#serve()
  }

  /** For leases: one of them is over. */
  release(lease: MemoryLease, bytes: number): void {
    this.#holders.delete(lease)
    this.#heldBytes -= bytes
    const index = this.#waiters.findIndex((waiter) => waiter.lease === lease)
    if (index >= 0) this.#refuse(index)
    this.#serve()
  }

  #serve(): void {
    for (let next = this.#waiters[0]; next && this.#fits(next.lease, next.bytes); next = this.#waiters[0]) {
      this.#waiters.shift()
      clearTimeout(next.timer)
      this.#heldBytes += next.bytes
      next.resolve()
    }
    this.#endDeadlock()
  }

  #fits(lease: MemoryLease, bytes: number): boolean {
    const { limitBytes } = this.#limits.current
    const limit = isSmall(lease, bytes) ? limitBytes : limitBytes * (1 - SMALL_SHARE)
    // One alone always fits: how large it may be is not decided here.
    return this.#heldBytes + bytes <= limit || this.#heldBytes === lease.bytes
  }

  #isOvertaking(lease: MemoryLease, bytes: number): boolean {
    const [oldest] = this.#waiters
    return oldest !== undefined && oldest.lease.order < lease.order && !isSmall(lease, bytes)
  }

  #watchSlow(): void {
    if (this.#slowCheck) return
    const begunMs = performance.now()
    const checkMs = SLOW_CHECK_WAITS * this.#limits.current.waitMs
    this.#slow.sample(this.#holders, begunMs)
    this.#slowCheck = setTimeout(() => {
      this.#slowCheck = undefined
      if (this.#waiters.length === 0) return
      // A process that stood still has not received what clients sent meanwhile: they are measured anew.
      const stoodStill = performance.now() - begunMs > 2 * checkMs
      if (!stoodStill) this.#cutOffSlow()
      this.#watchSlow()
    }, checkMs).unref()
  }

  /** As many as it takes for the oldest one that waits. */
  #cutOffSlow(): void {
    const [oldest] = this.#waiters
    if (!oldest) return
    const { limitBytes, waitMs } = this.#limits.current
    let missing = this.#heldBytes + oldest.bytes - limitBytes * (1 - SMALL_SHARE)
    for (const lease of this.#slow.slowerThan(SLOW_TURNOVER_WAITS * waitMs, performance.now())) {
      if (missing <= 0) return
      missing -= lease.bytes
      lease.sender?.cutOff()
    }
  }

  #startTimer(waiter: Waiter): void {
    waiter.timer = setTimeout(() => {
      const last = this.#waiters.length - 1
      if (this.#waiters[last] !== waiter) this.#startTimer(waiter)
      this.#refuse(last)
    }, this.#limits.current.waitMs).unref()
  }

  /** If all holders wait for more, nothing would ever be released. */
  #endDeadlock(): void {
    let waitingBytes = 0
    for (const { lease } of this.#waiters) waitingBytes += lease.bytes
    if (this.#waiters.length > 1 && waitingBytes === this.#heldBytes) this.#refuse(this.#waiters.length - 1)
  }

  #refuse(index: number): void {
    const [waiter] = this.#waiters.splice(index, 1)
    if (!waiter) return
    clearTimeout(waiter.timer)
    waiter.reject(new BudgetExceededError())
  }
}

/** What one request holds. */
export class MemoryLease {
  readonly order: number
  /** Whose body it is for. */
  readonly sender: Sender | undefined
  readonly #budget: MemoryBudget
  #bytes = 0
  #isReleased = false

  constructor(budget: MemoryBudget, order: number, sender: Sender | undefined) {
    this.#budget = budget
    this.order = order
    this.sender = sender
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Acquires more bytes. A promise if it has to wait: one at a time. */
  add(bytes: number): Promise<void> | undefined {
    if (bytes <= 0 || this.#isReleased) return undefined
    const waiting = this.#budget.acquire(this, bytes)
    if (!waiting) {
      this.#grow(bytes)
      return undefined
    }
    return waiting.then(() => {
      // Released while the grant was on its way: it goes back.
      if (this.#isReleased) this.#budget.release(this, bytes)
      else this.#grow(bytes)
    })
  }

  /** Releases a part of the lease. */
  reduce(bytes: number): void {
    const returned = Math.min(bytes, this.#bytes)
    if (returned <= 0) return
    this.#bytes -= returned
    this.#budget.reduce(returned)
  }

  /** May be called twice. */
  release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    const bytes = this.#bytes
    this.#bytes = 0
    this.#budget.release(this, bytes)
  }

  #grow(bytes: number): void {
    this.#bytes += bytes
    if (this.sender && this.#bytes > SMALL_BYTES) this.#budget.holdsMuch(this)
  }
}

function isSmall(lease: MemoryLease, bytes: number): boolean {
  return lease.bytes + bytes <= SMALL_BYTES
}

/** The memory that this process may use: that of its control group, or of the machine. */
export function availableMemory(): number {
  const total = totalmem()
  const constrained = process.constrainedMemory()
  return constrained > 0 && constrained < total ? constrained : total
}
