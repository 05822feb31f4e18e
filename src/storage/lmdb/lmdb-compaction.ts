/**
 * Rewrites a store into the next generation of its file, in key order and without free pages, while the store is read and
 * written. Rows are copied in small pieces, each from the newest state. A key that is written behind the copy is recorded and
 * copied again. Writers wait only for the last few keys and the switch of files. Until the new file has its name the old one
 * counts; a crash leaves at worst a file that the next start removes.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { UnfinishedFile } from '../files/replacement-file.ts'
import { type StoredRange, storedKey, storedValue, VERSION_KEY } from '../rows/stored-key.ts'
import type { KeyRange } from '../store.ts'
import type { LmdbEnvironment } from './lmdb-environment.ts'

export interface CompactionHost {
  onProgress(done: number): void
  readonly signal: AbortSignal
  /** From now on the listener is called with the stored keys of every write, right after it and in the same turn. */
  observeWrites(listener: (storedKeys: readonly Uint8Array[]) => void): void
  /** Resolves when writes are paused, until the returned function is called. */
  pauseWrites(): Promise<() => void>
  /** From now on the store is the file at this path. No writes happen before it resolves. */
  switchTo(path: string): Promise<void>
}

const COPY_BYTES = 512 * 1024
const COPY_ROWS = 4096

/** Beyond this many recorded keys, these are copied before the copy continues. */
const NOTED_LIMIT = 4096

/** Up to this many keys are copied while writers wait; after some rounds against fast writers more. */
const LAST_KEYS = 256
const ROUNDS_LIMIT = 50

export async function compactInto(path: string, source: LmdbEnvironment, host: CompactionHost): Promise<void> {
  await using next = await UnfinishedFile.begin(path)
  const copy = new Copy(source, next.environment)
  host.observeWrites((keys) => copy.note(keys))
  const total = source.rowCount()
  for (let done = 0; !copy.finished; done += await copy.copyNext()) {
    host.signal.throwIfAborted()
    if (copy.noted > NOTED_LIMIT) await copy.copyNoted()
    host.onProgress(Math.min(1, done / Math.max(1, total)))
    await nextTurn()
  }
  for (let round = 0; round < ROUNDS_LIMIT && copy.noted > LAST_KEYS; round++) {
    host.signal.throwIfAborted()
    await copy.copyNoted()
  }
  const resume = await host.pauseWrites()
  try {
    await copy.copyNoted()
    host.signal.throwIfAborted()
    await next.publish()
    await host.switchTo(path)
  } finally {
    resume()
  }
  host.onProgress(1)
}

/** Everything in the file, the engine's own rows too, in terms of stored keys. */
const ALL: StoredRange = { from: VERSION_KEY, to: undefined, contains: undefined }

class Copy {
  readonly #source: LmdbEnvironment
  readonly #target: LmdbEnvironment
  #rest: KeyRange | undefined = {}
  /** Keys written since they were copied, as strings of bytes. */
  #noted = new Set<string>()

  constructor(source: LmdbEnvironment, target: LmdbEnvironment) {
    this.#source = source
    this.#target = target
  }

  get finished(): boolean {
    return this.#rest === undefined
  }

  get noted(): number {
    return this.#noted.size
  }

  /** What lies ahead of the copying needs no note: it will be read in its newest state. */
  note(storedKeys: readonly Uint8Array[]): void {
    const reached = this.#rest?.resume
    for (const key of [VERSION_KEY, ...storedKeys]) {
      if (this.finished || (reached && Buffer.compare(key, reached) <= 0)) this.#noted.add(asText(key))
    }
  }

  /** Copies some rows; resolves to how many. */
  async copyNext(): Promise<number> {
    const range = this.#rest
    if (!range) return 0
    // Read and recorded in one turn: no write can happen between the read and the update of the position.
    const page = this.#source.reader.read((transaction) =>
      this.#source.reader.page(transaction, range, ALL, { bytes: COPY_BYTES, rows: COPY_ROWS }),
    )
    this.#rest = page.next
    await this.#target.write((target) => {
      for (let row = 0; row < page.length; row++) {
        const key = page.key(row)
        target.put(storedKey(key), storedValue(key, page.value(row)))
      }
    })
    return page.length
  }

  /** Brings the noted keys to their newest state. */
  async copyNoted(): Promise<void> {
    const keys = [...this.#noted].map((text) => Buffer.from(text, 'latin1'))
    this.#noted = new Set()
    for (let first = 0; first < keys.length; first += COPY_ROWS) {
      const some = keys.slice(first, first + COPY_ROWS)
      const values = this.#source.reader.read((transaction) =>
        some.map((key) => this.#source.reader.get(transaction, key)),
      )
      await this.#target.write((target) => {
        some.forEach((key, i) => {
          const value = values[i]
          if (value === undefined) target.remove(key)
          else target.put(key, value)
        })
      })
    }
  }
}

function asText(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.length).toString('latin1')
}
