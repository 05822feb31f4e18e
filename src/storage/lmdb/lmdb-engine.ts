/**
 * Stores as LMDB files in one folder. Thousands of them: only those in use are open, and some idle ones. Dropping
 * takes the file out of the folder at once; its bytes go when the last reader lets go.
 */
import assert from 'node:assert/strict'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { FileLedger } from '../file-check/file-ledger.ts'
import { inspectFile, inspectPages } from '../file-check/inspect-file.ts'
import { LongNames } from '../files/long-names.ts'
import {
  ASIDE_ENDING,
  asidePath,
  checkStoreName,
  flush,
  lockPath,
  makeFolder,
  parseStoreFileName,
  publish,
  type StoreFile,
  StorePaths,
  stemOf,
  storePath,
  unfinishedPath,
} from '../files/store-file.ts'
import { type StoreLease, StoreLeases } from '../leases/store-leases.ts'
import {
  CommitFailedError,
  FileDamagedError,
  StoreExistsError,
  StoreGoneError,
  StoreMissingError,
} from '../storage-error.ts'
import type { StorageEngine, Store } from '../store.ts'
import { clearScratch, clearUp, SCRATCH, TRASH } from './clear-folder.ts'
import { type FileReports, LmdbEnvironment, reserveLock } from './lmdb-environment.ts'
import { LmdbStore, type StoreFiles } from './lmdb-store.ts'
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
}

const IDLE_FILES = 500

interface EngineParts {
  readonly ledger: FileLedger
  readonly names: LongNames
}

export class LmdbEngine implements StorageEngine {
  readonly #folder: string
  readonly #trash: string
  readonly #open: OpenFiles
  readonly #reports: FileReports
  readonly #ledger: FileLedger
  /** Files that were open when the process before this one fell. */
  #suspects: readonly string[] = []
  /** Those of them whose pages were not all walked after the fall before. */
  #unwalked: ReadonlySet<string> = new Set()
  readonly #suspectPages: number
  readonly #onDamaged = new Set<(name: string) => void>()
  readonly #stores = new Map<string, LmdbStore>()
  /** What other processes use. */
  readonly #leases = new WeakMap<Store, StoreLeases>()
  /** Earlier generations of a store that somebody may still read. */
  readonly #outdated = new WeakMap<Store, Set<Promise<void>>>()
  /** Those that could not be removed, by the name of their store. */
  readonly #undiscarded = new Map<string, Set<string>>()
  /** Names that are being created: taken, and not there yet. */
  readonly #creating = new Set<string>()
  readonly #removals = new Set<Promise<void>>()
  readonly #names: LongNames
  /** Stems of files whose store has a long name that is lost. */
  readonly #nameless = new Set<string>()
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
    const names = await LongNames.read(folder, new Set(files.map(({ stem }) => stem)))
    const { ledger, left } = FileLedger.begin(folder)
    const engine = new LmdbEngine({ ...options, ledger, names }, files)
    await engine.#readAside()
    for (const name of left.fellTwice)
      await engine.#setAside(join(folder, name), 'The process ended twice while it was opened.')
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
      ledger,
      names,
    }: LmdbEngineOptions & EngineParts,
    files: readonly StoreFile[],
  ) {
    this.#folder = folder
    this.#trash = join(folder, TRASH)
    this.#reports = this.#heard(onceForEach(reports))
    this.#open = new OpenFiles(idleFiles, { isShared, reports: this.#reports, ledger })
    this.#ledger = ledger
    this.#suspectPages = suspectPages
    this.#names = names
    const highest = files.reduce((highest, { generation }) => Math.max(highest, generation), 0)
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

  async create(name: string): Promise<Store> {
    this.#assertOpen()
    checkStoreName(name)
    if (this.#stores.has(name) || this.#creating.has(name)) throw new StoreExistsError(name)
    // It is there, and will be listed when its name is.
    if (this.#nameless.has(stemOf(name))) throw new StoreExistsError(name)
    this.#creating.add(name)
    try {
      const path = this.#paths.next(name)
      await this.#writeBlank(name, path)
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
    const [path] = await Promise.all([store.retire(), this.#leasesOf(store).revoke(new StoreGoneError(name))])
    // The newest file goes last: none before it may come back after a crash.
    await Promise.all(this.#outdated.get(store) ?? [])
    try {
      for (const each of [...(this.#undiscarded.get(name) ?? []), path]) await this.#discard(each)
      this.#undiscarded.delete(name)
    } catch (error) {
      // The next start would find it: it is there until it can be dropped.
      if (await isThere(path)) this.#takeBack(name, path)
      throw error
    }
    await this.#names.release(name)
    await rm(this.scratchFolder(name), { recursive: true, force: true })
  }

  /**
   * The right to open the store in another process. Until it is released the files that the holder may have open stay
   * where they are. Throws `StoreMissingError`, and `StoreGoneError` where the name is that of another store by now.
   */
  lend(name: string, expected?: Store): StoreLease {
    this.#assertOpen()
    const store = this.#known(name)
    if (expected && expected !== store) throw new StoreGoneError(name)
    // Two processes must not make it at the same time.
    reserveLock(lockPath(store.path))
    return this.#leasesOf(store).lend()
  }

  /** For files of a store's own that are no part of it. It goes when the store is dropped, and need not be there. */
  scratchFolder(name: string): string {
    return join(this.#folder, SCRATCH, stemOf(name))
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    for (const store of this.#stores.values()) {
      await Promise.all([store.retire(), this.#leasesOf(store).revoke(new StoreGoneError(store.name))])
      await Promise.all(this.#outdated.get(store) ?? [])
    }
    await this.#open.close()
    await Promise.all(this.#removals)
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
   * Looks at the files of all stores and reports those that are damaged, so that an operator hears of them before a client
   * does. Where the process before this one fell, the pages of the files that it had open are looked at first, up to a
   * limit: it may have fallen over one. In the background, and until the engine is closed.
   */
  async inspect(): Promise<void> {
    await this.#examineSuspects()
    let looked = 0
    for (const store of [...this.#stores.values()]) {
      if (++looked % FILES_A_TURN === 0) await nextTurn()
      if (this.#closed) return
      // One that is open was looked at, and its meta pages are the library's.
      if (store.dropped || this.#open.isOpen(store.path)) continue
      try {
        const { repaired } = inspectFile(store.path)
        if (repaired) this.#reports.repaired(store.path, repaired)
      } catch (error) {
        if (error instanceof FileDamagedError) this.#reports.damaged(error)
        // Else the system has no descriptors left, or the like: the file is looked at again when it is opened.
      }
    }
  }

  /**
   * Looks at all pages of a store. One that is damaged is set aside: its next use could end the process. Throws
   * `FileDamagedError` then, and `StoreMissingError`. Resolves to how many pages there were.
   */
  async examine(name: string, pageLimit = Number.POSITIVE_INFINITY): Promise<number> {
    const store = this.#known(name)
    const { path } = store
    // Keeps the pages of its state as they are, whoever writes meanwhile.
    using _ = store.snapshot()
    let pages = 0
    try {
      for (const _page of inspectPages(path)) {
        if (++pages % PAGES_A_TURN === 0) await nextTurn()
        if (pages >= pageLimit || this.#closed || store.dropped) break
      }
      return pages
    } catch (error) {
      if (error instanceof FileDamagedError) throw await this.#setAside(path, error.problem)
      throw error
    }
  }

  /** After a first fall up to a limit. A file that is open at a second one is walked to its end. */
  async #examineSuspects(): Promise<void> {
    let left = this.#suspectPages
    for (const fileName of this.#suspects) {
      const name = this.#nameOf(fileName)
      if (this.#closed) return
      if (name === undefined || !this.#stores.has(name)) continue
      if (this.#unwalked.has(fileName)) {
        await this.examine(name).catch(() => {})
        continue
      }
      // Until all of it is walked: the process may fall meanwhile.
      this.#ledger.unwalked(fileName)
      if (left <= 0) continue
      // What is wrong is reported where it is found.
      const pages = await this.examine(name, left).catch(() => 1)
      left -= pages
      if (left > 0) this.#ledger.walked(fileName)
    }
  }

  /** Not used any more, by this process or the next ones, until somebody removes the note. */
  async #setAside(path: string, problem: string): Promise<FileDamagedError> {
    const error = asideError(path, problem)
    this.#open.refuse(error)
    // On a full disk it is set aside for as long as the process lives.
    await writeFile(asidePath(path), `${problem}\n`).catch(() => {})
    this.#reports.damaged(error)
    return error
  }

  async #readAside(): Promise<void> {
    for (const fileName of await readdir(this.#folder)) {
      if (!fileName.endsWith(ASIDE_ENDING)) continue
      const path = join(this.#folder, fileName.slice(0, -ASIDE_ENDING.length))
      const name = this.#nameOf(path)
      // The store was dropped, or written anew, while the note could not be removed.
      if (name === undefined || this.#stores.get(name)?.path !== path) await rm(asidePath(path), { force: true })
      else this.#open.refuse(asideError(path, (await readFile(asidePath(path), 'utf8')).trim()))
    }
  }

  #heard(reports: FileReports): FileReports {
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

  /** It could not be dropped. Who held it is told that it is gone, and finds it when they ask again. */
  #takeBack(name: string, path: string): void {
    if (this.#closed || this.#stores.has(name) || this.#creating.has(name)) return
    this.#stores.set(name, this.#store(name, path))
    this.#sortedNames = undefined
  }

  #nameOf(path: string): string | undefined {
    const stem = parseStoreFileName(basename(path))?.stem
    return stem === undefined ? undefined : this.#names.nameOf(stem)
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
      discard: (old) => this.#outdate(store, old),
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

  /** Takes a file away that the store has moved from: now, or when those are done who may read it in another process. */
  async #outdate(store: LmdbStore, path: string): Promise<void> {
    const leases = this.#leasesOf(store)
    if (leases.isEmpty) {
      await this.#discardOutdated(store, path)
      return
    }
    const outdated = this.#outdated.get(store) ?? new Set()
    this.#outdated.set(store, outdated)
    const removal = leases
      .returned()
      .then(() => this.#discardOutdated(store, path))
      .catch(() => {})
      .finally(() => outdated.delete(removal))
    outdated.add(removal)
  }

  /** What cannot be removed now goes before the store does, or at the next start, since there is a higher generation. */
  async #discardOutdated({ name }: LmdbStore, path: string): Promise<void> {
    try {
      await this.#discard(path)
    } catch (error) {
      this.#undiscarded.set(name, (this.#undiscarded.get(name) ?? new Set()).add(path))
      throw error
    }
  }

  async #writeBlank(name: string, path: string): Promise<void> {
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
      const reason = error instanceof Error ? error.message : String(error)
      throw new CommitFailedError(`The disk did not take the new store: ${reason}`, { cause: error })
    }
  }

  async #discard(path: string): Promise<void> {
    const trashed = join(this.#trash, basename(path))
    try {
      await mkdir(this.#trash, { recursive: true })
      // Somebody may have removed it already: then only what belongs to it is left.
      if (await isThere(path)) await rename(path, trashed)
      await flush(this.#folder)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      throw new CommitFailedError(`The disk did not let go of a store: ${reason}`, { cause: error })
    }
    this.#open.retire(path, () => {
      // What cannot be removed now goes at the next start.
      const removal = Promise.allSettled(
        [trashed, lockPath(path), asidePath(path)].map((each) => rm(each, { force: true })),
      ).then(() => {
        this.#removals.delete(removal)
      })
      this.#removals.add(removal)
    })
  }

  #assertOpen(): void {
    if (this.#closed) throw new StoreGoneError('engine')
  }
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path)
    return true
  } catch {
    return false
  }
}

/** A file that was being written, or that got its name and was never taken over. */
async function removeUnfinished(path: string): Promise<void> {
  const unfinished = unfinishedPath(path)
  for (const each of [unfinished, lockPath(unfinished), path, lockPath(path)]) await rm(each, { force: true })
}

function asideError(path: string, problem: string): FileDamagedError {
  const wayBack = `It is set aside: to have it used again, remove ${basename(asidePath(path))} and restart the server.`
  return new FileDamagedError(path, `${problem} ${wayBack}`)
}

/** Files, or pages of one, that are looked at before everybody else has a turn. */
const FILES_A_TURN = 16
const PAGES_A_TURN = 64

/** After a fall so many pages are looked at, a gigabyte: that takes some seconds. */
const SUSPECT_PAGES = 131_072

/** A file that cannot be used is asked for again and again: it is reported once. */
function onceForEach(reports: FileReports | undefined): FileReports {
  const reported = new Set<string>()
  return {
    damaged: (error) => {
      if (reported.has(error.message)) return
      // Some thousand sentences are kept; beyond that one may be reported again.
      if (reported.size >= MOST_REPORTED) reported.clear()
      reported.add(error.message)
      reports?.damaged(error)
    },
    repaired: (path, notice) => reports?.repaired(path, notice),
  }
}

const MOST_REPORTED = 10_000

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
