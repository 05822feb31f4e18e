/** The options of a service, and the settings that they become, which win over all others. */
import type { Dialect } from './config/dialect.ts'
import { canonicalSection, type SettingMap, withSetting } from './config/ini-text.ts'
import type { ListeningSockets } from './http/listeners/listener.ts'
import type { OnConnection } from './nodes/moved-connection.ts'
import type { Log } from './runtime/log/log.ts'
import type { TakeLease } from './storage/files/folder-lock.ts'

export interface Supervision {
  readonly takeLease: TakeLease
  readonly sockets: ListeningSockets
  /** How the previous process ended, as a sentence; undefined for the first one. */
  readonly previousEnd: string | undefined
  /** How many times a server was started; 1 for the first one. */
  readonly term: number
  /** When this process was started, by a clock that never goes back; later than for the process before it. */
  readonly startedMs?: number | undefined
  /** Where the nodes of the server find each other, once a process has made it. */
  readonly nodeFolder: string | undefined
  /** How connections come that other nodes move here; undefined where none do. */
  readonly onConnection?: OnConnection
}

export interface ServiceOptions {
  /** The folder of the data; `./data` unless given. */
  dir?: string
  /** 5984 unless given; 0 takes any free port. */
  port?: number
  /** The address to listen on; only this machine can reach the default, `127.0.0.1`. */
  bind?: string
  /** The dialect where releases of CouchDB contradict each other; `1.6` unless given. */
  dialect?: Dialect
  /** Keeps everything in memory and nothing on disk. */
  inMemory?: boolean
  /** Where databases are kept, as `postgres://user:password@host:port/database`; in files of the folder unless given. */
  engine?: string
  /** Settings that win over all others: `{ section: { key: 'value' } }`. */
  settings?: Record<string, Record<string, string>>
  /** Variables such as `SETTLE_HTTPD__PORT`; none are read unless given. */
  environment?: Record<string, string | undefined>
  /** The folder of the administration interface; the one of this release unless given. */
  interfaceDir?: string
  /** Also receives every message of the server's own log. */
  log?: Log
  /** What the supervisor keeps across restarts of the process. */
  supervisor?: Supervision
  /** Called when a restart that was requested over HTTP fails; the service is then closed. */
  onFailure?: (error: unknown) => void
}

export function flagSettings({ dir, port, bind, dialect, engine, settings = {} }: ServiceOptions): SettingMap {
  const given: [section: string, key: string, value: string | undefined][] = [
    ...Object.entries(settings).flatMap(([section, keys]) =>
      Object.entries(keys).map(([key, value]): [string, string, string] => [canonicalSection(section), key, value]),
    ),
    ['service', 'database_dir', dir],
    ['service', 'engine', engine],
    ['httpd', 'port', port?.toString()],
    ['httpd', 'bind_address', bind],
    ['httpd', 'dialect', dialect],
  ]
  let flags: SettingMap = new Map()
  for (const [section, key, value] of given) if (value !== undefined) flags = withSetting(flags, section, key, value)
  return flags
}

/** The folder of the settings cannot be set in these files: only options and defaults count. */
export function homeFolder(layers: readonly SettingMap[]): string {
  const [folder] = layers.flatMap((layer) => layer.get('service')?.get('database_dir') ?? [])
  return folder ?? './data'
}
