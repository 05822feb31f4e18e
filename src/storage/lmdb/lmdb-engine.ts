/**
 * Stores as LMDB files in one folder. There may be thousands: only those in use, and some idle ones, are open. Dropping a
 * store removes its file from the folder at once; the bytes are freed when the last reader is done.
 */
import assert from 'node:assert/strict'
import { basename, join } from 'node:path'
import { FileLedger } from '../file-check/file-ledger.ts'
import { LongNames } from '../files/long-names.ts'
import {
  checkStoreName,
  lockPath,
  makeFolder,
  parseStoreFileName,
  type StoreFile,
  StorePaths,
  stemOf,
  storePath,
} from '../files/store-file.ts'
import type { RefusedFile, StoreFollowers, StorePlace } from '../leases/store-followers.ts'
import { type StoreLease, StoreLeases } from '../leases/store-leases.ts'
import { FileDamagedError, StoreExistsError, StoreGoneError, StoreMissingError } from '../storage-error.ts'
import type { Put, StorageEngine, Store } from '../store.ts'
import { clearScratch, clearUp, removeScratchOf, scratchPath } from './clear-folder.ts'
import { DiscardedFiles, fileExists } from './discarded-files.ts'
import { FileInspection, onceForEach } from './file-inspection.ts'
import { reserveLock } from './lmdb-environment.ts'
import type { FileReports } from './lmdb-errors.ts'
import { LmdbStore, type StoreFiles } from './lmdb-store.ts'
import { NewFiles, removeUnfinished } from './new-files.ts'
import { OpenFiles } from './open-files.ts'

export interface LmdbEngineOptions {
  readonly folder: string
  /** Files without users that are kept open. */
  readonly idleFiles?: number
  /** Whether other processes write to stores of the folder too. */
  readonly isShared?: boolean
  readonly reports?: FileReports
  /** How many pages are walked after a first fall. */
  readonly suspectPages?: number
  /** Generations up to this one are not given out: another process may still read files that are gone. */
  readonly usedGenerations?: number
}

const IDLE_FILES = 500

/** After a crash so many pages are inspected, a gigabyte: that takes some seconds. */
const SUSPECT_PAGES = 131_072

interface EngineParts {
  readonly ledger: FileLedger
  readonly names: LongNames
}

export class LmdbEngine implements StorageEngine {
  readonly #folder: string
  readonly #open: OpenFiles
  readonly #reports: FileReports
  readonly #ledger: FileLedger
  /** Files that were open when the process before this one fell. */
  #suspects: readonly string[] = []
  /** Those of them whose pages were not all inspected after the crash before. */
  #unwalked: ReadonlySet<string> = new Set()
  readonly #suspectPages: number
  readonly #inspection: FileInspection
  readonly #discarded: DiscardedFiles
  readonly #onDamaged = new Set<(name: string) => void>()
  readonly #stores = new Map<string, LmdbStore>()
  /** What other processes use. */
  readonly #leases = new WeakMap<Store, StoreLeases>()
  /** Names that are being created: taken, and not there yet. */
  readonly #creating = new Set<string>()
  readonly #names: LongNames
  /** Stems of files whose store has a long name that is lost. */
  readonly #nameless = new Set<string>()
  readonly #newFiles: NewFiles
  readonly #paths: StorePaths
  #sortedNames: string[] | undefined
  #followers: StoreFollowers | undefined
  #closed = false

  /** Scans the folder and removes what a crash left. The folder must not be in use by another process. */
  static async open(options: LmdbEngineOptions): Promise<LmdbEngine> {
    const { folder } = options
    await makeFolder(folder)
    const files = await clearUp(folder)
    await clearScratch(folder, files)
    const names = await LongNames.read(folder, new Set(files.map(({ stem }) => stem)))
    const { ledger, left } = FileLedger.begin(folder)
    const engine = new LmdbEngine({ ...options, ledger, names }, files)
    await engine.#inspection.readNotes()
    for (const name of left.fellTwice)
      await engine.#inspection.setAside(join(folder, name), 'The process ended twice while it was opened.')
    engine.#suspects = [...left.fellOnce, ...left.open]
    engine.#unwalked = new Set(left.unwalked)
    return engine
  }

  private constructor(
    {
      folder,
      idleFiles = IDLE_FILES,
      isShared = false,
      reports,
      suspectPages = SUSPECT_PAGES,
      usedGenerations = 0,
      ledger,
      names,
    }: LmdbEngineOptions & EngineParts,
    files: readonly StoreFile[],
  ) {
    this.#folder = folder
    this.#reports = this.#withListeners(onceForEach(reports))
    this.#open = new OpenFiles(idleFiles, { isShared, reports: this.#reports, ledger })
    this.#discarded = new DiscardedFiles(folder, this.#open)
    this.#inspection = new FileInspection({
      folder,
      ledger,
      open: this.#open,
      reports: this.#reports,
      isClosed: () => this.#closed,
      stores: () => [...this.#stores.values()],
      storeOf: (path) => this.#storeOf(path),
    })
    this.#ledger = ledger
    this.#suspectPages = suspectPages
    this.#names = names
    this.#newFiles = new NewFiles(folder, names)
    const highest = files.reduce((highest, { generation }) => Math.max(highest, generation), usedGenerations)
    this.#paths = new StorePaths(folder, highest)
    for (const file of files) this.#take(file)
  }

  async list(): Promise<string[]> {
    this.#sortedNames ??= [...this.#stores.keys()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    return [...this.#sortedNames]
  }

  has(name: string): boolean {
    return this.#stores.has(name)
  }

  async create(name: string, rows: readonly Put[] = []): Promise<Store> {
    this.#assertOpen()
    checkStoreName(name)
    if (this.#stores.has(name) || this.#creating.has(name)) throw new StoreExistsError(name)
    // It is there, and will be listed when its name is.
    if (this.#nameless.has(stemOf(name))) throw new StoreExistsError(name)
    this.#creating.add(name)
    try {
      const path = this.#paths.next(name)
      await this.#newFiles.write(name, path)
      const store = this.#store(name, path)
      this.#stores.set(name, store)
      this.#sortedNames = undefined
      await this.#followers?.placed({ name, path })
      if (rows.length > 0) await store.commit({ puts: rows })
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
    const [path] = await Promise.all([store.retire(), this.#leasesOf(store).revoke(new StoreGoneError(name))])
    await this.#discarded.outdatedGone(store)
    await this.#followers?.dropped(name)
    try {
      await this.#discarded.discardAll(name, path)
    } catch (error) {
      // The next start would find it: it is there until it can be dropped.
      if (await fileExists(path)) await this.#takeBack(name, path)
      throw error
    }
    await this.#names.release(name)
    await removeScratchOf(this.#folder, stemOf(name))
  }

  /**
   * The right to open the store in another process. Until it is released the files that the holder may have open stay
   * where they are. Throws `StoreMissingError`, `StoreGoneError` where the name is that of another store by now, and
   * `NoDescriptorsError`: the file is never opened here while the holder writes to it.
   */
  lend(name: string, expected?: Store): StoreLease {
    this.#assertOpen()
    const store = this.#known(name)
    if (expected && expected !== store) throw new StoreGoneError(name)
    // Two processes must not make it at the same time.
    reserveLock(lockPath(store.path))
    return this.#leasesOf(store).lend()
  }

  /**
   * For another process that is about to open the file of a store. Resolves when no process writes a commit to the store, until
   * the returned function is called; to undefined where the store has another file by now. Throws `StoreMissingError`.
   */
  async pauseCommits({ name, path }: StorePlace): Promise<(() => void) | undefined> {
    const store = this.#known(name)
    if (store.path !== path) return undefined
    // Two processes must not make it at the same time.
    reserveLock(lockPath(path))
    const resume = await this.#leasesOf(store).pauseAllCommits()
    if (store.path === path && !store.dropped) return resume
    resume()
    return undefined
  }

  /** Calls back in a turn in which the commits to the store are not paused. Throws `StoreMissingError`. */
  whenUnpaused<T>(name: string, use: () => T): Promise<T> {
    return this.#leasesOf(this.#known(name)).whenUnpaused(use)
  }

  /** From now on these are notified of every store that is created, gets another file or is dropped, before it takes effect here. */
  followedBy(followers: StoreFollowers): void {
    this.#followers = followers
  }

  /** Every store and the file that holds it now. */
  places(): StorePlace[] {
    return [...this.#stores.values()].map(({ name, path }) => ({ name, path }))
  }

  /** Files that must not be opened, and why. */
  refusals(): RefusedFile[] {
    return this.#open.refusals.map(({ path, problem }) => ({ path, problem }))
  }

  /** A process that read stores is dead: its reader slots are taken back. */
  clearReaders(): void {
    for (const path of [...this.#open.paths()]) this.#open.clearReaders(path)
  }

  /**
   * For what a store is to be rewritten from. It need not exist. It is removed when the store is dropped, and at the next start
   * when the store was rewritten.
   */
  scratchFolder(name: string): string {
    return scratchPath(this.#folder, this.#known(name).path)
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    for (const store of this.#stores.values()) {
      await Promise.all([store.retire(), this.#leasesOf(store).revoke(new StoreGoneError(store.name))])
      await this.#discarded.outdatedGone(store)
    }
    await this.#open.close()
    await this.#discarded.removed()
    this.#ledger.end()
  }

  onDamaged(listener: (name: string) => void): () => void {
    this.#onDamaged.add(listener)
    return () => this.#onDamaged.delete(listener)
  }

  /** How many files are open now. */
  get openFiles(): number {
    return this.#open.openCount
  }

  /** The names of the stores whose files are open now; a store that is being compacted has two. */
  openNames(): string[] {
    return [...this.#open.paths()].flatMap((path) => this.#nameOf(path) ?? [])
  }

  /** How many files without users are kept open from now on. */
  keepIdle(files: number): void {
    this.#open.idleLimit = files
  }

  /**
   * Looks at the files of all stores and reports those that are damaged, so that an operator is notified of them before a client
   * is. Where the process before this one fell, the pages of the files that it had open are looked at first, up to a
   * limit: it may have fallen over one. In the background, and until the engine is closed.
   */
  inspect(): Promise<void> {
    return this.#inspection.inspectAll({
      files: this.#suspects,
      unwalked: this.#unwalked,
      pageLimit: this.#suspectPages,
    })
  }

  /**
   * Looks at all pages of a store. One that is damaged is set aside: its next use could end the process. Throws
   * `FileDamagedError` then, and `StoreMissingError`. Resolves to how many pages there were.
   */
  async examine(name: string, pageLimit = Number.POSITIVE_INFINITY): Promise<number> {
    return this.#inspection.examine(this.#known(name), pageLimit)
  }

  #withListeners(reports: FileReports): FileReports {
    return {
      ...reports,
      damaged: (error) => {
        reports.damaged(error)
        const name = this.#nameOf(error.path)
        if (name !== undefined) for (const listener of this.#onDamaged) listener(name)
      },
    }
  }

  /** Takes over a file that was there at the start. */
  #take(file: StoreFile): void {
    const name = this.#names.nameOf(file.stem)
    const path = storePath(this.#folder, file)
    if (name !== undefined) {
      this.#stores.set(name, this.#store(name, path))
      return
    }
    this.#nameless.add(file.stem)
    this.#reports.damaged(
      new FileDamagedError(path, `The name of its database is lost: ${file.stem}.name is missing or damaged.`),
    )
  }

  /** It could not be dropped. Its holders get an error that it is gone, and find it when they open it again. */
  async #takeBack(name: string, path: string): Promise<void> {
    if (this.#closed || this.#stores.has(name) || this.#creating.has(name)) return
    this.#stores.set(name, this.#store(name, path))
    this.#sortedNames = undefined
    await this.#followers?.placed({ name, path })
  }

  #nameOf(path: string): string | undefined {
    const stem = parseStoreFileName(basename(path))?.stem
    return stem === undefined ? undefined : this.#names.nameOf(stem)
  }

  #storeOf(path: string): LmdbStore | undefined {
    const name = this.#nameOf(path)
    return name === undefined ? undefined : this.#stores.get(name)
  }

  #known(name: string): LmdbStore {
    const store = this.#stores.get(name)
    if (!store) throw new StoreMissingError(name)
    return store
  }

  #store(name: string, path: string): LmdbStore {
    const files: StoreFiles = {
      open: this.#open,
      nextPath: async () => this.#paths.next(name),
      discard: (old) => this.#discarded.outdate(store, this.#leasesOf(store), old),
      moved: async (path) => this.#followers?.placed({ name, path }),
    }
    const store = new LmdbStore(name, path, files)
    const leases = new StoreLeases(store, {
      nextPath: () => this.#paths.next(name),
      removeUnfinished: (unfinished) => removeUnfinished(unfinished),
      clearReaders: () => this.#open.clearReaders(store.path),
    })
    this.#leases.set(store, leases)
    return store
  }

  #leasesOf(store: LmdbStore): StoreLeases {
    const leases = this.#leases.get(store)
    assert(leases, 'Every store has its leases.')
    return leases
  }

  #assertOpen(): void {
    if (this.#closed) throw new StoreGoneError('engine')
  }
}
