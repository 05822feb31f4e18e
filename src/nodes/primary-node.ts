/**
 * The primary of a server with several nodes. It is a complete server, and it notifies the secondaries of everything that makes
 * their caches stale. Where a stale read after the reply would be wrong, they acknowledge before the reply is sent.
 */
import type { SendHandle } from 'node:child_process'
import { join } from 'node:path'
import type { Auth } from '../auth/auth.ts'
import { ALONE, type Cluster } from '../cluster/cluster.ts'
import { PrimaryHub } from '../cluster/primary-hub.ts'
import type { Configuration } from '../config/configuration.ts'
import { type DatabaseCommit, isAwaited } from '../database/cache-invalidation.ts'
import type { Databases } from '../database/databases.ts'
import { notFound } from '../document/request-error.ts'
import type { Functions } from '../functions/functions.ts'
import { ForwardedRequests } from '../http/forwarding/forwarded-request.ts'
import type { ServerLog } from '../runtime/log/server-log.ts'
import type { Metrics } from '../runtime/metrics.ts'
import type { Statistics } from '../runtime/statistics.ts'
import { FileOpenings, type OpenableStores, type OpeningReply } from '../storage/leases/file-openings.ts'
import type { RefusedFile, StoreFollowers, StorePlace } from '../storage/leases/store-followers.ts'
import type { Views } from '../views/views.ts'
import type { RequestHandler } from '../wire/connection.ts'
import { takeConnection } from './arriving-connections.ts'
import type { MovedConnection } from './moved-connection.ts'
import {
  type CallReply,
  CHANNEL_SOCKET,
  type ConnectionQuestion,
  isKindOf,
  type NodePlace,
  type NodeState,
  type Notice,
  REQUESTS_SOCKET,
  replyOf,
  type SecondaryCall,
  type SecondarySignal,
  type StoreKind,
  type UpdateSignal,
} from './node-message.ts'

/** Stores that secondaries read. */
export interface FollowedStores extends OpenableStores {
  places(): StorePlace[]
  refusals(): RefusedFile[]
  onDamaged(listener: (name: string) => void): () => void
  followedBy(followers: StoreFollowers): void
  clearReaders(): void
}

/** The parts of the server that secondaries use. */
export interface PrimaryParts {
  readonly databaseStores: FollowedStores
  readonly indexStores: FollowedStores
  readonly databases: Databases
  readonly views: Views
  readonly functions: Functions
  readonly auth: Auth
  readonly configuration: Configuration
  readonly serverLog: ServerLog
  readonly statistics: Statistics
  readonly metrics: Metrics
  readonly handler: RequestHandler
}

/** When the primary closes, forwarded requests that take longer are aborted. */
const CLOSING_LIMIT_MS = 10_000

/** What is known of a secondary. */
interface Member {
  pid: number | undefined
  /** Databases whose commits it subscribes to. */
  readonly watched: Set<string>
}

export class PrimaryNode {
  /** When the databases were opened. */
  readonly epochUs = Date.now() * 1000
  readonly #place: NodePlace
  #cluster: Cluster = ALONE
  #hub: PrimaryHub | undefined
  #requests: ForwardedRequests | undefined
  #parts: PrimaryParts | undefined
  readonly #members = new Map<object, Member>()
  readonly #openings = new FileOpenings(() => this.#parts?.configuration.integer('lmdb', 'open_timeout') ?? 0)
  #subscriptions: (() => unknown)[] = []
  /** The last commit of each database that was not published yet. */
  #unpublished = new Map<string, DatabaseCommit>()

  constructor(place: NodePlace) {
    this.#place = place
  }

  /** Begins to serve secondaries. */
  async start(parts: PrimaryParts): Promise<void> {
    this.#parts = parts
    parts.databaseStores.followedBy(this.#followers('databases'))
    parts.indexStores.followedBy(this.#followers('indexes'))
    const refuse = () => void this.#announce({ kind: 'refused', files: refusals(parts) })
    this.#subscriptions = [
      parts.databaseStores.onDamaged(refuse),
      parts.indexStores.onDamaged(refuse),
      parts.configuration.onChange(() => this.#announce({ kind: 'settings', settings: parts.configuration.entries() })),
    ]
    const { folder, term } = this.#place
    this.#requests = await ForwardedRequests.listen(join(folder, REQUESTS_SOCKET), parts.handler)
    this.#hub = await PrimaryHub.open({
      path: join(folder, CHANNEL_SOCKET),
      term,
      welcome: () => this.#state(parts),
      signal: (member, message) => this.#receive(parts, member, message),
      call: (member, message, signal) => this.#answer(parts, member, message, signal),
      left: (member) => this.#left(parts, member),
      // It must not continue with a stale state.
      stuck: (member) => kill(parts, this.#members.get(member)?.pid, 'A node did not answer in time. It was killed.'),
    })
    this.#cluster = this.#hub
    this.#place.onConnection?.((connection, handle) => void this.#takeConnection(connection, handle))
  }

  /** For the databases: notifies the secondaries of a commit. */
  onCommit(commit: DatabaseCommit): Promise<void> | undefined {
    if (this.#cluster.size === 0) return undefined
    if (this.#parts && isAwaited(commit, this.#parts.auth.settings.usersDatabase)) {
      return this.#announce({ kind: 'changed', commit })
    }
    if (!this.#isWatched(commit.database)) return undefined
    if (this.#unpublished.size === 0) setImmediate(() => this.#publish())
    this.#unpublished.set(commit.database, commit)
    return undefined
  }

  /** Resolves when the log lines and counts of the secondaries so far have arrived. */
  async gather(): Promise<void> {
    const report: Notice = { kind: 'report' }
    await this.#cluster.gather(report)
  }

  /** Secondaries close the sockets that keep this node from binding the addresses of the settings. */
  async makeWay(): Promise<void> {
    const { configuration } = this.#parts ?? {}
    if (configuration) await this.#announce({ kind: 'make way', settings: configuration.entries() })
  }

  /** Finishes forwarded requests. Secondaries then wait for the next primary. */
  async close(): Promise<void> {
    for (const unsubscribe of this.#subscriptions) unsubscribe()
    await this.#announce({ kind: 'drain' })
    await this.#requests?.close(CLOSING_LIMIT_MS)
    this.#cluster = ALONE
    for (let idle = this.#openings.idle(); idle; idle = this.#openings.idle()) await idle
    await this.#hub?.close()
  }

  async #takeConnection(connection: MovedConnection, handle: SendHandle): Promise<void> {
    const { pid, number } = connection
    const [member] = [...this.#members].find(([, each]) => each.pid === pid) ?? []
    await takeConnection(connection, handle, {
      adopter: this.#place.adopter,
      ask: async (isWanted) => {
        const question: ConnectionQuestion = { kind: 'connection', number, isWanted }
        // Without a timeout: what the secondary gives up must go on here.
        return member !== undefined && (await this.#hub?.ask(member, question)) === true
      },
    })
  }

  #state(parts: PrimaryParts): NodeState {
    const { configuration, databaseStores, indexStores } = parts
    return {
      epochUs: this.epochUs,
      secondaries: this.#place.secondaries,
      settings: configuration.entries(),
      databases: databaseStores.places(),
      indexes: indexStores.places(),
      refused: refusals(parts),
    }
  }

  #followers(stores: StoreKind): StoreFollowers {
    return {
      placed: async (place) => this.#announce({ kind: 'placed', stores, place }),
      dropped: async (name) => this.#announce({ kind: 'dropped', stores, name }),
    }
  }

  #announce(notice: Notice): Promise<void> | undefined {
    return this.#cluster.announce(notice)
  }

  #isWatched(database: string): boolean {
    for (const { watched } of this.#members.values()) if (watched.has(database)) return true
    return false
  }

  #publish(): void {
    const unpublished = [...this.#unpublished.values()]
    this.#unpublished = new Map()
    this.#cluster.publish((key) => {
      const commits = unpublished.filter(({ database }) => this.#members.get(key)?.watched.has(database))
      const signal: UpdateSignal = { kind: 'updated', commits }
      return commits.length > 0 ? signal : undefined
    })
  }

  /** The last commits to databases that a secondary watches from now on: it may have read the states before them. */
  #publishLast({ databases }: PrimaryParts, key: object, names: readonly string[]): void {
    const commits = names.flatMap((database): DatabaseCommit[] => {
      const updateSequence = databases.opened(database)?.changes.updateSequence ?? 0
      return updateSequence > 0 ? [{ database, updateSequence, hasDesigns: false, hasSecurity: false }] : []
    })
    const signal: UpdateSignal = { kind: 'updated', commits }
    if (commits.length > 0) this.#cluster.publish((each) => (each === key ? signal : undefined))
  }

  #receive(parts: PrimaryParts, key: object, message: unknown): void {
    if (!isKindOf<SecondarySignal>(message)) return
    const { serverLog, statistics, metrics } = parts
    const { slots } = this.#place
    const member: Member = this.#members.get(key) ?? { pid: undefined, watched: new Set() }
    this.#members.set(key, member)
    switch (message.kind) {
      case 'hello':
        member.pid = message.pid
        slots.know(key, message.connections)
        break
      case 'opened':
        this.#openings.end(key, message.number)
        break
      case 'slots back':
        slots.takeBack(key, message.count)
        break
      case 'watch':
        for (const name of message.databases) member.watched.add(name)
        this.#publishLast(parts, key, message.databases)
        break
      case 'unwatch':
        for (const name of message.databases) member.watched.delete(name)
        break
      case 'lines':
        serverLog.append(message.lines)
        break
      case 'statistics':
        statistics.addIncrements(key, message.increments)
        metrics.merge(key, message.metrics)
        break
    }
  }

  async #answer(
    parts: PrimaryParts,
    member: object,
    message: unknown,
    signal: AbortSignal,
  ): Promise<CallReply<unknown>> {
    if (!isKindOf<SecondaryCall>(message)) throw new Error('The call is unknown.')
    const { functions, auth } = parts
    switch (message.kind) {
      case 'index':
        return replyOf(this.#bringIndex(parts, message, signal))
      case 'opening':
        return { value: await this.#letOpen(parts, member, message, signal) }
      case 'slots':
        return { value: this.#place.slots.lend(member, message, this.#place.slotLimit()) }
      case 'password':
        return replyOf(auth.isPassword(message))
      case 'reduce':
        return replyOf(functions.reduce(message.program, message.groups, { owner: message.owner, signal }))
      case 'rereduce':
        return replyOf(functions.rereduce(message.program, message.groups, { owner: message.owner, signal }))
    }
  }

  #letOpen(
    parts: PrimaryParts,
    member: object,
    { stores, place, pid }: Extract<SecondaryCall, { kind: 'opening' }>,
    signal: AbortSignal,
  ): Promise<OpeningReply> {
    return this.#openings.begin(member, {
      stores: stores === 'databases' ? parts.databaseStores : parts.indexStores,
      place,
      signal,
      // Its channel closes when it is dead.
      kill: () => kill(parts, pid, 'A node did not open a file in time. It was killed.'),
    })
  }

  async #bringIndex(
    { databases, views }: PrimaryParts,
    { database: name, uuid, design, isUpdated }: Extract<SecondaryCall, { kind: 'index' }>,
    signal: AbortSignal,
  ): Promise<void> {
    const database = await databases.get(name)
    if (database.uuid !== uuid) throw notFound('no_db_file')
    const index = await views.openIndex(database, design, isUpdated ? 'updated' : 'stale', { signal })
    index.release()
  }

  #left({ statistics, metrics, databaseStores, indexStores }: PrimaryParts, key: object): void {
    this.#openings.left(key)
    metrics.forget(key)
    this.#place.slots.forget(key)
    this.#members.delete(key)
    statistics.forget(key)
    // A node that was killed leaves its reader slots: the pages of its snapshots would never be reused.
    databaseStores.clearReaders()
    indexStores.clearReaders()
  }
}

/** While its channel is open, the process id is still its own. */
function kill({ serverLog }: PrimaryParts, pid: number | undefined, message: string): void {
  serverLog.log.error(message, { pid })
  if (pid === undefined) return
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has just ended.
  }
}

function refusals({ databaseStores, indexStores }: PrimaryParts): RefusedFile[] {
  return [...databaseStores.refusals(), ...indexStores.refusals()]
}
