/**
 * The texts of the documents that were found among some rows, in one block as they are sent: each follows a separator.
 * A buffer for each would cost more than copying it.
 */
import { copyBytes } from '../../encoding/bytes/short-bytes.ts'

/** Stands before each text. */
export const SEPARATOR: Buffer = Buffer.from(',\r\n')

const FIRST_BYTES = 12 * 1024
const NOTHING = Buffer.alloc(0)

export class FoundTexts {
  #block: Buffer = NOTHING
  #end = 0
  /** Of each row, where its text ends; that of a row without one is where the text before it ends. */
  readonly #ends: number[] = []

  /** The number of examined rows. */
  get rows(): number {
    return this.#ends.length
  }

  get bytes(): number {
    return this.#end
  }

  isFound(row: number): boolean {
    return this.#ends[row]! > this.#startOf(row)
  }

  /** The texts of the rows from the first to the last one given, each with its separator. */
  between(first: number, last: number): Buffer {
    return this.#block.subarray(this.#startOf(first), this.#ends[last])
  }

  /** The next row has no text. */
  pass(): void {
    this.#ends.push(this.#end)
  }

  /** The next row has this text. */
  add(text: Buffer): void {
    const at = this.begin(text.length)
    this.finish(copyBytes(this.#block, at, text, 0, text.length))
  }

  /** Reserves space for the text of the next row, and returns its offset in the block. */
  begin(mostBytes: number): number {
    this.#reserve(SEPARATOR.length + mostBytes)
    return copyBytes(this.#block, this.#end, SEPARATOR, 0, SEPARATOR.length)
  }

  /** Where a text is written; another one after each `begin`. */
  get block(): Buffer {
    return this.#block
  }

  /** The text that was begun ends here. */
  finish(end: number): void {
    this.#end = end
    this.#ends.push(end)
  }

  #startOf(row: number): number {
    return row === 0 ? 0 : this.#ends[row - 1]!
  }

  #reserve(bytes: number): void {
    const needed = this.#end + bytes
    if (needed <= this.#block.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#block.length, FIRST_BYTES))
    this.#block.copy(larger, 0, 0, this.#end)
    this.#block = larger
  }
}
