/**
 * Rows in the order of their keys, written into leaves one after the other. A strand is a part of the file's keys, those
 * with the same first byte: the leaves of several strands may grow at the same time and are put in order in the end.
 */
import {
  LMDB_PAGE_BYTES,
  OVERFLOW_FLAG,
  OVERFLOW_PLACE_BYTES,
  PAGE_HEADER_BYTES,
  PAGE_KIND,
} from '../file-check/page-layout.ts'
import { PackedRowsWriter } from '../rows/packed-rows.ts'
import { FIRST_TRANSACTION, FilledPage, LARGEST_NODE_BYTES, nodeBytes, writeOverflowHeader } from './lmdb-page.ts'
import type { PageOutput } from './page-output.ts'
import { addChild } from './page-tree.ts'

const NO_KEY = Buffer.alloc(0)

export class Strand {
  /** The leaves that are written: the key of each sorts above all before it, and not above the first of its own. */
  readonly leaves = new PackedRowsWriter()
  rows = 0
  overflowPages = 0
  readonly #output: PageOutput
  readonly #page = new FilledPage(PAGE_KIND.leaf)
  #separator: Buffer
  #lastBlock: Buffer = NO_KEY
  #lastAt = 0
  #lastEnd = 0

  constructor(firstByte: number, output: PageOutput) {
    this.#output = output
    this.#separator = Buffer.of(firstByte)
  }

  /** Adds a row whose key and value lie side by side in a block; false where the key is not above all before it. */
  add(block: Buffer, keyAt: number, valueAt: number, end: number): boolean {
    const shared = this.#sharedWithLast(block, keyAt, valueAt)
    if (shared === undefined) return false
    const size = nodeBytes(end - keyAt)
    if (size > LARGEST_NODE_BYTES) this.#addLarge(block, keyAt, valueAt, end, shared)
    else {
      if (!this.#page.hasRoomFor(size)) this.#closeLeaf(block, keyAt, shared)
      const at = this.#page.add(size, end - valueAt, 0, valueAt - keyAt)
      block.copy(this.#page.bytes, at, keyAt, end)
    }
    this.rows++
    this.#lastBlock = block
    this.#lastAt = keyAt
    this.#lastEnd = valueAt
    return true
  }

  /** Writes what is left. Nothing may be added any more. */
  end(): void {
    if (this.#page.nodes > 0) this.#writeLeaf()
  }

  /** How many bytes a key has in common with the last one; undefined where it is not above it. */
  #sharedWithLast(block: Buffer, keyAt: number, keyEnd: number): number | undefined {
    const last = this.#lastBlock
    const lastAt = this.#lastAt
    const lastSize = this.#lastEnd - lastAt
    const size = keyEnd - keyAt
    const most = Math.min(size, lastSize)
    let shared = 0
    while (shared < most && block[keyAt + shared] === last[lastAt + shared]) shared++
    const isAbove = shared === most ? size > lastSize : block[keyAt + shared]! > last[lastAt + shared]!
    return isAbove ? shared : undefined
  }

  #addLarge(block: Buffer, keyAt: number, valueAt: number, end: number, shared: number): void {
    const keyBytes = valueAt - keyAt
    const size = nodeBytes(keyBytes + OVERFLOW_PLACE_BYTES)
    if (!this.#page.hasRoomFor(size)) this.#closeLeaf(block, keyAt, shared)
    const pages = Math.ceil((PAGE_HEADER_BYTES + end - valueAt) / LMDB_PAGE_BYTES)
    const first = this.#output.nextPage
    const value = Buffer.alloc(pages * LMDB_PAGE_BYTES)
    writeOverflowHeader(value, first, pages)
    block.copy(value, PAGE_HEADER_BYTES, valueAt, end)
    this.#output.add(value)
    this.overflowPages += pages
    const at = this.#page.add(size, end - valueAt, OVERFLOW_FLAG, keyBytes)
    const { bytes } = this.#page
    const placeAt = at + block.copy(bytes, at, keyAt, valueAt)
    bytes.writeBigUInt64LE(BigInt(first), placeAt)
    bytes.writeBigUInt64LE(BigInt(FIRST_TRANSACTION), placeAt + 8)
    bytes.writeBigUInt64LE(BigInt(pages), placeAt + 16)
  }

  /** Writes the leaf; the next one begins with a key of which so much is the same. */
  #closeLeaf(block: Buffer, keyAt: number, shared: number): void {
    this.#writeLeaf()
    // As short as it can be: the pages above the leaves hold more of them then.
    this.#separator = Buffer.from(block.subarray(keyAt, keyAt + shared + 1))
  }

  #writeLeaf(): void {
    const number = this.#output.nextPage
    this.#page.close(number)
    this.#output.add(this.#page.bytes)
    addChild(this.leaves, this.#separator, number)
  }
}
