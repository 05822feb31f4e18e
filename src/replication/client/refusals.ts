/**
 * Tells a refusal that is meant from one that passes: a session that ended, or a proxy that had a bad moment. Only one that
 * comes again and again, with nothing else in between, is meant.
 */
import { HttpStatusError } from './http-reply.ts'
import { type RetryPolicy, TransientError } from './retries.ts'

const REFUSALS_IN_A_ROW = 4

/** A server that let us in before says that we may not. */
export function isRefusal(error: unknown): error is TransientError & { readonly cause: HttpStatusError } {
  return error instanceof TransientError && error.cause instanceof HttpStatusError && error.cause.status === 401
}

export class Refusals {
  readonly #needed: number
  #inARow = 0

  constructor({ retries }: RetryPolicy) {
    this.#needed = Math.min(REFUSALS_IN_A_ROW, retries + 1)
  }

  get areMeant(): boolean {
    return this.#inARow >= this.#needed
  }

  /** Runs an attempt, and notes whether it was refused. */
  async counted<T>(attempt: () => Promise<T>): Promise<T> {
    try {
      return await attempt()
    } catch (error) {
      this.#inARow = isRefusal(error) ? this.#inARow + 1 : 0
      throw error
    }
  }
}
