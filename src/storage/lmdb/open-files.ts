/**
 * The open LMDB files. Users of a file hold a lease on it. Files without users stay open up to a number; the one idle longest
 * is closed first. A file in use is never closed.
 */
import assert from 'node:assert/strict'
import type { FileLedger } from '../file-check/file-ledger.ts'
import type { FileDamagedError } from '../storage-error.ts'
import { type EnvironmentOptions, LmdbEnvironment } from './lmdb-environment.ts'

export interface OpenFilesOptions extends EnvironmentOptions {
  /** Told of every file that is opened or closed. */
  readonly ledger?: FileLedger
}

export class OpenFiles {
  /** Files without users that stay open; a new limit counts from the next release on. */
  idleLimit: number
  readonly #files = new Map<string, OpenFile>()
  #idleCount = 0
  /** Counts the releases, to find the file that is idle longest. */
  #releases = 0
  readonly #closing = new Set<Promise<void>>()

  readonly #options: OpenFilesOptions
  /** Files that must not be opened, and why. */
  readonly #refused = new Map<string, FileDamagedError>()

  constructor(idleLimit: number, options: OpenFilesOptions = {}) {
    this.idleLimit = idleLimit
    this.#options = options
  }

  /** From now on the file is not opened, or not used any more, though it may be open. */
  refuse(error: FileDamagedError): void {
    this.#refused.set(error.path, error)
  }

  /** Why files are not used. */
  get refusals(): readonly FileDamagedError[] {
    return [...this.#refused.values()]
  }

  /** Opens the file unless it is open. Each acquire wants its release. Throws `FileDamagedError`. */
  acquire(path: string): LmdbEnvironment {
    const refused = this.#refused.size > 0 ? this.#refused.get(path) : undefined
    if (refused) throw refused
    let file = this.#files.get(path)
    if (!file) {
      file = {
        environment: this.#open(path),
        users: 0,
        lastRelease: 0,
        onClosed: undefined,
      }
      this.#files.set(path, file)
      this.#idleCount++
    }
    if (file.users++ === 0) this.#idleCount--
    return file.environment
  }

  release(environment: LmdbEnvironment): void {
    const file = this.#files.get(environment.path)
    assert(file && file.users > 0, 'A file is released once for each time it was acquired.')
    if (--file.users > 0) return
    this.#idleCount++
    file.lastRelease = ++this.#releases
    if (file.onClosed || environment.isUnwritable) this.#close(file)
    else while (this.#idleCount > this.idleLimit) this.#close(this.#longestIdle())
  }

  /** The file will not be acquired again: calls back once it is unused and closed. */
  retire(path: string, onClosed: () => void): void {
    this.#refused.delete(path)
    const file = this.#files.get(path)
    if (!file) onClosed()
    else {
      file.onClosed = onClosed
      if (file.users === 0) this.#close(file)
    }
  }

  get openCount(): number {
    return this.#files.size
  }

  isOpen(path: string): boolean {
    return this.#files.has(path)
  }

  /** Where the open files lie. */
  paths(): Iterable<string> {
    return this.#files.keys()
  }

  /** Takes back the reader slots of processes that are dead, if the file is open. */
  clearReaders(path: string): void {
    this.#files.get(path)?.environment.clearReaders()
  }

  /** Closes what is idle and waits for all closing under way. */
  async close(): Promise<void> {
    for (const file of this.#idle()) this.#close(file)
    await this.closed()
  }

  /** Resolves when all closing that is under way is done. */
  async closed(): Promise<void> {
    await Promise.all(this.#closing)
  }

  /** Noted before: where the library ends the process the note stays. */
  #open(path: string): LmdbEnvironment {
    const { ledger } = this.#options
    ledger?.opening(path)
    try {
      const environment = new LmdbEnvironment(path, this.#options)
      ledger?.opened(path)
      return environment
    } catch (error) {
      ledger?.closed(path)
      throw error
    }
  }

  #idle(): OpenFile[] {
    return [...this.#files.values()].filter(({ users }) => users === 0)
  }

  /** Searched for when one is to be closed, which takes much longer: keeping them in order would cost every use. */
  #longestIdle(): OpenFile {
    return this.#idle().reduce((longest, file) => (file.lastRelease < longest.lastRelease ? file : longest))
  }

  #close(file: OpenFile): void {
    this.#files.delete(file.environment.path)
    this.#idleCount--
    const closing = file.environment.close().then(() => {
      this.#options.ledger?.closed(file.environment.path)
      this.#closing.delete(closing)
      file.onClosed?.()
    })
    this.#closing.add(closing)
  }
}

interface OpenFile {
  readonly environment: LmdbEnvironment
  users: number
  /** The number of the release that left it idle. */
  lastRelease: number
  onClosed: (() => void) | undefined
}
