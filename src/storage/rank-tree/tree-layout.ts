/**
 * What a rank tree consists of, and where it lies in its store. Rows are under one prefix. Nodes are under another, followed by
 * a byte for the level and the key of the boundary. A key is a boundary of level L when L times `bits` leading bits of its
 * salted hash are zero, so the shape depends on the keys alone, not on the order in which they came.
 *
 * The items of level 0 are the rows, those of a higher level its nodes. A node of level L + 1 stands for a run of items of
 * level L, so one code serves all levels.
 */
import assert from 'node:assert/strict'
import { VarintReader, writeVarint } from '../../encoding/bytes/short-bytes.ts'
import { CUT_KEY_BYTES } from '../rows/stored-key.ts'
import type { KeyRange } from '../store.ts'

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

export interface Item {
  /** A row's key without its prefix, or the boundary at which a node begins; empty for a sentinel. */
  readonly key: Buffer
  readonly weight: number
  /** A row's value, or the reduction of a node. */
  readonly value: Buffer
  /** Where the next node of the level begins; undefined for the last one, and for rows. */
  readonly next: Buffer | undefined
  /** The highest level that its key is a boundary of, once that was asked: it takes a hash. */
  reach?: number | undefined
}

/** How one item changes: it comes, goes, or stays with another weight or value. */
export interface ItemChange {
  readonly key: Buffer
  readonly before: number | undefined
  readonly after: Item | undefined
}

/** A run of items that one node of the next level stands for. */
export interface Group {
  readonly start: Buffer
  readonly items: Item[]
  next: Buffer | undefined
}

/** The start of a level, before its first key: so that every key has a boundary at or before it. */
export const SENTINEL: Buffer = Buffer.alloc(0)

export const NO_VALUE: Buffer = Buffer.alloc(0)

/** As many as the largest number takes. */
const VARINT_BYTES = 8

/** The value under which a node is stored: its weight, the length and the bytes of the next boundary, its reduction. */
export function encodeNode({ weight, next = SENTINEL, value }: Item): Buffer {
  const bytes = Buffer.allocUnsafe(2 * VARINT_BYTES + next.length + value.length)
  let at = writeVarint(bytes, 0, weight)
  at = writeVarint(bytes, at, next.length)
  bytes.set(next, at)
  at += next.length
  bytes.set(value, at)
  return bytes.subarray(0, at + value.length)
}

export function decodeNode(key: Buffer, stored: Buffer): Item {
  const reader = new VarintReader(stored, 0)
  const weight = reader.number()
  const size = reader.number()
  const end = reader.at + size
  return { key, weight, next: size > 0 ? stored.subarray(reader.at, end) : undefined, value: stored.subarray(end) }
}

export function weightOfAll(items: readonly Item[]): number {
  let weight = 0
  for (const item of items) weight += item.weight
  return weight
}

/** The key of the item with which the weight so far exceeds the position; undefined where all weigh no more than that. */
export function selected(items: readonly Item[], position: number): Buffer | undefined {
  let rest = position
  for (const { key, weight } of items) {
    if (rest < weight) return key
    rest -= weight
  }
  return undefined
}

export interface ReducibleRow {
  /** Without the prefix of the rows. */
  readonly key: Buffer
  readonly value: Buffer
}

/** A row as a part of a block. Buffers of it are made on demand. */
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

/** A run of items and the boundaries it lies between; the one at its end is undefined where the level ends. */
export interface Run {
  readonly start: Buffer
  readonly items: readonly Item[]
  readonly end: Buffer | undefined
}

export const SALT_BYTES = 8

/**
 * HalfSipHash-1-3: a keyed hash of 32 bits in 32-bit arithmetic, a tenth of a microsecond for a short key. Faster
 * hashes with a seed (murmur, xxhash) have collisions that hold for every seed, so a client could choose keys that all
 * share their fate; here it would have to know the salt.
 */
export class SaltedHash {
  readonly #low: number
  readonly #high: number

  constructor(salt: Uint8Array) {
    assert(salt.length === SALT_BYTES, `A salt has ${SALT_BYTES} bytes.`)
    this.#low = wordAt(salt, 0)
    this.#high = wordAt(salt, 4)
  }

  /** A number of 32 bits, signed, for a part of the bytes. */
  of(bytes: Uint8Array, start = 0, end = bytes.length): number {
    let v0 = this.#low
    let v1 = this.#high
    let v2 = 0x6c796765 ^ this.#low
    let v3 = 0x74656462 ^ this.#high
    const tail = start + ((end - start) & ~3)
    // Three closing rounds follow the words: the loop covers them too, so that the round stands here only once.
    for (let at = start; at <= tail + 12; at += 4) {
      const word = at < tail ? wordAt(bytes, at) : at === tail ? lastWord(bytes, start, tail, end) : 0
      if (at === tail + 4) v2 ^= 0xff
      v3 ^= word
      v0 = (v0 + v1) | 0
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0
      v0 = (v0 << 16) | (v0 >>> 16)
      v2 = (v2 + v3) | 0
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2
      v0 = (v0 + v3) | 0
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0
      v2 = (v2 + v1) | 0
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2
      v2 = (v2 << 16) | (v2 >>> 16)
      v0 ^= word
    }
    return v1 ^ v3
  }
}

function wordAt(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
}

/** What is left after the whole words, closed with the length. */
function lastWord(bytes: Uint8Array, start: number, tail: number, end: number): number {
  let word = (end - start) << 24
  for (let at = tail; at < end; at++) word |= bytes[at]! << (8 * (at - tail))
  return word
}
