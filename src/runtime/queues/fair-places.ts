/**
 * So many may run at a time; who comes later waits, and owners take turns: who lets many wait does not hold up who lets
 * one wait, and some places are kept for owners that have none. A place that is given back goes to the next in line, so
 * that nobody can slip in between.
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

export class FairPlaces {
  /** How many there are now; it may change at any time. */
  readonly #limit: () => number
  readonly #waiting = new FairQueue<Waiter>()
  /** Of each owner that has one. */
  readonly #taken = new Map<string, number>()
  #takenOfAll = 0
  #closed: Error | undefined

  constructor(limit: () => number) {
    this.#limit = limit
  }

  /** Resolves when there is a place, which is to be given back. Rejects with the signal's reason when that comes first. */
  async take({ owner, signal }: Run): Promise<void> {
    signal?.throwIfAborted()
    if (this.#closed) throw this.#closed
    if (this.takeNow(owner)) return
    if (this.#waiting.size >= MOST_WAITING) {
      throw new RequestError(503, 'service_unavailable', 'Too many calls of functions wait.')
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

  /** Takes a place if there is one without waiting. */
  takeNow(owner: string): boolean {
    if (this.#closed || !this.#mayHaveMore(owner)) return false
    this.#count(owner, 1)
    return true
  }

  giveBack(owner: string): void {
    this.#count(owner, -1)
    this.serve()
  }

  /** To be called when the limit may have grown. */
  serve(): void {
    const next = () =>
      this.#waiting.shift(
        (owner) => this.#mayHaveMore(owner),
        (owner) => (this.#taken.has(owner) ? 1 : 0),
      )
    for (let waiter = next(); waiter; waiter = next()) {
      this.#count(waiter.owner, 1)
      waiter.serve()
    }
  }

  /** From now on nobody gets a place. */
  close(error: Error): void {
    this.#closed = error
    for (let waiter = this.#waiting.shift(); waiter; waiter = this.#waiting.shift()) waiter.refuse(error)
  }

  #mayHaveMore(owner: string): boolean {
    return mayTakeSlot(this.#limit(), { ofAll: this.#takenOfAll, ofOwner: this.#taken.get(owner) ?? 0 })
  }

  #count(owner: string, places: number): void {
    const taken = (this.#taken.get(owner) ?? 0) + places
    if (taken === 0) this.#taken.delete(owner)
    else this.#taken.set(owner, taken)
    this.#takenOfAll += places
  }
}
