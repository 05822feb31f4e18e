/** What handlers work on. */
import type { Auth } from '../../auth/auth.ts'
import type { Configuration } from '../../config/configuration.ts'
import type { DatabaseHistory } from '../../database/database-history.ts'
import type { Databases } from '../../database/databases.ts'
import type { ExternalPrograms } from '../../external/external-programs.ts'
import type { Functions } from '../../functions/functions.ts'
import type { Replications } from '../../replication/replications.ts'
import type { Deadlines } from '../../runtime/deadlines.ts'
import type { FairSemaphore } from '../../runtime/fair-semaphore.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { ServerLog } from '../../runtime/log/server-log.ts'
import type { MemoryBudget } from '../../runtime/memory-budget.ts'
import type { Statistics } from '../../runtime/statistics.ts'
import type { TaskRegistry } from '../../runtime/tasks.ts'
import type { UuidSource } from '../../runtime/uuids.ts'
import type { Views } from '../../views/views.ts'
import type { InterfaceFiles } from '../admin/interface-files.ts'

export interface HttpContext {
  readonly configuration: Configuration
  readonly databases: Databases
  /** What happened to them. */
  readonly history: DatabaseHistory
  readonly functions: Functions
  /** How many lists may be made at a time: each has a process to itself for as long as its client takes. */
  readonly listSlots: FairSemaphore
  readonly views: Views
  readonly auth: Auth
  readonly uuids: UuidSource
  /** What bodies of requests may take together. */
  readonly bodyMemory: MemoryBudget
  /** Programs beside the server that answer requests. */
  readonly programs: ExternalPrograms
  readonly replications: Replications
  readonly tasks: TaskRegistry
  readonly log: Log
  /** The log as something that can be read. */
  readonly serverLog: ServerLog
  readonly statistics: Statistics
  /** Of those who wait for something to happen. */
  readonly deadlines: Deadlines
  /** What is served at `/_utils/`. */
  readonly interfaceFiles: InterfaceFiles
  readonly version: string
  /** Closes everything and opens it again, in its own time. */
  restart(): void
}
