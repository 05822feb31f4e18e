/** What is known of an index, and how fresh a reader wants it. */

/**
 * `updated` waits until the index has reached the database as it is now; `stale` takes the index as it is; `update after`
 * too, and brings it up to date in the background.
 */
export type Freshness = 'updated' | 'stale' | 'update after'

/** Who waits for an index. It is asked for its signal only when there is something to wait for. */
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
