/**
 * A store as rows of a table. Several servers may have it open: each commit is checked against the current version, and a server
 * whose version is stale reads again. What is cached here may be stale, but was true once.
 */
import { randomBytes } from 'node:crypto'
import { StoreWrites } from '../commits/store-writes.ts'
import type { LeaseProof } from '../leases/work-leases.ts'
import { checkChanges } from '../rows/packed-rows.ts'
import { storedKey } from '../rows/stored-key.ts'
import { EngineUnavailableError, StorageError, StoreGoneError } from '../storage-error.ts'
import type {
  Changes,
  CommitOutcome,
  CompactOptions,
  LatestRows,
  Moment,
  PackedRows,
  Put,
  SharedSnapshot,
  Store,
  StoreSharing,
  StoreSizes,
} from '../store.ts'
import { CommitTurn } from './commit-turn.ts'
import { CommitWriter } from './commit-writer.ts'
import type { Connection, Parameter, ResultRow } from './connection.ts'
import { StoreLatestRows } from './latest-rows.ts'
import { mergeRows, portionsOf } from './merged-changes.ts'
import { checkLease } from './postgres-leases.ts'
import type { PostgresServer } from './postgres-server.ts'
import { FrozenState, PostgresSnapshot, type SnapshotSource } from './postgres-snapshot.ts'
import type { ReadTransactions } from './read-transaction.ts'
import { COMMIT_ID_BYTES, STATEMENTS, type Statement } from './statements.ts'
import type { TurnSlots } from './turn-slots.ts'
import { byteaArray } from './wire-values.ts'

export interface StorePlace {
  readonly id: number
  readonly name: string
  readonly space: number
  readonly version?: number
}

/** Rows whose sizes are read in one statement. */
const MEASURED_ROWS = 5000
const FIRST_KEY = Buffer.alloc(0)

/** Retries of an idempotent statement when its connection is lost. */
const REPETITIONS = 20
const REPETITION_PAUSE_MS = 250

export class PostgresStore implements Store, SnapshotSource {
  readonly id: number
  readonly name: string
  readonly keepsValues = false
  /** Two who ask for a value at the same time may get the same buffer. */
  readonly givesCopies = false
  readonly sharing: StoreSharing
  readonly latest: LatestRows
  // Each state takes a connection, and there are few of them.
  readonly holding = { idleMs: 1000, idleStates: 2, isWaitedFor: () => this.#server.hasWaitingReaders }
  readonly #server: PostgresServer
  readonly #onLost: (store: PostgresStore) => void
  readonly #writes: StoreWrites
  readonly #writer: CommitWriter
  /** Snapshots that were taken and not read yet: no commit may come before their transactions. */
  readonly #unfixed = new Set<FrozenState>()
  /** The last commit of a turn. */
  #committing: Promise<CommitOutcome> | undefined
  #space: number

  constructor(place: StorePlace, server: PostgresServer, onLost: (store: PostgresStore) => void) {
    this.id = place.id
    this.name = place.name
    this.#space = place.space
    this.#server = server
    this.#onLost = onLost
    this.#writes = new StoreWrites(place.name, (group) => this.#write(group))
    this.#writer = new CommitWriter(this, server.writes, place.version)
    this.latest = new StoreLatestRows(this, server.latestReads, server.fixedRows)
    this.sharing = {
      turn: server.turnSlots && (() => this.#turn(server.turnSlots!)),
      watch: (listener) => server.signals.watch(this.id, place.version ?? 0, listener),
      confirm: () => server.signals.confirm(this.id),
      nextNumber: () => server.nextNumber(),
      settledBelow: () => server.settledBelow(),
      areStored: (keys) => this.#areStored(keys),
    }
  }

  get dropped(): boolean {
    return this.#writes.dropped.aborted
  }

  get space(): number {
    return this.#space
  }

  /** Another server may have replaced the rows: the next read looks there first. */
  seenAt(space: number): void {
    this.#space = space
  }

  assertThere(): void {
    this.#writes.assertThere()
  }

  get transactions(): ReadTransactions {
    return this.#server.transactions
  }

  snapshot(moment?: Moment): PostgresSnapshot & SharedSnapshot {
    this.#writes.assertThere()
    const begun = this.transactions.begunAt(moment)
    const state = new FrozenState(this, (begun) => this.#unfixed.delete(begun), begun)
    if (!begun) this.#unfixed.add(state)
    return new PostgresSnapshot(state)
  }

  async commit(changes: Changes): Promise<CommitOutcome> {
    const { lease } = changes
    return this.#writes.commit(lease && !this.#isOwn(lease) ? { ...changes, lease: undefined } : changes)
  }

  async replace(portions: AsyncIterable<readonly Put[] | PackedRows>, lease?: LeaseProof): Promise<void> {
    return this.#writes.replace(() => this.#replace(portions, lease && this.#isOwn(lease) ? lease : undefined))
  }

  /** PostgreSQL reuses the space of old rows itself. Only the size of the rows is measured. */
  async compact(options: CompactOptions = {}): Promise<void> {
    return this.#writes.compact(() => this.#measure(options))
  }

  async sizes(): Promise<StoreSizes> {
    const bytes = await this.#bytes()
    return { fileBytes: bytes, usedBytes: bytes }
  }

  async isEmpty(): Promise<boolean> {
    this.#writes.assertThere()
    using snapshot = this.snapshot()
    return (await snapshot.page({}, { rows: 1, keysOnly: true })).length === 0
  }

  /** Begins the transactions of the snapshots taken so far: commits from now on come after them. */
  async fixSnapshots(): Promise<void> {
    if (this.#unfixed.size > 0) await Promise.all([...this.#unfixed].map((state) => state.begin()))
  }

  /** Another server dropped it. */
  lost(): void {
    if (this.dropped) return
    this.#writes.lose()
    this.#onLost(this)
    this.#server.signals.gone(this.id)
  }

  /** Finishes the write under way and refuses everything else. */
  async retire(): Promise<void> {
    await this.#writes.drop()
    await this.#committing?.catch(() => {})
  }

  #turn(slots: TurnSlots): CommitTurn {
    this.#writes.assertThere()
    const commit = (connection: Connection, changes: Changes) => {
      this.#committing = this.#writeInTurn(connection, changes)
      return this.#committing
    }
    return new CommitTurn({ source: this, pool: this.#server.writes, slots, commit })
  }

  /** Not in the queue of other commits: they may be waiting for the end of the turn. */
  async #writeInTurn(connection: Connection, changes: Changes): Promise<CommitOutcome> {
    const { lease } = changes
    checkChanges(changes)
    this.#writes.assertThere()
    await this.fixSnapshots()
    const own = lease && !this.#isOwn(lease) ? { ...changes, lease: undefined } : changes
    const { outcome, before, version } = await this.#writer.writeInTurn(connection, own)
    if (outcome === 'committed') this.#server.signals.announce(this.id, { before, version })
    return { outcome, version }
  }

  async #write(group: readonly Changes[]): Promise<CommitOutcome[]> {
    await this.fixSnapshots()
    const { outcomes, before, version } = await this.#writer.write(group)
    if (group.some(({ unreferenced = false }, i) => !unreferenced && outcomes[i]?.outcome === 'committed')) {
      this.#server.signals.announce(this.id, { before, version })
    }
    return outcomes
  }

  async #replace(portions: AsyncIterable<readonly Put[] | PackedRows>, lease: LeaseProof | undefined): Promise<void> {
    const [row] = await this.#server.run(STATEMENTS.beginSpace, [])
    const space = Number(row?.[0])
    try {
      let bytes = 0
      for await (const portion of portions) {
        for (const rows of portionsOf(portion)) {
          this.#writes.assertThere()
          const merged = mergeRows(rows)
          const parameters = [space, byteaArray(merged.keys), byteaArray(merged.values)]
          const filled = await this.#repeat(STATEMENTS.fillSpace, parameters)
          if (filled.length === 0) throw new StorageError('A replacement took too long, and its rows were removed.')
          bytes += merged.bytes
        }
      }
      this.#writes.assertThere()
      await this.#take(space, bytes, lease)
    } catch (error) {
      await this.#server.run(STATEMENTS.abandonSpace, [space]).catch(() => {})
      throw error
    }
  }

  /** Replaces the old rows by the new ones. */
  async #take(space: number, bytes: number, lease: LeaseProof | undefined): Promise<void> {
    await this.fixSnapshots()
    for (;;) {
      const id = randomBytes(COMMIT_ID_BYTES)
      // A reader may learn meanwhile that it is another one.
      const before = this.#space
      const taken = await this.#runLeased(lease, STATEMENTS.takeSpace, [this.id, before, space, bytes, id]).then(
        ([row]) => row !== undefined,
        async (error: unknown) => {
          if (!(error instanceof EngineUnavailableError)) throw error
          // From then on it cannot be applied any more.
          await this.#repeat(STATEMENTS.abandonSpace, [space])
          if ((await this.#spaceNow()) !== space) throw error
          return true
        },
      )
      const now = taken ? space : await this.#spaceNow()
      // Another server replaced the rows too. The last replacement stays.
      if (!taken && now === before) throw new StorageError('A replacement took too long, and its rows were removed.')
      this.#space = now
      if (!taken) continue
      const [row] = await this.#server.run(STATEMENTS.state, [this.id])
      if (row) this.#server.signals.announce(this.id, { before: Number(row[0]) - 1, version: Number(row[0]) })
      this.#server.garbage.sweepSoon()
      return
    }
  }

  /** A lease of another engine is not in these tables. */
  #isOwn({ engine }: LeaseProof): boolean {
    return engine === this.#server.uuid
  }

  /** In one transaction with the check of the lease. */
  #runLeased(lease: LeaseProof | undefined, statement: Statement, parameters: readonly Parameter[]) {
    if (!lease) return this.#server.run(statement, parameters)
    return this.#server.writes.use(async (connection) => {
      await connection.script('BEGIN ISOLATION LEVEL READ COMMITTED')
      try {
        await checkLease(connection, lease)
        const rows = await connection.run(statement, parameters)
        await connection.script('COMMIT')
        return rows
      } catch (error) {
        if (error instanceof EngineUnavailableError) connection.destroy()
        else await connection.script('ROLLBACK').catch(() => connection.destroy())
        throw error
      }
    })
  }

  async #areStored(keys: readonly Uint8Array[]): Promise<boolean> {
    this.#writes.assertThere()
    const [row] = await this.#repeat(STATEMENTS.stored, [this.id, byteaArray(keys.map(storedKey))])
    return Number(row?.[0]) === keys.length
  }

  async #spaceNow(): Promise<number> {
    const [row] = await this.#repeat(STATEMENTS.state, [this.id])
    if (row) return Number(row[1])
    this.lost()
    throw new StoreGoneError(this.name)
  }

  async #measure({ onProgress, signal }: CompactOptions): Promise<void> {
    const before = await this.#bytes()
    let measured = 0
    for (let last: Buffer | undefined = FIRST_KEY; last; ) {
      signal?.throwIfAborted()
      this.#writes.assertThere()
      const [row]: ResultRow[] = await this.#server.run(STATEMENTS.measure, [this.#space, last, MEASURED_ROWS])
      measured += Number(row?.[1] ?? 0)
      last = Number(row?.[0] ?? 0) < MEASURED_ROWS ? undefined : Buffer.from(row?.[2] ?? '', 'hex')
      onProgress?.(last ? Math.min(0.99, measured / Math.max(1, before)) : 1)
    }
    await this.#server.run(STATEMENTS.addBytes, [this.id, measured - before])
  }

  async #bytes(): Promise<number> {
    this.#writes.assertThere()
    const [row] = await this.#server.run(STATEMENTS.sizes, [this.id])
    if (row) return Number(row[0])
    this.lost()
    throw new StoreGoneError(this.name)
  }

  /** Idempotent statements survive a short outage of the server. */
  #repeat(statement: Statement, parameters: readonly Parameter[]): Promise<ResultRow[]> {
    return this.#server.repeat(statement, parameters, { times: REPETITIONS, pauseMs: REPETITION_PAUSE_MS })
  }
}
