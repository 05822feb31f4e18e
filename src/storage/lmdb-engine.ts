/**
 * Stores as LMDB files in one folder. Thousands of them: only those in use are open, and some idle ones. Dropping
 * takes the file out of the folder at once; its bytes go when the last reader lets go.
 */
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { LmdbEnvironment } from './lmdb-environment.ts'
import { LmdbStore, type StoreFiles } from './lmdb-store.ts'
import { OpenFiles } from './open-files.ts'
import { CommitFailedError, StoreExistsError, StoreGoneError, StoreMissingError } from './storage-error.ts'
import type { StorageEngine, Store } from './store.ts'
import {
  checkStoreName,
  escapeName,
  flush,
  lockPath,
  makeFolder,
  parseStoreFileName,
  publish,
  type StoreFile,
  storePath,
  unfinishedPath,
} from './store-file.ts'
import { StorePaths, type StorePlace } from './store-paths.ts'

export interface LmdbEngineOptions {
  readonly folder: string
  /** Files without users that are kept open. */
  readonly idleFiles?: number
  /** Whether other threads write to stores of the folder too. */
  readonly isShared?: boolean
}

const IDLE_FILES = 500

export class LmdbEngine implements StorageEngine {
  readonly #folder: string
  readonly #trash: string
  readonly #open: OpenFiles
  readonly #stores = new Map<string, LmdbStore>()
  /** Names that are being created: taken, and not there yet. */
  readonly #creating = new Set<string>()
  readonly #removals = new Set<Promise<void>>()
  /** Made when the first store is: an engine on a full disk must open, and give away what it holds. */
  #blank: Promise<Buffer> | undefined
  readonly #paths: StorePaths
  #sortedNames: string[] | undefined
  #closed = false

  /** Looks through the folder and clears away what a crash left. The folder must be nobody else's. */
  static async open(options: LmdbEngineOptions): Promise<LmdbEngine> {
    const { folder } = options
    await makeFolder(folder)
    await mkdir(join(folder, TRASH), { recursive: true })
    const files = await clearUp(folder)
    await clearScratch(folder, files)
    return new LmdbEngine(options, files)
  }

  private constructor(
    { folder, idleFiles = IDLE_FILES, isShared = false }: LmdbEngineOptions,
    files: readonly StoreFile[],
  ) {
    this.#folder = folder
    this.#trash = join(folder, TRASH)
    this.#open = new OpenFiles(idleFiles, { isShared })
    const highest = files.reduce((highest, { generation }) => Math.max(highest, generation), 0)
    this.#paths = new StorePaths({ folder, generations: new SharedArrayBuffer(8) })
    this.#paths.passOver(highest)
    for (const file of files) this.#stores.set(file.name, this.#store(file.name, storePath(folder, file)))
  }

  async list(): Promise<string[]> {
    this.#sortedNames ??= [...this.#stores.keys()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    return [...this.#sortedNames]
  }

  has(name: string): boolean {
    return this.#stores.has(name)
  }

  async create(name: string): Promise<Store> {
    this.#assertOpen()
    checkStoreName(name)
    if (this.#stores.has(name) || this.#creating.has(name)) throw new StoreExistsError(name)
    this.#creating.add(name)
    try {
      const path = this.#paths.next(name)
      await this.#writeBlank(path)
      const store = this.#store(name, path)
      this.#stores.set(name, store)
      this.#sortedNames = undefined
      return store
    } finally {
      this.#creating.delete(name)
    }
  }

  async open(name: string): Promise<Store> {
    this.#assertOpen()
    return this.#known(name)
  }

  async drop(name: string): Promise<void> {
    this.#assertOpen()
    const store = this.#known(name)
    this.#stores.delete(name)
    this.#sortedNames = undefined
    await this.#discard(await store.retire())
    await rm(this.scratchFolder(name), { recursive: true, force: true })
  }

  /** For files of a store's own that are no part of it. It goes when the store is dropped, and need not be there. */
  scratchFolder(name: string): string {
    return join(this.#folder, SCRATCH, escapeName(name))
  }

  /** What another thread needs to write stores of this folder anew. */
  get place(): StorePlace {
    return this.#paths.place
  }

  /** The file that holds a store now. Throws `StoreMissingError`. */
  pathOf(name: string): string {
    return this.#known(name).path
  }

  /** Another thread wrote the store anew, into this file. It goes again where the store was dropped meanwhile. */
  async moveTo(name: string, path: string): Promise<void> {
    const store = this.#stores.get(name)
    await (store ? store.moveTo(path) : this.#discard(path))
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    for (const store of this.#stores.values()) await store.retire()
    await this.#open.close()
    await Promise.all(this.#removals)
  }

  /** How many files are open now. */
  get openFiles(): number {
    return this.#open.openCount
  }

  /** The names of the stores whose files are open now; a store that is being compacted has two. */
  openNames(): string[] {
    return [...this.#open.paths()].flatMap((path) => parseStoreFileName(basename(path))?.name ?? [])
  }

  /** How many files without users are kept open from now on. */
  keepIdle(files: number): void {
    this.#open.idleLimit = files
  }

  #known(name: string): LmdbStore {
    const store = this.#stores.get(name)
    if (!store) throw new StoreMissingError(name)
    return store
  }

  #store(name: string, path: string): LmdbStore {
    const files: StoreFiles = {
      open: this.#open,
      nextPath: (of) => this.#paths.next(of),
      discard: (old) => this.#discard(old),
    }
    return new LmdbStore(name, path, files)
  }

  async #writeBlank(path: string): Promise<void> {
    const unfinished = unfinishedPath(path)
    try {
      this.#blank ??= blankFile(this.#folder)
      await writeFile(unfinished, await this.#blank)
      await publish(unfinished, path)
    } catch (error) {
      this.#blank = undefined
      await rm(unfinished, { force: true })
      const reason = error instanceof Error ? error.message : String(error)
      throw new CommitFailedError(`The disk did not take the new store: ${reason}`, { cause: error })
    }
  }

  async #discard(path: string): Promise<void> {
    const trashed = join(this.#trash, basename(path))
    await rename(path, trashed)
    await flush(this.#folder)
    this.#open.retire(path, () => {
      const removal = Promise.all([rm(trashed, { force: true }), rm(lockPath(path), { force: true })]).then(() => {
        this.#removals.delete(removal)
      })
      this.#removals.add(removal)
    })
  }

  #assertOpen(): void {
    if (this.#closed) throw new StoreGoneError('engine')
  }
}

const TRASH = '.trash'
const SCRATCH = '.scratch'

/** Removes what is no store any more, or never became one; returns the files that count. */
async function clearUp(folder: string): Promise<StoreFile[]> {
  await rm(join(folder, TRASH), { recursive: true })
  await mkdir(join(folder, TRASH))
  const newest = new Map<string, StoreFile>()
  const leftovers: string[] = []
  const fileNames = await readdir(folder)
  for (const fileName of fileNames) {
    const file = parseStoreFileName(fileName)
    if (!file) continue
    const rival = newest.get(file.name)
    if (!rival || rival.generation < file.generation) newest.set(file.name, file)
    if (rival) leftovers.push(storePath(folder, rival.generation < file.generation ? rival : file))
  }
  const present = new Set(fileNames)
  for (const fileName of fileNames) {
    if (/\.mdb\.new(-lock)?$/.test(fileName)) leftovers.push(join(folder, fileName))
    else if (fileName.endsWith('.mdb-lock')) {
      const path = join(folder, fileName)
      if (!present.has(fileName.slice(0, -'-lock'.length)) || (await hasHoles(path))) leftovers.push(path)
    }
  }
  for (const path of leftovers) {
    await rm(path, { force: true })
    if (path.endsWith('.mdb')) await rm(lockPath(path), { force: true })
  }
  return [...newest.values()]
}

/** Removes the scratch files of stores that are gone. */
async function clearScratch(folder: string, files: readonly StoreFile[]): Promise<void> {
  const known = new Set(files.map(({ name }) => escapeName(name)))
  const scratch = join(folder, SCRATCH)
  for (const name of await readdir(scratch).catch(() => [])) {
    if (!known.has(name)) await rm(join(scratch, name), { recursive: true, force: true })
  }
}

/** A power cut can leave a lock without its bytes; opened on a full disk, it would end the process. */
async function hasHoles(path: string): Promise<boolean> {
  const { size, blocks } = await stat(path)
  return blocks * 512 < size
}

/** The bytes of a file with nothing in it: a new store is a copy of them, which is cheaper than making one. */
async function blankFile(folder: string): Promise<Buffer> {
  const path = join(folder, TRASH, 'blank.mdb')
  const environment = new LmdbEnvironment(path, { flush: false })
  await environment.close()
  try {
    return await readFile(path)
  } finally {
    await rm(path, { force: true })
    await rm(lockPath(path), { force: true })
  }
}
