/**
 * The next file of a store whose rows are all rewritten. It is written page by page while rows come in key order, which
 * is many times as fast. From the first row that is out of order, or whose key is too long, the library takes over.
 */
import { rm, stat, truncate } from 'node:fs/promises'
import { libraryUse } from '../lmdb/library/library-use.ts'
import { putPacked } from '../lmdb/library/write-instructions.ts'
import { LmdbEnvironment } from '../lmdb/lmdb-environment.ts'
import { packedRows } from '../rows/packed-rows.ts'
import { CUT_KEY_BYTES } from '../rows/stored-key.ts'
import { SortedFile } from '../sorted-file/sorted-file.ts'
import type { PackedRows, Put } from '../store.ts'
import { writeFailure } from './file-failures.ts'
import { lockPath, publish, unfinishedPath } from './store-file.ts'

export class ReplacementFile implements AsyncDisposable {
  readonly #path: string
  #sorted: SortedFile | undefined
  #unsorted: UnfinishedFile | undefined
  #writing: Promise<void> = Promise.resolve()
  #isPublished = false

  /** Begins the file that will be at this path, for a store that is in another one now. */
  static async begin(path: string, old: string): Promise<ReplacementFile> {
    const file = new ReplacementFile(path)
    if (libraryUse().page_writer) file.#sorted = await explained(() => SortedFile.begin(unfinishedPath(path), old))
    if (!file.#sorted) file.#unsorted = await UnfinishedFile.begin(path)
    return file
  }

  private constructor(path: string) {
    this.#path = path
  }

  /** The rows must not change any more. Of those with the same key the last one counts. */
  async add(portion: readonly Put[] | PackedRows): Promise<void> {
    const rows = 'bounds' in portion ? portion : packedRows(portion)
    const sorted = this.#sorted
    const taken = sorted ? await explained(() => sorted.add(rows, CUT_KEY_BYTES)) : 0
    if (taken === rows.length) return
    const { environment } = this.#unsorted ?? (await this.#continueUnsorted())
    // The next portion is made while one is being written.
    await this.#writing
    this.#writing = writeRows(environment, rows, taken)
    this.#writing.catch(() => {})
  }

  /** Gives the file its name, when it is on disk. */
  async publish(): Promise<void> {
    await this.#writing
    if (this.#unsorted) await this.#unsorted.publish()
    else {
      await this.#endSorted()
      await publish(unfinishedPath(this.#path), this.#path)
    }
    this.#isPublished = true
  }

  /** Removes what was not published. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writing.catch(() => {})
    await this.#sorted?.close()
    await this.#unsorted?.[Symbol.asyncDispose]()
    if (!this.#isPublished) await rm(unfinishedPath(this.#path), { force: true })
  }

  async #continueUnsorted(): Promise<UnfinishedFile> {
    await this.#endSorted()
    this.#unsorted = await UnfinishedFile.resume(this.#path)
    return this.#unsorted
  }

  async #endSorted(): Promise<void> {
    const sorted = this.#sorted
    this.#sorted = undefined
    if (sorted) await explained(() => sorted.end())
  }
}

async function writeRows(environment: LmdbEnvironment, rows: PackedRows, first: number): Promise<void> {
  await environment.write((target) => putPacked(target, rows, first))
}

/** What the system says against writing a file, in the words of the store. */
async function explained<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    throw writeFailure('A new file could not be written', error)
  }
}

/**
 * The next file of a store while it is being written. It gets its final name when it is complete and on disk. What a crash
 * leaves of it is removed at the next start.
 */
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

  /** Continues a file that was begun page by page. */
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
      throw writeFailure('A new file could not be opened', error)
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
    // Before it has its name: from then on nobody takes the file for unfinished, and a process that is killed would leave it.
    await rm(lockPath(unfinished), { force: true })
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
