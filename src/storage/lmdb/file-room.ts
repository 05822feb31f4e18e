/**
 * Room for a commit at the end of an LMDB file. A write that the system refuses in the middle of a commit can end the
 * process: the library formats its report of it into a buffer that is too short. So the file is grown beforehand, with
 * zeros that we write ourselves: a full disk, a quota or a limit on the size of files is met here, as an error.
 */
import { closeSync, fstatSync, openSync, statfsSync, writeSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { LMDB_PAGE_BYTES } from '../file-check/page-layout.ts'
import { CommitFailedError } from '../storage-error.ts'
import { fileSizeLimit } from './file-size-limit.ts'
import type { WriteEstimate } from './write-estimate.ts'

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

export class FileRoom {
  readonly #path: string
  /** How long the file is at least: it never gets shorter. Undefined until the first commit. */
  #fileBytes: number | undefined
  #isCopyOnWrite = false

  constructor(path: string) {
    this.#path = path
  }

  /** Makes room for a commit after the last page in use. Throws `CommitFailedError` where there is none. */
  require(estimate: WriteEstimate): void | Promise<void> {
    const { endBytes, rowBytes, mostBytes } = estimate
    const needed = endBytes + Math.min(mostBytes, rowBytes + reserveBytes(endBytes))
    const fileBytes = this.#checked(estimate, needed < endBytes + mostBytes)
    if (needed <= fileBytes) return
    const wanted = needed + stepBytes(endBytes)
    return needed - fileBytes > SYNC_BYTES ? this.#growAside(needed, wanted) : this.#growNow(needed, wanted)
  }

  /** How long the file is, when nothing speaks against the commit. */
  #checked({ endBytes, mostBytes }: WriteEstimate, isPartly: boolean): number {
    try {
      const isFirst = this.#fileBytes === undefined
      this.#fileBytes ??= this.#look()
      // A limit below the length of the file does not show where the file need not grow.
      if (isFirst || isPartly) checkLimit(endBytes + mostBytes)
      if (isPartly || this.#isCopyOnWrite)
        checkDisk(this.#path, this.#isCopyOnWrite ? mostBytes : endBytes + mostBytes - this.#fileBytes)
      return this.#fileBytes
    } catch (error) {
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
      const file = openSync(this.#path, 'a')
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

  async #growAside(needed: number, wanted: number): Promise<void> {
    try {
      await using file = await open(this.#path, 'a')
      let end = (await file.stat()).size
      try {
        while (end < wanted) end += (await file.write(ZEROS, 0, Math.min(ZEROS.length, wanted - end))).bytesWritten
      } catch (error) {
        if (end < needed) throw error
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
