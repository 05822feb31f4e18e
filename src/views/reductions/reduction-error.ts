/** The error of a reduce function over rows of its view. Views with other map functions are not affected. */
import { RequestError } from '../../document/request-error.ts'

export class ReductionError extends RequestError {}

/** Resolves to what it is given; where that fails through a function, it is told from all other failures. */
export async function reduced<T>(reductions: Promise<T>): Promise<T> {
  try {
    return await reductions
  } catch (error) {
    if (!(error instanceof RequestError)) throw error
    throw new ReductionError(error.kind, error.error, error.reason, error.reasonValue)
  }
}
