/**
 * A state of an index where other servers may change it: the one of a version. What is known of it is not read, and as long as
 * nothing else is needed no snapshot is taken: the commit, which expects the version, is refused if there is another one by now.
 * Whatever has to be read is refused then with `OutrunError`.
 */
import type { KeyRange, Page, PageLimits, Snapshot, Store } from '../../storage/store.ts'
import { OutrunError } from './index-commit.ts'

export class ExpectedSnapshot implements Snapshot {
  readonly #store: Store
  readonly #version: number
  readonly #known: KnownRows
  #snapshot: Snapshot | undefined

  constructor(store: Store, version: number, known: KnownRows) {
    this.#store = store
    this.#version = version
    this.#known = known
  }

  async version(): Promise<number> {
    return this.#version
  }

  async get(key: Uint8Array): Promise<Buffer | undefined> {
    return (await this.getMany([key]))[0]
  }

  async getMany(keys: readonly Uint8Array[]): Promise<(Buffer | undefined)[]> {
    return this.#known.all(keys) ?? this.#read((snapshot) => snapshot.getMany(keys))
  }

  page(range: KeyRange, limits?: PageLimits): Promise<Page> {
    return this.#read((snapshot) => snapshot.page(range, limits))
  }

  count(range: KeyRange): Promise<number> {
    return this.#read((snapshot) => snapshot.count(range))
  }

  release(): void {
    this.#snapshot?.release()
  }

  [Symbol.dispose](): void {
    this.release()
  }

  async #read<T>(read: (snapshot: Snapshot) => Promise<T>): Promise<T> {
    this.#snapshot ??= this.#store.snapshot()
    const [version, found] = await Promise.all([this.#snapshot.version(), read(this.#snapshot)])
    if (version !== this.#version) throw new OutrunError()
    return found
  }
}

/** Rows of one state by their keys; undefined where there is none. */
export class KnownRows {
  readonly #rows = new Map<string, Buffer | undefined>()

  add(keys: readonly Uint8Array[], values: readonly (Buffer | undefined)[]): void {
    for (const [i, key] of keys.entries()) this.#rows.set(nameOf(key), values[i])
  }

  /** Undefined unless all are known. */
  all(keys: readonly Uint8Array[]): (Buffer | undefined)[] | undefined {
    const names = keys.map(nameOf)
    return names.every((name) => this.#rows.has(name)) ? names.map((name) => this.#rows.get(name)) : undefined
  }
}

function nameOf(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString('latin1')
}
