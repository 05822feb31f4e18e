/**
 * Caches sources without their types beside Node's compile cache. Stripping them would take a new process more time than all
 * else before its first call. If the cache cannot be read or written, only time is lost.
 */
import { hash } from 'node:crypto'
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'

const FILE_NAME = 'settle-stripped-sources.json'

export class StrippedSources {
  readonly #path: string | undefined
  /** By the digest of the source. */
  readonly #known: ReadonlyMap<string, string>
  readonly #used = new Map<string, string>()

  /** Without a folder nothing is kept. */
  constructor(folder: string | undefined) {
    this.#path = folder === undefined ? undefined : join(folder, FILE_NAME)
    this.#known = this.#path === undefined ? new Map() : read(this.#path)
  }

  strip(source: string): string {
    const digest = hash('sha256', source)
    const stripped = this.#known.get(digest) ?? quietly(() => stripTypeScriptTypes(source))
    this.#used.set(digest, stripped)
    return stripped
  }

  /** Keeps what was stripped, and nothing else, for the next process. */
  save(): void {
    if (this.#path === undefined || this.#used.keys().every((digest) => this.#known.has(digest))) return
    const unfinished = `${this.#path}.${process.pid}`
    try {
      writeFileSync(unfinished, JSON.stringify([...this.#used]), { flag: 'wx' })
      // Concurrent readers find the old file or the new one, never a partial one.
      renameSync(unfinished, this.#path)
    } catch {
      rmSync(unfinished, { force: true })
    }
  }
}

function read(path: string): ReadonlyMap<string, string> {
  try {
    const pairs: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return new Map(Array.isArray(pairs) ? pairs.filter(isPair) : [])
  } catch {
    return new Map()
  }
}

function isPair(value: unknown): value is [string, string] {
  return Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === 'string')
}

/** Suppresses the warning that stripping types is experimental. */
function quietly<T>(work: () => T): T {
  const { emitWarning } = process
  process.emitWarning = () => {}
  try {
    return work()
  } finally {
    process.emitWarning = emitWarning
  }
}
