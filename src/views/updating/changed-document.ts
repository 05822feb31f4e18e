/** A document that changed, as an index reads it. */

export interface ChangedDocument {
  /** UTF-8. */
  readonly id: Buffer
  /** As JSON text, with its quotes. */
  readonly quotedId: Buffer
  /** What is mapped; undefined where the document has no rows: it is deleted, or of a kind that is left out. */
  readonly text: Buffer | undefined
}

export interface ReadingOptions {
  readonly localSequence: boolean
  readonly includeDesign: boolean
}
