/**
 * The data folder of a server. It belongs to one process at a time. It records its format version, so that a release that
 * does not know the format leaves it alone.
 */
import { constants } from 'node:fs'
import { access, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DataFolderError } from '../storage-error.ts'
import { type FolderLock, type TakeLease, takeLease, takeLock } from './folder-lock.ts'
import { flush, makeFolder } from './store-file.ts'

export const FORMAT_VERSION = 1

const FORMAT_FILE = 'format'
const FORMAT_TEXT = /^settle data folder, format (\d+)\n$/

export interface DataFolderOptions {
  readonly lease?: TakeLease | undefined
  /** Hears of a process that hung with the folder open and was killed. */
  readonly onKilled?: (pid: number) => void
}

export class DataFolder {
  readonly path: string
  /** In the order they were taken. */
  readonly #locks: readonly FolderLock[]

  /** Makes the folder if need be, locks it and checks its format. Throws `DataFolderError`, a sentence for people. */
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
      await checkFormat(path)
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

async function checkFormat(folder: string): Promise<void> {
  const path = join(folder, FORMAT_FILE)
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw new DataFolderError(`The data folder ${folder} cannot be read: ${error.message}`)
  })
  if (text === undefined) {
    await writeFile(`${path}.new`, `settle data folder, format ${FORMAT_VERSION}\n`)
    await flush(`${path}.new`)
    await rename(`${path}.new`, path)
    await flush(folder)
    return
  }
  const [, version] = FORMAT_TEXT.exec(text) ?? []
  if (version === undefined) throw new DataFolderError(`The file ${path} is not one of this server.`)
  if (Number(version) !== FORMAT_VERSION) {
    throw new DataFolderError(
      `The data folder ${folder} has format ${version}; this release reads and writes format ${FORMAT_VERSION}.`,
    )
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
