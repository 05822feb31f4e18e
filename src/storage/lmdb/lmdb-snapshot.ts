/**
 * A snapshot of an LMDB file. LMDB reads synchronously, so a long read would block the event loop. Pages are returned at once
 * up to a number of rows, since most requests need no more; then the next page yields to the event loop first.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isWhole, storedKey, storedRange, VERSION_KEY, versionOf, wholeValue } from '../rows/stored-key.ts'
import { StorageError } from '../storage-error.ts'
import type { KeyRange, Page, PageLimits, SharedSnapshot } from '../store.ts'
import type { LmdbEnvironment } from './lmdb-environment.ts'
import type { ReadTransaction } from './lmdb-reader.ts'
import type { OpenFiles } from './open-files.ts'

/** Values read in one turn of the event loop. */
const VALUES_A_TURN = 256
const BYTES_A_TURN = 1024 * 1024

/** Rows of pages, and their bytes, after which the next page waits for a turn of the event loop. */
const PAGED_ROWS_A_TURN = 128
const PAGED_BYTES_A_TURN = 32 * 1024
/** To look for the beginning of a page takes about as long as to read so many rows. */
const ROWS_A_SEEK = 8

export class LmdbSnapshot implements SharedSnapshot {
  readonly #files: OpenFiles
  readonly #environment: LmdbEnvironment
  readonly #transaction: ReadTransaction
  /** Counts ask for it again and again. */
  #version: number | undefined
  /** What pages read since the last turn. */
  #pagedRows = 0
  #pagedBytes = 0
  #released = false

  /** The state of a file as of now. */
  static open(files: OpenFiles, path: string): LmdbSnapshot {
    const environment = files.acquire(path)
    try {
      return new LmdbSnapshot(files, environment, environment.reader.beginRead())
    } catch (error) {
      files.release(environment)
      throw error
    }
  }

  /** Takes over a lease of the file and a use of the transaction. */
  private constructor(files: OpenFiles, environment: LmdbEnvironment, transaction: ReadTransaction, version?: number) {
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
    for (let i = 0; i < keys.length; i++) {
      if (i > 0 && (i % VALUES_A_TURN === 0 || bytes > BYTES_A_TURN)) {
        await nextTurn()
        bytes = 0
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
    if (isWhole(key)) return this.#read(key)
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

/** The stored keys of all rows in the ranges, as of now. */
export async function storedKeysIn(environment: LmdbEnvironment, ranges: readonly KeyRange[]): Promise<Uint8Array[]> {
  const keys: Uint8Array[] = []
  for (const { from, to } of ranges) {
    let rest: KeyRange | undefined = { from, to }
    while (rest) {
      const range: KeyRange = rest
      const page = environment.reader.read((transaction) =>
        environment.reader.page(transaction, range, storedRange(range), { keysOnly: true, rows: 1024 }),
      )
      for (let row = 0; row < page.length; row++) keys.push(storedKey(page.key(row)))
      rest = page.next
      if (rest) await nextTurn()
    }
  }
  return keys
}
