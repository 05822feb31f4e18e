/**
 * What the system refuses to do with files, as errors of the store: writes that fail, descriptors that run out, file systems
 * that became read-only.
 */
import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import { CommitFailedError, NoDescriptorsError, StorageError } from '../storage-error.ts'

/** `what` is a sentence without its full stop. Errors of stores are returned as they are. */
export function writeFailure(what: string, error: unknown): StorageError {
  if (error instanceof StorageError) return error
  const code: unknown = error instanceof Error ? Reflect.get(error, 'code') : undefined
  if (code === 'EMFILE' || code === 'ENFILE') {
    return new NoDescriptorsError('Too many files and connections are open; try again later.', { cause: error })
  }
  const reason = error instanceof Error ? error.message : String(error)
  return new CommitFailedError(`${what}: ${reason}`, { cause: error })
}

/** LMDB keeps three for a file, and needs one or two more in passing. */
const NEEDED = 8

/**
 * Throws `NoDescriptorsError` where a file cannot be opened safely: LMDB ends the process when it runs out of descriptors
 * while it opens a file. There is no call to ask the system for their number.
 */
export function requireDescriptors(): void {
  const taken: number[] = []
  try {
    while (taken.length < NEEDED) taken.push(openSync(devNull, 'r'))
  } catch (error) {
    throw new NoDescriptorsError('Too many files and connections are open; try again later.', { cause: error })
  } finally {
    for (const descriptor of taken) closeSync(descriptor)
  }
}

const READ_ONLY_CODES = new Set(['EROFS', 'EACCES', 'EPERM'])

/** Clearing up after a crash is left to a later start where the file system has become read-only: that must not prevent reading. */
export async function unlessReadOnly(work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    if (!READ_ONLY_CODES.has(code)) throw error
  }
}
