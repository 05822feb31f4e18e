/**
 * The LMDB files that are open. Who uses one holds a lease; a file without users stays open for a while, up to a number
 * of idle ones, and the one that was idle longest is closed first. A file in use is never closed under its users.
 */
import assert from 'node:assert/strict'
import { type EnvironmentOptions, LmdbEnvironment } from './lmdb-environment.ts'

export class OpenFiles {
  /** Files without users that stay open; a new limit counts from the next release on. */
  idleLimit: number
  readonly #files = new Map<string, OpenFile>()
  #idleCount = 0
  /** Counts the releases: tells which file is idle longest. */
  #releases = 0
  readonly #closing = new Set<Promise<void>>()

  readonly #options: EnvironmentOptions

  constructor(idleLimit: number, options: EnvironmentOptions = {}) {
    this.idleLimit = idleLimit
    this.#options = options
  }

  /** Opens the file unless it is open. Each acquire wants its release. Throws `FileDamagedError`. */
  acquire(path: string): LmdbEnvironment {
    let file = this.#files.get(path)
    if (!file) {
      file = {
        environment: new LmdbEnvironment(path, this.#options),
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
    if (file.onClosed) this.#close(file)
    else while (this.#idleCount > this.idleLimit) this.#close(this.#longestIdle())
  }

  /** The file will not be acquired again: calls back once nobody uses it any more and it is closed. */
  retire(path: string, onClosed: () => void): void {
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
