/**
 * The names of stores that are too long for a file name. Files of such a store are named by a digest; the name itself is in
 * `<digest>.name` beside them. It is on disk before the first file of the store gets its name, and removed after the last
 * one. A crash in between leaves a name without a store, which the next start removes.
 */
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { unlessReadOnly } from './file-failures.ts'
import { flush, isDigest, nameOfStem, stemOf } from './store-file.ts'

const ENDING = '.name'
const UNFINISHED_ENDING = '.name.new'

interface LongName {
  readonly name: string
  isOnDisk: boolean
  /** Stores that have the name: one that is being dropped, and the next one that is being created. */
  users: number
  /** Writing and removing the file take turns. */
  work: Promise<void>
}

export class LongNames {
  readonly #folder: string
  /** By the stems of their files. */
  readonly #names = new Map<string, LongName>()

  /** Reads the names of the stores that the folder has files of, and removes all others. */
  static async read(folder: string, stems: ReadonlySet<string>): Promise<LongNames> {
    const names = new LongNames(folder)
    for (const fileName of await readdir(folder)) {
      const stem = fileName.replace(/\.name(\.new)?$/, '')
      if (stem === fileName || !isDigest(stem)) continue
      if (fileName.endsWith(ENDING) && stems.has(stem)) await names.#read(stem)
      else await unlessReadOnly(() => rm(join(folder, fileName), { force: true }))
    }
    return names
  }

  private constructor(folder: string) {
    this.#folder = folder
  }

  /** The store with this stem; undefined if it is unknown. */
  nameOf(stem: string): string | undefined {
    return isDigest(stem) ? this.#names.get(stem)?.name : nameOfStem(stem)
  }

  /** To be called before a file of the store gets its name: the long name is on disk then. Wants its release. */
  async keep(name: string): Promise<void> {
    const stem = stemOf(name)
    if (!isDigest(stem)) return
    const known = this.#names.get(stem) ?? { name, isOnDisk: false, users: 0, work: Promise.resolve() }
    this.#names.set(stem, known)
    known.users++
    try {
      await this.#next(known, () => this.#write(stem, known))
    } catch (error) {
      await this.release(name)
      throw error
    }
  }

  /** The store has no file any more. */
  async release(name: string): Promise<void> {
    const stem = stemOf(name)
    const known = this.#names.get(stem)
    if (!known) return
    known.users--
    await this.#next(known, () => this.#remove(stem, known))
  }

  #next(known: LongName, work: () => Promise<void>): Promise<void> {
    const turn = known.work.then(work)
    known.work = turn.catch(() => {})
    return turn
  }

  async #write(stem: string, known: LongName): Promise<void> {
    if (known.isOnDisk) return
    const unfinished = join(this.#folder, stem + UNFINISHED_ENDING)
    try {
      await writeFile(unfinished, `${known.name}\n`)
      await flush(unfinished)
      await rename(unfinished, join(this.#folder, stem + ENDING))
      await flush(this.#folder)
      known.isOnDisk = true
    } catch (error) {
      await rm(unfinished, { force: true })
      throw error
    }
  }

  async #remove(stem: string, known: LongName): Promise<void> {
    if (known.users > 0) return
    try {
      // Also where it was not flushed: it has its name then.
      await rm(join(this.#folder, stem + ENDING), { force: true })
    } catch {
      // The next start removes it.
      return
    }
    known.isOnDisk = false
    // The name may be in use again.
    if (known.users === 0) this.#names.delete(stem)
  }

  async #read(stem: string): Promise<void> {
    const text = await readFile(join(this.#folder, stem + ENDING), 'utf8').catch(() => '')
    const name = text.replace(/\n$/, '')
    // Damaged: the name of the store is unknown.
    if (stemOf(name) !== stem) return
    this.#names.set(stem, { name, isOnDisk: true, users: 1, work: Promise.resolve() })
  }
}
