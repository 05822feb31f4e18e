/**
 * Writes the commits of one store. PostgreSQL checks the expected version and applies the changes in one statement, so a commit
 * of a server that was disconnected meanwhile is refused. If the connection is lost before the answer, the commit is looked up
 * by its id. If it is not found, it is fenced: it cannot be applied later.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { judge } from '../commits/store-writes.ts'
import type { LeaseProof } from '../leases/work-leases.ts'
import { storedKey, storedRange } from '../rows/stored-key.ts'
import { EngineUnavailableError, StoreGoneError } from '../storage-error.ts'
import type { Changes, CommitOutcome, KeyRange } from '../store.ts'
import { type Connection, RetryableError } from './connection.ts'
import type { ConnectionPool } from './connection-pool.ts'
import { type MergedChanges, mergeChanges } from './merged-changes.ts'
import { checkLease } from './postgres-leases.ts'
import type { PostgresSnapshot } from './postgres-snapshot.ts'
import { asBuffer } from './read-transaction.ts'
import { COMMIT_ID_BYTES, RECENT_COMMITS, STATEMENTS } from './statements.ts'
import { byteaArray, bytesOf } from './wire-values.ts'

/** How long a commit whose connection was lost is looked up. */
const LOOKUP_MS = 10_000
const LOOKUP_PAUSE_MS = 100

/** Attempts of a commit while other servers commit first. */
const MOST_TRIES = 100
const MOST_RETRIES = 20

const AFTER_ALL = Buffer.alloc(2001, 0xff)

export interface WrittenStore {
  readonly id: number
  readonly name: string
  /** The current state, for clears whose bounds are long keys. */
  snapshot(): PostgresSnapshot
  /** Another server dropped it. */
  lost(): void
}

/** The outcome of a statement. */
type Applied =
  | { readonly outcome: 'applied'; readonly version: number }
  /** The store has another version. */
  | { readonly outcome: 'stale'; readonly version: number }
  /** It was not applied and never will be; the version was raised for that, and nothing else changed. */
  | { readonly outcome: 'fenced'; readonly version: number }

interface Written {
  readonly outcomes: CommitOutcome[]
  /** The version that they were applied to. */
  readonly before: number
  readonly version: number
}

interface Step {
  readonly id: Buffer
  /** Undefined for rows that nothing refers to, which may be written twice. */
  readonly expected: number | undefined
  readonly raise: number
  readonly merged: MergedChanges
  readonly clears: readonly KeyRange[]
  readonly lease: LeaseProof | undefined
}

export class CommitWriter {
  readonly #store: WrittenStore
  readonly #pool: ConnectionPool
  /** As of the last commit from here. */
  #version: number | undefined

  constructor(store: WrittenStore, pool: ConnectionPool, version: number | undefined) {
    this.#store = store
    this.#pool = pool
    this.#version = version
  }

  /** Writes all commits of the group at once; returns an outcome for each. */
  async write(commits: readonly Changes[]): Promise<Written> {
    let group = commits
    let before = expectedOf(group) ?? this.#version ?? (await this.#versionNow())
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const { outcomes, accepted, version } = judge(group, before)
      const raise = version - before
      const applied = await this.#apply(accepted, { expected: raise > 0 ? before : undefined, raise })
      this.#version = applied.version
      if (applied.outcome === 'applied') {
        if (raise > 0) return { outcomes, before, version: applied.version }
        return { outcomes: withVersion(outcomes, applied.version), before: applied.version, version: applied.version }
      }
      // The fence changed nothing but the version: a commit that expects the version before it is still valid.
      if (applied.outcome === 'fenced') group = group.map(afterFence)
      before = applied.version
      const judged = judge(group, before)
      if (judged.accepted.length === 0) return { outcomes: judged.outcomes, before, version: before }
    }
    throw new EngineUnavailableError('Other servers kept committing first.')
  }

  /**
   * Writes a commit in the transaction of a turn, which it ends. It is refused where the turn was taken away; then nothing of it
   * is written, now or later.
   */
  async writeInTurn(connection: Connection, changes: Changes): Promise<CommitOutcome & { readonly before: number }> {
    const before = changes.expected
    assert(before !== undefined)
    const { clears = [], lease } = changes
    const merged = mergeChanges([changes])
    const step: Step = { id: randomBytes(COMMIT_ID_BYTES), expected: before, raise: 1, merged, clears, lease }
    const { outcome, version } = await this.#applyInTurn(connection, step, before)
    this.#version = version
    return { outcome: outcome === 'applied' ? 'committed' : 'stale', before, version }
  }

  async #applyInTurn(connection: Connection, step: Step, before: number): Promise<Applied> {
    const started = performance.now()
    try {
      const version = await this.#sendInTurn(connection, step)
      if (version !== undefined) return { outcome: 'applied', version }
      return { outcome: 'stale', version: await this.#versionNow() }
    } catch (error) {
      if (error instanceof RetryableError) {
        await connection.script('ROLLBACK').catch(() => {})
        return { outcome: 'stale', version: before }
      }
      if (!(error instanceof EngineUnavailableError)) throw error
      connection.destroy()
      return this.#lookUp(step, before, started + LOOKUP_MS)
    }
  }

  async #sendInTurn(connection: Connection, step: Step): Promise<number | undefined> {
    if (!isPlain(step) || !connection.dialect.changesTableTwice) {
      const version = await this.#changeInSteps(connection, step)
      await connection.script(version === undefined ? 'ROLLBACK' : 'COMMIT')
      return version
    }
    // Both in one message. A statement that fails makes a rollback of the end.
    const [version] = await Promise.all([this.#sendPlain(connection, step), connection.script('COMMIT')])
    return version
  }

  async #apply(accepted: readonly Changes[], { expected, raise }: Pick<Step, 'expected' | 'raise'>): Promise<Applied> {
    const clears = accepted.flatMap(({ clears = [] }) => clears)
    const merged = mergeChanges(accepted)
    // One with a lease is alone in its group.
    const lease = accepted[0]?.lease
    const step: Step = { id: randomBytes(COMMIT_ID_BYTES), expected, raise, merged, clears, lease }
    const started = performance.now()
    for (let retries = 0; ; retries++) {
      const connection = await this.#pool.acquire()
      try {
        const version = await this.#send(connection, step)
        if (version !== undefined) return { outcome: 'applied', version }
        return { outcome: 'stale', version: await this.#versionNow() }
      } catch (error) {
        if (error instanceof RetryableError && retries < MOST_RETRIES) {
          await pause(Math.random() * 5 * 2 ** Math.min(retries, 6))
          continue
        }
        if (!(error instanceof EngineUnavailableError)) throw error
        // The connection must not be used while its transaction is open.
        connection.destroy()
        if (expected !== undefined) return await this.#lookUp(step, expected, started + LOOKUP_MS)
        if (performance.now() - started > LOOKUP_MS) throw error
        await pause(LOOKUP_PAUSE_MS)
      } finally {
        this.#pool.release(connection)
      }
    }
  }

  /** The version afterwards; undefined when it is another one than expected. */
  async #send(connection: Connection, step: Step): Promise<number | undefined> {
    if (!isPlain(step) || !connection.dialect.changesTableTwice) return this.#sendSteps(connection, step)
    return this.#sendPlain(connection, step)
  }

  async #sendPlain(connection: Connection, step: Step): Promise<number | undefined> {
    const { merged } = step
    const [row] = await connection.run(STATEMENTS.commit, [
      ...this.#bumpOf(step),
      byteaArray(merged.deletes),
      byteaArray(merged.keys),
      byteaArray(merged.values),
    ])
    return row && Number(row[0])
  }

  #bumpOf({ expected = null, raise, merged, id }: Omit<Step, 'expected'> & { expected?: number | null | undefined }) {
    return [this.#store.id, expected, raise, merged.bytes, id]
  }

  /** In a transaction: the first statement locks the version, so each of the others sees what is there now. */
  async #sendSteps(connection: Connection, step: Step): Promise<number | undefined> {
    await connection.script('BEGIN ISOLATION LEVEL READ COMMITTED')
    try {
      const version = await this.#changeInSteps(connection, step)
      await connection.script(version === undefined ? 'ROLLBACK' : 'COMMIT')
      return version
    } catch (error) {
      if (!(error instanceof EngineUnavailableError)) await connection.script('ROLLBACK').catch(() => {})
      throw error
    }
  }

  async #changeInSteps(connection: Connection, step: Step): Promise<number | undefined> {
    if (step.lease) await checkLease(connection, step.lease)
    const [row] = await connection.run(STATEMENTS.bump, this.#bumpOf(step))
    if (!row) return undefined
    await this.#change(connection, Number(row[1]), step)
    return Number(row[0])
  }

  async #change(connection: Connection, space: number, { clears, merged }: Step): Promise<void> {
    for (const range of clears) {
      const { from, to = AFTER_ALL, contains } = storedRange(range)
      if (contains) {
        // The lock on the version keeps others from changing the rows that are found.
        await connection.run(STATEMENTS.remove, [space, byteaArray(await this.#storedKeysIn(range))])
      } else await connection.run(STATEMENTS.clear, [space, asBuffer(from), asBuffer(to)])
    }
    const { deletes, keys, values } = merged
    if (deletes.length > 0) await connection.run(STATEMENTS.remove, [space, byteaArray(deletes)])
    if (keys.length > 0) await connection.run(STATEMENTS.put, [space, byteaArray(keys), byteaArray(values)])
  }

  async #storedKeysIn(range: KeyRange): Promise<Uint8Array[]> {
    using snapshot = this.#store.snapshot()
    const keys: Uint8Array[] = []
    for (let rest: KeyRange | undefined = { from: range.from, to: range.to }; rest; ) {
      const page: Awaited<ReturnType<PostgresSnapshot['page']>> = await snapshot.page(rest, {
        keysOnly: true,
        rows: 1000,
      })
      for (let row = 0; row < page.length; row++) keys.push(storedKey(page.key(row)))
      rest = page.next
    }
    return keys
  }

  /** Finds out whether a commit whose connection was lost was applied. If not, makes sure that it never will be. */
  async #lookUp({ id, raise }: Step, expected: number, deadline: number): Promise<Applied> {
    const fences: Buffer[] = []
    for (;;) {
      try {
        const fence = randomBytes(COMMIT_ID_BYTES)
        fences.push(fence)
        const found = await this.#pool.use(async (connection) => {
          const [fenced] = await connection.run(STATEMENTS.fence, [this.#store.id, expected, fence])
          return fenced ? Number(fenced[0]) : await this.#recent(connection)
        })
        if (typeof found === 'number') return { outcome: 'fenced', version: found }
        if (found.ids.has(id.toString('hex'))) return { outcome: 'applied', version: expected + raise }
        // An earlier fence of this loop may have been applied without an answer.
        if (fences.some((each) => found.ids.has(each.toString('hex')))) {
          return found.version === expected + 1
            ? { outcome: 'fenced', version: found.version }
            : { outcome: 'stale', version: found.version }
        }
        if (found.version - expected < RECENT_COMMITS) return { outcome: 'stale', version: found.version }
        throw new EngineUnavailableError('It is not known whether the last commit was written: too many followed.')
      } catch (error) {
        if (!(error instanceof EngineUnavailableError || error instanceof RetryableError)) throw error
        if (performance.now() > deadline) throw error
        await pause(LOOKUP_PAUSE_MS)
      }
    }
  }

  async #recent(connection: Connection): Promise<{ version: number; ids: Set<string> }> {
    const [row] = await connection.run(STATEMENTS.state, [this.#store.id])
    if (!row) throw this.#gone()
    const bytes = bytesOf(row[2] ?? '\\x')
    const ids = new Set<string>()
    for (let at = 0; at < bytes.length; at += COMMIT_ID_BYTES) ids.add(bytes.toString('hex', at, at + COMMIT_ID_BYTES))
    return { version: Number(row[0]), ids }
  }

  async #versionNow(): Promise<number> {
    const [row] = await this.#pool.use((connection) => connection.run(STATEMENTS.state, [this.#store.id]))
    if (!row) throw this.#gone()
    return Number(row[0])
  }

  #gone(): StoreGoneError {
    this.#store.lost()
    return new StoreGoneError(this.#store.name)
  }
}

/** Whether one statement can do it all. */
function isPlain({ merged, clears, lease, expected }: Step): boolean {
  return !lease && clears.length === 0 && (merged.deletes.length === 0 || expected !== undefined)
}

/** The version that a group expects, if it expects one. */
function expectedOf(group: readonly Changes[]): number | undefined {
  let raised = 0
  for (const { expected, unreferenced = false } of group) {
    if (expected !== undefined) return expected - raised
    if (!unreferenced) raised++
  }
  return undefined
}

function afterFence(changes: Changes): Changes {
  return changes.expected === undefined ? changes : { ...changes, expected: changes.expected + 1 }
}

function withVersion(outcomes: readonly CommitOutcome[], version: number): CommitOutcome[] {
  return outcomes.map(({ outcome }) => ({ outcome, version }))
}
