/**
 * One open LMDB file: how it is opened, written, measured and closed. Reads are those of its `reader`. A write resolves
 * when it is on disk.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { basename, extname } from 'node:path'
import * as lmdb from 'lmdb'
import { ABORT, open, type RootDatabase } from 'lmdb'
import { inspectFile } from '../file-check/inspect-file.ts'
import { LMDB_PAGE_BYTES, META_PAGES } from '../file-check/page-layout.ts'
import { requireDescriptors, writeFailure } from '../files/file-failures.ts'
import { lockPath } from '../files/store-file.ts'
import type { StoreSizes } from '../store.ts'
import { FileRoom, type WriteCounter, type WriteEstimate } from './file-room.ts'
import { type LibraryUse, libraryUse } from './library/library-use.ts'
import { RowCollector } from './library/lmdb-pages.ts'
import { NewestTransaction } from './library/newest-transaction.ts'
import { PromisedWrites } from './library/promised-writes.ts'
import { type WriteCondition, WriteInstructions, type WriteTarget } from './library/write-instructions.ts'
import { commitFailure, type FileReports, isPanic, LmdbErrors } from './lmdb-errors.ts'
import { KeyWriter, LmdbReader } from './lmdb-snapshot.ts'

declare module 'lmdb' {
  /** Every database that was ever opened, by the name of its file without the ending; another release may not have it. */
  const allDbs: Map<string, unknown> | undefined
  interface Database {
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

const ANY_KEY = Buffer.from([0])

export class LmdbEnvironment {
  readonly path: string
  readonly reader: LmdbReader
  readonly #use: LibraryUse
  readonly #errors: LmdbErrors
  readonly #database: RootDatabase<Uint8Array, Uint8Array>
  readonly #room: FileRoom
  readonly #isFlushed: boolean
  readonly #newest: NewestTransaction
  #hasWritten = false
  /** Why nothing can be written any more before the file is closed and opened again. */
  #unwritable: unknown
  /** A transaction could not be begun. The library keeps its writer locked then: to write or close would block for good. */
  #isLocked = false
  /** The transaction under way, or the last one. */
  #writing: Promise<void> | undefined

  /** Throws `FileDamagedError`, and `NoDescriptorsError`. */
  constructor(path: string, options: EnvironmentOptions = {}) {
    this.path = path
    this.#use = options.use ?? libraryUse()
    this.#errors = new LmdbErrors(path, options.reports)
    this.#room = new FileRoom(path)
    this.#isFlushed = options.flush !== false
    const keys = new KeyWriter()
    const rows = new RowCollector()
    this.#database = this.#guarded(() => this.#open(options, keys, rows))
    const isShared = options.isShared ?? false
    this.reader = new LmdbReader(this.#database, { use: this.#use, isShared, errors: this.#errors, keys, rows })
    this.#newest = new NewestTransaction(lockPath(path), () => this.#newestNumber())
    // Others may have committed while it was opened.
    if (isShared) this.#restoreOnOpening()
  }

  #open(
    options: EnvironmentOptions,
    { writeKey }: KeyWriter,
    rows: RowCollector,
  ): RootDatabase<Uint8Array, Uint8Array> {
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
      encoder: rows,
      keyEncoder: { writeKey, readKey: rows.readKey },
    })
  }

  /**
   * Everything that `write` puts and removes becomes one durable transaction, or nothing of it. Throws `CommitFailedError`.
   * With a condition nothing is written, and false returned, where the row is another in the state that is written upon.
   */
  async write(write: (target: WriteTarget) => void, condition?: WriteCondition): Promise<boolean> {
    if (this.#unwritable) throw this.#unwritable
    if (!this.#use.native_writes) return this.#writeAsPromised(write, condition)
    const instructions = new WriteInstructions(this.#database.db.dbi, condition)
    try {
      write(instructions)
      const growing = this.#room.require(this.#estimate(instructions))
      if (growing) await growing
      this.#hasWritten = true
      const before = this.#newestNumber()
      const writing = this.#carryOut(instructions)
      this.#writing = writing
      await writing
      // A number put back by two is that of the right meta page, but the commit is then none of the newest number.
      if (condition && (instructions.isRefused || this.#newestNumber() <= before)) return false
    } finally {
      instructions.release()
    }
    if (this.#isFlushed) this.#room.prepare(() => this.endBytes())
    return true
  }

  async #writeAsPromised(write: (target: WriteTarget) => void, condition?: WriteCondition): Promise<boolean> {
    const writes = new PromisedWrites()
    write(writes)
    const growing = this.#room.require(this.#estimate(writes))
    if (growing) await growing
    this.#hasWritten = true
    const before = this.#newestNumber()
    const writing = writes.carryOut(this.#database, condition)
    this.#writing = writing.then(
      () => {},
      () => {},
    )
    try {
      if (!(await writing) || (condition && this.#newestNumber() <= before)) return false
    } catch (error) {
      throw this.#failed(error, writes.hasBegun)
    } finally {
      // The library takes the state that was read last for the newest one.
      this.#database.resetReadTxn()
    }
    if (this.#isFlushed) this.#room.prepare(() => this.endBytes())
    return true
  }

  /** Of the transaction that the meta pages name. */
  #newestNumber(): number {
    return numberIn(this.#database.env.info(), 'lastTxnId')
  }

  /** Where the lock file cannot be opened or written, the writer restores it with its next commit. */
  #restoreOnOpening(): void {
    try {
      this.restoreNewest()
    } catch {
      // A folder that can only be read, or no descriptor left.
    }
  }

  /** Has everybody begin with the newest state, where another process that opened the file has put it back. */
  restoreNewest(): boolean {
    const wasOlder = this.#newest.restore()
    if (wasOlder) this.#database.resetReadTxn()
    return wasOlder
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

  async #carryOut(instructions: WriteInstructions): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<number>()
    this.#database.env.startWriting(instructions.finish(), resolve)
    const status = await promise
    // The library takes the state that was read last for the newest one.
    this.#database.resetReadTxn()
    if (status !== 0) throw this.#failed(commitFailure(status), instructions.hasBegun)
  }

  #failed(failure: unknown, hasBegun: boolean): unknown {
    const error = this.#errors.translate(failure)
    this.#isLocked = !hasBegun
    if (this.#isLocked || this.#hasPanicked()) this.#unwritable = error
    return error
  }

  /** Where a meta page could not be written, the library refuses everything from then on. */
  #hasPanicked(): boolean {
    try {
      this.#database.resetReadTxn()
      this.#database.doesExist(ANY_KEY)
      return false
    } catch (error) {
      return isPanic(error)
    }
  }

  /** Whether it must be closed before the file can be written again. */
  get isUnwritable(): boolean {
    return this.#unwritable !== undefined
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
    await this.#room.settled()
    // Better a file that stays open until the process ends than a process that is blocked.
    if (this.#isLocked) return
    if (this.#hasWritten && !this.isUnwritable) this.#freePageList()
    await this.#database.close()
    this.#newest.close()
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
