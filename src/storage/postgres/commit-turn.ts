/**
 * A turn to commit to one store. The row with its version is locked from the first read to the commit, so no other server
 * commits in between, and what was decided is not refused. Who asks meanwhile waits in PostgreSQL's queue of the lock. A server
 * that stops with its turn loses it by the bounds of the session, and with it all that it would have committed.
 */
import assert from 'node:assert/strict'
import { EngineUnavailableError, StorageError } from '../storage-error.ts'
import type { Changes, CommitOutcome, Turn } from '../store.ts'
import { type Connection, RetryableError } from './connection.ts'
import type { ConnectionPool } from './connection-pool.ts'
import { FrozenState, PostgresSnapshot, type SnapshotSource } from './postgres-snapshot.ts'
import { ReadTransaction } from './read-transaction.ts'
import { STATEMENTS } from './statements.ts'
import type { TurnSlots } from './turn-slots.ts'

export interface TurnParts {
  readonly source: SnapshotSource
  readonly pool: ConnectionPool
  /** Turns at once: some connections are left for everything else. */
  readonly slots: TurnSlots
  /** Commits on the connection, in its transaction, and ends that. */
  commit(connection: Connection, changes: Changes): Promise<CommitOutcome>
}

export class CommitTurn implements Turn {
  readonly #parts: TurnParts
  readonly snapshot: PostgresSnapshot
  #connection: Connection | undefined
  #isLocked = false
  #isOver = false
  #hasEnded = false

  constructor(parts: TurnParts) {
    this.#parts = parts
    const place = {
      acquire: () => this.#acquire(),
      begin: (connection: Connection) => this.#lock(connection),
      end: () => {},
      release: () => {},
    }
    const reads = new ReadTransaction(place, () => {})
    const { id, name, space } = parts.source
    const source: SnapshotSource = {
      id,
      name,
      space,
      transactions: {
        join: () => {
          reads.enter()
          return reads
        },
      },
      seenAt: (seen) => parts.source.seenAt(seen),
      assertThere: () => parts.source.assertThere(),
      lost: () => parts.source.lost(),
    }
    this.snapshot = new PostgresSnapshot(new FrozenState(source, () => {}))
  }

  async commit(changes: Changes): Promise<CommitOutcome> {
    assert(this.#connection && this.#isLocked && !this.#hasEnded, 'A turn commits once, what was decided in it.')
    const outcome = await this.#parts.commit(this.#connection, changes)
    this.#hasEnded = true
    return outcome
  }

  release(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.snapshot.release()
    const connection = this.#connection
    if (connection) {
      // One that still waits for the lock would keep the next user of its connection waiting.
      if (!this.#isLocked) connection.destroy()
      else if (!this.#hasEnded) connection.script('ROLLBACK').catch(() => connection.destroy())
      this.#parts.pool.release(connection)
      this.#parts.slots.release()
    }
  }

  [Symbol.dispose](): void {
    this.release()
  }

  async #acquire(): Promise<Connection> {
    const { pool, slots } = this.#parts
    await slots.acquire()
    try {
      const connection = await pool.acquire()
      if (!this.#isOver) {
        this.#connection = connection
        return connection
      }
      pool.release(connection)
      throw new StorageError('The turn is over.')
    } catch (error) {
      slots.release()
      throw error
    }
  }

  /** What is read afterwards is sent with it, and waits for it. */
  async #lock(connection: Connection): Promise<void> {
    const { id } = this.#parts.source
    const begun = connection.script('BEGIN ISOLATION LEVEL READ COMMITTED')
    const locked = connection.run(STATEMENTS.lock, [id])
    try {
      await Promise.all([begun, locked])
      this.#isLocked = true
    } catch (error) {
      if (!(error instanceof RetryableError)) throw error
      throw new EngineUnavailableError('Other servers kept the database for too long.')
    }
  }
}
