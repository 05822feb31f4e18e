/**
 * The data folder of a server. It belongs to one process at a time. It records its format version, so that a release that
 * does not know the format leaves it alone.
 */
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { DataFolderError } from '../storage-error.ts'
import { bringUpToDate } from './folder-format.ts'
import { type FolderLock, type TakeLease, takeLease, takeLock } from './folder-lock.ts'
import { makeFolder } from './store-file.ts'

export interface DataFolderOptions {
  readonly lease?: TakeLease | undefined
  /** Hears of a process that hung with the folder open and was killed. */
  readonly onKilled?: (pid: number) => void
}

export class DataFolder {
  readonly path: string
  /** In the order they were taken. */
  readonly #locks: readonly FolderLock[]

  /** Makes the folder if need be, locks it and brings its format up to date. Throws `DataFolderError`, a sentence for people. */
  static async open(path: string, { lease = takeLease, onKilled }: DataFolderOptions = {}): Promise<DataFolder> {
    try {
      await makeFolder(path)
      await access(path, constants.R_OK | constants.W_OK | constants.X_OK)
    } catch (error) {
      throw new DataFolderError(`The data folder ${path} cannot be written: ${messageOf(error)}`)
    }
    const locks: FolderLock[] = []
    const folder = new DataFolder(path, locks)
    try {
      locks.push(await lease(path))
      locks.push(await takeLock(path, onKilled))
      await bringUpToDate(path)
    } catch (error) {
      folder.close()
      throw error
    }
    return folder
  }

  private constructor(path: string, locks: readonly FolderLock[]) {
    this.path = path
    this.#locks = locks
  }

  close(): void {
    for (const lock of this.#locks.toReversed()) lock.release()
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
