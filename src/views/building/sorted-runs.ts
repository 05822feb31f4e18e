/**
 * Where a first build keeps its sorted runs. Each run tells which sequences of the database it covers, so that after a crash
 * these need not be mapped again.
 */
import type { PackedRows } from '../../storage/store.ts'
import type { GatheredRows } from './gathered-rows.ts'

/** Rows in the order of their keys, of documents whose last change lies after `since` and not after `through`. */
export interface SortedRun {
  readonly since: number
  readonly through: number
  /** Rows of the store, with their whole keys. May be read once. */
  portions(): AsyncIterable<PackedRows> | Iterable<PackedRows>
}

export interface SortedRuns {
  /**
   * The runs that were kept for an index as told by the mark, one beginning where the other ends, from 0 on. All others
   * are removed.
   */
  resume(mark: string): Promise<SortedRun[]>
  /** Keeps a run; it is there after a crash when the promise resolves. The rows must not be used any more. */
  keep(mark: string, since: number, through: number, rows: GatheredRows): Promise<SortedRun>
  /** Removes all. */
  clear(): Promise<void>
}

/** Runs that are only in memory, where everything else is too. */
export const memoryRuns: SortedRuns = {
  resume: async () => [],
  keep: async (_, since, through, rows) => ({ since, through, portions: () => rows.sorted() }),
  clear: async () => {},
}
