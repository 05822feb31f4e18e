/**
 * What a level of the tree is made of. The items of level 0 are the rows themselves, those of a higher level its
 * nodes; an interval of level L + 1 is a run of items of level L, so one code serves all levels.
 */

export interface Item {
  /** A row's key without its prefix, or the boundary at which a node begins; empty for a sentinel. */
  readonly key: Buffer
  readonly weight: number
  /** A row's value, or the reduction of a node. */
  readonly value: Buffer
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
}

/** The start of a level, before its first key: so that every key has a boundary at or before it. */
export const SENTINEL: Buffer = Buffer.alloc(0)

export const NO_VALUE: Buffer = Buffer.alloc(0)

/** The value under which a node is stored: its weight in groups of seven bits, lowest first, then its reduction. */
export function encodeNode(weight: number, reduction: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(varintSize(weight) + reduction.length)
  let at = 0
  let rest = weight
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes[at++] = (rest % 0x80) | 0x80
  bytes[at++] = rest
  bytes.set(reduction, at)
  return bytes
}

export function decodeNode(key: Buffer, stored: Buffer): Item {
  let weight = 0
  let unit = 1
  let at = 0
  for (; stored[at]! >= 0x80; unit *= 0x80) weight += (stored[at++]! & 0x7f) * unit
  weight += stored[at++]! * unit
  return { key, weight, value: stored.subarray(at) }
}

function varintSize(value: number): number {
  let size = 1
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) size++
  return size
}

export function weightOfAll(items: readonly Item[]): number {
  let weight = 0
  for (const item of items) weight += item.weight
  return weight
}
