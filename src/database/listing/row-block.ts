/** Some rows of an answer, in order, in the form in which they are sent. */

/** Bytes that were put together for the answer, or JSON texts of the rows. */
export type RowBlock = RowBytes | readonly PieceableText[]

/** A row in pieces is to be read before the next block is asked for. */
export type RowBlocks = AsyncGenerator<RowBlock>

/** A JSON text, whole or in pieces that are made while they are sent. */
export type PieceableText = string | AsyncIterable<string | Buffer>

/** Rows that lie in memory as the bytes of the answer. */
export interface RowBytes {
  readonly length: number
  /** The JSON text of each row. */
  texts(): string[]
  /**
   * All rows with a comma and a line break between them, and one in front where others went before. The rows cannot be
   * read any more afterwards: they may have been joined where they lie.
   */
  takeJoined(options: { readonly afterOthers: boolean }): Buffer
}
