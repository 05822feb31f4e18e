/** The files of new stores: each is a copy of one without rows, and gets its name when it is complete. */
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { writeFailure } from '../files/file-failures.ts'
import type { LongNames } from '../files/long-names.ts'
import { lockPath, publish, unfinishedPath } from '../files/store-file.ts'
import { TRASH } from './clear-folder.ts'
import { LmdbEnvironment } from './lmdb-environment.ts'

export class NewFiles {
  readonly #folder: string
  readonly #names: LongNames
  /** Made when the first store is: an engine on a full disk must open, and give away what it holds. */
  #blank: Promise<Buffer> | undefined

  constructor(folder: string, names: LongNames) {
    this.#folder = folder
    this.#names = names
  }

  /** A file without rows, under its final name once it is complete. What a failure leaves is removed. */
  async write(name: string, path: string): Promise<void> {
    const unfinished = unfinishedPath(path)
    let isNameKept = false
    try {
      await this.#names.keep(name)
      isNameKept = true
      this.#blank ??= blankFile(this.#folder)
      await writeFile(unfinished, await this.#blank)
      await publish(unfinished, path)
    } catch (error) {
      this.#blank = undefined
      await rm(unfinished, { force: true })
      if (isNameKept) await this.#names.release(name)
      throw writeFailure('A new store could not be written', error)
    }
  }
}

/** A file that was being written, or that got its name and was never taken over. */
export async function removeUnfinished(path: string): Promise<void> {
  const unfinished = unfinishedPath(path)
  for (const each of [unfinished, lockPath(unfinished), path, lockPath(path)]) await rm(each, { force: true })
}

/** The bytes of a file with nothing in it: a new store is a copy of them, which is cheaper than making one. */
async function blankFile(folder: string): Promise<Buffer> {
  const path = join(folder, TRASH, 'blank.mdb')
  const environment = new LmdbEnvironment(path, { flush: false, create: true })
  await environment.close()
  try {
    return await readFile(path)
  } finally {
    await rm(path, { force: true })
    await rm(lockPath(path), { force: true })
  }
}
