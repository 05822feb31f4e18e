/**
 * Where a tree lies in its store and which keys are its boundaries. Rows are under one prefix; nodes are under another,
 * followed by a byte for the level and the boundary's key. A key is a boundary of level L when L times `bits` leading
 * bits of its salted hash are zero, so the shape follows from the keys alone, whatever the order they came in.
 */
import assert from 'node:assert/strict'
import { CUT_KEY_BYTES } from '../rows/long-key.ts'
import type { KeyRange } from '../store.ts'
import { PlacedRow } from './placed-row.ts'
import { SaltedHash } from './salted-hash.ts'
import type { Item } from './tree-item.ts'

/** Bits of the hash that make boundaries: one key in 16 million reaches the last level. */
const BOUNDARY_BITS = 24

/**
 * What a store keeps of a long key in any case. Longer boundaries would not be in the order of the rows: the store
 * sorts keys that agree this far by a digest, which differs between a row and its node.
 */
const EXACT_BYTES = CUT_KEY_BYTES - 32

export interface LayoutOptions {
  readonly rowPrefix: Uint8Array
  readonly nodePrefix: Uint8Array
  readonly salt: Uint8Array
  /** A power of two: one key in so many is a boundary of level 1, one of those in so many one of level 2. */
  readonly fanOut: number
}

export class TreeLayout {
  readonly fanOut: number
  /** The highest level a tree can have. No key is a boundary of it: it is the sentinel, for the whole tree. */
  readonly levels: number
  readonly #rowPrefix: Uint8Array
  readonly #nodePrefix: Uint8Array
  readonly #hash: SaltedHash
  readonly #bits: number
  readonly #boundaryBytes: number

  constructor({ rowPrefix, nodePrefix, salt, fanOut }: LayoutOptions) {
    assert(rowPrefix.length > 0 && nodePrefix.length > 0, 'A tree needs a prefix for rows and one for nodes.')
    assert(!startsWith(rowPrefix, nodePrefix) && !startsWith(nodePrefix, rowPrefix), 'Rows and nodes lie apart.')
    this.#bits = Math.log2(fanOut)
    assert(Number.isInteger(this.#bits) && this.#bits >= 1, 'The fan-out is a power of two.')
    this.fanOut = fanOut
    this.levels = Math.floor(BOUNDARY_BITS / this.#bits) + 1
    this.#rowPrefix = rowPrefix
    this.#nodePrefix = nodePrefix
    this.#hash = new SaltedHash(salt)
    this.#boundaryBytes = EXACT_BYTES - Math.max(rowPrefix.length, nodePrefix.length + 1)
    assert(this.#boundaryBytes > 0, 'The prefixes leave no room for keys.')
  }

  /** The part of a row's key that can be a boundary: the key itself, unless it is very long. */
  boundaryOf(key: Buffer): Buffer {
    return key.length <= this.#boundaryBytes ? key : key.subarray(0, this.#boundaryBytes)
  }

  /** Whether the store may order the key of the item by a digest among those that share its boundary. */
  isLong(item: Item): boolean {
    const size = item instanceof PlacedRow ? item.valueAt - item.keyAt : item.key.length
    return size > this.#boundaryBytes
  }

  /** Items as the store gave them, in the order of their keys: that differs among very long ones only. */
  inOrder(items: Item[]): Item[] {
    if (!items.some((item) => this.isLong(item))) return items
    return items.sort((a, b) => Buffer.compare(a.key, b.key))
  }

  /** The highest level that a boundary belongs to, 0 for most; it belongs to all below as well. */
  levelOf(boundary: Buffer): number {
    if (boundary.length === 0) return this.levels
    return this.#levelOfHash(this.#hash.of(boundary))
  }

  /** The same for an item; it is reckoned once. */
  reachOf(item: Item): number {
    item.reach ??=
      item instanceof PlacedRow && item.keyAt < item.valueAt
        ? this.levelWithin(item.block, item.keyAt, item.valueAt)
        : this.levelOf(this.boundaryOf(item.key))
    return item.reach
  }

  /** The same for the boundary of a row whose key, which is not empty, is a part of a block. */
  levelWithin(block: Buffer, keyAt: number, keyEnd: number): number {
    return this.#levelOfHash(this.#hash.of(block, keyAt, Math.min(keyEnd, keyAt + this.#boundaryBytes)))
  }

  #levelOfHash(hash: number): number {
    return Math.min(this.levels - 1, Math.floor(Math.clz32(hash) / this.#bits))
  }

  /** The store's key of an item: of a row for level 0, of a node above. */
  storeKey(level: number, key: Uint8Array): Buffer {
    const prefix = level === 0 ? this.#rowPrefix : this.#nodePrefix
    const start = this.keyOffset(level)
    const bytes = Buffer.allocUnsafe(start + key.length)
    bytes.set(prefix)
    if (level > 0) bytes[prefix.length] = level
    bytes.set(key, start)
    return bytes
  }

  /** Where an item's own key begins in the store's key. */
  keyOffset(level: number): number {
    return level === 0 ? this.#rowPrefix.length : this.#nodePrefix.length + 1
  }

  /** The items of a level from one key to another; an absent bound is the end of the level. */
  range(level: number, from: Uint8Array = NO_KEY, to?: Uint8Array): KeyRange {
    const end = to ? this.storeKey(level, to) : successor(this.storeKey(level, NO_KEY))
    return { from: this.storeKey(level, from), to: end }
  }

  nodeRange(): KeyRange {
    return { from: this.#nodePrefix, to: successor(this.#nodePrefix) }
  }
}

const NO_KEY = Buffer.alloc(0)

function startsWith(bytes: Uint8Array, prefix: Uint8Array): boolean {
  return bytes.length >= prefix.length && Buffer.compare(bytes.subarray(0, prefix.length), prefix) === 0
}

/** The first key above all that begin with the prefix; undefined when there is none. */
function successor(prefix: Uint8Array): Buffer | undefined {
  let size = prefix.length
  while (size > 0 && prefix[size - 1] === 0xff) size--
  if (size === 0) return undefined
  const bytes = Buffer.from(prefix.subarray(0, size))
  bytes[size - 1]!++
  return bytes
}
