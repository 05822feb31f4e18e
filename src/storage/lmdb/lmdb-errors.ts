/**
 * Errors of the LMDB library in the terms of the store. A file that turned out to be damaged is reported, and remembered:
 * later errors of transactions that met the damage have the same cause.
 */
import * as lmdb from 'lmdb'
import { CommitFailedError, FileDamagedError, TooManyReadersError } from '../storage-error.ts'

/** Receives files that cannot be used, and files that were repaired. */
export interface FileReports {
  damaged(error: FileDamagedError): void
  repaired(path: string, notice: string): void
}

/** `MDB_READERS_FULL`: all reader slots are taken. */
const READERS_FULL = -30790

/** `MDB_BAD_TXN`: the transaction failed before. */
const BAD_TRANSACTION = -30782

/** `MDB_PANIC`: a write failed in a way that the library does not recover from while the file is open. */
const PANIC = -30795

/** Page not found, corrupted, panic, version mismatch, invalid, bad transaction. */
const DAMAGE: ReadonlySet<unknown> = new Set([-30797, -30796, PANIC, -30794, -30793, BAD_TRANSACTION])

/** The errors of one file. */
export class LmdbErrors {
  /** Set when a read or a write met it. */
  damage: FileDamagedError | undefined
  readonly #path: string
  readonly #reports: FileReports | undefined

  constructor(path: string, reports: FileReports | undefined) {
    this.#path = path
    this.#reports = reports
  }

  translate(error: unknown): unknown {
    if (error instanceof FileDamagedError) {
      this.damage = error
      this.#reports?.damaged(error)
      return error
    }
    const code = codeOf(error) ?? codeOf(error instanceof CommitFailedError ? error.cause : undefined)
    if (code === READERS_FULL) {
      const reason = 'Too many states of the store are being read; try again later.'
      return new TooManyReadersError(reason, { cause: error })
    }
    if (code === BAD_TRANSACTION && this.damage) return this.damage
    // Not all reads of the library say what they met: the next one of the same transaction does.
    if (!DAMAGE.has(code)) return error
    const message = error instanceof Error ? error.message : String(error)
    return this.translate(new FileDamagedError(this.#path, `LMDB reports: ${message}`, { cause: error }))
  }
}

/** The error of a transaction that ended with this status. */
export function commitFailure(status: number): CommitFailedError {
  let cause: unknown
  try {
    lmdb.nativeAddon.lmdbError(status)
  } catch (error) {
    cause = error
  }
  const reason = cause instanceof Error ? cause.message : `error ${status}`
  return new CommitFailedError(`The commit could not be written: ${reason}`, { cause })
}

export function isPanic(error: unknown): boolean {
  return codeOf(error) === PANIC
}

function codeOf(error: unknown): unknown {
  return error instanceof Error ? Reflect.get(error, 'code') : undefined
}
