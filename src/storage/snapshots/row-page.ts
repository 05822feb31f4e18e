/**
 * Pages of rows: one block that holds the rows and their offsets. Also pages whose long keys are put in order: the store
 * sorts such keys by a digest.
 */

import assert from 'node:assert/strict'
import { copyShort } from '../../encoding/bytes/short-bytes.ts'
import { isCut, ORDERED_KEY_BYTES, rangeAfter, type StoredRange, wholeKey, wholeValue } from '../rows/stored-key.ts'
import {
  type KeyRange,
  PAGE_BYTES,
  PAGE_ROWS,
  type PackedRows,
  type Page,
  type PageLimits,
  type Snapshot,
} from '../store.ts'

/**
 * Collects the rows of a page. An engine adds stored rows until the page is full. Long keys are made whole on the way, and
 * rows that only the widened range of a long bound let in are left out.
 */
export class PageBuilder {
  readonly #range: KeyRange
  readonly #contains: StoredRange['contains']
  readonly #rows: number
  readonly #bytes: number
  readonly #keysOnly: boolean
  #block = scratchBlock
  #bounds = scratchBounds
  #length = 0
  #end = 0
  #full = false
  #passedOver = 0

  constructor(range: KeyRange, stored: StoredRange, limits: PageLimits) {
    this.#range = range
    this.#contains = stored.contains
    this.#rows = Math.max(1, limits.rows ?? PAGE_ROWS)
    this.#bytes = limits.bytes ?? PAGE_BYTES
    this.#keysOnly = limits.keysOnly ?? false
    scratchUser = this
  }

  /** True when the last row filled the page: the engine must not offer another one. */
  get full(): boolean {
    return this.#full
  }

  /** Offers the row whose key lies in `keySource` and whose value is the first `valueSize` bytes of `valueSource`. */
  add(keySource: Uint8Array, keyStart: number, keyEnd: number, valueSource: Uint8Array, valueSize: number): void {
    const keySize = keyEnd - keyStart
    if (isCut(keySize)) {
      this.#addCut(Buffer.from(valueSource.buffer, valueSource.byteOffset, valueSize))
      return
    }
    if (this.#contains && !this.#contains(keySource.subarray(keyStart, keyEnd))) {
      this.#passOver()
      return
    }
    const kept = this.#keysOnly ? 0 : valueSize
    const at = this.#reserve(keySize + kept)
    copyShort(keySource, this.#block, at, keyStart, keyStart + keySize)
    copyShort(valueSource, this.#block, at + keySize, 0, kept)
    this.#close(at, keySize, kept)
  }

  #addCut(stored: Buffer): void {
    const key = wholeKey(stored)
    if (this.#contains && !this.#contains(key)) {
      this.#passOver()
      return
    }
    const value = this.#keysOnly ? stored.subarray(0, 0) : wholeValue(stored)
    const at = this.#reserve(key.length + value.length)
    this.#block.set(key, at)
    this.#block.set(value, at + key.length)
    this.#close(at, key.length, value.length)
  }

  /** The page; `resume` is the stored key that the next one begins after, undefined when the range is exhausted. */
  build(resume: Uint8Array | undefined): Page {
    const next = resume === undefined ? undefined : { ...this.#range, resume }
    return new BlockPage(this.#length, this.#takeBlock(), this.#takeBounds(), next)
  }

  #takeBlock(): Buffer {
    if (this.#block !== scratchBlock) return this.#block
    assert(scratchUser === this, 'Pages are built one after the other.')
    const block = Buffer.allocUnsafe(this.#end)
    scratchBlock.copy(block, 0, 0, this.#end)
    return block
  }

  #takeBounds(): Uint32Array {
    return this.#bounds === scratchBounds ? boundsPool.take(scratchBounds, 3 * this.#length) : this.#bounds
  }

  /** Rows that are looked at in vain count too, so that a page never takes long; it may then be short, or empty. */
  #passOver(): void {
    if (++this.#passedOver === 4 * PAGE_ROWS) this.#full = true
  }

  #reserve(size: number): number {
    const needed = this.#end + size
    if (needed > this.#block.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, Math.min(this.#block.length * 4, this.#bytes + size)))
      this.#block.copy(larger, 0, 0, this.#end)
      this.#block = larger
    }
    if (3 * this.#length === this.#bounds.length) {
      const larger = new Uint32Array(this.#bounds.length * 2)
      larger.set(this.#bounds)
      this.#bounds = larger
    }
    return this.#end
  }

  #close(at: number, keySize: number, valueSize: number): void {
    const bound = 3 * this.#length
    this.#bounds[bound] = at
    this.#bounds[bound + 1] = at + keySize
    this.#bounds[bound + 2] = at + keySize + valueSize
    this.#end = at + keySize + valueSize
    this.#length++
    this.#full = this.#length === this.#rows || this.#end >= this.#bytes
  }
}

/**
 * Where every page begins. Most end there too and are copied out, to the bytes that they take: memory of its own for each
 * page would cost more than what is in it. What needs more gets a block that grows.
 */
const scratchBlock = Buffer.allocUnsafeSlow(PAGE_BYTES + 32 * 1024)
const scratchBounds = new Uint32Array(3 * 1024)
let scratchUser: PageBuilder | undefined

/** Cuts the bounds of small pages out of larger arrays, as buffers are cut out of theirs. */
class BoundsPool {
  static readonly #LENGTH = 4096
  #array = new Uint32Array(BoundsPool.#LENGTH)
  #end = 0

  /** A copy of the first ones. */
  take(source: Uint32Array, length: number): Uint32Array {
    if (this.#end + length > this.#array.length) {
      this.#array = new Uint32Array(BoundsPool.#LENGTH)
      this.#end = 0
    }
    const copy = this.#array.subarray(this.#end, this.#end + length)
    for (let i = 0; i < length; i++) copy[i] = source[i]!
    this.#end += length
    return copy
  }
}

const boundsPool = new BoundsPool()

/** Rows one after the other in a block, each with its key in front of its value. */
class BlockPage implements Page {
  readonly length: number
  readonly block: Buffer
  readonly bounds: Uint32Array
  readonly next: KeyRange | undefined

  constructor(length: number, block: Buffer, bounds: Uint32Array, next: KeyRange | undefined) {
    this.length = length
    this.block = block
    this.bounds = bounds
    this.next = next
  }

  key(row: number): Buffer {
    return this.block.subarray(this.bounds[3 * row], this.bounds[3 * row + 1])
  }

  value(row: number): Buffer {
    return this.block.subarray(this.bounds[3 * row + 1], this.bounds[3 * row + 2])
  }
}

/** A page of rows that lie in a block already. */
export function pageOf({ length, block, bounds }: PackedRows, next: KeyRange | undefined): Page {
  return new BlockPage(length, block, bounds, next)
}

/**
 * Like `Snapshot.page`, in the order of whole keys. Rows that the engine keeps in the order of digests are read together and
 * given out as one page, so a page may have more rows than the limits say.
 */
export async function orderedPage(snapshot: Snapshot, range: KeyRange, limits: PageLimits = {}): Promise<Page> {
  const page = await snapshot.page(range, limits)
  const ordered = leadingRows(page, isOrdered)
  if (ordered === page.length) return page
  if (ordered === 0) return readTogether(snapshot, range, page, limits)
  // The receiver of the page may write into its block.
  const last = Buffer.from(page.key(ordered - 1))
  return new BlockPage(ordered, page.block, page.bounds, rangeAfter(range, last))
}

/** The range of keys whose order relative to a long key is unspecified. */
export function keysAlike(longKey: Buffer): { readonly from: Buffer; readonly to: Buffer } {
  const from = longKey.subarray(0, ORDERED_KEY_BYTES)
  return { from, to: afterAllThatBeginWith(from) }
}

/** More than this is put in order by parts. */
const TOGETHER_BYTES = 16 * 1024 * 1024

/** `first` begins with a row of a long key: all that are like it, and no others. */
async function readTogether(snapshot: Snapshot, range: KeyRange, first: Page, limits: PageLimits): Promise<Page> {
  const key = first.key(0)
  const rows: LongRow[] = []
  let last = key
  let bytes = 0
  for (let page = first; ; page = await snapshot.page(page.next, limits)) {
    const alike = leadingRows(page, (candidate, row) => isAlike(candidate, row, key))
    for (let row = 0; row < alike; row++) rows.push({ key: page.key(row), value: page.value(row) })
    if (alike > 0) last = page.key(alike - 1)
    bytes += page.block.length
    if (alike < page.length) return inOrder(rows, range, rangeAfter(range, last))
    if (!page.next || bytes >= TOGETHER_BYTES) return inOrder(rows, range, page.next)
  }
}

interface LongRow {
  readonly key: Buffer
  readonly value: Buffer
}

function inOrder(rows: LongRow[], { reverse = false }: KeyRange, next: KeyRange | undefined): Page {
  rows.sort((a, b) => (reverse ? b.key.compare(a.key) : a.key.compare(b.key)))
  const bounds = new Uint32Array(3 * rows.length)
  let end = 0
  for (const [i, { key, value }] of rows.entries()) {
    bounds[3 * i] = end
    bounds[3 * i + 1] = end + key.length
    end += key.length + value.length
    bounds[3 * i + 2] = end
  }
  const block = Buffer.concat(rows.flatMap(({ key, value }) => [key, value]))
  return new BlockPage(rows.length, block, bounds, next)
}

/** How many rows at the beginning of a page are as asked for. */
function leadingRows(page: Page, isSuch: (page: Page, row: number) => boolean): number {
  let row = 0
  while (row < page.length && isSuch(page, row)) row++
  return row
}

/** Asked of every row that is read: no slice is made for it. */
function isOrdered({ bounds }: Page, row: number): boolean {
  return bounds[3 * row + 1]! - bounds[3 * row]! <= ORDERED_KEY_BYTES
}

function isAlike(page: Page, row: number, longKey: Buffer): boolean {
  if (isOrdered(page, row)) return false
  return page.key(row).compare(longKey, 0, ORDERED_KEY_BYTES, 0, ORDERED_KEY_BYTES) === 0
}

function afterAllThatBeginWith(prefix: Buffer): Buffer {
  const last = prefix.findLastIndex((byte) => byte < 0xff)
  const after = Buffer.from(prefix.subarray(0, last + 1))
  after[last] = after[last]! + 1
  return after
}
