/**
 * A counting semaphore that is fair between owners: waiters of different owners are served in turn, and some slots are
 * reserved for owners that hold none. A released slot goes straight to the next waiter, so nobody can slip in between.
 */
import { RequestError } from '../../document/request-error.ts'
import { FairQueue } from './fair-queue.ts'
import { mayTakeSlot } from './fair-share.ts'
import type { Run } from './run.ts'

interface Waiter {
  readonly owner: string
  serve(): void
  refuse(error: Error): void
}

const MOST_WAITING = 10_000

export class FairSemaphore {
  /** The number of slots; it may change at any time. */
  readonly #limit: () => number
  readonly #waiting = new FairQueue<Waiter>()
  /** Slots held by each owner. */
  readonly #held = new Map<string, number>()
  #heldByAll = 0
  #closed: Error | undefined

  constructor(limit: () => number) {
    this.#limit = limit
  }

  /** Resolves when a slot is acquired, which must be released. Rejects with the signal's reason if that comes first. */
  async acquire({ owner, signal }: Run): Promise<void> {
    signal?.throwIfAborted()
    if (this.#closed) throw this.#closed
    if (this.tryAcquire(owner)) return
    if (this.#waiting.size >= MOST_WAITING) {
      throw new RequestError(503, 'service_unavailable', 'Too many function calls are waiting.')
    }
    await new Promise<void>((resolve, reject) => {
      const giveUp = () => {
        if (this.#waiting.remove(owner, waiter)) reject(signal?.reason)
      }
      const forget = () => signal?.removeEventListener('abort', giveUp)
      const waiter: Waiter = {
        owner,
        serve: () => {
          forget()
          resolve()
        },
        refuse: (error) => {
          forget()
          reject(error)
        },
      }
      signal?.addEventListener('abort', giveUp, { once: true })
      this.#waiting.push(owner, waiter)
    })
  }

  /** Acquires a slot if one is free now. */
  tryAcquire(owner: string): boolean {
    if (this.#closed || !this.#mayHaveMore(owner)) return false
    this.#count(owner, 1)
    return true
  }

  release(owner: string): void {
    this.#count(owner, -1)
    this.serve()
  }

  /** To be called when the limit may have grown. */
  serve(): void {
    const next = () =>
      this.#waiting.shift(
        (owner) => this.#mayHaveMore(owner),
        (owner) => (this.#held.has(owner) ? 1 : 0),
      )
    for (let waiter = next(); waiter; waiter = next()) {
      this.#count(waiter.owner, 1)
      waiter.serve()
    }
  }

  /** Rejects all waiters, and everybody who comes later. */
  close(error: Error): void {
    this.#closed = error
    for (let waiter = this.#waiting.shift(); waiter; waiter = this.#waiting.shift()) waiter.refuse(error)
  }

  #mayHaveMore(owner: string): boolean {
    return mayTakeSlot(this.#limit(), { ofAll: this.#heldByAll, ofOwner: this.#held.get(owner) ?? 0 })
  }

  #count(owner: string, change: number): void {
    const held = (this.#held.get(owner) ?? 0) + change
    if (held === 0) this.#held.delete(owner)
    else this.#held.set(owner, held)
    this.#heldByAll += change
  }
}
