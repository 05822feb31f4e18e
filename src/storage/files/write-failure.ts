/** What the system says against writing a file, as an error of the store. */
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
