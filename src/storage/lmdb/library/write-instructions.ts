/**
 * The writes of a transaction, in the form in which the writing thread of the library reads them: instructions in blocks of
 * memory. The library's own `put` makes four objects and a promise for each row, which costs more than the row.
 */
import * as lmdb from 'lmdb'
import { packedKey, packedValue } from '../../rows/packed-rows.ts'
import { CUT_KEY_BYTES, storedKey, storedValue } from '../../rows/stored-key.ts'
import type { PackedRows } from '../../store.ts'
import { WriteCounter } from '../file-room.ts'

/*
 * An instruction begins at a multiple of eight bytes: flags, database, and size of the key as words of 32 bits; the key;
 * at least 8 zero bytes up to the next multiple of eight, the last 4 of them the size of the value; and the address of the
 * value as a double. A removal ends with the zero bytes.
 */
const PUT = 15
const REMOVE = 13
/** The address of the next instruction follows, as a double. */
const CONTINUE_AT = 3
const END = 0
/**
 * What follows up to the end of the block is carried out if the value of the key begins with these eight bytes, compared as
 * doubles; or, if allowed, if there is no such key.
 */
const IF_VALUE = 0x104
const OR_MISSING = 0x1000
const BLOCK_END = 2
/** The library sets it in the flags of an instruction. */
const FAILED = 0x4000000

const KEY_AT = 12
const AFTER_KEY_BYTES = 16
const ADDRESS_BYTES = 8
/** For the instruction that leads to the next block, or for the end. */
const CONTINUE_BYTES = 16

/** The word before the end is written by the library too. */
const FIRST_AT = 8

/** Values up to here are copied, so that the memory that they lie in need not be looked up. */
const COPIED_BYTES = 1024

const BLOCK_BYTES = 64 * 1024
/** Blocks that are kept for the next transactions. */
const KEPT_BLOCKS = 64

interface Block {
  readonly bytes: Buffer
  readonly words: Uint32Array
  readonly doubles: Float64Array
  readonly address: number
}

const freeBlocks: Block[] = []

/** A row in the state that is written upon. */
export interface WriteCondition {
  readonly key: Uint8Array
  /** Eight bytes; undefined where the row must not be there, or be zero. */
  readonly value: Buffer | undefined
}

export class WriteInstructions implements WriteTarget {
  readonly counter = new WriteCounter()
  readonly #database: number
  readonly #blocks: Block[] = []
  #block: Block
  #at = FIRST_AT
  /** The end of the values that were copied, in the last block that has some. */
  #valuesAt = BLOCK_BYTES
  #values: Block | undefined
  /** The block of the row that was written last, which most of the next ones lie in too. */
  #source: Buffer | undefined
  #sourceAddress = 0
  /** What must stay in memory until the transaction is over. */
  readonly #sources: Uint8Array[] = []
  readonly #isConditional: boolean
  /** The flags of the first instruction, before it is carried out. */
  #firstFlags = END

  /** For the database of this number in its file. */
  constructor(database: number, condition?: WriteCondition) {
    this.#database = database
    this.#block = this.#addBlock()
    this.#isConditional = condition !== undefined && this.#writeCondition(condition)
  }

  /** Whether nothing was written since the condition did not hold; when the transaction is over, and before `release`. */
  get isRefused(): boolean {
    return this.#isConditional && (this.#flagsNow() & FAILED) !== 0
  }

  /** Whether the transaction was begun; when it is over, and before `release`. */
  get hasBegun(): boolean {
    return this.#flagsNow() !== this.#firstFlags
  }

  put(storedKey: Uint8Array, storedValue: Uint8Array): void {
    this.counter.put(storedKey.length, storedValue.length)
    const valueAt = this.#writeKey(PUT, storedKey, 0, storedKey.length)
    this.#writeValue(valueAt, this.#addressOf(storedValue), storedValue.length)
  }

  putPart(block: Buffer, keyAt: number, valueAt: number, end: number): void {
    this.counter.put(valueAt - keyAt, end - valueAt)
    if (block !== this.#source) {
      this.#source = block
      this.#sourceAddress = this.#addressIn(block)
    }
    const at = this.#writeKey(PUT, block, keyAt, valueAt)
    this.#writeValue(at, this.#sourceAddress + valueAt, end - valueAt)
  }

  remove(storedKey: Uint8Array): void {
    this.counter.remove()
    this.#at = this.#writeKey(REMOVE, storedKey, 0, storedKey.length)
  }

  /** Where the first instruction is, when the last one was added. */
  finish(): number {
    if (this.#isConditional) {
      this.#block.words[this.#at >> 2] = BLOCK_END
      this.#at += 8
    }
    this.#block.words[this.#at >> 2] = END
    this.#firstFlags = this.#flagsNow()
    return this.#blocks[0]!.address + FIRST_AT
  }

  /** The library adds to the flags of an instruction that is carried out. */
  #flagsNow(): number {
    return this.#blocks[0]?.words[FIRST_AT >> 2] ?? END
  }

  /** Lets go of the memory, when the transaction is over. */
  release(): void {
    for (const block of this.#blocks) if (freeBlocks.length < KEPT_BLOCKS) freeBlocks.push(block)
    this.#blocks.length = 0
    this.#sources.length = 0
    this.#source = undefined
  }

  /** Writes an instruction up to where the address of its value belongs; returns that place. */
  #writeKey(flags: number, source: Uint8Array, start: number, end: number): number {
    const keyBytes = end - start
    this.#reserve(KEY_AT + keyBytes + AFTER_KEY_BYTES + ADDRESS_BYTES)
    const { bytes, words } = this.#block
    const at = this.#at
    const word = at >> 2
    words[word] = flags
    words[word + 1] = this.#database
    words[word + 2] = keyBytes
    let to = at + KEY_AT
    for (let from = start; from < end; from++) bytes[to++] = source[from]!
    const next = (to + AFTER_KEY_BYTES) & ~7
    while (to < next) bytes[to++] = 0
    return next
  }

  /** False for the few values that are NaN as doubles, which nothing is equal to. */
  #writeCondition({ key, value }: WriteCondition): boolean {
    const compared = value?.readDoubleLE() ?? 0
    if (Number.isNaN(compared)) return false
    const at = this.#writeKey(value ? IF_VALUE : IF_VALUE | OR_MISSING, key, 0, key.length)
    this.#block.doubles[at >> 3] = compared
    this.#at = at + ADDRESS_BYTES
    return true
  }

  #writeValue(at: number, address: number, size: number): void {
    const { words, doubles } = this.#block
    words[(at >> 2) - 1] = size
    doubles[at >> 3] = address
    this.#at = at + ADDRESS_BYTES
  }

  #addressOf(value: Uint8Array): number {
    if (value.length > COPIED_BYTES) return this.#addressIn(value)
    if (this.#valuesAt + value.length > BLOCK_BYTES || !this.#values) {
      this.#values = this.#addBlock()
      this.#valuesAt = 0
    }
    const at = this.#valuesAt
    this.#values.bytes.set(value, at)
    this.#valuesAt = at + value.length
    return this.#values.address + at
  }

  #addressIn(bytes: Uint8Array): number {
    this.#sources.push(bytes)
    return lmdb.nativeAddon.getAddress(bytes.buffer) + bytes.byteOffset
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes + CONTINUE_BYTES <= BLOCK_BYTES) return
    const { words, doubles } = this.#block
    const next = this.#addBlock()
    words[this.#at >> 2] = CONTINUE_AT
    doubles[(this.#at >> 3) + 1] = next.address + FIRST_AT
    this.#block = next
    this.#at = FIRST_AT
  }

  #addBlock(): Block {
    const block = freeBlocks.pop() ?? newBlock()
    this.#blocks.push(block)
    return block
  }
}

function newBlock(): Block {
  const bytes = Buffer.allocUnsafeSlow(BLOCK_BYTES)
  const { buffer } = bytes
  return {
    bytes,
    words: new Uint32Array(buffer),
    doubles: new Float64Array(buffer),
    address: lmdb.nativeAddon.getAddress(buffer),
  }
}

/** What a commit is written to, row by row. Keys and values are in their stored form. */
export interface WriteTarget {
  put(storedKey: Uint8Array, storedValue: Uint8Array): void
  /** A row whose stored key and value lie side by side in a block. No buffer is made for it. */
  putPart(block: Buffer, keyAt: number, valueAt: number, end: number): void
  remove(storedKey: Uint8Array): void
}

/** Puts rows of a block under their stored keys. It makes no object for a row. */
export function putPacked(target: WriteTarget, rows: PackedRows, first = 0): void {
  const { length, block, bounds } = rows
  for (let row = first; row < length; row++) {
    const keyAt = bounds[3 * row]!
    const valueAt = bounds[3 * row + 1]!
    if (valueAt - keyAt < CUT_KEY_BYTES) {
      target.putPart(block, keyAt, valueAt, bounds[3 * row + 2]!)
      continue
    }
    const key = packedKey(rows, row)
    target.put(storedKey(key), storedValue(key, packedValue(rows, row)))
  }
}
