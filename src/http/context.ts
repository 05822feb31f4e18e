/** What handlers work on. */
import type { Configuration } from '../config/configuration.ts'
import type { Databases } from '../database/databases.ts'
import type { Log } from '../runtime/log.ts'
import type { TaskRegistry } from '../runtime/tasks.ts'
import type { SequentialUuids } from '../runtime/uuids.ts'

export interface HttpContext {
  readonly configuration: Configuration
  readonly databases: Databases
  readonly uuids: SequentialUuids
  readonly tasks: TaskRegistry
  readonly log: Log
  readonly version: string
}
