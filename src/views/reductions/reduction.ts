/**
 * A reduce function over the rows of a view. Reductions are bytes in a form of its own, kept in the nodes of the rank tree. Only
 * the result of a query is JSON.
 */

import { RequestError } from '../../document/request-error.ts'
import type { StoredRow } from '../layout/index-layout.ts'

export interface Reduction {
  /** One reduction a group, none of which is empty. Rows and reductions of a group come in key order. */
  reduce(groups: readonly (readonly StoredRow[])[]): Promise<readonly Uint8Array[]>
  rereduce(groups: readonly (readonly Buffer[])[]): Promise<readonly Uint8Array[]>
  /** The JSON text of what was reduced. */
  result(reduction: Buffer): string
}

/** A built-in reduction, computed group by group. */
export interface NativeReduction {
  reduce(rows: readonly StoredRow[]): Uint8Array
  rereduce(reductions: readonly Buffer[]): Uint8Array
  result(reduction: Buffer): string
}

export function native(reduction: NativeReduction): Reduction {
  return {
    reduce: async (groups) => groups.map((rows) => reduction.reduce(rows)),
    rereduce: async (groups) => groups.map((reductions) => reduction.rereduce(reductions)),
    result: (reduced) => reduction.result(reduced),
  }
}

/** For reductions that are kept as the JSON text of their result. */
export function textOf(reduction: Buffer): string {
  return reduction.toString()
}

/** The error of a reduce function over rows of its view. Views with other map functions are not affected. */
export class ReductionError extends RequestError {}

/** Awaits the work, and marks errors of reduce functions. */
export async function reduced<T>(reductions: Promise<T>): Promise<T> {
  try {
    return await reductions
  } catch (error) {
    if (!(error instanceof RequestError)) throw error
    throw new ReductionError(error.kind, error.error, error.reason, error.reasonValue)
  }
}
