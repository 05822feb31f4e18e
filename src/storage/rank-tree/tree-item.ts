/**
 * What a level of the tree is made of. The items of level 0 are the rows themselves, those of a higher level its
 * nodes; an interval of level L + 1 is a run of items of level L, so one code serves all levels.
 */
import { VarintReader, writeVarint } from '../../encoding/bytes/varint.ts'

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
