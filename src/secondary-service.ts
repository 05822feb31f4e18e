/**
 * A secondary node: answers what can be read from the files of the databases and indexes, and hands every other request to
 * the primary. It writes nothing, and what it keeps in memory follows what the primary says.
 */
import { join, resolve } from 'node:path'
import { Auth } from './auth/auth.ts'
import { Configuration } from './config/configuration.ts'
import { type SettingMap, withSetting } from './config/ini-text.ts'
import { defaultSettings, environmentSettings, SettingMemory } from './config/setting-sources.ts'
import type { DatabaseCommit } from './database/cache-invalidation.ts'
import { Databases } from './database/databases.ts'
import { engineSettings } from './engine-settings.ts'
import { InterfaceFiles } from './http/admin/interface-files.ts'
import { FeedCounts } from './http/changes/feed-counts.ts'
import { Forwarder } from './http/forwarding/forwarder.ts'
import type { ListeningSockets } from './http/listeners/listener.ts'
import { connectionLimits, isOfListeners, listenerPlans, wantedConnections } from './http/listeners/listener-plan.ts'
import { Listeners } from './http/listeners/listeners.ts'
import { createSecondaryApp } from './http/server/app.ts'
import { ReplyCounts } from './http/server/request-log.ts'
import { bodyMemoryLimits, bodyMemoryShares, requestSettings } from './http/server/request-settings.ts'
import { DepartingConnections } from './nodes/departing-connections.ts'
import type { ConnectionSender } from './nodes/moved-connection.ts'
import { nodeCount } from './nodes/node-count.ts'
import {
  type NodeState,
  type Notice,
  REQUESTS_SOCKET,
  type SettingEntry,
  type StoreKind,
} from './nodes/node-message.ts'
import { RemoteRunner, remoteFunctions } from './nodes/remote-work.ts'
import { SecondaryNode } from './nodes/secondary-node.ts'
import { systemClock } from './runtime/clock.ts'
import { Deadlines } from './runtime/deadlines.ts'
import { descriptorBudget, descriptorLimit } from './runtime/descriptor-budget.ts'
import type { Log } from './runtime/log/log.ts'
import { ServerLog } from './runtime/log/server-log.ts'
import { MemoryBudget } from './runtime/memory-budget.ts'
import { Metrics } from './runtime/metrics.ts'
import { Statistics } from './runtime/statistics.ts'
import { TaskRegistry } from './runtime/tasks.ts'
import { Uuids } from './runtime/uuids.ts'
import { version } from './runtime/version.ts'
import { flagSettings, homeFolder, type ServiceOptions } from './service-options.ts'
import { uuidSettings } from './service-parts.ts'
import { FollowedEngine } from './storage/lmdb/followed-engine.ts'
import { checkLibrary } from './storage/lmdb/library/library-check.ts'
import { setLibraryUse, useBySettings } from './storage/lmdb/library/library-use.ts'
import { Views } from './views/views.ts'
import type { RequestHandler } from './wire/connection.ts'

export interface SecondaryServiceOptions {
  /** Of the command, as the primary has them. */
  readonly service: ServiceOptions
  /** Where the sockets of the nodes are. */
  readonly folder: string
  /** Tells the nodes apart. */
  readonly number: number
  /** The listening sockets, which the supervisor keeps. */
  readonly sockets: ListeningSockets
  /** By which connections move to the primary; without it none do. */
  readonly sender?: ConnectionSender
  readonly log: Log
}

export interface SecondaryService {
  /** Begins to answer. */
  listen(): Promise<void>
  /** Finishes the requests under way. */
  close(): Promise<void>
}

/** Resolves when the primary has sent its state. */
export async function createSecondary(options: SecondaryServiceOptions): Promise<SecondaryService> {
  const service = new RunningSecondary(options)
  await service.begun
  return service
}

class RunningSecondary implements SecondaryService {
  readonly #options: SecondaryServiceOptions
  readonly #node: SecondaryNode
  readonly #forwarder: Forwarder
  readonly #departing: DepartingConnections | undefined
  readonly #metrics = new Metrics()
  readonly #begun = Promise.withResolvers<void>()
  #parts: SecondaryParts | undefined
  #epochUs = 0
  #listeners: Listeners | undefined
  /** Settles when the last notice of the primary is applied: notices are applied in order. */
  #turn: Promise<unknown> = Promise.resolve()

  constructor(options: SecondaryServiceOptions) {
    this.#options = options
    const { folder, number, sender } = options
    this.#node = new SecondaryNode({
      folder,
      begin: (state) => this.#inTurn(() => this.#begin(state)),
      updated: ({ commits }) => this.#updated(commits),
      take: (notice) => this.#take(notice),
      lost: () => {
        this.#forwarder.reset()
        this.#departing?.keep()
      },
      giveUp: ({ number, isWanted }) => {
        if (isWanted) return this.#departing?.release(number) ?? false
        this.#departing?.keep(number)
        return false
      },
      takeIncrements: () => this.#parts?.statistics.takeIncrements() ?? [],
      takeMetrics: () => this.#metrics.report(),
    })
    this.#forwarder = new Forwarder({
      path: join(folder, REQUESTS_SOCKET),
      node: String(number),
      available: async () => this.#node.ready(),
    })
    this.#departing =
      sender &&
      new DepartingConnections({
        sender,
        isReady: () => this.#node.isReady,
        moved: () => this.#node.slots.passOn(),
      })
  }

  get begun(): Promise<void> {
    return this.#begun.promise
  }

  async listen(): Promise<void> {
    const parts = this.#parts
    if (!parts) throw new Error('The node has no state yet.')
    const { configuration, serverLog } = parts
    const replies = new ReplyCounts(this.#metrics)
    this.#listeners = new Listeners(serverLog.log, this.#options.sockets, {
      limits: () => connectionLimits(configuration),
      slots: this.#node.slots,
      onRefused: (status) => replies.add(status),
    })
    await this.#listeners.open(this.#plans(configuration), parts.handler)
  }

  async close(): Promise<void> {
    await this.#listeners?.close()
    this.#node.close()
    await this.#parts?.close()
  }

  async #begin(state: NodeState): Promise<void> {
    this.#epochUs = state.epochUs
    if (!this.#parts) {
      this.#parts = await this.#open(state)
      this.#begun.resolve()
      return
    }
    const { configuration, databases, databaseStores, indexStores } = this.#parts
    await configuration.follow(state.settings)
    for (const stores of [databaseStores, indexStores]) stores.refuse(state.refused)
    indexStores.placeAll(state.indexes)
    for (const name of databaseStores.placeAll(state.databases)) {
      this.#node.deleted(name)
      await databases.deletedElsewhere(name)
    }
    await databases.anyChangedElsewhere()
  }

  #updated(commits: readonly DatabaseCommit[]): void {
    const databases = this.#parts?.databases
    const unwanted: string[] = []
    for (const commit of commits) {
      if (databases?.opened(commit.database)?.changes.hasSubscribers) databases.changedElsewhere(commit)
      else unwanted.push(commit.database)
    }
    if (unwanted.length > 0) this.#node.unwatch(unwanted)
  }

  async #take(notice: Notice): Promise<void> {
    const parts = this.#parts
    if (!parts) return
    const { databases, databaseStores, indexStores, configuration } = parts
    switch (notice.kind) {
      case 'placed':
        storesOf(parts, notice.stores).place(notice.place)
        break
      case 'dropped':
        if (notice.stores === 'indexes') indexStores.forget(notice.name)
        else {
          databaseStores.forget(notice.name)
          this.#node.deleted(notice.name)
          await databases.deletedElsewhere(notice.name)
        }
        break
      case 'refused':
        for (const stores of [databaseStores, indexStores]) stores.refuse(notice.files)
        break
      case 'settings':
        await this.#inTurn(() => configuration.follow(notice.settings))
        break
      case 'make way':
        await this.#listeners?.makeWay(this.#plans(await followedConfiguration(notice.settings)))
        break
      case 'changed':
        databases.changedElsewhere(notice.commit)
        break
    }
  }

  async #open(state: NodeState): Promise<SecondaryParts> {
    const { service, log: operator } = this.#options
    const node = this.#node
    const configuration = await followedConfiguration(state.settings)
    const serverLog = ServerLog.relayed(configuration, operator, { write: (line) => node.log(line) })
    const { log } = serverLog
    const metrics = this.#metrics
    metrics.gauge('settle_connections', '', () => this.#listeners?.connections ?? 0)
    metrics.total('couchdb_couch_log_requests_total', '', () =>
      Object.entries(serverLog.counts).map(([level, count]) => [{ level }, count] as const),
    )
    const bodyMemory = new MemoryBudget(bodyMemoryLimits(configuration, bodyMemoryShares(state.secondaries).secondary))
    metrics.gauge('settle_body_memory_bytes', '', () => bodyMemory.heldBytes)
    metrics.gauge('settle_body_memory_limit_bytes', '', () => bodyMemory.limitBytes)
    metrics.gauge('settle_body_memory_waiting', '', () => bodyMemory.waiting)
    const statistics = new Statistics({ rateMs: 1000, windowsSeconds: [] }, { isTaken: true })
    const { idleFiles } = budgetOf(configuration)
    const idleStates = idleStatesOf(configuration)
    // As the primary uses it: what it found out is noted in its folder.
    const { use } = await checkLibrary(this.#home, useBySettings(configuration.section('lmdb')))
    setLibraryUse(use)
    const storesOfKind = (kind: StoreKind) =>
      new FollowedEngine({ idleFiles, idleStates, askToOpen: (place, open) => node.askToOpen(kind, place, open) })
    const databaseStores = storesOfKind('databases')
    const indexStores = storesOfKind('indexes')
    for (const stores of [databaseStores, indexStores]) stores.refuse(state.refused)
    databaseStores.placeAll(state.databases)
    indexStores.placeAll(state.indexes)
    // Tasks run in the primary, which measures them.
    const tasks = new TaskRegistry(systemClock, new Metrics())
    const functions = remoteFunctions(node)
    const databases = new Databases(databaseStores, {
      clock: systemClock,
      log,
      tasks,
      functions,
      isFollower: true,
      onFollowed: (database) => node.watch(database),
      epochUs: () => this.#epochUs,
    })
    const views = await Views.open({
      databases,
      engine: indexStores,
      functions,
      runner: new RemoteRunner(node),
      tasks,
      log,
      provide: (database, design) =>
        node.bringIndex({ database: database.name, uuid: database.uuid, design, isUpdated: false }),
    })
    const auth = new Auth({
      settings: configuration,
      databases,
      clock: systemClock,
      log,
      onLookup: (isHit) => statistics.increment('service', isHit ? 'auth_cache_hits' : 'auth_cache_misses'),
      checkElsewhere: (credentials) => node.isPassword(credentials),
    })
    await auth.start()
    const engines = configuration.derive(() => engineSettings(configuration, { isInMemory: false }).others)
    // One that other engines may have is the primary's, also where there is a file of its name.
    const isFile = (database: string) =>
      databases.has(database) && (engines.current?.patterns.find(database) ?? 'own') === 'own'
    const handler = createSecondaryApp(
      {
        configuration,
        settings: requestSettings(configuration),
        databases,
        functions,
        views,
        auth,
        uuids: new Uuids(systemClock, uuidSettings(configuration)),
        bodyMemory,
        log,
        serverLog,
        statistics,
        metrics,
        feeds: new FeedCounts(metrics),
        deadlines: new Deadlines(),
        interfaceFiles: new InterfaceFiles(service.interfaceDir),
        version,
      },
      {
        forward: async (request, reply) => {
          const failure = await this.#forwarder.forward(request, reply)
          if (!failure) this.#departing?.forwarded(request)
          return failure
        },
        ready: () => node.ready(),
        isElsewhere: (database) =>
          engines.current !== undefined &&
          (!isFile(auth.settings.usersDatabase) || (database !== undefined && !isFile(database))),
      },
    )
    configuration.onChange(async (change) => {
      if (change.section === 'log') await serverLog.configure(configuration)
      if (change.section === 'service' && change.key === 'max_dbs_open') {
        databaseStores.keepIdle(budgetOf(configuration).idleFiles)
        indexStores.keepIdle(budgetOf(configuration).idleFiles)
      }
      if (isOfListeners(change)) await this.#listeners?.move(this.#plans(configuration), handler)
    })
    return {
      configuration,
      serverLog,
      statistics,
      databases,
      databaseStores,
      indexStores,
      handler,
      close: async () => {
        auth.close()
        await views.close()
        await databaseStores.close()
        await indexStores.close()
      },
    }
  }

  #plans(configuration: Configuration) {
    return listenerPlans(configuration, {
      folder: this.#home,
      connectionLimit: budgetOf(configuration).connections,
    })
  }

  get #home(): string {
    const { service } = this.#options
    return resolve(homeFolder([flagSettings(service), environmentSettings(service.environment ?? {})]))
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work)
    this.#turn = done.catch(() => {})
    return done
  }
}

interface SecondaryParts {
  readonly configuration: Configuration
  readonly serverLog: ServerLog
  readonly statistics: Statistics
  readonly databases: Databases
  readonly databaseStores: FollowedEngine
  readonly indexStores: FollowedEngine
  readonly handler: RequestHandler
  close(): Promise<void>
}

function storesOf({ databaseStores, indexStores }: SecondaryParts, stores: 'databases' | 'indexes'): FollowedEngine {
  return stores === 'databases' ? databaseStores : indexStores
}

/** The settings of the primary, over the same defaults. */
async function followedConfiguration(entries: readonly SettingEntry[]): Promise<Configuration> {
  let flags: SettingMap = new Map()
  for (const [section, key, value] of entries) flags = withSetting(flags, section, key, value)
  return Configuration.load({ defaults: await defaultSettings(), stored: new SettingMemory(), flags })
}

/** The most idle snapshots of a store in all secondaries together: with those of the primary, fewer than LMDB has reader slots. */
const IDLE_STATES = 500

function idleStatesOf(configuration: Configuration): number {
  const secondaries = Math.max(1, nodeCount(configuration) - 1)
  return Math.max(1, Math.floor(IDLE_STATES / secondaries))
}

function budgetOf(configuration: Configuration) {
  return descriptorBudget(descriptorLimit(), {
    connections: wantedConnections(configuration),
    idleFiles: configuration.integer('service', 'max_dbs_open'),
  })
}
