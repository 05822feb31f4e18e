/**
 * Reads of one LMDB file: read transactions, values, pages of rows and counts. Everything is synchronous and copied: the
 * library's buffers are filled again by the next read.
 */
import assert from 'node:assert/strict'
import type { RangeOptions, RootDatabase, Transaction } from 'lmdb'
import { isCut, type StoredRange } from '../rows/stored-key.ts'
import { PageBuilder } from '../snapshots/row-page.ts'
import type { KeyRange, Page, PageLimits } from '../store.ts'
import type { LibraryUse } from './library-use.ts'
import { LmdbCursor } from './lmdb-cursor.ts'
import type { LmdbErrors } from './lmdb-errors.ts'

declare module 'lmdb' {
  interface Database {
    getBinary(key: Uint8Array, options: { transaction: ReadTransaction['own'] }): Buffer | undefined
    /** The bytes lie in a buffer that the next read fills again, where that is `isGlobal`. */
    getBinaryFast(key: Uint8Array, options: { transaction: ReadTransaction['own'] }): FastBytes | undefined
    lastSize: number
    /** Called for a value that is larger than the buffer for all values: makes that larger, for good. */
    _returnLargeBuffer(read: () => unknown): FastBytes
  }
  interface RangeOptions {
    values?: boolean
  }
}

type FastBytes = Buffer & { readonly isGlobal?: boolean }

const NOT_READ: FastBytes = Buffer.alloc(0)

/** A read transaction, used by one reader or shared by several. */
export class ReadTransaction {
  readonly own: Transaction
  readers = 1
  /** Made when it is needed first. */
  cursor: LmdbCursor | undefined

  constructor(own: Transaction) {
    this.own = own
  }
}

/** Up to this many rows are read one by one: a scan costs as much to begin. */
const SHORT_ROWS = 4

const PROBE = Buffer.of(1)

export interface ReaderOptions {
  readonly use: LibraryUse
  /** Whether other processes write to the file too: then every read transaction must look for newer commits. */
  readonly isShared: boolean
  readonly errors: LmdbErrors
  /** The encoder that the database was opened with. */
  readonly rows: LmdbRowHooks
}

export class LmdbReader {
  readonly #database: RootDatabase<Uint8Array, Uint8Array>
  readonly #rows: LmdbRowHooks
  readonly #use: LibraryUse
  readonly #isShared: boolean
  readonly #errors: LmdbErrors
  /** Whether large values are left for another way to read them. */
  #isReadingFast = false
  /** Where the library leaves the keys of its cursors; known when one was needed. */
  #keyBuffer: Uint8Array | undefined

  constructor(database: RootDatabase<Uint8Array, Uint8Array>, { use, isShared, errors, rows }: ReaderOptions) {
    this.#database = database
    this.#rows = rows
    this.#use = use
    this.#isShared = isShared
    this.#errors = errors
    if (use.native_reads) this.#leaveLargeValues()
  }

  /** The state as of now; `endRead` must follow. Throws `TooManyReadersError`. */
  beginRead(): ReadTransaction {
    // The library takes the state that was read last for the newest one, unless this process wrote another.
    // One that met a damaged page is of no use any more.
    if (this.#isShared || this.#errors.damage) this.#database.resetReadTxn()
    return new ReadTransaction(this.#guarded(() => this.#database.useReadTransaction()))
  }

  /** For another reader; `endRead` must follow for each. */
  shareRead(transaction: ReadTransaction): ReadTransaction {
    transaction.readers++
    return transaction
  }

  endRead(transaction: ReadTransaction): void {
    if (--transaction.readers > 0) return
    transaction.cursor?.close()
    transaction.own.done()
  }

  /** Reads the state as of now, in this turn of the event loop. */
  read<T>(read: (transaction: ReadTransaction) => T): T {
    const transaction = this.beginRead()
    try {
      return read(transaction)
    } finally {
      this.endRead(transaction)
    }
  }

  get(transaction: ReadTransaction, storedKey: Uint8Array): Buffer | undefined {
    try {
      return this.#get(transaction, storedKey)
    } catch (error) {
      throw this.#errors.translate(error)
    }
  }

  #get(transaction: ReadTransaction, storedKey: Uint8Array): Buffer | undefined {
    const options = { transaction: transaction.own }
    if (!this.#use.native_reads) return this.#database.getBinary(storedKey, options)
    this.#isReadingFast = true
    const bytes = this.#database.getBinaryFast(storedKey, options)
    this.#isReadingFast = false
    if (bytes === undefined) return undefined
    // A large one is copied once, into memory of its own.
    if (!bytes.isGlobal) return this.#database.getBinary(storedKey, options)
    const size = this.#database.lastSize
    // Out of the pool of small buffers: the library's own copy allocates memory of its own for each value.
    const copy = Buffer.allocUnsafe(size)
    bytes.copy(copy, 0, 0, size)
    return copy
  }

  /** A fast read would copy a large value into a buffer that is kept, and then again: it stops there instead. */
  #leaveLargeValues(): void {
    const database = this.#database
    const readLarge = database._returnLargeBuffer
    database._returnLargeBuffer = (read) => (this.#isReadingFast ? NOT_READ : readLarge.call(database, read))
  }

  page(transaction: ReadTransaction, range: KeyRange, stored: StoredRange, limits: PageLimits): Page {
    try {
      return (
        this.#shortPage(transaction, range, stored, limits) ?? this.#longPage(transaction.own, range, stored, limits)
      )
    } catch (error) {
      throw this.#errors.translate(error)
    }
  }

  /** Of a range that has a few rows only, as many that are asked for have; undefined where there are more. */
  #shortPage(transaction: ReadTransaction, range: KeyRange, stored: StoredRange, limits: PageLimits): Page | undefined {
    // Resumed and reversed ranges are usually long.
    if (range.resume !== undefined || range.reverse || limits.expectsMany) return undefined
    if (!this.#use.native_cursors) return undefined
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

  /** How many rows lie in a range; its bounds must be those of stored keys. Synchronous, so not for long ranges. */
  count(transaction: ReadTransaction, range: StoredRange): number {
    if (!this.#use.native_cursors) return this.#guarded(() => this.#countKeys(transaction.own, range))
    return this.#guarded(() => this.#cursorOf(transaction).count(range))
  }

  #countKeys(transaction: Transaction, { from, to }: StoredRange): number {
    let count = 0
    const keys = this.#database.getKeys({ transaction, start: from, ...(to && { end: to }) })
    for (const _ of keys) count++
    return count
  }

  #cursorOf(transaction: ReadTransaction): LmdbCursor {
    if (transaction.cursor) return transaction.cursor
    this.#keyBuffer ??= this.#rows.bufferOfKey(() => this.get(transaction, PROBE))
    transaction.cursor = new LmdbCursor(this.#database, transaction.own.address, this.#keyBuffer)
    return transaction.cursor
  }

  #valueOf(transaction: ReadTransaction, storedKey: Uint8Array): Buffer {
    const value = this.get(transaction, storedKey)
    assert(value, 'A key that a cursor found has its value.')
    return value
  }

  #guarded<T>(use: () => T): T {
    try {
      return use()
    } catch (error) {
      throw this.#errors.translate(error)
    }
  }
}

/**
 * The encoder of keys and values that the library calls for each row. It copies the bytes, which lie in buffers that the
 * next row reuses, straight into the page under construction.
 */
export class LmdbRowHooks {
  #builder: PageBuilder | undefined
  #lookUp: ((storedKey: Uint8Array) => Buffer | undefined) | undefined
  #keySource: Uint8Array = Buffer.alloc(0)
  #keyStart = 0
  #keyEnd = 0
  #onWritten: ((target: Uint8Array) => void) | undefined

  /** From here on rows go to this page. `lookUp` is given when the library reads keys only. */
  collectInto(builder: PageBuilder | undefined, lookUp: ((key: Uint8Array) => Buffer | undefined) | undefined): void {
    this.#builder = builder
    this.#lookUp = lookUp
  }

  /** The buffer into which a key is written while the library looks for it. */
  bufferOfKey(lookUp: () => void): Uint8Array {
    let buffer: Uint8Array | undefined
    this.#onWritten = (target) => {
      buffer = target
    }
    lookUp()
    this.#onWritten = undefined
    assert(buffer, 'The library writes a key before it looks for it.')
    return buffer
  }

  lastKey(): Uint8Array {
    // A copy: the next read of anybody fills the same buffer.
    return Buffer.from(this.#keySource.subarray(this.#keyStart, this.#keyEnd))
  }

  readonly writeKey = (key: Uint8Array, target: Uint8Array, start: number): number => {
    this.#onWritten?.(target)
    target.set(key, start)
    return start + key.length
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
