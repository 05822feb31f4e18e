/**
 * A snapshot of an LMDB file, and the read transaction that it is. LMDB reads synchronously, so a long read would block the
 * event loop. Pages are returned at once up to a number of rows, since most requests need no more; then the next page
 * yields to the event loop first. Everything is copied: the library's buffers are filled again by the next read.
 */
import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { RootDatabase, Transaction } from 'lmdb'
import {
  CUT_KEY_BYTES,
  type StoredRange,
  storedKey,
  storedRange,
  VERSION_KEY,
  versionOf,
  wholeValue,
} from '../rows/stored-key.ts'
import { StorageError } from '../storage-error.ts'
import type { KeyRange, Page, PageLimits, SharedSnapshot } from '../store.ts'
import type { LibraryUse } from './library/library-use.ts'
import { type CursorTransaction, LmdbPages, type RowCollector } from './library/lmdb-pages.ts'
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
}

/** The files that snapshots are of. A file is held from its acquisition to its release. */
export interface SnapshotFiles {
  acquire(path: string): SnapshotFile
  release(file: SnapshotFile): void
}

export interface SnapshotFile {
  readonly path: string
  readonly reader: LmdbReader
}

/**
 * Values are read in one turn of the event loop for so long, or until they have so many bytes. A turn that is given away
 * too early costs a writer much: others work in it while the disk is idle.
 */
const TURN_MS = 5
const BYTES_A_TURN = 1024 * 1024
/** Values between two looks at the clock. */
const VALUES_A_LOOK = 64

/** Rows of pages, and their bytes, after which the next page waits for a turn of the event loop. */
const PAGED_ROWS_A_TURN = 128
const PAGED_BYTES_A_TURN = 32 * 1024
/** To look for the beginning of a page takes about as long as to read so many rows. */
const ROWS_A_SEEK = 8

export class LmdbSnapshot implements SharedSnapshot {
  readonly #files: SnapshotFiles
  readonly #environment: SnapshotFile
  readonly #transaction: ReadTransaction
  /** Counts ask for it again and again. */
  #version: number | undefined
  /** What pages read since the last turn. */
  #pagedRows = 0
  #pagedBytes = 0
  #released = false

  /** The state of a file as of now. */
  static open(files: SnapshotFiles, path: string): LmdbSnapshot {
    const environment = files.acquire(path)
    try {
      return new LmdbSnapshot(files, environment, environment.reader.beginRead())
    } catch (error) {
      files.release(environment)
      throw error
    }
  }

  /** Takes over a lease of the file and a use of the transaction. */
  private constructor(files: SnapshotFiles, environment: SnapshotFile, transaction: ReadTransaction, version?: number) {
    this.#files = files
    this.#environment = environment
    this.#transaction = transaction
    this.#version = version
  }

  share(): LmdbSnapshot {
    this.#assertHeld()
    const environment = this.#files.acquire(this.#environment.path)
    return new LmdbSnapshot(this.#files, environment, environment.reader.shareRead(this.#transaction), this.#version)
  }

  async version(): Promise<number> {
    this.#version ??= versionOf(this.#read(VERSION_KEY))
    return this.#version
  }

  async get(key: Uint8Array): Promise<Buffer | undefined> {
    return this.#get(key)
  }

  async getMany(keys: readonly Uint8Array[]): Promise<(Buffer | undefined)[]> {
    const values = new Array<Buffer | undefined>(keys.length)
    let bytes = 0
    let begunMs = performance.now()
    for (let i = 0; i < keys.length; i++) {
      const isOver = i > 0 && i % VALUES_A_LOOK === 0 && performance.now() - begunMs >= TURN_MS
      if (isOver || bytes > BYTES_A_TURN) {
        await nextTurn()
        bytes = 0
        begunMs = performance.now()
      }
      const value = this.#get(keys[i]!)
      values[i] = value
      bytes += value?.length ?? 0
    }
    return values
  }

  async page(range: KeyRange, limits: PageLimits = {}): Promise<Page> {
    if (this.#pagedRows >= PAGED_ROWS_A_TURN || this.#pagedBytes >= PAGED_BYTES_A_TURN) {
      await nextTurn()
      this.#pagedRows = 0
      this.#pagedBytes = 0
    }
    this.#assertHeld()
    const page = this.#environment.reader.page(this.#transaction, range, storedRange(range), limits)
    this.#pagedRows += ROWS_A_SEEK + page.length
    this.#pagedBytes += page.block.length
    return page
  }

  async count(range: KeyRange): Promise<number> {
    const stored = storedRange(range)
    // Only the full keys show which rows belong to the range.
    if (stored.contains) return countByPages(this, range)
    this.#assertHeld()
    return this.#environment.reader.count(this.#transaction, stored)
  }

  release(): void {
    if (this.#released) return
    this.#released = true
    this.#environment.reader.endRead(this.#transaction)
    this.#files.release(this.#environment)
  }

  [Symbol.dispose](): void {
    this.release()
  }

  #get(key: Uint8Array): Buffer | undefined {
    if (key.length < CUT_KEY_BYTES) return this.#read(key)
    const stored = this.#read(storedKey(key))
    return stored && wholeValue(stored)
  }

  #read(stored: Uint8Array): Buffer | undefined {
    this.#assertHeld()
    return this.#environment.reader.get(this.#transaction, stored)
  }

  #assertHeld(): void {
    if (this.#released) throw new StorageError('The snapshot was released.')
  }
}

async function countByPages(snapshot: LmdbSnapshot, range: KeyRange): Promise<number> {
  let count = 0
  for (let rest: KeyRange | undefined = range; rest; ) {
    const page = await snapshot.page(rest, { keysOnly: true })
    count += page.length
    rest = page.next
  }
  return count
}

type FastBytes = Buffer & { readonly isGlobal?: boolean }

const NOT_READ: FastBytes = Buffer.alloc(0)

/** A read transaction, used by one reader or shared by several. */
export class ReadTransaction implements CursorTransaction {
  readonly own: Transaction
  readers = 1
  /** Made when it is needed first. */
  cursor: CursorTransaction['cursor']

  constructor(own: Transaction) {
    this.own = own
  }
}

const PROBE = Buffer.of(1)

export interface ReaderOptions {
  readonly use: LibraryUse
  /** Whether other processes write to the file too: then every read transaction must look for newer commits. */
  readonly isShared: boolean
  readonly errors: LmdbErrors
  /** The encoder of keys and the decoder of rows that the database was opened with. */
  readonly keys: KeyWriter
  readonly rows: RowCollector
}

export class LmdbReader {
  readonly #database: RootDatabase<Uint8Array, Uint8Array>
  readonly #pages: LmdbPages
  readonly #use: LibraryUse
  readonly #isShared: boolean
  readonly #errors: LmdbErrors
  /** Whether large values are left for another way to read them. */
  #isReadingFast = false
  /** Whether the library's transaction was begun in this task of the event loop. */
  #isOfThisTask = false

  constructor(database: RootDatabase<Uint8Array, Uint8Array>, { use, isShared, errors, keys, rows }: ReaderOptions) {
    this.#database = database
    this.#pages = new LmdbPages(database, rows, {
      hasCursors: use.native_cursors,
      get: (transaction, storedKey) => this.get(transaction, storedKey),
      keyBuffer: (transaction) => keys.buffer(() => this.get(transaction, PROBE)),
    })
    this.#use = use
    this.#isShared = isShared
    this.#errors = errors
    if (use.native_reads) this.#leaveLargeValues()
  }

  /** The state as of now; `endRead` must follow. Throws `TooManyReadersError`. */
  beginRead(): ReadTransaction {
    // One that met a damaged page is of no use any more.
    const isUsable = !this.#errors.damage && (!this.#isShared || this.#isOfThisTask)
    // The library takes the state that was read last for the newest one, unless this process wrote another.
    if (!isUsable) this.#database.resetReadTxn()
    const transaction = new ReadTransaction(this.#guarded(() => this.#database.useReadTransaction()))
    if (!isUsable && this.#isShared) this.#keepForThisTask()
    return transaction
  }

  /**
   * Requests that are served together share one transaction: to begin one for each costs several times as much as its reads.
   * Nothing is received before the task ends, so none of them can know of a later commit.
   */
  #keepForThisTask(): void {
    this.#isOfThisTask = true
    process.nextTick(() => {
      this.#isOfThisTask = false
    })
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

  get(transaction: CursorTransaction, storedKey: Uint8Array): Buffer | undefined {
    try {
      return this.#get(transaction, storedKey)
    } catch (error) {
      throw this.#errors.translate(error)
    }
  }

  #get(transaction: CursorTransaction, storedKey: Uint8Array): Buffer | undefined {
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
      return this.#pages.page(transaction, range, stored, limits)
    } catch (error) {
      throw this.#errors.translate(error)
    }
  }

  /** How many rows lie in a range; its bounds must be those of stored keys. Synchronous, so not for long ranges. */
  count(transaction: ReadTransaction, range: StoredRange): number {
    return this.#guarded(() => this.#pages.count(transaction, range))
  }

  #guarded<T>(use: () => T): T {
    try {
      return use()
    } catch (error) {
      throw this.#errors.translate(error)
    }
  }
}

/** The encoder of keys that the library calls for each lookup. */
export class KeyWriter {
  #onWritten: ((target: Uint8Array) => void) | undefined

  /** The buffer into which a key is written while the library looks for it. */
  buffer(lookUp: () => void): Uint8Array {
    let buffer: Uint8Array | undefined
    this.#onWritten = (target) => {
      buffer = target
    }
    lookUp()
    this.#onWritten = undefined
    assert(buffer, 'The library writes a key before it looks for it.')
    return buffer
  }

  readonly writeKey = (key: Uint8Array, target: Uint8Array, start: number): number => {
    this.#onWritten?.(target)
    target.set(key, start)
    return start + key.length
  }
}
