/**
 * An answer made of rows, ready to be read: of a view, or of the list of all documents. It is of one state, and holds
 * that state until it is released.
 */
export interface RowQuery extends Disposable {
  /** An `ETag`, quotes included: the same for as long as the answer is. Known before any row is read. */
  readonly tag: string
  /** What the answer says beside its rows. */
  head(): Promise<RowQueryHead>
  /** The JSON texts of the rows, a block at a time; asked for once, after the head. */
  rows(): AsyncGenerator<string[]>
  /** The whole reply where it is small and its rows are at hand already, else undefined; before anything else. */
  whole(): Promise<Buffer | undefined>
  /** The whole reply in pieces of about 64 KiB, head and all; in place of `head` and `rows`. */
  chunks(): AsyncGenerator<string | Buffer>
  /** Lets go of the state. May be called twice. */
  release(): void
}

/** Members of the answer by their names in it; reduced rows have neither a total nor an offset. */
export interface RowQueryHead {
  readonly total_rows?: number
  readonly offset?: number
  readonly update_seq?: number
}
