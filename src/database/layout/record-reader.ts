/** Reads the rows of documents (`d`) for listings: one after the other in a block, without an object for any of them. */
import { formatRevision, type RevisionId } from '../../document/ids.ts'
import { writeDecimal } from '../../encoding/bytes/short-bytes.ts'
import { quoteText } from '../../encoding/json/json-text-splice.ts'
import { DELETED, HEX_HASH, HEX_HASH_BYTES, TREE_APART, TREE_INSIDE } from './document-record.ts'

/** Reads what a listing needs from the records of a block, one after the other, without an object for each. */
export class RecordReader {
  deleted = false
  /** The number of the winner's body, and its size. */
  body = 0
  bodyBytes = 0
  /** Whether there is more than one revision. */
  hasHistory = false
  #block: Buffer = NOTHING
  #at = 0
  #generation = 0
  #hashEnd = 0
  #isHex = false

  /** Reads the record at this offset of the block. */
  read(block: Buffer, start: number): void {
    const flags = block[start]!
    this.#block = block
    this.#at = start + 1
    this.#passOverNumber()
    this.deleted = (flags & DELETED) !== 0
    this.hasHistory = (flags & (TREE_INSIDE | TREE_APART)) !== 0
    this.body = this.#number()
    this.bodyBytes = this.#number()
    this.#generation = this.#number()
    this.#isHex = (flags & HEX_HASH) !== 0
    const hashBytes = this.#isHex ? HEX_HASH_BYTES : this.#number()
    this.#hashEnd = this.#at + hashBytes
  }

  get winner(): RevisionId {
    const hash = this.#block.toString(this.#isHex ? 'hex' : 'utf8', this.#at, this.#hashEnd)
    return formatRevision(this.#generation, hash)
  }

  /** The most bytes that `writeRevision` may write. */
  get mostRevisionBytes(): number {
    return GENERATION_BYTES + MOST_ESCAPED_BYTES * (this.#hashEnd - this.#at)
  }

  /** Writes the winner as JSON text, with its quotes, and returns where it ends. */
  writeRevision(target: Buffer, position: number): number {
    if (!this.#isHex) return position + target.write(quoteText(this.winner), position)
    let at = position
    target[at++] = QUOTE
    at = writeDecimal(target, at, this.#generation)
    target[at++] = DASH
    const block = this.#block
    for (let hash = this.#at; hash < this.#hashEnd; hash++) {
      const byte = block[hash]!
      target[at++] = HEX_DIGITS[byte >> 4]!
      target[at++] = HEX_DIGITS[byte & 0xf]!
    }
    target[at++] = QUOTE
    return at
  }

  #number(): number {
    let value = 0
    for (let unit = 1; ; unit *= 0x80) {
      const byte = this.#block[this.#at++]!
      if (byte < 0x80) return value + byte * unit
      value += (byte - 0x80) * unit
    }
  }

  #passOverNumber(): void {
    while (this.#block[this.#at++]! >= 0x80) {}
  }
}

const NOTHING = Buffer.alloc(0)
const QUOTE = 0x22
const DASH = 0x2d
const HEX_DIGITS = Buffer.from('0123456789abcdef')

/** Quotes, fifteen digits and a dash, and some more. */
const GENERATION_BYTES = 20
/** The longest escape of one byte in JSON. */
const MOST_ESCAPED_BYTES = 6
