/**
 * Inspects an LMDB file before the library maps it. The library trusts what it maps: a file that is too short, zeroed or of
 * another kind ends the process. It checks what every open relies on: the meta pages, the length and the roots of the trees.
 * Walking all pages would take as long as reading the file.
 */
import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs'
import { libraryUse } from '../lmdb/library/library-use.ts'
import { FileDamagedError } from '../storage-error.ts'
import { LMDB_PAGE_BYTES, META_BYTES, META_PAGES, type Meta, readMeta, TRANSACTION_AT } from './page-layout.ts'
import { rootProblem, walkPages } from './page-walk.ts'

/** Another process may commit between two of the reads: what looks wrong is read again. */
const TRIES = 3

export interface Inspection {
  /** Set where one of the meta pages was damaged, and was written again from the other one. */
  readonly repaired: string | undefined
}

export interface InspectionOptions {
  /** Whether a damaged meta page may be written again; without that it is an error. */
  readonly canRepair?: boolean
}

/** Throws `FileDamagedError`. */
export function inspectFile(path: string, { canRepair = true }: InspectionOptions = {}): Inspection {
  const file = opened(path, canRepair ? 'r+' : 'r')
  try {
    if (!libraryUse().page_inspection) {
      if (fstatSync(file).size === 0) throw new FileDamagedError(path, 'It is empty.')
      return { repaired: undefined }
    }
    let found = inspect(file)
    for (let tries = 1; tries < TRIES && !isWhole(found); tries++) found = confirmed(found, inspect(file))
    if (typeof found === 'string') throw new FileDamagedError(path, found)
    if (!found.bad) return { repaired: undefined }
    if (!canRepair) throw new FileDamagedError(path, 'One of its two meta pages is damaged.')
    return { repaired: repair(file, found.bad, found.meta) }
  } catch (error) {
    throw asUnreadable(path, error)
  } finally {
    closeSync(file)
  }
}

/**
 * Checks every page in use, a few at a time. Throws `FileDamagedError`. The file must not be written in the meantime.
 */
export function* inspectPages(path: string): Generator<void, void> {
  if (!libraryUse().page_inspection) return
  const file = opened(path)
  try {
    const found = inspect(file)
    const problem = typeof found === 'string' ? found : yield* walkPages(file, fstatSync(file).size, found.meta)
    if (problem) throw new FileDamagedError(path, problem)
  } catch (error) {
    throw asUnreadable(path, error)
  } finally {
    closeSync(file)
  }
}

interface Found {
  /** The state that counts. */
  readonly meta: Meta
  readonly bad: BadPage | undefined
}

/** One of the meta pages that is damaged, and the other one, which is not. */
interface BadPage {
  readonly number: number
  readonly bytes: Buffer
  readonly good: Buffer
}

function isWhole(found: Found | string): boolean {
  return typeof found !== 'string' && !found.bad
}

/** A page that looks bad in another way each time is being written. */
function confirmed(before: Found | string, found: Found | string): Found | string {
  if (typeof before === 'string' || typeof found === 'string' || !found.bad) return found
  return before.bad?.bytes.equals(found.bad.bytes) ? found : { ...found, bad: undefined }
}

function inspect(file: number): Found | string {
  const status = fstatSync(file)
  if (!status.isFile()) return 'It is not a regular file.'
  if (status.size === 0) return 'It is empty.'
  if (status.size < META_PAGES * LMDB_PAGE_BYTES) return 'It is too short to hold anything.'
  const first = readPart(file, 0)
  const second = readPart(file, 1)
  const metas = [readMeta(first, 0), readMeta(second, 1)] as const
  const meta = newest(...metas)
  if (typeof meta === 'string') return `Both of its meta pages are damaged. ${meta}`
  const isShort = status.size < (meta.lastPage + 1) * LMDB_PAGE_BYTES
  // Pages at the end that are free need not have been written.
  const problem = isShort ? walk(file, status.size, meta) : rootProblem(file, status.size, meta)
  if (problem) return isShort ? `It is ${status.size} bytes long, which is too short. ${problem}` : problem
  if (typeof metas[0] === 'string') return { meta, bad: { number: 0, bytes: first, good: second } }
  if (typeof metas[1] === 'string') return { meta, bad: { number: 1, bytes: second, good: first } }
  return { meta, bad: undefined }
}

function newest(first: Meta | string, second: Meta | string): Meta | string {
  if (typeof second === 'string') return first
  if (typeof first === 'string') return second
  return first.transaction >= second.transaction ? first : second
}

function readPart(file: number, page: number): Buffer {
  const bytes = Buffer.alloc(META_BYTES)
  readSync(file, bytes, 0, META_BYTES, page * LMDB_PAGE_BYTES)
  return bytes
}

function walk(file: number, fileBytes: number, meta: Meta): string | undefined {
  const pages = walkPages(file, fileBytes, meta)
  for (let step = pages.next(); ; step = pages.next()) if (step.done) return step.value
}

/**
 * The library does not ask whether the second meta page is one, and refuses a file without the first. The bad one
 * becomes a copy of the good one that names an earlier transaction: the good one stays in effect.
 */
function repair(file: number, { number, good }: BadPage, { transaction }: Meta): string {
  const copy = Buffer.from(good)
  copy.writeBigUInt64LE(BigInt(number), 0)
  copy.writeBigUInt64LE(transaction > 0n ? transaction - 1n : 0n, TRANSACTION_AT)
  writeSync(file, copy, 0, copy.length, number * LMDB_PAGE_BYTES)
  return 'One of its two meta pages was damaged. The other one counts: the last commit may be missing.'
}

function opened(path: string, mode = 'r'): number {
  try {
    return openSync(path, mode)
  } catch (error) {
    const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
    if (code === 'ENOENT') throw new FileDamagedError(path, 'It is missing.', { cause: error })
    if (code === 'EIO' || code === 'EACCES') throw asUnreadable(path, error)
    if (code === 'EISDIR') throw new FileDamagedError(path, 'It is not a regular file.', { cause: error })
    throw error
  }
}

/** What the system says where it does not give the bytes of a file: a disk that fails, rights that were taken away. */
function asUnreadable(path: string, error: unknown): unknown {
  if (!(error instanceof Error) || !('syscall' in error)) return error
  return new FileDamagedError(path, `It cannot be read: ${error.message}.`, { cause: error })
}
