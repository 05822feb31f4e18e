/**
 * A store in an LMDB file. The file may be closed between uses and replaced by compaction; holders of the store need not
 * know.
 */
import assert from 'node:assert/strict'
import { stat } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { judge, StoreWrites } from '../commits/store-writes.ts'
import { ReplacementFile } from '../files/replacement-file.ts'
import { unpacked } from '../rows/packed-rows.ts'
import {
  nextVersion,
  storedKey,
  storedRange,
  storedValue,
  VERSION_KEY,
  versionBytes,
  versionOf,
} from '../rows/stored-key.ts'
import {
  CommitFailedError,
  FileDamagedError,
  MoveFailedError,
  StoreGoneError,
  TooManyReadersError,
} from '../storage-error.ts'
import {
  type Changes,
  COMMIT_OPERATIONS_LIMIT,
  type CommitOutcome,
  type CompactOptions,
  type KeyRange,
  type PackedRows,
  type Put,
  type SharedSnapshot,
  type Store,
  type StoreSizes,
} from '../store.ts'
import { putPacked } from './library/write-instructions.ts'
import { compactInto } from './lmdb-compaction.ts'
import type { LmdbEnvironment } from './lmdb-environment.ts'
import { LmdbSnapshot } from './lmdb-snapshot.ts'
import type { OpenFiles } from './open-files.ts'

/** Of a commit, while other processes open the file. */
const MOST_TRIES = 100

/** What the engine does for its stores: where files lie is its business. */
export interface StoreFiles {
  readonly open: OpenFiles
  /** A path for the next generation of the store. */
  nextPath(): Promise<string>
  /** Removes a file: its name at once, its bytes when the last user is gone. */
  discard(path: string): Promise<void>
  /** The store is the file at this path from now on. Resolves when other processes that read it know; nothing is committed before. */
  moved?(path: string): Promise<void>
}

export class LmdbStore implements Store {
  readonly name: string
  readonly keepsValues = false
  readonly givesCopies = true
  readonly #files: StoreFiles
  readonly #writes: StoreWrites
  #path: string
  /** As of the last commit from here; unknown before it. */
  #version: number | undefined
  /** Those that keep the file open. Nothing to release where it could not be opened. */
  readonly #keepers = new Set<{ environment: LmdbEnvironment | undefined }>()
  #onWritten: ((storedKeys: readonly Uint8Array[]) => void) | undefined

  constructor(name: string, path: string, files: StoreFiles) {
    this.name = name
    this.#path = path
    this.#files = files
    this.#writes = new StoreWrites(name, (group) => this.#write(group))
  }

  get dropped(): boolean {
    return this.#writes.dropped.aborted
  }

  /** The file that holds the store now. */
  get path(): string {
    return this.#path
  }

  /**
   * Another process rewrote the store: from now on it is the file at this path. That process commits nothing meanwhile. Throws
   * `MoveFailedError` where the file cannot be opened: it would be opened later, when that process writes to it.
   */
  async moveTo(path: string): Promise<void> {
    this.#writes.assertThere()
    const old = this.#path
    const release = this.#opened(path)
    this.#path = path
    this.#version = undefined
    this.#reopenForKeepers()
    release()
    await this.#files.moved?.(path)
    await this.#files.discard(old)
  }

  keepOpen(): () => void {
    const keeper = { environment: this.#openUnlessDamaged(this.#path) }
    this.#keepers.add(keeper)
    return () => {
      this.#keepers.delete(keeper)
      if (keeper.environment) this.#files.open.release(keeper.environment)
    }
  }

  pauseCommits(): Promise<() => void> {
    return this.#writes.pauseCommits()
  }

  /** Where it was rewritten here, holders of leases only read it. Then a file that cannot be opened now may be opened later. */
  #reopenForKeepers(): void {
    for (const keeper of this.#keepers) {
      const old = keeper.environment
      try {
        keeper.environment = this.#openUnlessDamaged(this.#path)
      } catch {
        keeper.environment = undefined
      }
      if (old) this.#files.open.release(old)
    }
  }

  #opened(path: string): () => void {
    try {
      const environment = this.#openUnlessDamaged(path)
      return () => environment && this.#files.open.release(environment)
    } catch (error) {
      throw new MoveFailedError(`The new file of the store ${this.name} cannot be opened.`, { cause: error })
    }
  }

  /** No process opens a damaged file. Whoever needs it gets the error. */
  #openUnlessDamaged(path: string): LmdbEnvironment | undefined {
    try {
      return this.#files.open.acquire(path)
    } catch (error) {
      if (error instanceof FileDamagedError) return undefined
      throw error
    }
  }

  snapshot(): SharedSnapshot {
    if (this.dropped) throw new StoreGoneError(this.name)
    return LmdbSnapshot.open(this.#files.open, this.#path)
  }

  async commit(changes: Changes): Promise<CommitOutcome> {
    return this.#writes.commit(changes)
  }

  async replace(portions: AsyncIterable<readonly Put[] | PackedRows>): Promise<void> {
    return this.#writes.replace(() => this.#replace(portions))
  }

  async compact(options: CompactOptions = {}): Promise<void> {
    return this.#writes.compact(() => this.#compact(options))
  }

  async sizes(): Promise<StoreSizes> {
    this.#writes.assertThere()
    return this.#use(async (environment) => environment.sizes((await stat(environment.path)).size))
  }

  async isEmpty(): Promise<boolean> {
    this.#writes.assertThere()
    return this.#use(async (environment) => environment.rowCount() === 0)
  }

  /** Finishes the write under way, refuses everything else from now on, and returns the path of the file. */
  async retire(): Promise<string> {
    await this.#writes.drop()
    return this.#path
  }

  async #write(group: readonly Changes[]): Promise<CommitOutcome[]> {
    return this.#use(async (environment) => {
      for (let tries = 0; tries < MOST_TRIES; tries++) {
        const before = this.#versionOnDisk(environment)
        const { outcomes, accepted, version } = judge(group, before, nextVersion)
        if (accepted.length === 0) return outcomes
        const cleared = await writeChanges(environment, accepted, { before, version })
        if (cleared) {
          this.#version = version
          this.#onWritten?.(touchedKeys(accepted, cleared))
          return outcomes
        }
        environment.restoreNewest()
      }
      throw new CommitFailedError(`The file of the store ${this.name} is opened by others again and again.`)
    })
  }

  /** What is on disk decides, not what was written last from here: another process may have written since. */
  #versionOnDisk(environment: LmdbEnvironment): number {
    try {
      const version = readVersion(environment)
      if (version >= (this.#version ?? 0)) return version
      // A process that opened the file has put back its newest state.
      environment.restoreNewest()
      return readVersion(environment)
    } catch (error) {
      // Readers may hold every slot. Writes continue, since only one process at a time writes to a file.
      if (!(error instanceof TooManyReadersError) || this.#version === undefined) throw error
      return this.#version
    }
  }

  async #replace(portions: AsyncIterable<readonly Put[] | PackedRows>): Promise<void> {
    const old = this.#path
    const path = await this.#files.nextPath()
    const version = await this.#use(async (environment) => nextVersion(readVersion(environment)))
    {
      await using next = await ReplacementFile.begin(path, old)
      for await (const portion of portions) {
        this.#writes.assertThere()
        await next.add(portion)
      }
      await next.add([[VERSION_KEY, versionBytes(version)]])
      this.#writes.assertThere()
      await next.publish()
    }
    const resume = await this.#writes.pauseCommits()
    try {
      this.#path = path
      this.#version = undefined
      this.#reopenForKeepers()
      await this.#files.moved?.(path)
    } finally {
      resume()
    }
    await this.#files.discard(old)
  }

  async #compact({ onProgress, signal }: CompactOptions): Promise<void> {
    const old = this.#path
    await this.#use(async (environment) => {
      try {
        await compactInto(await this.#files.nextPath(), environment, {
          onProgress: onProgress ?? (() => {}),
          signal: signal ? AbortSignal.any([signal, this.#writes.dropped]) : this.#writes.dropped,
          observeWrites: (listener) => {
            this.#onWritten = listener
          },
          pauseWrites: () => this.#writes.pauseCommits(),
          switchTo: async (path) => {
            this.#path = path
            this.#reopenForKeepers()
            await this.#files.moved?.(path)
          },
        })
      } finally {
        this.#onWritten = undefined
      }
    })
    await this.#files.discard(old)
  }

  async #use<T>(work: (environment: LmdbEnvironment) => Promise<T>): Promise<T> {
    const environment = this.#files.open.acquire(this.#path)
    try {
      return await work(environment)
    } finally {
      this.#files.open.release(environment)
    }
  }
}

/** One transaction for all; returns the stored keys that were cleared. Undefined where the state on disk is another one. */
async function writeChanges(
  environment: LmdbEnvironment,
  accepted: readonly Changes[],
  { before, version }: { readonly before: number; readonly version: number },
): Promise<Uint8Array[] | undefined> {
  // Only a commit that stands alone has clears, so the state on disk is the one that they apply to.
  const clears = accepted.flatMap(({ clears = [] }) => clears)
  const cleared = clears.length > 0 ? await storedKeysIn(environment, clears) : []
  assert(cleared.length <= COMMIT_OPERATIONS_LIMIT, 'A commit clears too many rows.')
  const condition = { key: VERSION_KEY, value: before > 0 ? versionBytes(before) : undefined }
  const isWritten = await environment.write((target) => {
    for (const key of cleared) target.remove(key)
    for (const { deletes = [], puts = [], packed } of accepted) {
      for (const key of deletes) target.remove(storedKey(key))
      for (const [key, value] of puts) target.put(storedKey(key), storedValue(key, value))
      if (packed) putPacked(target, packed)
    }
    target.put(VERSION_KEY, versionBytes(version))
  }, condition)
  return isWritten ? cleared : undefined
}

/** The stored keys of all rows that came, changed or went. */
function touchedKeys(accepted: readonly Changes[], cleared: readonly Uint8Array[]): Uint8Array[] {
  const touched = [...cleared]
  for (const { deletes = [], puts = [], packed } of accepted) {
    for (const key of deletes) touched.push(storedKey(key))
    for (const [key] of puts) touched.push(storedKey(key))
    // Copies: the memory of packed rows is given back after the commit.
    if (packed) for (const [key] of unpacked(packed)) touched.push(Buffer.from(storedKey(key)))
  }
  return touched
}

function readVersion(environment: LmdbEnvironment): number {
  return environment.reader.read((transaction) => versionOf(environment.reader.get(transaction, VERSION_KEY)))
}

/** The stored keys of all rows in the ranges, as of now. */
async function storedKeysIn(environment: LmdbEnvironment, ranges: readonly KeyRange[]): Promise<Uint8Array[]> {
  const keys: Uint8Array[] = []
  for (const { from, to } of ranges) {
    let rest: KeyRange | undefined = { from, to }
    while (rest) {
      const range: KeyRange = rest
      const page = environment.reader.read((transaction) =>
        environment.reader.page(transaction, range, storedRange(range), { keysOnly: true, rows: 1024 }),
      )
      for (let row = 0; row < page.length; row++) keys.push(storedKey(page.key(row)))
      rest = page.next
      if (rest) await nextTurn()
    }
  }
  return keys
}
