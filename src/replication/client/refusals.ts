/**
 * Distinguishes permanent refusals from transient ones, such as an expired session or a proxy error. Only a refusal
 * that is repeated without any success in between is permanent.
 */
import { HttpStatusError } from './http-reply.ts'
import { type RetryPolicy, TransientError } from './retries.ts'

const REFUSALS_IN_A_ROW = 4

/** A refusal by a server that accepted requests before. */
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

  /** Runs an attempt, and records whether it was refused. */
  async counted<T>(attempt: () => Promise<T>): Promise<T> {
    try {
      return await attempt()
    } catch (error) {
      this.#inARow = isRefusal(error) ? this.#inARow + 1 : 0
      throw error
    }
  }
}
