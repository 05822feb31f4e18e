/**
 * Reads of single rows, each of the newest state, without a transaction. Reads that come while statements are under way wait
 * for the next one and share it: many clients that read at once cost few statements. A read never joins a statement that was
 * sent before it, so it sees every commit that was acknowledged before.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isWhole, storedKey, wholeValue } from '../rows/stored-key.ts'
import { StoreGoneError } from '../storage-error.ts'
import type { LatestRows } from '../store.ts'
import type { ConnectionPool } from './connection-pool.ts'
import type { SnapshotSource } from './postgres-snapshot.ts'
import type { RowCache } from './row-cache.ts'
import { KEYS_A_STATEMENT, lookUpSome, type StoreState } from './row-lookup.ts'

interface PendingRow {
  readonly source: SnapshotSource
  /** Where it was looked for. */
  space: number
  readonly key: Uint8Array
  readonly resolve: (value: Buffer | undefined) => void
  readonly reject: (error: unknown) => void
}

/** Statements under way at once. With more of them each would have fewer rows. */
const MOST_STATEMENTS = 2

/** Of all stores of a server. */
export class LatestReads {
  readonly #pool: ConnectionPool
  #waiting: PendingRow[] = []
  #underWay = 0

  constructor(pool: ConnectionPool) {
    this.#pool = pool
  }

  get(source: SnapshotSource, key: Uint8Array): Promise<Buffer | undefined> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ source, space: source.space, key, resolve, reject })
      if (this.#underWay < MOST_STATEMENTS) void this.#run()
    })
  }

  async #run(): Promise<void> {
    this.#underWay++
    try {
      // What arrives in this turn of the event loop belongs to the same statement.
      await nextTurn()
      while (this.#waiting.length > 0) await this.#read(this.#waiting.splice(0, KEYS_A_STATEMENT))
    } finally {
      this.#underWay--
    }
  }

  /** Never throws: errors go to the callers. */
  async #read(rows: readonly PendingRow[]): Promise<void> {
    try {
      const sources = new Map(rows.map(({ source }) => [source.id, source]))
      const states = new Map<number, StoreState | undefined>()
      const values = new Map<PendingRow, Buffer | undefined>()
      await this.#pool.use((connection) =>
        lookUpSome(
          connection,
          rows.map((row) => ({ space: row.space, key: row.key, answer: (value) => values.set(row, value) })),
          [...sources.keys()].map((store) => ({ store, answer: (state) => states.set(store, state) })),
        ),
      )
      for (const row of rows) this.#answer(row, states.get(row.source.id), values)
    } catch (error) {
      for (const { reject } of rows) reject(error)
    }
  }

  #answer(row: PendingRow, state: StoreState | undefined, values: ReadonlyMap<PendingRow, Buffer | undefined>): void {
    const { source } = row
    if (!state) {
      source.lost()
      row.reject(new StoreGoneError(source.name))
      return
    }
    source.seenAt(state.space)
    // Its rows were replaced, or there was no room for this one among the others.
    if (state.space !== row.space || !values.has(row)) {
      row.space = state.space
      this.#waiting.push(row)
    } else row.resolve(values.get(row))
  }
}

/** Of one store. */
export class StoreLatestRows implements LatestRows {
  readonly #source: SnapshotSource
  readonly #reads: LatestReads
  readonly #cache: RowCache

  constructor(source: SnapshotSource, reads: LatestReads, cache: RowCache) {
    this.#source = source
    this.#reads = reads
    this.#cache = cache
  }

  async get(key: Uint8Array): Promise<Buffer | undefined> {
    this.#source.assertThere()
    const value = await this.#reads.get(this.#source, storedKey(key))
    return value && !isWhole(key) ? wholeValue(value) : value
  }

  async getFixed(key: Uint8Array): Promise<Buffer | undefined> {
    const known = this.#cache.get(this.#source.id, key)
    if (known) return known
    const value = await this.get(key)
    return value && this.#cache.put(this.#source.id, key, value)
  }
}
