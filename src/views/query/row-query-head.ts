/** What stands before the rows of an answer. */

/** Members of the answer by their names in it; reduced rows have neither a total nor an offset. */
export interface RowQueryHead {
  /** Null where nobody counts. */
  readonly total_rows?: number | null
  readonly offset?: number | null
  readonly update_seq?: number
}
