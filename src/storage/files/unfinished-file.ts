/**
 * The next file of a store while it is being written. It gets its final name when it is complete and on disk. What a crash
 * leaves of it is removed at the next start.
 */
import { rm, stat, truncate } from 'node:fs/promises'
import { LmdbEnvironment } from '../lmdb/lmdb-environment.ts'
import { CommitFailedError } from '../storage-error.ts'
import { lockPath, publish, unfinishedPath } from './store-file.ts'

export class UnfinishedFile implements AsyncDisposable {
  /** Nothing in it is flushed before it is published. */
  readonly environment: LmdbEnvironment
  readonly #path: string
  #isOpen = true
  #isPublished = false

  /** Begins the file that will be at this path. */
  static begin(path: string): Promise<UnfinishedFile> {
    return UnfinishedFile.#open(path, { create: true })
  }

  /** Goes on with a file that somebody else began. */
  static resume(path: string): Promise<UnfinishedFile> {
    return UnfinishedFile.#open(path, { create: false })
  }

  static async #open(path: string, { create }: { readonly create: boolean }): Promise<UnfinishedFile> {
    const unfinished = unfinishedPath(path)
    try {
      return new UnfinishedFile(path, new LmdbEnvironment(unfinished, { flush: false, create }))
    } catch (error) {
      await rm(unfinished, { force: true })
      await rm(lockPath(unfinished), { force: true })
      if (error instanceof CommitFailedError) throw error
      const reason = error instanceof Error ? error.message : String(error)
      throw new CommitFailedError(`There is no disk space for a new file: ${reason}`, { cause: error })
    }
  }

  private constructor(path: string, environment: LmdbEnvironment) {
    this.#path = path
    this.environment = environment
  }

  async publish(): Promise<void> {
    const unfinished = unfinishedPath(this.#path)
    const endBytes = this.environment.endBytes()
    await this.#close()
    // The room for further commits is given back.
    if ((await stat(unfinished)).size > endBytes) await truncate(unfinished, endBytes)
    await publish(unfinished, this.#path)
    this.#isPublished = true
  }

  /** Removes what was not published. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close()
    const unfinished = unfinishedPath(this.#path)
    if (!this.#isPublished) await rm(unfinished, { force: true })
    await rm(lockPath(unfinished), { force: true })
  }

  async #close(): Promise<void> {
    if (this.#isOpen) await this.environment.close()
    this.#isOpen = false
  }
}
