/** The tree of a file: its leaves, filled with rows in order, and the branches above them up to the root. */
import {
  LMDB_PAGE_BYTES,
  OVERFLOW_FLAG,
  OVERFLOW_PLACE_BYTES,
  PAGE_HEADER_BYTES,
  PAGE_KIND,
  PLACE_BYTES,
} from '../file-check/page-layout.ts'
import { PackedRowsWriter, packedKey } from '../rows/packed-rows.ts'
import type { PackedRows } from '../store.ts'
import { FIRST_TRANSACTION, FilledPage, LARGEST_NODE_BYTES, nodeBytes, writeOverflowHeader } from './lmdb-page.ts'
import type { PageOutput } from './page-output.ts'

export interface PageTree {
  /** Undefined where there is no page. */
  readonly root: number | undefined
  readonly depth: number
  readonly branches: number
}

const NUMBER_BYTES = 6

/** Notes a page of the level below: what sorts not before this key and before the next is in it. */
function addChild(children: PackedRowsWriter, separator: Uint8Array, page: number): void {
  children.reserve(separator.length + NUMBER_BYTES)
  const { block, end } = children
  block.set(separator, end)
  const valueAt = end + separator.length
  children.close(valueAt, block.writeUIntLE(page, valueAt, NUMBER_BYTES))
}

export async function writeTree(leaves: PackedRows, output: PageOutput): Promise<PageTree> {
  if (leaves.length === 0) return { root: undefined, depth: 0, branches: 0 }
  let level = leaves
  let depth = 1
  let branches = 0
  for (; level.length > 1; depth++) {
    level = await writeBranches(level, output)
    branches += level.length
  }
  return { root: pageOf(level, 0), depth, branches }
}

async function writeBranches(children: PackedRows, output: PageOutput): Promise<PackedRows> {
  const written = new PackedRowsWriter()
  const page = new FilledPage(PAGE_KIND.branch)
  const ends = branchEnds(children)
  let child = 0
  for (const end of ends) {
    const first = child
    for (; child < end; child++)
      addNode(page, pageOf(children, child), child === first ? NO_KEY : packedKey(children, child))
    const number = output.nextPage
    page.close(number)
    output.add(page.bytes)
    addChild(written, packedKey(children, first), number)
    await output.room()
  }
  return written
}

const NO_KEY = Buffer.alloc(0)

function addNode(page: FilledPage, child: number, key: Buffer): void {
  // The highest part of the number lies where leaves have their flags.
  const at = page.add(nodeBytes(key.length), child, Math.floor(child / 2 ** 32), key.length)
  page.bytes.set(key, at)
}

/** With which child each branch ends. */
function branchEnds(children: PackedRows): number[] {
  const ends: number[] = []
  let first = 0
  let room = 0
  for (let child = 0; child < children.length; child++) {
    // The first child of a branch needs no key.
    const keyBytes = child === first ? 0 : children.bounds[3 * child + 1]! - children.bounds[3 * child]!
    const bytes = nodeBytes(keyBytes) + PLACE_BYTES
    if (child > first && bytes > room) {
      ends.push(child)
      first = child
    }
    if (child === first) room = LMDB_PAGE_BYTES - PAGE_HEADER_BYTES - nodeBytes(0) - PLACE_BYTES
    else room -= bytes
  }
  // A branch has two children at least: the library relies on it.
  if (first > 0 && first === children.length - 1) ends[ends.length - 1]! -= 1
  ends.push(children.length)
  return ends
}

function pageOf({ block, bounds }: PackedRows, child: number): number {
  return block.readUIntLE(bounds[3 * child + 1]!, NUMBER_BYTES)
}

/**
 * Rows in the order of their keys, written into leaves one after the other. A strand holds the keys with one first byte:
 * the leaves of several strands may grow at the same time and are put in order at the end.
 */
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
