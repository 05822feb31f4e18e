/**
 * The server as a library: puts the parts together and takes them apart again. Any number of services may live in one
 * process; nothing is shared between them.
 */
import { resolve } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { Configuration } from './config/configuration.ts'
import { defaultSettings } from './config/defaults.ts'
import { canonicalSection, type SettingMap } from './config/setting-map.ts'
import { SettingFile, SettingMemory, type SettingStore } from './config/setting-store.ts'
import { Databases } from './database/databases.ts'
import { createApp } from './http/app.ts'
import { systemClock } from './runtime/clock.ts'
import { type Log, silentLog } from './runtime/log.ts'
import { TaskRegistry } from './runtime/tasks.ts'
import { randomUuid, SequentialUuids } from './runtime/uuids.ts'
import { version } from './runtime/version.ts'
import { DataFolder } from './storage/data-folder.ts'
import { LmdbEngine } from './storage/lmdb-engine.ts'
import { MemoryEngine } from './storage/memory-engine.ts'
import { DataFolderError } from './storage/storage-error.ts'
import type { StorageEngine } from './storage/store.ts'

export interface ServiceOptions {
  /** The folder of the data; `./data` unless given. */
  dir?: string
  /** 5984 unless given; 0 takes any free port. */
  port?: number
  /** The address to listen on; only this machine can reach the default, `127.0.0.1`. */
  bind?: string
  /** Keep everything in memory and leave nothing behind. */
  inMemory?: boolean
  /** Settings that win over all others: `{ section: { key: 'value' } }`. */
  settings?: Record<string, Record<string, string>>
  log?: Log
}

export interface Service {
  /** Where the service is reached, such as `http://127.0.0.1:5984/`; known once it listens. */
  readonly url: string
  /** Begins to answer; resolves to the URL. */
  listen(): Promise<string>
  /** Finishes the requests under way and closes all files. */
  close(): Promise<void>
}

export { version }

/** Requests that take longer to finish are cut off when the service closes. */
const CLOSING_LIMIT_MS = 10_000

/** Opens the data, so that nobody else does. Throws an error whose message is a sentence for people. */
export async function createService(options: ServiceOptions = {}): Promise<Service> {
  const defaults = await defaultSettings()
  const overrides = overridesOf(options)
  const data = await openData(options, overrides.get('service')?.get('database_dir') ?? defaultFolder(defaults))
  try {
    const configuration = await Configuration.load({ defaults, overrides, stored: data.settings })
    if (configuration.get('service', 'uuid') === undefined) await configuration.set('service', 'uuid', randomUuid())
    const engine = await data.openEngine(configuration.integer('service', 'max_dbs_open'))
    return new RunningService(configuration, engine, data, options.log ?? silentLog)
  } catch (error) {
    data.close()
    throw error
  }
}

class RunningService implements Service {
  readonly #configuration: Configuration
  readonly #engine: StorageEngine
  readonly #databases: Databases
  readonly #data: Data
  readonly #app: FastifyInstance
  #url: string | undefined
  #closing: Promise<void> | undefined

  constructor(configuration: Configuration, engine: StorageEngine, data: Data, log: Log) {
    this.#configuration = configuration
    this.#engine = engine
    this.#data = data
    const tasks = new TaskRegistry(systemClock)
    this.#databases = new Databases(engine, { clock: systemClock, log, tasks })
    const uuids = new SequentialUuids()
    this.#app = createApp({ configuration, databases: this.#databases, uuids, tasks, log, version })
  }

  get url(): string {
    if (this.#url === undefined) throw new Error('The service does not listen yet.')
    return this.#url
  }

  async listen(): Promise<string> {
    const host = this.#configuration.text('httpd', 'bind_address')
    const port = this.#configuration.integer('httpd', 'port')
    try {
      await this.#app.listen({ host, port })
    } catch (error) {
      throw new Error(listenFailure(error, host, port), { cause: error })
    }
    const [address] = this.#app.addresses()
    const name = host.includes(':') ? `[${host}]` : host
    this.#url = `http://${name}:${typeof address === 'object' ? address.port : port}/`
    return this.#url
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const impatience = setTimeout(() => this.#app.server.closeAllConnections(), CLOSING_LIMIT_MS)
    await this.#app.close()
    clearTimeout(impatience)
    await this.#databases.close()
    await this.#engine.close()
    this.#data.close()
  }
}

/** What a service keeps, and where. */
interface Data {
  readonly settings: SettingStore
  openEngine(idleFiles: number): Promise<StorageEngine>
  close(): void
}

async function openData({ inMemory = false }: ServiceOptions, path: string): Promise<Data> {
  if (inMemory) return { settings: new SettingMemory(), openEngine: async () => new MemoryEngine(), close: () => {} }
  const folder = await DataFolder.open(resolve(path))
  return {
    settings: new SettingFile(resolve(path, 'settings.ini')),
    openEngine: async (idleFiles) => {
      try {
        return await LmdbEngine.open({ folder: folder.path, idleFiles })
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error)
        throw new DataFolderError(`The data folder ${folder.path} cannot be opened: ${reason}`, { cause: error })
      }
    },
    close: () => folder.close(),
  }
}

function overridesOf({ dir, port, bind, settings = {} }: ServiceOptions): SettingMap {
  const overrides = new Map<string, Map<string, string>>()
  const set = (section: string, key: string, value: string | undefined) => {
    if (value === undefined) return
    const name = canonicalSection(section)
    overrides.set(name, (overrides.get(name) ?? new Map<string, string>()).set(key, value))
  }
  for (const [section, keys] of Object.entries(settings)) {
    for (const [key, value] of Object.entries(keys)) set(section, key, value)
  }
  set('service', 'database_dir', dir)
  set('httpd', 'port', port?.toString())
  set('httpd', 'bind_address', bind)
  return overrides
}

function defaultFolder(defaults: SettingMap): string {
  return defaults.get('service')?.get('database_dir') ?? './data'
}

function listenFailure(error: unknown, host: string, port: number): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'EADDRINUSE') return `Port ${port} of ${host} is taken by another process.`
  if (code === 'EACCES') return `Port ${port} of ${host} is not for this user to take.`
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') return `${host} is not an address of this machine.`
  return `Cannot listen on port ${port} of ${host}: ${error instanceof Error ? error.message : error}`
}
