/**
 * A service that runs: opens its parts, listens, follows changes of its settings, restarts and closes. Moves of listeners,
 * restarts and the end come one after the other.
 */
import { isAbsolute, resolve } from 'node:path'
import type { Configuration, GuardedChange, SettingChange } from './config/configuration.ts'
import { SettingError } from './config/setting-rules.ts'
import { parseTerm } from './config/term-text.ts'
import type { DataFolders, DataHome } from './data-home.ts'
import { InterfaceFiles } from './http/admin/interface-files.ts'
import { ServerSlots } from './http/listeners/connection-slots.ts'
import { unsharedSockets } from './http/listeners/listener.ts'
import { connectionLimits, isOfListeners, listenerPlans, wantedConnections } from './http/listeners/listener-plan.ts'
import { atPorts, type ListenerPlans, Listeners, probe } from './http/listeners/listeners.ts'
import { hostsWithoutOriginCheck } from './http/negotiation/browser-policy.ts'
import { ReplyCounts } from './http/server/request-log.ts'
import type { ConnectionAdopter } from './nodes/arriving-connections.ts'
import type { OnConnection } from './nodes/moved-connection.ts'
import { ReturningConnections } from './nodes/returning-connections.ts'
import { type DescriptorBudget, descriptorBudget, descriptorLimit } from './runtime/descriptor-budget.ts'
import { silentLog } from './runtime/log/log.ts'
import { ServerLog } from './runtime/log/server-log.ts'
import { Metrics } from './runtime/metrics.ts'
import { Statistics, type StatisticsSettings } from './runtime/statistics.ts'
import { version } from './runtime/version.ts'
import type { ServiceOptions } from './service-options.ts'
import { openParts, type ServiceParts, uuidSettings } from './service-parts.ts'
import { UriFile } from './uri-file.ts'

export interface Service {
  /** Where the service is reached, such as `http://127.0.0.1:5984/`; known once it listens. */
  readonly url: string
  /** All addresses: the plain one, then the one with TLS if there is one. */
  readonly urls: readonly string[]
  /** Begins to answer; resolves to the URL. */
  listen(): Promise<string>
  /** Finishes the requests under way and closes all files. */
  close(): Promise<void>
  /** The other nodes that the supervisor should start. */
  readonly secondaries: WantedSecondaries | undefined
}

export interface WantedSecondaries {
  readonly count: number
  /** Where they find this one. */
  readonly folder: string
}

export class RunningService implements Service {
  readonly #configuration: Configuration
  readonly #home: DataHome
  readonly #log: ServerLog
  readonly #statistics: Statistics
  readonly #metrics = new Metrics()
  readonly #slots = new ServerSlots()
  readonly #listeners: Listeners
  readonly #uriFile: UriFile
  readonly #interfaceFiles: InterfaceFiles
  readonly #onFailure: (error: unknown) => void
  readonly #forget: (() => void)[]
  readonly #descriptorLimit = descriptorLimit()
  readonly secondaries: WantedSecondaries | undefined
  readonly #term: number
  /** Of this process. A later process of the same supervisor has a later time. */
  readonly #startedMs: number
  readonly #onConnection: OnConnection | undefined
  readonly #returning = new ReturningConnections()
  /** How often the data was opened. */
  #openings = 0
  #parts: ServiceParts | undefined
  #folders: DataFolders = { databases: '', indexes: '' }
  #url: string | undefined
  #closing: Promise<void> | undefined
  #isRestarting = false
  /** A restart was requested and has not begun. */
  #isRestartDue = false
  /** Settings of listeners changed while a restart was under way. */
  #isMoveDue = false
  /** Settles when the last move, restart or end that was queued is done. */
  #turn: Promise<unknown> = Promise.resolve()

  static async start(
    configuration: Configuration,
    home: DataHome,
    options: ServiceOptions,
    secondaries: WantedSecondaries | undefined,
  ): Promise<RunningService> {
    const log = await ServerLog.open(home.folder, configuration, options.log ?? silentLog)
    const { previousEnd } = options.supervisor ?? {}
    if (previousEnd !== undefined) log.log.error(previousEnd)
    const service = new RunningService(configuration, home, log, options, secondaries)
    try {
      await service.#open()
      return service
    } catch (error) {
      service.#statistics.stop()
      await log.close()
      throw error
    }
  }

  private constructor(
    configuration: Configuration,
    home: DataHome,
    log: ServerLog,
    options: ServiceOptions,
    secondaries: WantedSecondaries | undefined,
  ) {
    this.secondaries = secondaries
    this.#term = options.supervisor?.term ?? 1
    this.#startedMs = options.supervisor?.startedMs ?? performance.timeOrigin
    this.#onConnection = options.supervisor?.onConnection
    this.#configuration = configuration
    this.#home = home
    this.#log = log
    this.#onFailure = options.onFailure ?? (() => {})
    this.#statistics = new Statistics(statisticsSettings(configuration))
    this.#statistics.gauge('service', 'open_databases', () => openDatabases(this.#parts))
    this.#statistics.gauge('service', 'open_os_files', () => this.#parts?.data.openFiles() ?? 0)
    const replies = new ReplyCounts(this.#metrics)
    this.#listeners = new Listeners(log.log, options.supervisor?.sockets ?? unsharedSockets, {
      limits: () => connectionLimits(configuration),
      slots: this.#slots,
      onRefused: (status) => replies.add(status),
    })
    this.#metrics.gauge('settle_connections', 'connections of clients that are open', () => this.#listeners.connections)
    this.#metrics.total('couchdb_couch_log_requests_total', 'messages in the log by level', () =>
      Object.entries(log.counts).map(([level, count]) => [{ level }, count] as const),
    )
    this.#uriFile = new UriFile(log.log)
    this.#interfaceFiles = new InterfaceFiles(options.interfaceDir)
    this.#forget = [
      configuration.beforeChange((change) => this.#check(change)),
      configuration.onChange((change) => this.#follow(change)),
    ]
  }

  get url(): string {
    if (this.#url === undefined) throw new Error('The service does not listen yet.')
    return this.#url
  }

  get urls(): readonly string[] {
    return this.#listeners.urls
  }

  async listen(): Promise<string> {
    await this.#inTurn(() => this.#listen(this.#plans()))
    return this.url
  }

  close(): Promise<void> {
    this.#closing ??= this.#inTurn(() => this.#close())
    return this.#closing
  }

  async #open(): Promise<void> {
    const folders = {
      databases: this.#configuration.text('service', 'database_dir'),
      indexes: this.#configuration.text('service', 'view_index_dir'),
    }
    this.#parts = await this.#openParts(folders)
    this.#folders = folders
    this.#warnOfOpenOrigins()
  }

  #openParts(folders: DataFolders): Promise<ServiceParts> {
    const { secondaries } = this
    // Secondaries that outlive this opening may have files open whose generations would be given out again.
    const isFirst = this.#term === 1 && this.#openings++ === 0
    return openParts(folders, {
      configuration: this.#configuration,
      home: this.#home,
      serverLog: this.#log,
      statistics: this.#statistics,
      metrics: this.#metrics,
      interfaceFiles: this.#interfaceFiles,
      idleFiles: this.#budget.idleFiles,
      nodes: secondaries && {
        folder: secondaries.folder,
        term: this.#term,
        slots: this.#slots,
        slotLimit: () => this.#budget.connections,
        secondaries: secondaries.count,
        adopter: this.#adopter,
        onConnection: this.#onConnection,
        returning: this.#returning,
      },
      // Not by the system clock, which may be set back.
      usedGenerations: secondaries && !isFirst ? Math.floor(this.#startedMs + performance.now()) : 0,
      restart: () => this.#restartSoon(),
    })
  }

  /** For connections that other nodes have accepted. */
  get #adopter(): ConnectionAdopter {
    const listeners = this.#listeners
    return {
      get canAdopt() {
        return listeners.canAdopt
      },
      adopt: (socket) => {
        this.#slots.takeOver()
        const connection = listeners.adopt(socket)
        if (connection) this.#returning.add(connection)
      },
    }
  }

  #plans(): ListenerPlans {
    return listenerPlans(this.#configuration, {
      folder: this.#home.folder ?? '.',
      connectionLimit: this.#budget.connections,
    })
  }

  /**
   * If the system allows fewer file descriptors than the settings need, connections and open files are both reduced.
   */
  get #budget(): DescriptorBudget {
    const configuration = this.#configuration
    return descriptorBudget(this.#descriptorLimit, {
      connections: wantedConnections(configuration),
      idleFiles: configuration.integer('service', 'max_dbs_open'),
    })
  }

  async #listen(plans: ListenerPlans): Promise<void> {
    if (!this.#parts) throw new Error('The service is closed.')
    await this.#listeners.open(plans, this.#parts.handler)
    await this.#announce()
  }

  /** The first address is the `url` of the service. */
  async #announce(): Promise<void> {
    this.#url = this.#listeners.urls[0] ?? this.#url
    this.#log.log.info(`Settle ${version} listens.`, { urls: this.#listeners.urls })
    this.#announceLimit()
    await this.#uriFile.write(this.#uriPath(), this.#listeners.urls)
  }

  #warnOfOpenOrigins(): void {
    const hosts = hostsWithoutOriginCheck(this.#configuration)
    if (hosts.length === 0) return
    this.#log.log.warn(
      'Pages of any origin may act as the user who views them: cors/credentials_for_any_origin is on.',
      {
        hosts,
      },
    )
  }

  #announceLimit(): void {
    const { connections } = this.#budget
    if (connections >= wantedConnections(this.#configuration)) return
    const descriptors = this.#descriptorLimit
    this.#log.log.info('The limit of file descriptors (ulimit -n) allows fewer connections than the settings.', {
      connections,
      descriptors,
    })
  }

  #uriPath(): string | undefined {
    const file = this.#configuration.get('service', 'uri_file')
    if (file === undefined) return undefined
    if (isAbsolute(file)) return file
    return this.#home.folder === undefined ? undefined : resolve(this.#home.folder, file)
  }

  /** Refuses a setting that could be stored but not applied. */
  async #check({ section, key, value, isFromFile = false }: GuardedChange): Promise<void> {
    if (section === 'log' && key === 'file' && !isFromFile) checkLogFile(value)
    const isAddress = section === 'httpd' && (key === 'port' || key === 'bind_address')
    if (!isAddress || value === undefined || this.#url === undefined) return
    const host = key === 'bind_address' ? value : this.#configuration.text('httpd', 'bind_address')
    const port = key === 'port' ? Number(value) : 0
    // Our own port is not taken by another process.
    if (port === this.#listeners.ports.plain) return
    await probe(host, port).catch((error: Error) => {
      throw new SettingError(error.message)
    })
  }

  /** Applies a change; the request that made it is answered afterwards. */
  async #follow(change: SettingChange): Promise<void> {
    const { section, key } = change
    const configuration = this.#configuration
    if (section === 'log') await this.#log.configure(configuration)
    if (section === 'uuids') this.#parts?.uuids.use(uuidSettings(configuration))
    if (section.startsWith('cors') || key === 'enable_cors') this.#warnOfOpenOrigins()
    if (section === 'stats') this.#statistics.restart(statisticsSettings(configuration))
    if (section === 'service' && key === 'max_dbs_open') {
      this.#parts?.data.keepIdle(this.#budget.idleFiles)
    }
    if (!isOfListeners(change) || this.#url === undefined || this.#closing) return
    // A restart may wait for the request that makes this change, so the change does not wait for the restart.
    this.#isMoveDue = true
    if (!this.#isRestarting) await this.#inTurn(() => this.#move())
  }

  async #move(): Promise<void> {
    this.#isMoveDue = false
    if (!this.#parts) return
    await this.#parts.makeWay()
    await this.#listeners.move(this.#plans(), this.#parts.handler)
    await this.#announce()
  }

  /** A restart that is requested during another one follows it, so that it sees all changes. */
  #restartSoon(): void {
    if (this.#closing) return
    this.#isRestartDue = true
    if (this.#isRestarting) return
    this.#isRestarting = true
    this.#inTurn(() => this.#restartWhileDue()).catch((error: unknown) => {
      this.#log.log.error('The restart failed.', { error: String(error) })
      this.close().finally(() => this.#onFailure(error))
    })
  }

  async #restartWhileDue(): Promise<void> {
    try {
      while ((this.#isRestartDue || this.#isMoveDue) && !this.#closing) {
        if (this.#isRestartDue) await this.#restart()
        else await this.#move()
      }
    } finally {
      // At once: a later request starts a new loop.
      this.#isRestarting = false
    }
  }

  /** Loses nothing that was acknowledged. The address stays the same unless the configuration changed. */
  async #restart(): Promise<void> {
    const { log } = this.#log
    log.info('Restarting.')
    this.#isRestartDue = false
    this.#isMoveDue = false
    const configuration = this.#configuration
    const before = this.#listeners.ports
    await this.#listeners.pause()
    await this.#parts?.close()
    this.#parts = undefined
    await configuration.reload().catch((error: unknown) => {
      log.error('The configuration could not be reloaded and stays as it was.', { error: String(error) })
    })
    await this.#log.configure(configuration)
    this.#statistics.restart(statisticsSettings(configuration))
    await this.#open().catch(async (error: unknown) => {
      log.error('The databases could not be opened at the configured folders; the previous ones are used.', {
        error: String(error),
      })
      this.#parts = await this.#openParts(this.#folders)
    })
    await this.#listen(atPorts(this.#plans(), before))
  }

  async #close(): Promise<void> {
    for (const forget of this.#forget) forget()
    await this.#listeners.close()
    this.#statistics.stop()
    await this.#parts?.close()
    this.#parts = undefined
    await this.#uriFile.remove()
    await this.#log.close()
    await this.#home.close()
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work)
    this.#turn = done.catch(() => {})
    return done
  }
}

function openDatabases(parts: ServiceParts | undefined): number {
  return parts ? (parts.data.openDatabases() ?? parts.databases.openCount) : 0
}

function statisticsSettings(configuration: Configuration): StatisticsSettings {
  const windows = parseTerm(configuration.text('stats', 'samples'))?.items ?? []
  return {
    rateMs: configuration.integer('stats', 'rate'),
    windowsSeconds: windows.map(({ text }) => Number(text)),
  }
}

/** A client that may change settings must not be able to append to arbitrary files. */
function checkLogFile(path: string | undefined): void {
  if (path !== undefined && !/\.log$/.test(path)) {
    throw new SettingError('The setting log/file must be a name that ends in .log when it is changed at run time.')
  }
}
