/**
 * Rows that nodes of the lowest level stand for, kept in memory for one state of a tree. Short ranges, and groups that are
 * asked for again, are then reduced without reading the store. All trees of the process share one limit.
 */
import { compareBytes } from '../../encoding/bytes/short-bytes.ts'
import { type Item, PlacedRow, selected, weightOfAll } from './tree-layout.ts'

/** Of all trees together, of one tree, and of the rows of one node. */
const ALL_BYTES = 16 * 1024 * 1024
const TREE_BYTES = 4 * 1024 * 1024
const PIECE_BYTES = 16 * 1024

/** What a row takes beside its bytes: its bounds, its weight and a share of the lists that hold them. */
const ROW_BYTES = 40

/**
 * Rows are copied into blocks: what was read is often a slice of memory that others use, and would keep all of it. A tree
 * begins with a small one: there may be thousands of small trees.
 */
const FIRST_BLOCK_BYTES = 1024
const BLOCK_BYTES = 64 * 1024

/** What a tree keeps. */
interface Account {
  readonly rows: WeakRef<KeptRows>
  bytes: number
}

/** Of trees that keep rows; the one that added some longest ago is first. Nobody ends a tree: it is gone when it is collected. */
const accounts = new Set<Account>()
let allBytes = 0

const collected = new FinalizationRegistry(release)

function release(account: Account): void {
  accounts.delete(account)
  allBytes -= account.bytes
  account.bytes = 0
}

/** What the trees of this process keep. */
export function keptBytes(): number {
  return allBytes
}

/** A node of the lowest level: the run that it is in and its index there. */
export interface RowsOwner {
  readonly run: object
  readonly index: number
}

/** The rows of a node, in the order of the store. */
export interface Piece {
  /** Those from `from` (inclusive) to `to` (exclusive); an absent bound is open. */
  between(from: Uint8Array | undefined, to: Uint8Array | undefined): Item[]
  /** What those before a key weigh. */
  weightBefore(key: Uint8Array): number
  /** The key of the row with which their weight so far exceeds the position; undefined where they weigh no more than that. */
  select(position: number): Buffer | undefined
}

/** Rows that were asked for once are not kept yet: what nobody asks for again is not worth it. */
type Slot = Piece | 'asked' | 'large' | undefined

export class KeptRows {
  /** By the run of a node and its index there. */
  readonly #pieces = new Map<object, Slot[]>()
  #block = NO_BLOCK
  #blockEnd = 0
  #account: Account | undefined

  get({ run, index }: RowsOwner): Piece | undefined {
    const slot = this.#pieces.get(run)?.[index]
    return typeof slot === 'object' ? slot : undefined
  }

  /** Whether to read all rows of a node for a part of them: they were asked for before, and are not too large to be kept. */
  isWorthKeeping({ run, index }: RowsOwner): boolean {
    const slots = this.#slotsOf(run)
    if (slots[index] !== undefined) return slots[index] !== 'large'
    slots[index] = 'asked'
    return false
  }

  /** Keeps all rows of a node where there is room, and gives them back. */
  keep({ run, index }: RowsOwner, rows: readonly Item[]): Piece {
    const size = sizeOf(rows)
    if (size > PIECE_BYTES) {
      this.#slotsOf(run)[index] = 'large'
      return new LoosePiece(rows)
    }
    if ((this.#account?.bytes ?? 0) + size > TREE_BYTES) this.forget()
    const piece = this.#packed(rows)
    this.#slotsOf(run)[index] = piece
    this.#makeRoom()
    return piece
  }

  forget(): void {
    this.#pieces.clear()
    this.#block = NO_BLOCK
    this.#blockEnd = 0
    if (this.#account) release(this.#account)
  }

  #slotsOf(run: object): Slot[] {
    const known = this.#pieces.get(run)
    if (known) return known
    const slots: Slot[] = []
    this.#pieces.set(run, slots)
    return slots
  }

  #count(size: number): void {
    if (!this.#account) {
      this.#account = { rows: new WeakRef(this), bytes: 0 }
      collected.register(this, this.#account)
    }
    this.#account.bytes += size
    allBytes += size
    accounts.delete(this.#account)
    accounts.add(this.#account)
  }

  /** Those that added rows longest ago go first. */
  #makeRoom(): void {
    for (const account of accounts) {
      if (allBytes <= ALL_BYTES) return
      account.rows.deref()?.forget()
      release(account)
    }
  }

  #packed(rows: readonly Item[]): Piece {
    const bounds: number[] = []
    const weights: number[] = []
    let size = 0
    for (const { key, value } of rows) size += key.length + value.length
    this.#count(ROW_BYTES * rows.length)
    if (this.#blockEnd + size > this.#block.length) {
      const wanted = Math.max(size, Math.min(2 * this.#block.length, BLOCK_BYTES), FIRST_BLOCK_BYTES)
      this.#block = Buffer.allocUnsafeSlow(wanted)
      this.#blockEnd = 0
      this.#count(wanted)
    }
    let at = this.#blockEnd
    for (const { key, value, weight } of rows) {
      bounds.push(at)
      this.#block.set(key, at)
      at += key.length
      bounds.push(at)
      this.#block.set(value, at)
      at += value.length
      weights.push(weight)
    }
    bounds.push(at)
    this.#blockEnd = at
    return new PackedPiece(this.#block, bounds, weights)
  }
}

const NO_BLOCK = Buffer.alloc(0)

function sizeOf(rows: readonly Item[]): number {
  let size = 0
  for (const { key, value } of rows) size += key.length + value.length + ROW_BYTES
  return size
}

/** Rows that lie one after the other in a block. */
class PackedPiece implements Piece {
  readonly #block: Buffer
  /** Where the key and the value of each row begin, and where the last one ends. */
  readonly #bounds: readonly number[]
  readonly #weights: readonly number[]

  constructor(block: Buffer, bounds: readonly number[], weights: readonly number[]) {
    this.#block = block
    this.#bounds = bounds
    this.#weights = weights
  }

  between(from: Uint8Array | undefined, to: Uint8Array | undefined): Item[] {
    const rows: Item[] = []
    for (let row = 0; row < this.#weights.length; row++) {
      const keyAt = this.#bounds[2 * row]!
      const valueAt = this.#bounds[2 * row + 1]!
      if (from && compareWithin(this.#block, keyAt, valueAt, from) < 0) continue
      if (to && compareWithin(this.#block, keyAt, valueAt, to) >= 0) continue
      rows.push(new PlacedRow(this.#block, keyAt, valueAt, this.#bounds[2 * row + 2]!, this.#weights[row]!))
    }
    return rows
  }

  weightBefore(key: Uint8Array): number {
    let weight = 0
    for (let row = 0; row < this.#weights.length; row++) {
      const isBefore = compareWithin(this.#block, this.#bounds[2 * row]!, this.#bounds[2 * row + 1]!, key) < 0
      if (isBefore) weight += this.#weights[row]!
    }
    return weight
  }

  select(position: number): Buffer | undefined {
    let rest = position
    for (const [row, weight] of this.#weights.entries()) {
      if (rest < weight) return this.#block.subarray(this.#bounds[2 * row]!, this.#bounds[2 * row + 1]!)
      rest -= weight
    }
    return undefined
  }
}

/** Rows that were read and are not kept. */
class LoosePiece implements Piece {
  readonly #rows: readonly Item[]

  constructor(rows: readonly Item[]) {
    this.#rows = rows
  }

  between(from: Uint8Array | undefined, to: Uint8Array | undefined): Item[] {
    return this.#rows.filter(({ key }) => (!from || compareBytes(key, from) >= 0) && (!to || compareBytes(key, to) < 0))
  }

  weightBefore(key: Uint8Array): number {
    return weightOfAll(this.between(undefined, key))
  }

  select(position: number): Buffer | undefined {
    return selected(this.#rows, position)
  }
}

/** Compares a part of a block with a key, as `compareBytes` does, without making a slice of it. */
function compareWithin(block: Buffer, start: number, end: number, key: Uint8Array): number {
  const size = Math.min(end - start, key.length)
  if (size > LOOPED_BYTES) return block.compare(key, 0, key.length, start, end)
  for (let i = 0; i < size; i++) {
    const difference = block[start + i]! - key[i]!
    if (difference !== 0) return difference
  }
  return end - start - key.length
}

const LOOPED_BYTES = 64
