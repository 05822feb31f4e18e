/**
 * Stores in memory: for tests, and the model that other engines are compared with. Every answer takes a turn of the
 * event loop, so that no caller relies on a synchronous engine. The turns are counted, so that a test can check how
 * many round trips a request needs.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { checkChanges, unpacked } from '../rows/packed-rows.ts'
import { isCut, isWhole, storedKey, storedRange, storedValue, wholeKey, wholeValue } from '../rows/stored-key.ts'
import { PageBuilder } from '../snapshots/row-page.ts'
import { StoreExistsError, StoreGoneError, StoreMissingError } from '../storage-error.ts'
import {
  type Changes,
  type CommitOutcome,
  type KeyRange,
  PAGE_ROWS,
  type PackedRows,
  type Page,
  type PageLimits,
  type Put,
  type SharedSnapshot,
  type StorageEngine,
  type Store,
  type StoreSizes,
} from '../store.ts'
import { RowList } from './row-list.ts'

export class MemoryEngine implements StorageEngine {
  readonly #stores = new Map<string, MemoryStore>()
  /** How often anybody waited for an answer of this engine. */
  readonly roundTrips = { count: 0 }

  async list(): Promise<string[]> {
    await this.#turn()
    return [...this.#stores.keys()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  }

  has(name: string): boolean {
    return this.#stores.has(name)
  }

  async create(name: string, rows: readonly Put[] = []): Promise<Store> {
    if (this.#stores.has(name)) throw new StoreExistsError(name)
    const store = new MemoryStore(name, () => this.#turn())
    this.#stores.set(name, store)
    await this.#turn()
    if (rows.length > 0) await store.commit({ puts: rows })
    return store
  }

  async open(name: string): Promise<Store> {
    await this.#turn()
    const store = this.#stores.get(name)
    if (!store) throw new StoreMissingError(name)
    return store
  }

  async drop(name: string): Promise<void> {
    const store = this.#stores.get(name)
    if (!store) throw new StoreMissingError(name)
    this.#stores.delete(name)
    store.dropped = true
    await this.#turn()
  }

  /** Memory is not damaged. */
  onDamaged(): () => void {
    return () => {}
  }

  async close(): Promise<void> {
    for (const name of [...this.#stores.keys()]) await this.drop(name)
  }

  #turn(): Promise<void> {
    this.roundTrips.count++
    return nextTurn()
  }
}

type Turn = () => Promise<void>

interface State {
  readonly version: number
  readonly rows: RowList
  readonly bytes: number
}

class MemoryStore implements Store {
  readonly name: string
  readonly keepsValues = true
  readonly givesCopies = false
  dropped = false
  readonly #turn: Turn
  #state: State = { version: 0, rows: RowList.empty, bytes: 0 }

  constructor(name: string, turn: Turn) {
    this.name = name
    this.#turn = turn
  }

  snapshot(): SharedSnapshot {
    this.#assertThere()
    return new MemorySnapshot(this.#state, this.#turn)
  }

  async commit(changes: Changes): Promise<CommitOutcome> {
    checkChanges(changes)
    await this.#turn()
    this.#assertThere()
    const state = this.#state
    if (changes.expected !== undefined && changes.expected !== state.version) {
      return { outcome: 'stale', version: state.version }
    }
    this.#state = apply(state, changes)
    return { outcome: 'committed', version: this.#state.version }
  }

  async replace(portions: AsyncIterable<readonly Put[] | PackedRows>): Promise<void> {
    let state: State = { version: this.#state.version, rows: RowList.empty, bytes: 0 }
    for await (const portion of portions) {
      await this.#turn()
      this.#assertThere()
      const puts = 'bounds' in portion ? [...unpacked(portion)] : portion
      state = apply(state, { puts, unreferenced: true })
    }
    this.#assertThere()
    this.#state = { ...state, version: this.#state.version + 1 }
  }

  async compact(): Promise<void> {
    await this.#turn()
    this.#assertThere()
  }

  async sizes(): Promise<StoreSizes> {
    await this.#turn()
    this.#assertThere()
    return { fileBytes: this.#state.bytes, usedBytes: this.#state.bytes }
  }

  async isEmpty(): Promise<boolean> {
    await this.#turn()
    this.#assertThere()
    return this.#state.bytes === 0
  }

  #assertThere(): void {
    if (this.dropped) throw new StoreGoneError(this.name)
  }
}

function apply(state: State, { clears = [], deletes = [], puts = [], packed, unreferenced = false }: Changes): State {
  let { rows, bytes } = state
  const remove = (key: Uint8Array) => {
    const value = rows.get(key)
    if (value === undefined) return
    bytes -= key.length + value.length
    rows = rows.delete(key)
  }
  for (const range of clears) for (const key of storedKeysIn(rows, range)) remove(key)
  for (const key of deletes) remove(storedKey(key))
  for (const [key, value] of packed ? [...puts, ...unpacked(packed)] : puts) {
    const stored = storedKey(key)
    remove(stored)
    const kept = storedValue(key, value)
    rows = rows.put(stored, kept)
    bytes += stored.length + kept.length
  }
  return { version: unreferenced ? state.version : state.version + 1, rows, bytes }
}

function storedKeysIn(rows: RowList, range: KeyRange): Uint8Array[] {
  const { from, to, contains } = storedRange(range)
  const keys: Uint8Array[] = []
  for (const { key, value } of rows.ascending(from)) {
    if (to && Buffer.compare(key, to) >= 0) break
    if (!contains || contains(isCut(key) ? wholeKey(asBuffer(value)) : key)) keys.push(key)
  }
  return keys
}

class MemorySnapshot implements SharedSnapshot {
  readonly #state: State
  readonly #turn: Turn

  constructor(state: State, turn: Turn) {
    this.#state = state
    this.#turn = turn
  }

  /** A state that does not change needs no keeping. */
  share(): SharedSnapshot {
    return this
  }

  async version(): Promise<number> {
    await this.#turn()
    return this.#state.version
  }

  async get(key: Uint8Array): Promise<Buffer | undefined> {
    await this.#turn()
    return this.#get(key)
  }

  async getMany(keys: readonly Uint8Array[]): Promise<(Buffer | undefined)[]> {
    await this.#turn()
    const values: (Buffer | undefined)[] = []
    for (const key of keys) {
      if (values.length % PAGE_ROWS === PAGE_ROWS - 1) await nextTurn()
      values.push(this.#get(key))
    }
    return values
  }

  async page(range: KeyRange, limits: PageLimits = {}): Promise<Page> {
    await this.#turn()
    const stored = storedRange(range)
    const builder = new PageBuilder(range, stored, limits)
    const { resume, reverse = false } = range
    const rows = reverse
      ? this.#state.rows.descending(resume ?? stored.to)
      : this.#state.rows.ascending(resume ?? stored.from)
    for (const { key, value } of rows) {
      if (resume && Buffer.compare(key, resume) === 0) continue
      if (reverse ? Buffer.compare(key, stored.from) < 0 : stored.to && Buffer.compare(key, stored.to) >= 0) break
      builder.add(key, 0, key.length, value, value.length)
      if (builder.full) return builder.build(key)
    }
    return builder.build(undefined)
  }

  async count(range: KeyRange): Promise<number> {
    await this.#turn()
    return storedKeysIn(this.#state.rows, range).length
  }

  release(): void {}

  [Symbol.dispose](): void {}

  #get(key: Uint8Array): Buffer | undefined {
    const stored = this.#state.rows.get(storedKey(key))
    if (stored === undefined) return undefined
    const value = asBuffer(stored)
    // A copy, as every engine gives: what the caller does with it must not reach the store.
    return Buffer.from(isWhole(key) ? value : wholeValue(value))
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}
