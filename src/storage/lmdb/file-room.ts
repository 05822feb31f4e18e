/**
 * Space for a commit at the end of an LMDB file. A write that the system refuses in the middle of a commit can end the
 * process: the library formats its error message into a buffer that is too short. So the file is grown before the commit,
 * with zeros that we write ourselves. A full disk, a quota or a limit on the size of files is an error here.
 */
import { closeSync, constants, fdatasync, fstatSync, openSync, readSync, statfsSync, writeSync, writev } from 'node:fs'
import { basename, dirname } from 'node:path'
import { promisify } from 'node:util'
import { LMDB_PAGE_BYTES, PAGE_HEADER_BYTES } from '../file-check/page-layout.ts'
import { CommitFailedError } from '../storage-error.ts'

/** What a commit may leave unused of the room made for it, beyond its rows: the larger one counts. */
const LEAST_RESERVE_BYTES = 256 * 1024
const RESERVE_SHARE = 1 / 8
const MOST_RESERVE_BYTES = 16 * 1024 * 1024

/** Growing costs more than a write: this much beyond what is needed, so that the next commits need not. */
const LEAST_STEP_BYTES = 16 * 1024
const STEP_SHARE = 1 / 8
const MOST_STEP_BYTES = 1024 * 1024

/** Beyond this the growing is left to a thread. */
const SYNC_BYTES = 1024 * 1024

/** Where room on the disk is only counted, not taken, others may take some of it meanwhile. */
const COUNTED_SHARE = 2

/** File systems that write a block elsewhere each time (btrfs, ZFS, bcachefs): bytes that are there can be refused too. */
const COPY_ON_WRITE: ReadonlySet<number> = new Set([0x9123683e, 0x2fc12fc1, 0xca451a4e])

const ZEROS = Buffer.alloc(256 * 1024)
/** Blocks of zeros in one call of the system. Each call waits for a turn of the event loop; a longer one costs more than two. */
const ZEROS_A_WRITE = 4

/** The file is there: one that was removed meanwhile must not come back. */
const APPEND = constants.O_WRONLY | constants.O_APPEND

const writeAside = promisify(writev)
const flushAside = promisify(fdatasync)

export class FileRoom {
  readonly #path: string
  /** How long the file is at least: it never gets shorter. Undefined until the first commit. */
  #fileBytes: number | undefined
  #isCopyOnWrite = false
  /** The rows of the last commit, where it had to reserve less than it may take. */
  #largeRowBytes: number | undefined
  /** Never rejects. */
  #preparing: Promise<void> | undefined

  constructor(path: string) {
    this.#path = path
  }

  /** Makes room for a commit after the last page in use. Throws `CommitFailedError` where there is none. */
  require(estimate: WriteEstimate): void | Promise<void> {
    const { endBytes, rowBytes, mostBytes } = estimate
    const reserve = reserveBytes(endBytes)
    const isPartly = rowBytes + reserve < mostBytes
    this.#largeRowBytes = isPartly ? rowBytes : undefined
    const fileBytes = this.#checked(estimate, isPartly)
    // Checked again when the room is made: its bytes are taken from the disk, and not yet part of the file.
    if (fileBytes === undefined) return this.#preparing?.then(() => this.require(estimate))
    const full = endBytes + Math.min(mostBytes, rowBytes + reserve)
    // The other half of the reserve is made after the commit.
    const needed = isPartly ? full - reserve / 2 : full
    if (needed <= fileBytes) return
    if (this.#preparing) return this.#preparing.then(() => this.require(estimate))
    const wanted = full + stepBytes(endBytes)
    return needed - fileBytes > SYNC_BYTES ? this.#growAside(needed, wanted) : this.#growNow(needed, wanted)
  }

  /**
   * After a large commit: makes the room that another one of its size will ask for, so that no commit waits for it. The
   * zeros are flushed too; the next commit flushes its own pages only.
   */
  prepare(lastPageEnd: () => number): void {
    if (this.#largeRowBytes === undefined || this.#fileBytes === undefined || this.#preparing) return
    const endBytes = lastPageEnd()
    const full = endBytes + this.#largeRowBytes + reserveBytes(endBytes)
    if (full <= this.#fileBytes) return
    this.#preparing = this.#growAside(full, full + stepBytes(endBytes), { flush: true })
      // The next commit grows the file itself, and fails if that does.
      .catch(() => {})
      .finally(() => {
        this.#preparing = undefined
      })
  }

  /** Resolves when nothing is written to the file from here. */
  async settled(): Promise<void> {
    await this.#preparing
  }

  /** The length of the file, if the commit fits; undefined where that is not known while room is being made. */
  #checked({ endBytes, mostBytes }: WriteEstimate, isPartly: boolean): number | undefined {
    try {
      const isFirst = this.#fileBytes === undefined
      this.#fileBytes ??= this.#look()
      // A limit below the length of the file does not show where the file need not grow.
      if (isFirst || isPartly) checkLimit(endBytes + mostBytes)
      if (isPartly || this.#isCopyOnWrite)
        checkDisk(this.#path, this.#isCopyOnWrite ? mostBytes : endBytes + mostBytes - this.#fileBytes)
      return this.#fileBytes
    } catch (error) {
      if (this.#preparing) return undefined
      throw this.#refusal(error)
    }
  }

  #look(): number {
    this.#isCopyOnWrite = COPY_ON_WRITE.has(statfsSync(dirname(this.#path)).type)
    const file = openSync(this.#path, 'r')
    try {
      return fstatSync(file).size
    } finally {
      closeSync(file)
    }
  }

  /** Only ever appends, wherever the end is by then: another process may have grown the file. */
  #growNow(needed: number, wanted: number): void {
    try {
      const file = openSync(this.#path, APPEND)
      let end = fstatSync(file).size
      try {
        while (end < wanted) end += writeSync(file, ZEROS, 0, Math.min(ZEROS.length, wanted - end))
      } catch (error) {
        if (end < needed) throw error
      } finally {
        closeSync(file)
      }
      this.#fileBytes = end
    } catch (error) {
      throw this.#refusal(error)
    }
  }

  async #growAside(needed: number, wanted: number, { flush = false } = {}): Promise<void> {
    try {
      const file = openSync(this.#path, APPEND)
      let end = fstatSync(file).size
      try {
        while (end < wanted) end += (await writeAside(file, zeros(wanted - end))).bytesWritten
        if (flush) await flushAside(file)
      } catch (error) {
        if (end < needed) throw error
      } finally {
        closeSync(file)
      }
      this.#fileBytes = end
    } catch (error) {
      throw this.#refusal(error)
    }
  }

  #refusal(error: unknown): CommitFailedError {
    const reason = error instanceof Error ? error.message : String(error)
    return new CommitFailedError(`The disk is full: ${basename(this.#path)} cannot grow: ${reason}`, { cause: error })
  }
}

function zeros(bytes: number): Buffer[] {
  const whole = Math.floor(bytes / ZEROS.length)
  if (whole >= ZEROS_A_WRITE) return new Array<Buffer>(ZEROS_A_WRITE).fill(ZEROS)
  return [...new Array<Buffer>(whole).fill(ZEROS), ZEROS.subarray(0, bytes % ZEROS.length)]
}

function checkLimit(bytes: number): void {
  const limit = fileSizeLimit()
  if (bytes > limit) throw new Error(`files of this process are limited to ${limit} bytes.`)
}

function checkDisk(path: string, bytes: number): void {
  const { bavail, bsize } = statfsSync(dirname(path))
  const free = bavail * bsize
  if (free < bytes * COUNTED_SHARE) throw new Error(`${free} bytes are free, and the commit may take ${bytes}.`)
}

function reserveBytes(endBytes: number): number {
  return Math.max(LEAST_RESERVE_BYTES, Math.min(MOST_RESERVE_BYTES, wholePages(endBytes * RESERVE_SHARE)))
}

function stepBytes(endBytes: number): number {
  return Math.max(LEAST_STEP_BYTES, Math.min(MOST_STEP_BYTES, wholePages(endBytes * STEP_SHARE)))
}

function wholePages(bytes: number): number {
  return Math.ceil(bytes / LMDB_PAGE_BYTES) * LMDB_PAGE_BYTES
}

export interface WriteEstimate {
  /** Where the last page ends that was ever used. */
  readonly endBytes: number
  /** What the rows themselves take. */
  readonly rowBytes: number
  /** With every other page that may have to be written. */
  readonly mostBytes: number
}

/** The tree as it is before the commit. */
export interface TreeShape {
  readonly depth: number
  readonly branchPages: number
  readonly leafPages: number
  /** All pages of the file, the free ones too. */
  readonly filePages: number
}

/** A row of half a page or more lies on pages of its own. */
const LARGE_ROW_BYTES = LMDB_PAGE_BYTES / 2 - 64

/** Header and place of a row on its page, rounded up. */
const ROW_OVERHEAD_BYTES = 16

/** Pages that grow one row at a time are left half full. */
const FILL = 1 / 2

/** A branch has three children at least: keys are shorter than a quarter of a page. */
const LEAST_CHILDREN = 3

/** Numbers of free pages that a page holds, rounded down. */
const FREE_NUMBERS = 1000

/** Pages of the free list that are rewritten in any case. */
const FREE_LIST_PAGES = 3

/**
 * Counts what a commit writes, and estimates what it may add to the file at most: every page that it touches is written to
 * another place, and none of the free ones may be fit for use.
 */
export class WriteCounter {
  #rows = 0
  #smallBytes = 0
  #largePages = 0

  put(keyBytes: number, valueBytes: number): void {
    this.#rows++
    const bytes = keyBytes + valueBytes + ROW_OVERHEAD_BYTES
    if (bytes < LARGE_ROW_BYTES) this.#smallBytes += bytes
    else {
      this.#smallBytes += keyBytes + ROW_OVERHEAD_BYTES
      this.#largePages += Math.ceil((valueBytes + PAGE_HEADER_BYTES) / LMDB_PAGE_BYTES)
    }
  }

  remove(): void {
    this.#rows++
  }

  estimate({ depth, branchPages, leafPages, filePages }: TreeShape): WriteEstimate {
    const touchedLeaves = Math.min(this.#rows, Math.max(1, leafPages))
    const touchedBranches = Math.min(touchedLeaves * Math.max(0, depth - 1), branchPages)
    const filledLeaves = Math.ceil(this.#smallBytes / (LMDB_PAGE_BYTES * FILL))
    // Each touched leaf may be full.
    const newLeaves = Math.min(this.#rows, touchedLeaves + filledLeaves)
    const newBranches = Math.ceil(newLeaves / LEAST_CHILDREN) + 1
    const treePages = touchedLeaves + touchedBranches + newLeaves + newBranches
    const freePages = FREE_LIST_PAGES + Math.ceil((filePages + treePages + this.#largePages) / FREE_NUMBERS)
    const rowPages = filledLeaves + this.#largePages
    return {
      endBytes: filePages * LMDB_PAGE_BYTES,
      rowBytes: rowPages * LMDB_PAGE_BYTES,
      mostBytes: (treePages + this.#largePages + freePages) * LMDB_PAGE_BYTES,
    }
  }
}

const LIMITS = '/proc/self/limits'
const LINE = /^Max file size +(\d+)/m

/** How long the system lets this process make a file (`ulimit -f`), which can change. Infinity where there is no limit. */
function fileSizeLimit(): number {
  if (process.platform !== 'linux') return Number.POSITIVE_INFINITY
  const found = LINE.exec(limits())
  return found ? Number(found[1]) : Number.POSITIVE_INFINITY
}

/** The file stays open: it is read with every larger commit, and opening it takes twice as long as reading. */
function limits(): string {
  try {
    limitsFile ??= openSync(LIMITS, 'r')
    return limitsText.toString('latin1', 0, readSync(limitsFile, limitsText, 0, limitsText.length, 0))
  } catch {
    return ''
  }
}

let limitsFile: number | undefined
const limitsText = Buffer.alloc(4096)
