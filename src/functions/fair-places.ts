/**
 * So many may run at a time; who comes later waits, and owners take turns: who lets many wait does not hold up who lets
 * one wait. A place that is given back goes to the next in line, so that nobody can slip in between.
 */
import { RequestError } from '../document/request-error.ts'
import { FairQueue } from './fair-queue.ts'
import type { Run } from './functions.ts'

interface Waiter {
  serve(): void
  refuse(error: Error): void
}

const MOST_WAITING = 10_000

export class FairPlaces {
  /** How many there are now; it may change at any time. */
  readonly #limit: () => number
  readonly #waiting = new FairQueue<Waiter>()
  #taken = 0
  #closed: Error | undefined

  constructor(limit: () => number) {
    this.#limit = limit
  }

  /** Resolves when there is a place, which is to be given back. Rejects with the signal's reason when that comes first. */
  async take({ owner, signal }: Run): Promise<void> {
    signal?.throwIfAborted()
    if (this.#closed) throw this.#closed
    if (this.#taken < this.#limit()) {
      this.#taken++
      return
    }
    if (this.#waiting.size >= MOST_WAITING) {
      throw new RequestError(503, 'service_unavailable', 'Too many calls of functions wait.')
    }
    await new Promise<void>((resolve, reject) => {
      const giveUp = () => {
        if (this.#waiting.remove(owner, waiter)) reject(signal?.reason)
      }
      const forget = () => signal?.removeEventListener('abort', giveUp)
      const waiter: Waiter = {
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

  giveBack(): void {
    this.#taken--
    this.serve()
  }

  /** To be called when the limit may have grown. */
  serve(): void {
    while (this.#taken < this.#limit()) {
      const waiter = this.#waiting.shift()
      if (!waiter) return
      this.#taken++
      waiter.serve()
    }
  }

  /** From now on nobody gets a place. */
  close(error: Error): void {
    this.#closed = error
    for (let waiter = this.#waiting.shift(); waiter; waiter = this.#waiting.shift()) waiter.refuse(error)
  }
}
