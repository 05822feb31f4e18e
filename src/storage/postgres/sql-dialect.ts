/**
 * What differs among servers with PostgreSQL's protocol: settings of a session, signals, which errors mean that a statement may
 * be retried, and which that its outcome is unknown. Everything else in this folder is SQL that they share.
 */

export interface SqlDialect {
  readonly name: 'postgresql' | 'cockroachdb' | 'yugabytedb'
  /**
   * Statements for each new session. Without table statistics the planner would sort the whole table for one page, so sorts and
   * sequential scans are switched off: every statement here can use a primary key.
   */
  readonly session: readonly string[]
  /** Settings of tables beyond the shared SQL. Each may fail. */
  readonly tables: readonly string[]
  /** Whether LISTEN and NOTIFY are there; else versions are polled. */
  readonly hasNotify: boolean
  /** Whether one statement may delete from a table and insert into it. */
  readonly changesTableTwice: boolean
  /** Whether a transaction that has waited for the lock on a row then reads what its last holder wrote. */
  readonly takesTurns: boolean
  /** Settings of a session that writes: how long it may keep locks without a statement, and wait for those of others. */
  lockBounds(bounds: LockBounds): readonly string[]
}

export interface LockBounds {
  readonly heldMs: number
  readonly waitMs: number
}

const PINNED_PLANS = [
  'SET enable_seqscan = off',
  'SET enable_sort = off',
  'SET enable_hashjoin = off',
  'SET enable_mergejoin = off',
  'SET enable_bitmapscan = off',
  'SET enable_material = off',
  'SET jit = off',
  'SET plan_cache_mode = force_generic_plan',
]

const POSTGRESQL: SqlDialect = {
  name: 'postgresql',
  session: ['SET synchronous_commit = on', 'SET idle_in_transaction_session_timeout = 0', ...PINNED_PLANS],
  tables: [
    // Rows of versions change with every commit: free space on the page keeps new row versions there.
    'ALTER TABLE stores SET (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02)',
    // Large values are compressed already, or not worth it: compressing takes longer than writing.
    'ALTER TABLE rows ALTER COLUMN value SET STORAGE EXTERNAL',
    'ALTER TABLE rows SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1)',
  ],
  hasNotify: true,
  changesTableTwice: true,
  takesTurns: true,
  lockBounds: ({ heldMs, waitMs }) => [
    `SET idle_in_transaction_session_timeout = ${heldMs}`,
    `SET lock_timeout = ${waitMs}`,
    // A session that is sending to a client that takes nothing is not idle.
    `SET tcp_user_timeout = ${heldMs}`,
  ],
}

const YUGABYTEDB: SqlDialect = {
  ...POSTGRESQL,
  name: 'yugabytedb',
  tables: [],
  hasNotify: false,
  takesTurns: false,
  lockBounds: () => [],
}

const COCKROACHDB: SqlDialect = {
  name: 'cockroachdb',
  session: ['SET default_transaction_isolation = serializable'],
  tables: [],
  hasNotify: false,
  changesTableTwice: false,
  takesTurns: false,
  lockBounds: () => [],
}

/** By what `SELECT version()` says. */
export function dialectOf(version: string): SqlDialect {
  if (/cockroach/i.test(version)) return COCKROACHDB
  if (/-YB-|yugabyte/i.test(version)) return YUGABYTEDB
  return POSTGRESQL
}

/** A statement that changed nothing, and succeeds when it is repeated: serialization failures and deadlocks. */
export function isRetryable(code: string | undefined): boolean {
  return code === '40001' || code === '40P01' || code === '55P03'
}

/** Error codes of a server that takes no statements now: it starts, stops, recovers, has no connections left, or has ended
 * a transaction that kept its locks for too long. */
const UNAVAILABLE = new Set(['25P03', '57P01', '57P02', '57P03', '57P05', '53300', '53400', '25006', '40003'])

/** No answer, or none that gives the outcome of the statement. Classes: connection exceptions, system errors. */
export function isUnavailable(code: string | undefined): boolean {
  if (code === undefined) return true
  return UNAVAILABLE.has(code) || code.startsWith('08') || code.startsWith('58')
}

/** The disk of the server is full, or another of its limits is reached. */
export function isOutOfSpace(code: string | undefined): boolean {
  return code === '53100' || code === '53200'
}
