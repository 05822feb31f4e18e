/** The beginning of a request's head while the rest is still to come. Each byte is looked at once, however it arrives. */
import { checkBeginning } from './request-head.ts'

const HEAD_END = Buffer.from('\r\n\r\n')
const CARRIAGE_RETURN = 0x0d
const LINE_FEED = 0x0a
const FIRST_BYTES = 1024

export class PartialHead {
  #bytes: Buffer = Buffer.allocUnsafe(FIRST_BYTES)
  #length = 0

  get length(): number {
    return this.#length
  }

  /** Takes what of the piece belongs to the head, its end included. Tells how many bytes that are. */
  add(piece: Buffer): number {
    const before = this.#length
    this.#append(piece)
    const skipped = this.#skipEmptyLines()
    const checked = Math.max(0, before - skipped)
    // The end may have begun in what was here before.
    const end = this.#bytes.subarray(0, this.#length).indexOf(HEAD_END, Math.max(0, checked - HEAD_END.length + 1))
    if (end < 0) this.#checkFrom(checked)
    else this.#length = end + HEAD_END.length
    return this.#length + skipped - before
  }

  /** The text without the empty line that ends it; undefined while that has not come. */
  text(): string | undefined {
    const end = this.#length - HEAD_END.length
    if (end < 0 || !this.#bytes.subarray(end, this.#length).equals(HEAD_END)) return undefined
    return this.#bytes.toString('latin1', 0, end)
  }

  /** The first bytes of it as text. */
  beginning(lengthBytes: number): string {
    return this.#bytes.toString('latin1', 0, Math.min(lengthBytes, this.#length))
  }

  #append(piece: Buffer): void {
    const length = this.#length + piece.length
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, this.#bytes.length * 2))
      this.#bytes.copy(larger, 0, 0, this.#length)
      this.#bytes = larger
    }
    piece.copy(this.#bytes, this.#length)
    this.#length = length
  }

  /** They may stand before a head; some clients send one after a body. */
  #skipEmptyLines(): number {
    const skipped = afterEmptyLines(this.#bytes.subarray(0, this.#length))
    if (skipped === 0) return 0
    this.#bytes.copyWithin(0, skipped, this.#length)
    this.#length -= skipped
    return skipped
  }

  #checkFrom(offset: number): void {
    // The last byte that was checked may be the first half of a line end.
    const isInLineEnd = offset > 0 && this.#bytes[offset - 1] === CARRIAGE_RETURN
    checkBeginning(this.#bytes.toString('latin1', isInLineEnd ? offset - 1 : offset, this.#length))
  }
}

/** Where the first line begins that is not empty. */
export function afterEmptyLines(bytes: Buffer): number {
  let at = 0
  while (bytes[at] === CARRIAGE_RETURN && bytes[at + 1] === LINE_FEED) at += 2
  return at
}
