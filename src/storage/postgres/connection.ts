/**
 * One connection to the server. Statements are prepared once and pipelined; results come as text. A connection that failed is
 * never used again. Errors are mapped to those of stores, and never contain the address.
 */
import pg from 'pg'
import { CommitFailedError, EngineRefusalError, EngineUnavailableError, StorageError } from '../storage-error.ts'
import type { EngineAddress } from './engine-address.ts'
import { type Parameter, type ResultRow, SentQuery } from './sent-query.ts'
import { dialectOf, isOutOfSpace, isRetryable, isUnavailable, type LockBounds, type SqlDialect } from './sql-dialect.ts'
import type { Statement } from './statements.ts'

export type { Parameter, ResultRow }

/** The statement changed nothing and may be retried. */
export class RetryableError extends StorageError {
  override readonly name = 'RetryableError'
}

const CONNECT_TIMEOUT_MS = 5000

const BEGIN_READING = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY'
/** How long a finished read transaction stays open: with many reads, the next one begins sooner and ends it. */
const END_READING_MS = 2

export class Connection {
  readonly #client: pg.Client
  #isBroken = false
  /** Statements without an answer, and since when the oldest of them waits. */
  #pending = 0
  #busySince = 0
  /** Whether the statements of this turn are still being collected. */
  #isCorked = false
  /** Set while a finished read transaction has not been ended. */
  #ending: NodeJS.Timeout | undefined
  #onNotification: ((payload: string) => void) | undefined
  #onBroken: (() => void) | undefined
  readonly dialect: SqlDialect

  static async open(address: EngineAddress, known?: SqlDialect, bounds?: LockBounds): Promise<Connection> {
    const client = new pg.Client({
      connectionString: address.connectionString,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      application_name: 'settle',
      pipeline: true,
    })
    // Without a listener an error on an idle connection would end the process.
    client.on('error', () => {})
    try {
      await client.connect()
      const dialect = known ?? dialectOf(await versionOf(client))
      const settings = [...dialect.session, ...(bounds ? dialect.lockBounds(bounds) : [])]
      await client.query([...settings, `SET search_path TO "${address.schema}"`].join('; '))
      return new Connection(client, dialect)
    } catch (error) {
      client.connection.stream.destroy()
      throw storageError(error)
    }
  }

  private constructor(client: pg.Client, dialect: SqlDialect) {
    this.#client = client
    this.dialect = dialect
    client.on('error', () => this.#break())
    client.on('end', () => this.#break())
    client.on('notification', ({ payload }) => this.#onNotification?.(payload ?? ''))
  }

  get isBroken(): boolean {
    return this.#isBroken
  }

  /** How long the oldest statement has waited for its answer. */
  get busyMs(): number {
    return this.#pending > 0 ? performance.now() - this.#busySince : 0
  }

  onNotification(listener: (payload: string) => void): void {
    this.#onNotification = listener
  }

  onBroken(listener: () => void): void {
    this.#onBroken = listener
  }

  /** Sends a statement at once, after all that were sent before. */
  run(statement: Statement, parameters: readonly Parameter[]): Promise<ResultRow[]> {
    // A read transaction that is not needed any more would show an old state.
    if (this.#ending) this.#endReading()
    return this.#send(statement, parameters)
  }

  /** What was sent in this turn leaves now: the server works on it while this turn goes on. */
  flush(): void {
    if (!this.#isCorked) return
    this.#isCorked = false
    this.#client.connection.stream.uncork()
  }

  /** For text that runs once, or has several statements. */
  script(text: string): Promise<ResultRow[]> {
    return this.#send({ text })
  }

  /** Begins a read transaction. The one before it ends with the same message. */
  beginReading(): Promise<ResultRow[]> {
    const isOpen = this.#ending !== undefined
    clearTimeout(this.#ending)
    this.#ending = undefined
    return this.script(isOpen ? `COMMIT; ${BEGIN_READING}` : BEGIN_READING)
  }

  /** The read transaction is not needed any more: it ends with the next one, or after a short delay. */
  leaveReading(): void {
    this.#ending = setTimeout(() => this.#endReading(), END_READING_MS).unref()
  }

  /** Closes it at once, whatever is under way. */
  destroy(): void {
    clearTimeout(this.#ending)
    this.#break()
    this.#client.connection.stream.destroy()
  }

  /** Resolves when it is closed, after the statements under way are answered. */
  async end(): Promise<void> {
    clearTimeout(this.#ending)
    if (this.#isBroken) return
    this.#isBroken = true
    await this.#client.end().catch(() => {})
  }

  #endReading(): void {
    clearTimeout(this.#ending)
    this.#ending = undefined
    this.script('COMMIT').catch(() => this.destroy())
  }

  async #send(statement: Partial<Statement>, parameters?: readonly Parameter[]): Promise<ResultRow[]> {
    if (this.#isBroken) throw new EngineUnavailableError(LOST)
    if (this.#pending++ === 0) this.#busySince = performance.now()
    this.#cork()
    try {
      return await new Promise<ResultRow[]>((resolve, reject) => {
        this.#client.query(new SentQuery(statement, parameters, { resolve, reject }))
      })
    } catch (error) {
      throw storageError(error)
    } finally {
      this.#pending--
      this.#busySince = performance.now()
    }
  }

  /** Statements of one turn of the event loop are one write to the socket. */
  #cork(): void {
    if (this.#isCorked) return
    this.#isCorked = true
    this.#client.connection.stream.cork()
    process.nextTick(() => this.flush())
  }

  #break(): void {
    if (this.#isBroken) return
    this.#isBroken = true
    this.#onBroken?.()
  }
}

const LOST = 'The connection to the storage engine was lost.'

async function versionOf(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ version: string }>('SELECT version() AS version')
  return rows[0]?.version ?? ''
}

/** Messages of the driver and the server may contain the address, so only codes are passed on. */
function storageError(error: unknown): StorageError {
  if (error instanceof StorageError) return error
  const code = sqlState(error)
  if (isRetryable(code)) return new RetryableError(`The storage engine asks to try again (${code}).`)
  if (isOutOfSpace(code)) return new CommitFailedError(`The storage engine has no room left (${code}).`)
  if (isUnavailable(code)) return new EngineUnavailableError(unavailable(error))
  const refused = refusedPart(code)
  if (refused) return new EngineRefusalError(`The storage engine refuses the ${refused} (${code}).`)
  const reason = error instanceof Error ? error.message : String(error)
  return new StorageError(`The storage engine refused a statement (${code}): ${reason}`)
}

/** What of the address the server does not accept. */
function refusedPart(code: string | undefined): string | undefined {
  if (code === '28P01') return 'password'
  if (code === '3D000') return 'database'
  return code?.startsWith('28') ? 'user' : undefined
}

function unavailable(error: unknown): string {
  const code = sqlState(error) ?? systemCode(error)
  return code === undefined ? LOST : `The storage engine cannot be reached (${code}).`
}

function sqlState(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined
}

function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}
