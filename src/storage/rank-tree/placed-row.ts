/** A row as a part of a block: buffers of it are made only for who asks. */
import type { ReducibleRow } from './summary.ts'
import type { Item } from './tree-item.ts'

export class PlacedRow implements Item, ReducibleRow {
  readonly block: Buffer
  readonly keyAt: number
  readonly valueAt: number
  readonly end: number
  readonly weight: number
  readonly next = undefined
  reach: number | undefined = undefined
  #key: Buffer | undefined

  constructor(block: Buffer, keyAt: number, valueAt: number, end: number, weight: number) {
    this.block = block
    this.keyAt = keyAt
    this.valueAt = valueAt
    this.end = end
    this.weight = weight
  }

  get key(): Buffer {
    this.#key ??= this.block.subarray(this.keyAt, this.valueAt)
    return this.#key
  }

  get value(): Buffer {
    return this.block.subarray(this.valueAt, this.end)
  }
}
