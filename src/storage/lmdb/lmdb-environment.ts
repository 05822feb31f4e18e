/**
 * One open LMDB file: its read transactions and its writes, typed and narrowed to what a store needs. The traps of the
 * library are handled here. Reads are synchronous and copy; a write resolves when it is on disk.
 */
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { basename, extname } from 'node:path'
import * as lmdb from 'lmdb'
import { ABORT, open, type RangeOptions, type RootDatabase, type Transaction } from 'lmdb'
import { inspectFile } from '../file-check/inspect-file.ts'
import { LMDB_PAGE_BYTES, META_PAGES } from '../file-check/page-layout.ts'
import { requireDescriptors } from '../files/free-descriptors.ts'
import { lockPath } from '../files/store-file.ts'
import { writeFailure } from '../files/write-failure.ts'
import { isCut, type StoredRange } from '../rows/stored-key.ts'
import { PageBuilder } from '../snapshots/row-page.ts'
import type { KeyRange, Page, PageLimits, StoreSizes } from '../store.ts'
import { FileRoom, type WriteCounter, type WriteEstimate } from './file-room.ts'
import { type LibraryUse, libraryUse } from './library-use.ts'
import { commitFailure, type FileReports, LmdbErrors } from './lmdb-errors.ts'
import { LmdbCursor, LmdbRowHooks } from './lmdb-rows.ts'
import { PromisedWrites } from './promised-writes.ts'
import { WriteInstructions, type WriteTarget } from './write-instructions.ts'

declare module 'lmdb' {
  /** Every database that was ever opened, by the name of its file without the ending; another release may not have it. */
  const allDbs: Map<string, unknown> | undefined
  interface Database {
    getBinary(key: Uint8Array, options: { transaction: ReadTransaction['own'] }): Buffer | undefined
    /** The bytes lie in a buffer that the next read fills again, where that is `isGlobal`. */
    getBinaryFast(key: Uint8Array, options: { transaction: ReadTransaction['own'] }): FastBytes | undefined
    lastSize: number
    /** Called for a value that is larger than the buffer for all values: makes that larger, for good. */
    _returnLargeBuffer(read: () => unknown): FastBytes
    readerCheck(): number
    /** Both of the newest state, without a read transaction. */
    readonly env: NativeEnvironment
  }
  interface NativeEnvironment {
    stat(): object
    info(): object
    /** Has a thread carry out instructions as one transaction, and calls back with 0 or the number of an error. */
    startWriting(address: number, done: (status: number) => void): void
  }
  interface RootDatabaseOptions {
    noReadAhead?: boolean
  }
  interface RangeOptions {
    values?: boolean
  }
}

type FastBytes = Buffer & { readonly isGlobal?: boolean }

const NOT_READ: FastBytes = Buffer.alloc(0)

/** A state that is being read, by one reader or by several who share it. */
export class ReadTransaction {
  readonly own: Transaction
  readers = 1
  /** Made when it is needed first. */
  cursor: LmdbCursor | undefined

  constructor(own: Transaction) {
    this.own = own
  }
}

export interface EnvironmentOptions {
  /** False leaves flushing to the operating system: for files that are flushed whole before they count. */
  readonly flush?: boolean
  /** Whether other processes write to the file too: then every reader must look for what they wrote. */
  readonly isShared?: boolean
  readonly isReadOnly?: boolean
  /** How the library is used; as the process does, unless it is being tried out. */
  readonly use?: LibraryUse
  /** Makes the file. Without it the file must be there and whole: the library would make an empty one a store. */
  readonly create?: boolean
  readonly reports?: FileReports
}

/** Pages in use, apart from the meta pages, are counted by what they hold. */
const PAGE_COUNTS = ['treeBranchPageCount', 'treeLeafPageCount', 'overflowPages']

/** Read transactions open at once, each a slot in the lock file. Snapshots of one state share a slot. */
const READER_SLOTS = 1024

/** At least what the library makes of the lock file: a slot takes 64 bytes, and there is some more. */
const LOCK_BYTES = READER_SLOTS * 64 + 4096

/** So many rows of a range are looked for one by one: a scan costs as much to begin. */
const SHORT_ROWS = 4

const PROBE = Buffer.of(1)

export class LmdbEnvironment {
  readonly path: string
  readonly #rows = new LmdbRowHooks()
  readonly #use: LibraryUse
  readonly #isShared: boolean
  readonly #errors: LmdbErrors
  readonly #database: RootDatabase<Uint8Array, Uint8Array>
  /** Whether large values are left for another way to read them. */
  #isReadingFast = false
  readonly #room: FileRoom
  #hasWritten = false
  /** The transaction under way, or the last one. */
  #writing: Promise<void> | undefined
  /** Where the library leaves the keys of its cursors; known when one was needed. */
  #keyBuffer: Uint8Array | undefined

  /** Throws `FileDamagedError`, and `NoDescriptorsError`. */
  constructor(path: string, options: EnvironmentOptions = {}) {
    this.path = path
    this.#use = options.use ?? libraryUse()
    this.#isShared = options.isShared ?? false
    this.#errors = new LmdbErrors(path, options.reports)
    this.#room = new FileRoom(path)
    this.#database = this.#guarded(() => this.#open(options))
    if (this.#use.native_reads) this.#leaveLargeValues()
  }

  #open(options: EnvironmentOptions): RootDatabase<Uint8Array, Uint8Array> {
    const { path } = this
    requireDescriptors()
    if (!options.create) {
      const { repaired } = inspectFile(path, { canRepair: !options.isReadOnly })
      if (repaired) options.reports?.repaired(path, repaired)
    }
    reserveLock(lockPath(path))
    return open<Uint8Array, Uint8Array>(path, {
      pageSize: LMDB_PAGE_BYTES,
      noSubdir: true,
      maxDbs: 1,
      maxReaders: READER_SLOTS,
      noReadAhead: true,
      // With these two a write resolves after its fsync, and nothing is grouped that we did not group.
      overlappingSync: false,
      eventTurnBatching: false,
      noSync: options.flush === false,
      readOnly: options.isReadOnly ?? false,
      encoding: 'binary',
      encoder: this.#rows,
      keyEncoder: this.#rows,
    })
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
    // Who goes on or comes from the other end reads a lot.
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

  /** How many rows lie in a range; its bounds must be those of stored keys. Not for long ones: it is done in one go. */
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

  /** Everything that `write` puts and removes becomes one durable transaction, or nothing of it. Throws `CommitFailedError`. */
  async write(write: (target: WriteTarget) => void): Promise<void> {
    if (!this.#use.native_writes) return this.#writeAsPromised(write)
    const instructions = new WriteInstructions(this.#database.db.dbi)
    try {
      write(instructions)
      const growing = this.#room.require(this.#estimate(instructions))
      if (growing) await growing
      this.#hasWritten = true
      const writing = this.#carryOut(instructions.finish())
      this.#writing = writing
      await writing
    } finally {
      instructions.release()
    }
  }

  async #writeAsPromised(write: (target: WriteTarget) => void): Promise<void> {
    const writes = new PromisedWrites()
    write(writes)
    const growing = this.#room.require(this.#estimate(writes))
    if (growing) await growing
    this.#hasWritten = true
    const writing = writes.carryOut(this.#database)
    this.#writing = writing
    try {
      await writing
    } catch (error) {
      throw this.#errors.translate(error)
    } finally {
      // The library takes the state that was read last for the newest one.
      this.#database.resetReadTxn()
    }
  }

  /** What a commit may add to the file. */
  estimate(write: (target: WriteTarget) => void): WriteEstimate {
    const instructions = new WriteInstructions(this.#database.db.dbi)
    try {
      write(instructions)
      return this.#estimate(instructions)
    } finally {
      instructions.release()
    }
  }

  #estimate({ counter }: { readonly counter: WriteCounter }): WriteEstimate {
    const tree = this.#database.env.stat()
    return counter.estimate({
      depth: numberIn(tree, 'treeDepth'),
      branchPages: numberIn(tree, 'treeBranchPageCount'),
      leafPages: numberIn(tree, 'treeLeafPageCount'),
      filePages: this.#filePages(),
    })
  }

  async #carryOut(firstInstruction: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<number>()
    this.#database.env.startWriting(firstInstruction, resolve)
    const status = await promise
    // The library takes the state that was read last for the newest one.
    this.#database.resetReadTxn()
    if (status !== 0) throw this.#errors.translate(commitFailure(status))
  }

  /** Where the last page ends that was ever used: what follows in the file is room for later commits. */
  endBytes(): number {
    return this.#filePages() * LMDB_PAGE_BYTES
  }

  #filePages(): number {
    return numberIn(this.#database.env.info(), 'lastPageNumber') + 1
  }

  rowCount(): number {
    return numberIn(this.#stats(), 'entryCount')
  }

  sizes(fileBytes: number): StoreSizes {
    const stats = this.#stats()
    const pages = PAGE_COUNTS.reduce((sum, name) => sum + numberIn(stats, name), META_PAGES)
    return { fileBytes, usedBytes: Math.min(fileBytes, pages * LMDB_PAGE_BYTES) }
  }

  /** Takes back the reader slots of processes that are dead: what they read would never be used again. */
  clearReaders(): void {
    this.#database.readerCheck()
  }

  async close(): Promise<void> {
    await this.#writing?.catch(() => {})
    if (this.#hasWritten) this.#freePageList()
    await this.#database.close()
    // The library keeps what was opened for ever, with a buffer of 64 KiB for each.
    const name = basename(this.path, extname(this.path))
    if (lmdb.allDbs?.get(name) === this.#database) lmdb.allDbs.delete(name)
  }

  /** The library keeps the list of free pages from commit to commit, and frees it when one is aborted, but not when it closes. */
  #freePageList(): void {
    try {
      this.#database.transactionSync(() => ABORT)
    } catch {
      // A file that is damaged: its list is small.
    }
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

  #stats(): object {
    return this.#guarded(() => this.#database.getStats())
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
 * The library writes to the lock file through memory: on a full disk that would end the process. Bytes that are
 * written beforehand are there, or refused with an error.
 */
export function reserveLock(path: string): void {
  try {
    writeFileSync(path, Buffer.alloc(LOCK_BYTES), { flag: 'wx' })
  } catch (error) {
    if (error instanceof Error && Reflect.get(error, 'code') === 'EEXIST') return
    rmSync(path, { force: true })
    throw writeFailure('The lock of a store could not be written', error)
  }
}

function numberIn(stats: object, name: string): number {
  const value: unknown = Reflect.get(stats, name)
  return typeof value === 'number' ? value : 0
}
