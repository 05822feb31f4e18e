/** What handlers work on. */
import type { Auth } from '../auth/auth.ts'
import type { Configuration } from '../config/configuration.ts'
import type { Databases } from '../database/databases.ts'
import type { Log } from '../runtime/log.ts'
import type { ServerLog } from '../runtime/server-log.ts'
import type { Statistics } from '../runtime/statistics.ts'
import type { TaskRegistry } from '../runtime/tasks.ts'
import type { UuidSource } from '../runtime/uuids.ts'

export interface HttpContext {
  readonly configuration: Configuration
  readonly databases: Databases
  readonly auth: Auth
  readonly uuids: UuidSource
  readonly tasks: TaskRegistry
  readonly log: Log
  /** The log as something that can be read. */
  readonly serverLog: ServerLog
  readonly statistics: Statistics
  readonly version: string
  /** Closes everything and opens it again, in its own time. */
  restart(): void
}
