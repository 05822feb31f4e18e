/**
 * Rows in one block, each with its key before its value, and the changes of a commit. Hundreds of thousands of rows are no load
 * for the garbage collector, as long as no buffer is made for each.
 */
import assert from 'node:assert/strict'
import { freeBytes } from '../../encoding/bytes/byte-sink.ts'
import { type Changes, COMMIT_OPERATIONS_LIMIT, type PackedRows, type Put } from '../store.ts'

const FIRST_BYTES = 64 * 1024
const FIRST_ROWS = 1024

/** Smaller blocks are left to the garbage collector. */
const FREED_BYTES = 1024 * 1024

const NO_BYTES = Buffer.alloc(0)

export interface PackedRowsOptions {
  /** Whether no slices of a block exist when it is outgrown: its memory is then freed at once. */
  readonly isSole?: boolean
}

/** Collects rows. To add one, reserve space at `end`, write into the block, and close the row. */
export class PackedRowsWriter implements PackedRows {
  #block: Buffer
  #bounds: Uint32Array
  #length = 0
  #end = 0
  /** Whether nothing else lies in the memory of the block. */
  #isOwnBlock = false
  readonly #isSole: boolean

  /** With room for so much to begin with. */
  constructor(bytes = FIRST_BYTES, rows = FIRST_ROWS, { isSole = false }: PackedRowsOptions = {}) {
    this.#isSole = isSole
    this.#block = Buffer.allocUnsafe(bytes)
    this.#bounds = new Uint32Array(3 * rows)
  }

  get length(): number {
    return this.#length
  }

  get block(): Buffer {
    return this.#block
  }

  get bounds(): Uint32Array {
    return this.#bounds
  }

  /** Where the next row begins. */
  get end(): number {
    return this.#end
  }

  /** Makes room for a row of so many bytes. The block may be another one afterwards. */
  reserve(bytes: number): void {
    const needed = this.#end + bytes
    if (needed > this.#block.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#block.length))
      this.#block.copy(larger, 0, 0, this.#end)
      if (this.#isSole) this.#free()
      this.#block = larger
      this.#isOwnBlock = true
    }
    if (3 * this.#length === this.#bounds.length) {
      const larger = new Uint32Array(2 * this.#bounds.length + 3)
      larger.set(this.#bounds)
      this.#bounds = larger
    }
  }

  /** Frees the memory at once, without the garbage collector. The rows must not be used any more. */
  release(): void {
    this.#free()
    this.#block = NO_BYTES
    this.#bounds = new Uint32Array(0)
    this.#length = 0
    this.#end = 0
    this.#isOwnBlock = false
  }

  #free(): void {
    const { buffer } = this.#block
    if (this.#isOwnBlock && buffer instanceof ArrayBuffer && this.#block.length >= FREED_BYTES) buffer.transfer(0)
  }

  /** Ends the row that was written. */
  close(valueAt: number, end: number): void {
    const bound = 3 * this.#length++
    this.#bounds[bound] = this.#end
    this.#bounds[bound + 1] = valueAt
    this.#bounds[bound + 2] = end
    this.#end = end
  }

  /** Adds a copy of a row that lies in two buffers. */
  put([key, value]: Put): void {
    this.reserve(key.length + value.length)
    const valueAt = this.#end + key.length
    this.#block.set(key, this.#end)
    this.#block.set(value, valueAt)
    this.close(valueAt, valueAt + value.length)
  }

  /** Adds a copy of a row. */
  copy({ block, bounds }: PackedRows, row: number): void {
    const keyAt = bounds[3 * row]!
    const end = bounds[3 * row + 2]!
    this.reserve(end - keyAt)
    const start = this.#end
    block.copy(this.#block, start, keyAt, end)
    this.close(start + bounds[3 * row + 1]! - keyAt, start + end - keyAt)
  }
}

/** Frees the memory of rows whose commit is done. */
export function freeRows(rows: PackedRows): void {
  freeBytes(rows.block)
}

export function packedRows(puts: readonly Put[]): PackedRows {
  let bytes = 0
  for (const [key, value] of puts) bytes += key.length + value.length
  const rows = new PackedRowsWriter(bytes, puts.length)
  for (const put of puts) rows.put(put)
  return rows
}

export function packedKey({ block, bounds }: PackedRows, row: number): Buffer {
  return block.subarray(bounds[3 * row], bounds[3 * row + 1])
}

export function packedValue({ block, bounds }: PackedRows, row: number): Buffer {
  return block.subarray(bounds[3 * row + 1], bounds[3 * row + 2])
}

/** The rows one by one. Their buffers are parts of the block. */
export function* unpacked(rows: PackedRows): Generator<Put> {
  for (let row = 0; row < rows.length; row++) yield [packedKey(rows, row), packedValue(rows, row)]
}

/** Which of two rows has the lesser key. */
export function compareKeys(a: PackedRows, rowOfA: number, b: PackedRows, rowOfB: number): number {
  return a.block.compare(
    b.block,
    b.bounds[3 * rowOfB],
    b.bounds[3 * rowOfB + 1],
    a.bounds[3 * rowOfA],
    a.bounds[3 * rowOfA + 1],
  )
}

export function operationCount({ clears = [], deletes = [], puts = [], packed }: Changes): number {
  return clears.length + deletes.length + puts.length + (packed?.length ?? 0)
}

/** How many bytes the values take that are put. */
export function valueBytes({ puts = [], packed }: Changes): number {
  let bytes = 0
  for (const [, value] of puts) bytes += value.length
  // Their keys are short: the end of the last row is near enough.
  return packed && packed.length > 0 ? bytes + packed.bounds[3 * packed.length - 1]! : bytes
}

/** Checks that hold for changes on every engine, before any of them is applied. */
export function checkChanges(changes: Changes): void {
  assert(operationCount(changes) <= COMMIT_OPERATIONS_LIMIT, 'A commit holds too many operations.')
  for (const key of changes.deletes ?? []) checkKey(key)
  for (const [key] of changes.puts ?? []) checkKey(key)
  if (changes.packed) checkPacked(changes.packed)
}

function checkPacked({ length, block, bounds }: PackedRows): void {
  for (let row = 0; row < length; row++) {
    const keyAt = bounds[3 * row]!
    // The assertion itself would take longer than all else that is done for a row here.
    if (bounds[3 * row + 1]! <= keyAt || block[keyAt] === 0) assert.fail(WRONG_KEY)
  }
}

function checkKey(key: Uint8Array): void {
  assert(key.length > 0 && key[0] !== 0, WRONG_KEY)
}

const WRONG_KEY = 'A key is not empty and does not begin with a zero byte.'
