/**
 * Pages of rows of an LMDB file. Short ranges and counts are read with a cursor that is moved by the library's native
 * calls, since a range of the library costs several times as much to begin; long ones are ranges of the library.
 */
import assert from 'node:assert/strict'
import type { RangeOptions, RootDatabase, Transaction } from 'lmdb'
import * as lmdb from 'lmdb'
import { CUT_KEY_BYTES, isCut, type StoredRange } from '../../rows/stored-key.ts'
import { PageBuilder } from '../../snapshots/row-page.ts'
import type { KeyRange, Page, PageLimits } from '../../store.ts'

declare module 'lmdb' {
  /** What the library itself is made of. The version of it that is installed is the one that this was written for. */
  const nativeAddon: NativeCalls
  interface Transaction {
    readonly address: number
  }
  interface Database {
    readonly db: { readonly dbi: number }
  }
  interface RangeOptions {
    values?: boolean
  }
}

/** A read transaction, and its cursor once it was needed. */
export interface CursorTransaction {
  readonly own: Transaction
  cursor: LmdbCursor | undefined
}

/** How pages read the file. */
export interface PageSource {
  /** Whether the library's native cursors are used. */
  readonly hasCursors: boolean
  get(transaction: CursorTransaction, storedKey: Uint8Array): Buffer | undefined
  /** The buffer through which the library's keys go. */
  keyBuffer(transaction: CursorTransaction): Uint8Array
}

/** Up to this many rows are read one by one: a scan costs as much to begin. */
const SHORT_ROWS = 4

export class LmdbPages {
  readonly #database: RootDatabase<Uint8Array, Uint8Array>
  readonly #rows: RowCollector
  readonly #source: PageSource
  /** Known when a cursor was needed. */
  #keyBuffer: Uint8Array | undefined

  constructor(database: RootDatabase<Uint8Array, Uint8Array>, rows: RowCollector, source: PageSource) {
    this.#database = database
    this.#rows = rows
    this.#source = source
  }

  page(transaction: CursorTransaction, range: KeyRange, stored: StoredRange, limits: PageLimits): Page {
    return this.#shortPage(transaction, range, stored, limits) ?? this.#longPage(transaction.own, range, stored, limits)
  }

  /** How many rows lie in a range of stored keys. */
  count(transaction: CursorTransaction, range: StoredRange): number {
    if (!this.#source.hasCursors) return this.#countKeys(transaction.own, range)
    return this.#cursorOf(transaction).count(range)
  }

  /** Of a range that has a few rows only, as many that are asked for have; undefined where there are more. */
  #shortPage(
    transaction: CursorTransaction,
    range: KeyRange,
    stored: StoredRange,
    limits: PageLimits,
  ): Page | undefined {
    // Resumed and reversed ranges are usually long.
    if (range.resume !== undefined || range.reverse || limits.expectsMany) return undefined
    if (!this.#source.hasCursors) return undefined
    const cursor = this.#cursorOf(transaction)
    const keys: Buffer[] = []
    for (let isAt = cursor.first(stored); isAt; isAt = cursor.next()) {
      if (keys.length === SHORT_ROWS) return undefined
      keys.push(cursor.key())
    }
    const builder = new PageBuilder(range, stored, limits)
    for (const [i, key] of keys.entries()) {
      const value = limits.keysOnly && !isCut(key) ? key : this.#valueOf(transaction, key)
      builder.add(key, 0, key.length, value, value.length)
      if (builder.full && i < keys.length - 1) return builder.build(key)
    }
    return builder.build(undefined)
  }

  #longPage(transaction: Transaction, range: KeyRange, stored: StoredRange, limits: PageLimits): Page {
    const builder = new PageBuilder(range, stored, limits)
    const { reverse = false, resume } = range
    const upper = stored.to
    // Above every key: an open end of a reversed range.
    const top = resume ?? upper
    const values = !(limits.keysOnly ?? false)
    const options: RangeOptions = reverse
      ? { transaction, values, reverse, end: stored.from, inclusiveEnd: true }
      : { transaction, values, start: resume ?? stored.from, exclusiveStart: resume !== undefined }
    // Left out where they are open: the library looks whether they are there.
    if (reverse && top) {
      options.start = top
      options.exclusiveStart = true
    }
    if (!reverse && upper) options.end = upper
    const iterator = this.#database.getRange(options)[Symbol.iterator]()
    const rows = this.#rows
    rows.collectInto(builder, limits.keysOnly ? (key) => this.#database.getBinary(key, { transaction }) : undefined)
    try {
      while (!builder.full) if (iterator.next().done) return builder.build(undefined)
      return builder.build(rows.lastKey())
    } finally {
      rows.collectInto(undefined, undefined)
      iterator.return?.()
    }
  }

  #countKeys(transaction: Transaction, { from, to }: StoredRange): number {
    let count = 0
    const keys = this.#database.getKeys({ transaction, start: from, ...(to && { end: to }) })
    for (const _ of keys) count++
    return count
  }

  #cursorOf(transaction: CursorTransaction): LmdbCursor {
    if (transaction.cursor) return transaction.cursor
    this.#keyBuffer ??= this.#source.keyBuffer(transaction)
    transaction.cursor = new LmdbCursor(this.#database, transaction.own.address, this.#keyBuffer)
    return transaction.cursor
  }

  #valueOf(transaction: CursorTransaction, storedKey: Uint8Array): Buffer {
    const value = this.#source.get(transaction, storedKey)
    assert(value, 'A key that a cursor found has its value.')
    return value
  }
}

/**
 * The decoder of keys and values that the library calls for each row. It copies the bytes, which lie in buffers that the
 * next row reuses, straight into the page under construction.
 */
export class RowCollector {
  #builder: PageBuilder | undefined
  #lookUp: ((storedKey: Uint8Array) => Buffer | undefined) | undefined
  #keySource: Uint8Array = Buffer.alloc(0)
  #keyStart = 0
  #keyEnd = 0

  /** From here on rows go to this page. `lookUp` is given when the library reads keys only. */
  collectInto(builder: PageBuilder | undefined, lookUp: ((key: Uint8Array) => Buffer | undefined) | undefined): void {
    this.#builder = builder
    this.#lookUp = lookUp
  }

  lastKey(): Uint8Array {
    // A copy: the next read of anybody fills the same buffer.
    return Buffer.from(this.#keySource.subarray(this.#keyStart, this.#keyEnd))
  }

  readonly readKey = (source: Uint8Array, start: number, end: number): undefined => {
    this.#keySource = source
    this.#keyStart = start
    this.#keyEnd = end
    if (!this.#lookUp) return
    // A cut key is whole only in its value.
    if (isCut(end - start)) {
      const key = this.lastKey()
      const value = this.#lookUp(key) ?? Buffer.alloc(0)
      this.#keySource = key
      this.#keyStart = 0
      this.#keyEnd = key.length
      this.#builder?.add(key, 0, key.length, value, value.length)
    } else this.#builder?.add(source, start, end, source, 0)
  }

  readonly encode = (value: Uint8Array): Uint8Array => value

  readonly decode = (value: Uint8Array, size: number): undefined => {
    this.#builder?.add(this.#keySource, this.#keyStart, this.#keyEnd, value, size)
  }
}

interface NativeCalls {
  readonly Cursor: new (database: object, transactionAddress: number) => NativeCursor
  /** Goes to the first key at or after the one in the key buffer; answers like `iterate`, or with a count. */
  position(cursorAddress: number, flags: number, offset: number, keySize: number, endAddress: number): number
  /** Goes to the next key and answers with its size: 0 at the end of the range, below 0 for an error. */
  iterate(cursorAddress: number): number
  getAddress(buffer: ArrayBufferLike): number
  /** Throws what the number of an error means. */
  lmdbError(code: number): void
}

interface NativeCursor {
  readonly address: number
  close(): void
}

const KEYS_ONLY = 0
const ONLY_COUNT = 0x1000

/** Where in the key buffer the calls leave a key. */
const KEY_AT = 32

/** The end of a range as the native calls expect it: its size and its bytes. Reused by all cursors. */
const end = Buffer.allocUnsafeSlow(4 + CUT_KEY_BYTES + 4)
const endSize = new DataView(end.buffer)
/** Known when the first cursor is made. */
let endAddress = 0
const isLittleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1

/** One is made for a transaction and reused. */
class LmdbCursor {
  readonly #native: NativeCursor
  /** The buffer that keys go through, the same one for all of the library. */
  readonly #keyBuffer: Uint8Array
  #keySize = 0

  /** Must be closed before the transaction ends. */
  constructor(database: RootDatabase<Uint8Array, Uint8Array>, transactionAddress: number, keyBuffer: Uint8Array) {
    const { Cursor, getAddress } = lmdb.nativeAddon
    this.#native = new Cursor(database.db, transactionAddress)
    endAddress ||= getAddress(end.buffer)
    this.#keyBuffer = keyBuffer
  }

  /** How many keys lie in the range. */
  count(range: StoredRange): number {
    const count = this.#position(range, ONLY_COUNT)
    assert(count >= 0, `LMDB does not count: ${count}.`)
    return count
  }

  /** Goes to the first key of the range; says whether there is one. */
  first(range: StoredRange): boolean {
    return this.#isAt(this.#position(range, KEYS_ONLY))
  }

  next(): boolean {
    return this.#isAt(lmdb.nativeAddon.iterate(this.#native.address))
  }

  /** A copy of the key that it is at; to be asked for before anything else is read. */
  key(): Buffer {
    const key = Buffer.allocUnsafe(this.#keySize)
    for (let i = 0; i < key.length; i++) key[i] = this.#keyBuffer[KEY_AT + i]!
    return key
  }

  close(): void {
    this.#native.close()
  }

  #position({ from, to }: StoredRange, flags: number): number {
    this.#keyBuffer.set(from)
    if (to) {
      endSize.setUint32(0, to.length, isLittleEndian)
      end.set(to, 4)
    }
    return lmdb.nativeAddon.position(this.#native.address, flags, 0, from.length, to ? endAddress : 0)
  }

  #isAt(keySize: number): boolean {
    // With the number as its code, as errors of the library have it.
    if (keySize < 0) throw Object.assign(new Error(`An LMDB cursor failed with status ${keySize}.`), { code: keySize })
    this.#keySize = keySize
    return keySize > 0
  }
}
