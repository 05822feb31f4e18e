/** What a reader sees of an index: one published state, constant while it is held, and information about its file. */
import type { Collation } from '../../encoding/collation/collation-key.ts'
import type { RangePart, RankTree } from '../../storage/rank-tree/rank-tree.ts'
import type { Snapshot } from '../../storage/store.ts'

export interface OpenIndex extends Disposable {
  readonly signature: string
  /** The sequences of the database that it has reached. */
  readonly updateSequence: number
  readonly purgeSequence: number
  /** Undefined where the design document has no such view. */
  view(name: string): OpenView | undefined
  /** From now on later reads may be from newer snapshots: for rows that a client reads slowly. */
  releaseEarly(): void
  release(): void
}

/** One view in that state. Its rows have the layout of `index-layout.ts`; an index that was never built has none. */
export interface OpenView {
  /** Which rows of the store are its own: views with the same map function share them. */
  readonly number: number
  readonly collation: Collation
  /** Undefined for a view without a reduce function. */
  readonly reduce: ViewReduction | undefined
  /** The sequence at which the last run arrived that changed its rows. */
  readonly lastChange: number
  /** The purge sequence of the last purge that took rows of it; 0 when there was none. */
  readonly lastPurge: number
  readonly snapshot: Snapshot
  /** Counts of its rows; reductions too where it has any. */
  readonly ranks: RankTree
}

/** The reduce function of a view, for queries. */
export interface ViewReduction {
  /**
   * The JSON text of what all parts of a range reduce to; one text a range, none of which is empty. All ranges go in
   * one call.
   */
  combine(ranges: readonly (readonly RangePart[])[]): Promise<string[]>
  /** Whether all rows of a range have exact sort keys: equal sort keys are then equal keys. */
  isExact(range: readonly RangePart[]): boolean
}

/**
 * `updated` waits until the index has reached the current state of the database; `stale` takes the index as it is;
 * `update after` too, and then updates it in the background.
 */
export type Freshness = 'updated' | 'stale' | 'update after'

/** A client that waits for an index. Its signal is only created if there is something to wait for. */
export interface Client {
  readonly signal: AbortSignal
}

/** Of the file that holds an index. */
export interface IndexSizes {
  readonly fileBytes: number
  readonly dataBytes: number
}

export interface IndexInformation extends IndexSizes {
  readonly signature: string
  readonly language: string
  readonly updateSequence: number
  readonly purgeSequence: number
  readonly isUpdating: boolean
  readonly isCompacting: boolean
  /** The sizes right after the last compaction, if there was one since the server was started. */
  readonly compactedTo: IndexSizes | undefined
  readonly waitingClients: number
}
