/**
 * The sorted runs of a first build. Each run records the sequences of the database that it covers, so that these need
 * not be mapped again after a crash.
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
  /** The stored runs of an index with this mark, contiguous from sequence 0 on. All others are removed. */
  resume(mark: string): Promise<SortedRun[]>
  /** Stores a run; it is durable when the promise resolves. The rows must not be used any more. */
  keep(mark: string, since: number, through: number, rows: GatheredRows): Promise<SortedRun>
  /** Removes all. */
  clear(): Promise<void>
}

/** Runs in memory, for a server whose data is in memory. */
export const memoryRuns: SortedRuns = {
  resume: async () => [],
  keep: async (_, since, through, rows) => ({ since, through, portions: () => rows.sorted() }),
  clear: async () => {},
}
