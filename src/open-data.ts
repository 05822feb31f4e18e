/** The databases of a server while they are open, wherever they are kept. */
import type { SharedSettings } from './config/shared-settings.ts'
import type { Functions } from './functions/functions.ts'
import type { FollowedStores } from './nodes/primary-node.ts'
import type { Log } from './runtime/log/log.ts'
import type { Metrics } from './runtime/metrics.ts'
import type { OtherServers } from './storage/other-servers.ts'
import type { StorageEngine } from './storage/store.ts'
import type { ProcessSettings } from './views/processes/index-message.ts'
import type { IndexRunner } from './views/updating/index-runner.ts'

/** The databases of a server and their indexes, opened. */
export interface OpenData {
  readonly engine: StorageEngine
  readonly indexEngine: StorageEngine
  /** Where other processes can read them. */
  readonly followed?: { readonly databases: FollowedStores; readonly indexes: FollowedStores }
  /** Where other servers use the databases: what all of them go by. */
  readonly settings?: SharedSettings
  /** Where other servers use the databases: resolves when they have processed the commits to a database so far. */
  confirm?(database: string): Promise<void>
  /**
   * Where other servers use the databases: undefined while what is cached here of a database, and of the server, is valid.
   * Otherwise resolves when it is, or rejects where the engine cannot be reached.
   */
  refreshed?(database: string): Promise<void> | undefined
  /** Where there are other servers that use the databases. */
  readonly otherServers?: OtherServers
  /** Where the server's own engine is another program: rejects while it cannot be reached, after a short time. */
  check?(): Promise<void>
  /** Where databases are in several engines: whether this one is in the server's own. */
  isOwn?(database: string): boolean
  indexRunner(options: RunnerOptions): IndexRunner
  /** Of databases and indexes; those of the server's own databases do not count. */
  openFiles(): number
  /** How many databases have their file open; undefined in memory, where there is none to be closed. */
  openDatabases(): number | undefined
  keepIdle(files: number): void
  close(): Promise<void>
}

/** What index updates need. */
export interface RunnerOptions {
  readonly functions: Functions
  readonly settings: () => ProcessSettings
  /** The idle time after which the last index process is ended. */
  readonly readyMs: () => number
  /** Whether functions of this language run in the sandbox. */
  readonly isSandboxed: (language: string) => boolean
  readonly log: Log
  readonly metrics?: Metrics
}
