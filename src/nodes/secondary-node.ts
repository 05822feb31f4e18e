/**
 * A secondary's connection to the primary: its first state, and the notices after that. While there is no primary the state may
 * be stale, so requests wait.
 */
import { join } from 'node:path'
import { NodeUnreachableError } from '../cluster/channel.ts'
import { Membership } from '../cluster/membership.ts'
import { RequestError } from '../document/request-error.ts'
import type { ReduceInput, ReduceProgram } from '../functions/functions.ts'
import { BorrowedSlots } from '../http/listeners/connection-slots.ts'
import type { MetricsReport } from '../runtime/metrics.ts'
import type { StatisticIncrement } from '../runtime/statistics.ts'
import { isValid, type OpeningReply } from '../storage/leases/file-openings.ts'
import type { StorePlace } from '../storage/leases/store-followers.ts'
import {
  type CallReply,
  CHANNEL_SOCKET,
  type ConnectionQuestion,
  isKindOf,
  type NodeState,
  type Notice,
  resultOf,
  type SecondaryCall,
  type SecondarySignal,
  type StoreKind,
  type UpdateSignal,
} from './node-message.ts'
import { WatchedDatabases } from './watched-databases.ts'

export interface SecondaryOptions {
  readonly folder: string
  /** The whole state, at the start and with each new primary. */
  begin(state: NodeState): Promise<void>
  updated(signal: UpdateSignal): void
  /** Resolves when the notice is applied. */
  take(notice: Notice): Promise<void>
  /** The primary is gone, or is about to close. */
  lost(): void
  /** The primary has the socket of a connection that moves to it. Says whether it may go on with it. */
  giveUp(question: ConnectionQuestion): boolean
  takeIncrements(): StatisticIncrement[]
  takeMetrics(): MetricsReport
}

/** How long a request waits for a primary. A new one takes a second or two. */
const PRIMARY_TIMEOUT_MS = 15_000

const LINES_DELAY_MS = 50
const STATISTICS_INTERVAL_MS = 1000
/** Log lines that are kept while there is no primary; more are lost. */
const LINES_LIMIT_CHARACTERS = 1024 * 1024

export class SecondaryNode {
  readonly #options: SecondaryOptions
  readonly #membership: Membership
  readonly #reporting: NodeJS.Timeout
  /** Databases whose commits this node subscribes to. */
  readonly #watched = new WatchedDatabases((signal) => this.#send(signal))
  /** Slots for connections. */
  readonly slots = new BorrowedSlots({
    borrow: (wanted, held) => this.#borrowSlots(wanted, held),
    giveBack: (count) => this.#send({ kind: 'slots back', count }),
  })
  #lines = ''
  #isDraining = false

  constructor(options: SecondaryOptions) {
    this.#options = options
    this.#membership = new Membership({
      path: join(options.folder, CHANNEL_SOCKET),
      welcome: (state) => this.#begin(state),
      signal: (message) => {
        if (isKindOf<UpdateSignal>(message)) options.updated(message)
      },
      call: (message) => this.#take(message),
      lost: () => options.lost(),
    })
    this.#reporting = setInterval(() => this.#report(), STATISTICS_INTERVAL_MS).unref()
  }

  /** Undefined while there is a primary; otherwise resolves when there is, or rejects after a while. */
  ready(): Promise<void> | undefined {
    return this.isReady ? undefined : this.#waited()
  }

  /** Whether there is a primary that takes requests. */
  get isReady(): boolean {
    return this.#membership.isConnected && !this.#isDraining
  }

  /** Subscribes to commits of the database: `updated` is called for the last one, and for each one after it. */
  watch(database: string): void {
    this.#watched.watch(database)
  }

  /** Unsubscribes from commits of these databases. */
  unwatch(databases: readonly string[]): void {
    this.#watched.unwatch(databases)
  }

  /** A database is deleted: there are no more commits to subscribe to. */
  deleted(database: string): void {
    this.#watched.deleted(database)
  }

  /** A line of the log, sent soon. */
  log(line: string): void {
    if (this.#lines.length > LINES_LIMIT_CHARACTERS) return
    if (this.#lines === '') setTimeout(() => this.#sendLines(), LINES_DELAY_MS).unref()
    this.#lines += line
  }

  /** As `AskToOpen`. */
  async askToOpen(stores: StoreKind, place: StorePlace, open: () => void): Promise<boolean> {
    for (;;) {
      const reply = await this.#askToOpen({ kind: 'opening', stores, place, pid: process.pid })
      if (typeof reply === 'string') {
        // Notices are applied after the state. A new connection brings a new state.
        if (!this.#membership.isConnected) throw unavailable()
        return false
      }
      const mayOpen = isValid(reply)
      try {
        if (mayOpen) open()
      } finally {
        this.#membership.sendEarly({ kind: 'opened', number: reply.number } satisfies SecondarySignal)
      }
      if (mayOpen) return true
    }
  }

  async bringIndex(call: Omit<Extract<SecondaryCall, { kind: 'index' }>, 'kind'>, signal?: AbortSignal): Promise<void> {
    await this.#call<void>({ kind: 'index', ...call }, signal)
  }

  isPassword(credentials: { readonly name: string; readonly password: string }): Promise<boolean> {
    return this.#call<boolean>({ kind: 'password', ...credentials })
  }

  reduce(
    program: ReduceProgram,
    groups: readonly (readonly ReduceInput[])[],
    owner: string,
    signal?: AbortSignal,
  ): Promise<string[]> {
    return this.#call<string[]>({ kind: 'reduce', program, groups, owner }, signal)
  }

  rereduce(
    program: ReduceProgram,
    groups: readonly (readonly string[])[],
    owner: string,
    signal?: AbortSignal,
  ): Promise<string[]> {
    return this.#call<string[]>({ kind: 'rereduce', program, groups, owner }, signal)
  }

  close(): void {
    clearInterval(this.#reporting)
    this.#report()
    this.#membership.close()
  }

  async #begin(state: unknown): Promise<void> {
    // Both ends are of one release.
    await this.#options.begin(state as NodeState)
    this.#isDraining = false
    setImmediate(() => {
      this.#send({ kind: 'hello', pid: process.pid, connections: this.slots.held })
      this.#watched.sendAll()
    })
  }

  async #take(message: unknown): Promise<unknown> {
    if (!isKindOf<Notice | ConnectionQuestion>(message)) return undefined
    if (message.kind === 'connection') return this.#options.giveUp(message)
    if (message.kind === 'report') this.#report()
    else if (message.kind === 'drain') {
      this.#isDraining = true
      this.#options.lost()
    } else await this.#options.take(message)
    return undefined
  }

  /** A call that a closing primary does not finish is repeated with the next one: no call changes data. */
  async #call<T>(call: SecondaryCall, signal?: AbortSignal): Promise<T> {
    for (;;) {
      await this.ready()
      try {
        const reply = await this.#membership.call(call, { signal })
        return resultOf(reply as CallReply<T>)
      } catch (error) {
        if (!(error instanceof NodeUnreachableError)) throw error
      }
    }
  }

  /** The state that is being applied may need a file. */
  async #askToOpen(call: Extract<SecondaryCall, { kind: 'opening' }>): Promise<OpeningReply> {
    for (;;) {
      const isJoining = !this.#membership.isConnected && this.#membership.isJoined
      if (!this.#membership.isJoined) await this.ready()
      try {
        const reply = await this.#membership.callEarly(call)
        return resultOf(reply as CallReply<OpeningReply>)
      } catch (error) {
        if (!(error instanceof NodeUnreachableError)) throw error
        if (isJoining) throw unavailable()
      }
    }
  }

  /** It has no timeout: what the primary lends must be counted here too. */
  async #borrowSlots(wanted: number, held: number): Promise<number | undefined> {
    const call: SecondaryCall = { kind: 'slots', wanted, held }
    try {
      const reply = await this.#membership.call(call)
      return resultOf(reply as CallReply<number>)
    } catch {
      return undefined
    }
  }

  async #waited(): Promise<void> {
    const timeout = AbortSignal.timeout(PRIMARY_TIMEOUT_MS)
    try {
      do await this.#membership.connected(timeout)
      while (this.#isDraining && (await this.#disconnected(timeout)))
    } catch {
      throw unavailable()
    }
  }

  /** The channel to a primary that drains is about to close. */
  async #disconnected(signal: AbortSignal): Promise<boolean> {
    while (this.#isDraining && this.#membership.isConnected) {
      signal.throwIfAborted()
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    return this.#isDraining
  }

  #report(): void {
    this.#sendLines()
    if (!this.#membership.isConnected) return
    this.#send({
      kind: 'statistics',
      increments: this.#options.takeIncrements(),
      metrics: this.#options.takeMetrics(),
    })
  }

  #sendLines(): void {
    if (this.#lines === '' || !this.#membership.isConnected) return
    this.#send({ kind: 'lines', lines: this.#lines })
    this.#lines = ''
  }

  #send(signal: SecondarySignal): void {
    this.#membership.send(signal)
  }
}

function unavailable(): RequestError {
  return new RequestError('unavailable', 'service_unavailable', 'The primary node cannot be reached; try again later.')
}
