/**
 * How LMDB lays out a page, and how one is filled: nodes from its end downwards, their offsets from its beginning upwards.
 * Numbers have 64 bits, the lowest byte first. `sorted-file.ts` checks that the file is of this form.
 */

import {
  FLAGS_AT,
  KEY_SIZE_AT,
  KIND_AT,
  LMDB_PAGE_BYTES,
  NODE_HEADER_BYTES,
  NODES_START_AT,
  OVERFLOW_PAGES_AT,
  PAGE_HEADER_BYTES,
  PAGE_KIND,
  PLACE_BYTES,
  PLACES_END_AT,
} from '../file-check/page-layout.ts'

const TRANSACTION_AT = 8

/** Two nodes at least fit into every page; a value that makes its node larger goes to pages of its own. */
export const LARGEST_NODE_BYTES = (((LMDB_PAGE_BYTES - PAGE_HEADER_BYTES) >> 1) & ~1) - PLACE_BYTES

/** What the pages of a new file say that they were written by. */
export const FIRST_TRANSACTION = 1

/** What a node takes of a page that has this many bytes behind the node's header. */
export function nodeBytes(contentBytes: number): number {
  return NODE_HEADER_BYTES + contentBytes + (contentBytes & 1)
}

function writePageHeader(page: Buffer, number: number, kind: number): void {
  page.writeUIntLE(number, 0, 6)
  page.writeUInt16LE(0, 6)
  page.writeUIntLE(FIRST_TRANSACTION, TRANSACTION_AT, 6)
  page.writeUInt32LE(0, TRANSACTION_AT + 6)
  page.writeUInt16LE(kind, KIND_AT)
}

/** Of the first of some pages that hold one value. */
export function writeOverflowHeader(page: Buffer, number: number, pages: number): void {
  writePageHeader(page, number, PAGE_KIND.overflow)
  page.writeUInt32LE(pages, OVERFLOW_PAGES_AT)
}

/** A branch or a leaf that is being filled, again and again. */
export class FilledPage {
  readonly bytes = Buffer.alloc(LMDB_PAGE_BYTES)
  readonly #kind: number
  #nodes = 0
  #start = LMDB_PAGE_BYTES

  constructor(kind: number) {
    this.#kind = kind
  }

  get nodes(): number {
    return this.#nodes
  }

  hasRoomFor(bytes: number): boolean {
    return PAGE_HEADER_BYTES + (this.#nodes + 1) * PLACE_BYTES + bytes <= this.#start
  }

  /** Adds a node of so many bytes and answers where what is behind its header goes. There must be room. */
  add(bytes: number, sizeOrPage: number, flags: number, keyBytes: number): number {
    const page = this.bytes
    this.#start -= bytes
    const at = this.#start
    // Offsets are relative to the end of the header.
    writeShort(page, PAGE_HEADER_BYTES + PLACE_BYTES * this.#nodes++, at - PAGE_HEADER_BYTES)
    writeShort(page, at, sizeOrPage & 0xffff)
    writeShort(page, at + 2, (sizeOrPage / 2 ** 16) & 0xffff)
    writeShort(page, at + FLAGS_AT, flags)
    writeShort(page, at + KEY_SIZE_AT, keyBytes)
    return at + NODE_HEADER_BYTES
  }

  /** Ends the page. What it is filled with next belongs to another one. */
  close(number: number): void {
    writePageHeader(this.bytes, number, this.#kind)
    this.bytes.writeUInt16LE(this.#nodes * PLACE_BYTES, PLACES_END_AT)
    this.bytes.writeUInt16LE(this.#start - PAGE_HEADER_BYTES, NODES_START_AT)
    this.#nodes = 0
    this.#start = LMDB_PAGE_BYTES
  }
}

/** By hand: it is done for every row, several times. */
function writeShort(page: Buffer, at: number, value: number): void {
  page[at] = value
  page[at + 1] = value >> 8
}
