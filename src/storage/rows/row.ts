/** Rows of a store: one by one, or many in one block. */

export interface PackedRows {
  readonly length: number
  readonly block: Buffer
  /** Three offsets into the block for row i at 3i: its key begins, its value begins (the key ends), its value ends. */
  readonly bounds: Uint32Array
}

export type Put = readonly [key: Uint8Array, value: Uint8Array]
