/**
 * The parts of a running service, put together in the order of the layers and closed in the opposite order. A restart
 * closes them and creates new ones.
 */
import { statfs } from 'node:fs/promises'
import { Auth } from './auth/auth.ts'
import type { Configuration } from './config/configuration.ts'
import type { DataFolders, DataHome } from './data-home.ts'
import { isAwaited } from './database/cache-invalidation.ts'
import { CompactionDaemon } from './database/compaction/compaction-daemon.ts'
import { DatabaseHistory } from './database/database-history.ts'
import { Databases } from './database/databases.ts'
import { RetentionDaemon } from './database/retention/retention-daemon.ts'
import { WriteMetrics } from './database/writing/write-queue.ts'
import { engineSettings } from './engine-settings.ts'
import { ExternalPrograms } from './external/external-programs.ts'
import { createFunctions } from './functions/create-functions.ts'
import { functionSettings } from './functions/function-settings.ts'
import { QueryServers } from './functions/query-servers/query-servers.ts'
import { Health } from './http/admin/health.ts'
import type { InterfaceFiles } from './http/admin/interface-files.ts'
import { ServerWork } from './http/admin/server-work.ts'
import { FeedCounts } from './http/changes/feed-counts.ts'
import { createApp } from './http/server/app.ts'
import type { DiskSpace, PrimaryContext } from './http/server/context.ts'
import { bodyMemoryLimits, bodyMemoryShares, requestSettings } from './http/server/request-settings.ts'
import type { NodePlace } from './nodes/node-message.ts'
import { PrimaryNode } from './nodes/primary-node.ts'
import type { OpenData } from './open-data.ts'
import { HttpAgents } from './replication/client/http-agents.ts'
import { Replications } from './replication/replications.ts'
import { systemClock } from './runtime/clock.ts'
import { Deadlines } from './runtime/deadlines.ts'
import { FairSemaphore } from './runtime/fair-semaphore.ts'
import type { ServerLog } from './runtime/log/server-log.ts'
import { MemoryBudget } from './runtime/memory-budget.ts'
import type { Metrics } from './runtime/metrics.ts'
import type { Statistics } from './runtime/statistics.ts'
import { TaskRegistry } from './runtime/tasks.ts'
import { type UuidSettings, Uuids } from './runtime/uuids.ts'
import { version } from './runtime/version.ts'
import type { LeasesOf } from './storage/leases/work-leases.ts'
import { useBySettings } from './storage/lmdb/library/library-use.ts'
import { Views } from './views/views.ts'
import type { RequestHandler } from './wire/connection.ts'

export interface ServiceParts {
  readonly data: OpenData
  readonly databases: Databases
  readonly uuids: Uuids
  readonly handler: RequestHandler
  /** Other nodes close the sockets that keep this one from binding the addresses of the settings. */
  makeWay(): Promise<void>
  close(): Promise<void>
}

export interface PartsSurroundings {
  readonly configuration: Configuration
  readonly home: DataHome
  readonly serverLog: ServerLog
  readonly statistics: Statistics
  readonly metrics: Metrics
  readonly interfaceFiles: InterfaceFiles
  /** Files of databases that may stay open without users, and as many of indexes. */
  readonly idleFiles: number
  /** Set where other nodes answer requests too. */
  readonly nodes: NodePlace | undefined
  /** Generations of files that they may still read, though the files are gone. */
  readonly usedGenerations: number
  restart(): void
}

/** To be closed. */
export async function openParts(folders: DataFolders, surroundings: PartsSurroundings): Promise<ServiceParts> {
  const { configuration, home, serverLog, statistics, metrics, interfaceFiles, idleFiles, restart } = surroundings
  const { log } = serverLog
  const { usedGenerations } = surroundings
  const data = await home.open(folders, {
    idleFiles,
    library: useBySettings(configuration.section('lmdb')),
    openMs: () => configuration.integer('lmdb', 'open_timeout'),
    log,
    usedGenerations,
    engines: engineSettings(configuration, { isInMemory: home.folder === undefined }),
  })
  const leases: LeasesOf = (database) => data.engine.leasesOf?.(database)
  const stopSharing = await shareSettings(configuration, data)
  const node = surroundings.nodes && data.followed ? new PrimaryNode(surroundings.nodes) : undefined
  const tasks = new TaskRegistry(systemClock, metrics)
  const languages = new QueryServers({ configuration, log })
  const functions = createFunctions({
    settings: () => functionSettings(configuration),
    log,
    metrics,
    languages,
  })
  const writes = new WriteMetrics(metrics, data.isOwn)
  const databases = new Databases(data.engine, {
    clock: systemClock,
    log,
    tasks,
    functions,
    writes,
    leases,
    ...(node && { epochUs: () => node.epochUs }),
    ...((node || data.confirm) && {
      onCommit: (commit) => {
        const told = node?.onCommit(commit)
        if (!data.confirm || !isAwaited(commit, auth.settings.usersDatabase)) return told
        const confirmed = data.confirm(commit.database)
        return told ? Promise.all([told, confirmed]).then(() => {}) : confirmed
      },
    }),
  })
  const history = new DatabaseHistory(databases, () => configuration.integer('httpd', 'max_db_updates'))
  const runner = data.indexRunner({
    functions,
    settings: () => ({
      functions: functionSettings(configuration),
      sortBytes: configuration.integer('view_building', 'sort_memory'),
      stopMs: configuration.integer('view_building', 'stop_timeout'),
      openMs: configuration.integer('lmdb', 'open_timeout'),
    }),
    readyMs: () => configuration.integer('view_building', 'idle_timeout'),
    isSandboxed: (language) => language === 'javascript' && !languages.find(language),
    log,
    metrics,
  })
  const views = await Views.open({ databases, engine: data.indexEngine, functions, runner, tasks, log, metrics })
  const stopFollowing = configuration.onChange(() => runner.settingsChanged())
  const auth = new Auth({
    settings: configuration,
    databases,
    clock: systemClock,
    log,
    onLookup: (isHit) => statistics.increment('service', isHit ? 'auth_cache_hits' : 'auth_cache_misses'),
  })
  await auth.start()
  const uuids = new Uuids(systemClock, uuidSettings(configuration))
  const agents = new HttpAgents()
  const replications = new Replications({
    auth,
    databases,
    functions,
    configuration,
    agents,
    tasks,
    metrics,
    clock: systemClock,
    log,
    leases,
    engineUuid: data.engine.uuid,
  })
  await replications.start()
  const programs = new ExternalPrograms({ configuration, databases, clock: systemClock, log })
  const isOnDisk = home.folder !== undefined
  const bodyMemory = new MemoryBudget(
    bodyMemoryLimits(configuration, bodyMemoryShares(surroundings.nodes?.secondaries ?? 0).primary),
  )
  metrics.gauge('settle_body_memory_bytes', 'memory that bodies of requests take', () => bodyMemory.heldBytes)
  metrics.gauge(
    'settle_body_memory_limit_bytes',
    'memory that bodies of requests may take, of all nodes together',
    () => bodyMemory.limitBytes,
  )
  metrics.gauge(
    'settle_body_memory_waiting',
    'requests that wait for memory for their bodies',
    () => bodyMemory.waiting,
  )
  const handler = createApp({
    configuration,
    settings: requestSettings(configuration),
    databases,
    history,
    functions,
    // The other half is left for short calls.
    listSlots: new FairSemaphore(() => Math.ceil(functionSettings(configuration).processLimit / 2)),
    views,
    auth,
    uuids,
    bodyMemory,
    programs,
    replications,
    work: new ServerWork({ tasks, scheduler: replications.scheduler, otherServers: data.otherServers }),
    log,
    serverLog,
    statistics,
    metrics,
    feeds: new FeedCounts(metrics),
    health: new Health({ configuration, writes, folder: isOnDisk ? folders.databases : undefined, engine: data }),
    deadlines: new Deadlines(),
    interfaceFiles,
    version,
    disk: async () => (isOnDisk ? diskSpaceAt(folders.databases) : undefined),
    restart,
    ...(node && { gather: () => node.gather() }),
    ...(surroundings.nodes && { returning: returningOf(surroundings.nodes, data, auth) }),
    ...(data.refreshed && { refreshed: (database) => refreshed(data, database, auth.settings.usersDatabase) }),
  })
  const compactionDaemon = new CompactionDaemon({
    configuration,
    databases,
    indexesOf: (database) => views.indexesOf(database),
    clock: systemClock,
    log,
    freeBytes: async () => (isOnDisk ? (await diskSpaceAt(folders.databases)).freeBytes : Number.POSITIVE_INFINITY),
  })
  const retentionDaemon = new RetentionDaemon({
    configuration,
    databases,
    clock: systemClock,
    log,
    metrics,
    leases,
  })
  if (data.followed) {
    await node?.start({
      databaseStores: data.followed.databases,
      indexStores: data.followed.indexes,
      databases,
      views,
      functions,
      auth,
      configuration,
      serverLog,
      statistics,
      metrics,
      handler,
    })
  }
  return {
    data,
    databases,
    uuids,
    handler,
    makeWay: async () => node?.makeWay(),
    close: async () => {
      await node?.close()
      // Their last checkpoints are written while everything else is still there.
      await replications.close()
      await agents.close()
      auth.close()
      await programs.close()
      await compactionDaemon.close()
      await retentionDaemon.close()
      stopFollowing()
      await views.close()
      history.close()
      // Queued writes are still validated.
      await databases.close()
      await functions.close()
      stopSharing()
      await data.close()
    },
  }
}

/** Where other servers use the same databases they share settings too, and a uuid: clients take them for one server. */
async function shareSettings(configuration: Configuration, data: OpenData): Promise<() => void> {
  if (!data.settings) return () => {}
  const stop = await configuration.share(data.settings)
  await configuration.ensure('service', 'uuid', configuration.text('service', 'uuid'))
  return stop
}

/** Other nodes have the files only. What is elsewhere they forward to this one, and everything if the users are. */
function returningOf(
  { returning }: NodePlace,
  data: OpenData,
  { settings }: Auth,
): NonNullable<PrimaryContext['returning']> {
  if (!data.isOwn) return returning
  const isElsewhere = (database: string) => data.isOwn?.(database) === false
  return {
    read: (request, reply, database) => {
      if (isElsewhere(settings.usersDatabase) || (database !== undefined && isElsewhere(database))) return
      returning.read(request, reply)
    },
  }
}

/** What is cached of the users counts for every request. */
function refreshed(data: OpenData, database: string, users: string): Promise<void> | undefined {
  const ofDatabase = data.refreshed?.(database)
  const ofUsers = data.isOwn?.(users) === false ? data.refreshed?.(users) : undefined
  return ofDatabase && ofUsers ? Promise.all([ofDatabase, ofUsers]).then(() => {}) : (ofDatabase ?? ofUsers)
}

export function uuidSettings(configuration: Configuration): UuidSettings {
  return {
    algorithm: configuration.text('uuids', 'algorithm'),
    utcSuffix: configuration.get('uuids', 'utc_id_suffix') ?? '',
  }
}

async function diskSpaceAt(folder: string): Promise<DiskSpace> {
  const { bavail, blocks, bsize } = await statfs(folder)
  return { freeBytes: bavail * bsize, totalBytes: blocks * bsize }
}
