/**
 * Reads of one state: a repeatable-read transaction. It is shared by all snapshots that begin in the same turn of the event
 * loop, of any store. What they read in one turn is one statement.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Moment } from '../store.ts'
import type { Connection, ResultRow } from './connection.ts'
import type { ConnectionPool } from './connection-pool.ts'
import { lookUp, type PendingKey, type PendingState, type StoreState } from './row-lookup.ts'
import { STATEMENTS, type Statement } from './statements.ts'
import { bytesOf, numbersOf } from './wire-values.ts'

/** Rows of a range: the lengths of keys and values, and both joined. */
export interface PackedPage {
  readonly keySizes: readonly number[]
  readonly valueSizes: readonly number[]
  readonly block: Buffer
}

export interface PageRequest {
  readonly space: number
  readonly from: Uint8Array
  readonly to: Uint8Array
  readonly rows: number
  readonly bytes: number
  readonly reverse: boolean
  readonly keysOnly: boolean
}

/** Where a transaction gets its connection, and how it begins and ends there. */
export interface TransactionPlace {
  acquire(): Promise<Connection>
  /** Sent before the first read. */
  begin(connection: Connection): Promise<unknown>
  end(connection: Connection): void
  /** Of a connection on which it has ended, or has not begun. */
  release(connection: Connection): void
}

/** Hands out a transaction that has not begun yet, the same one to all that come meanwhile. */
export class ReadTransactions {
  readonly #place: TransactionPlace
  #forming: ReadTransaction | undefined

  constructor(pool: ConnectionPool) {
    this.#place = {
      acquire: () => pool.acquire(),
      begin: (connection) => connection.beginReading(),
      end: (connection) => connection.leaveReading(),
      release: (connection) => pool.release(connection),
    }
  }

  /** The transaction of a moment, if it is one of these and can be read from. */
  begunAt(moment: Moment | undefined): ReadTransaction | undefined {
    return moment instanceof ReadTransaction && moment.isBegunAt(this.#place) ? moment : undefined
  }

  /** A transaction whose state is not older than this call. Must be left once for each join. */
  join(): ReadTransaction {
    this.#forming ??= new ReadTransaction(this.#place, (begun) => {
      if (this.#forming === begun) this.#forming = undefined
    })
    this.#forming.enter()
    return this.#forming
  }
}

export class ReadTransaction implements Moment {
  readonly isMoment = true
  readonly #place: TransactionPlace
  readonly #onBegin: (transaction: ReadTransaction) => void
  #connection: Connection | undefined
  #users = 0
  #isFlushing = false
  #failure: Error | undefined
  #keys: PendingKey[] = []
  readonly #states = new Map<number, Promise<StoreState | undefined>>()
  #asked: PendingState[] = []
  #others: { readonly send: (connection: Connection) => void }[] = []
  /** The callers that wait for the next statements. */
  #rejections: ((error: unknown) => void)[] = []

  constructor(place: TransactionPlace, onBegin: (transaction: ReadTransaction) => void) {
    this.#place = place
    this.#onBegin = onBegin
  }

  isBegunAt(place: TransactionPlace): boolean {
    return this.#place === place && this.#connection !== undefined && !this.#failure
  }

  enter(): void {
    this.#users++
  }

  /** The last one to leave ends it. */
  leave(): void {
    if (--this.#users > 0) return
    const connection = this.#connection
    this.#onBegin(this)
    if (!connection) return
    this.#connection = undefined
    this.#place.end(connection)
    this.#place.release(connection)
  }

  /** Undefined when there is no such store. */
  state(store: number): Promise<StoreState | undefined> {
    const known = this.#states.get(store)
    if (known) return known
    const state = this.#enqueue<StoreState | undefined>((answer) => this.#asked.push({ store, answer }))
    this.#states.set(store, state)
    return state
  }

  get(space: number, key: Uint8Array): Promise<Buffer | undefined> {
    return this.#enqueue((answer) => this.#keys.push({ space, key, answer }))
  }

  /** The values in the order of the keys. */
  async getMany(space: number, keys: readonly Uint8Array[]): Promise<(Buffer | undefined)[]> {
    if (keys.length === 0) return []
    const values = new Array<Buffer | undefined>(keys.length)
    return this.#enqueue((answer) => {
      let missing = keys.length
      for (const [i, key] of keys.entries()) {
        const answerOne = (value: Buffer | undefined) => {
          values[i] = value
          if (--missing === 0) answer(values)
        }
        this.#keys.push({ space, key, answer: answerOne })
      }
    })
  }

  page(request: PageRequest): Promise<PackedPage> {
    return this.#statement(pageStatement(request), pageParameters(request)).then(packedPage)
  }

  /** The same, asked for at once: for who has something to do meanwhile. Only in a transaction that was read from. */
  pageAhead(request: PageRequest): Promise<PackedPage> {
    const connection = this.#connection
    if (!connection || this.#failure) return this.page(request)
    const rows = connection.run(pageStatement(request), pageParameters(request))
    connection.flush()
    return rows.then(packedPage)
  }

  async count(space: number, from: Uint8Array, to: Uint8Array): Promise<number> {
    const [row] = await this.#statement(STATEMENTS.count, [space, asBuffer(from), asBuffer(to)])
    return Number(row?.[0] ?? 0)
  }

  #statement(statement: Statement, parameters: Parameters<Connection['run']>[1]): Promise<ResultRow[]> {
    return this.#enqueue((answer, reject) => {
      this.#others.push({ send: (connection) => connection.run(statement, parameters).then(answer, reject) })
    })
  }

  #enqueue<T>(add: (answer: (value: T) => void, reject: (error: unknown) => void) => void): Promise<T> {
    if (this.#failure) return Promise.reject(this.#failure)
    return new Promise<T>((resolve, reject) => {
      add(resolve, reject)
      this.#rejections.push(reject)
      if (!this.#isFlushing) void this.#flush()
    })
  }

  async #flush(): Promise<void> {
    this.#isFlushing = true
    try {
      await nextTurn()
      const connection = this.#connection ?? (await this.#begin())
      this.#isFlushing = false
      this.#send(connection)
    } catch (error) {
      this.#isFlushing = false
      this.#fail(error)
    }
  }

  async #begin(): Promise<Connection> {
    const connection = await this.#place.acquire()
    this.#onBegin(this)
    if (this.#users <= 0) {
      this.#place.release(connection)
      throw new Error('The read transaction has ended.')
    }
    this.#connection = connection
    this.#place.begin(connection).catch((error: unknown) => this.#fail(error))
    return connection
  }

  #fail(error: unknown): void {
    this.#failure ??= error instanceof Error ? error : new Error(String(error))
    this.#onBegin(this)
    this.#keys = []
    this.#asked = []
    this.#others = []
    for (const reject of this.#rejections.splice(0)) reject(this.#failure)
  }

  #send(connection: Connection): void {
    const keys = this.#keys
    const asked = this.#asked
    const others = this.#others
    const rejections = this.#rejections
    this.#keys = []
    this.#asked = []
    this.#others = []
    this.#rejections = []
    const reject = (error: unknown) => {
      // Where the beginning failed, what follows fails for no reason of its own.
      this.#failure ??= error instanceof Error ? error : new Error(String(error))
      for (const each of rejections) each(this.#failure)
    }
    if (keys.length > 0 || asked.length > 0) lookUp(connection, keys, asked).catch(reject)
    for (const { send } of others) send(connection)
  }
}

function pageStatement({ reverse, keysOnly }: PageRequest): Statement {
  if (keysOnly) return reverse ? STATEMENTS.keysDescending : STATEMENTS.keysAscending
  return reverse ? STATEMENTS.pageDescending : STATEMENTS.pageAscending
}

function pageParameters({ space, from, to, rows, bytes }: PageRequest): Parameters<Connection['run']>[1] {
  return [space, asBuffer(from), asBuffer(to), rows, Math.max(1, bytes)]
}

function packedPage([row]: ResultRow[]): PackedPage {
  const [keys = null, sizes = null, bytes = null] = row ?? []
  return { keySizes: numbersOf(keys), valueSizes: numbersOf(sizes), block: bytesOf(bytes ?? '\\x') }
}

export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
