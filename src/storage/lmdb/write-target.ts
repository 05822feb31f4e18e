/** What a commit is written to, row by row. Keys and values are in their stored form. */
export interface WriteTarget {
  put(storedKey: Uint8Array, storedValue: Uint8Array): void
  /** A row whose stored key and value lie side by side in a block. No buffer is made for it. */
  putPart(block: Buffer, keyAt: number, valueAt: number, end: number): void
  remove(storedKey: Uint8Array): void
}
