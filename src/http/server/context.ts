/** What handlers use: the parts of every node, and those of the primary. */
import type { Auth } from '../../auth/auth.ts'
import type { Configuration, Derived } from '../../config/configuration.ts'
import type { DatabaseHistory } from '../../database/database-history.ts'
import type { Databases } from '../../database/databases.ts'
import type { RequestError } from '../../document/request-error.ts'
import type { ExternalPrograms } from '../../external/external-programs.ts'
import type { Functions } from '../../functions/functions.ts'
import type { Replications } from '../../replication/replications.ts'
import type { Deadlines } from '../../runtime/deadlines.ts'
import type { FairSemaphore } from '../../runtime/fair-semaphore.ts'
import type { Log } from '../../runtime/log/log.ts'
import type { ServerLog } from '../../runtime/log/server-log.ts'
import type { MemoryBudget } from '../../runtime/memory-budget.ts'
import type { Metrics } from '../../runtime/metrics.ts'
import type { Statistics } from '../../runtime/statistics.ts'
import type { UuidSource } from '../../runtime/uuids.ts'
import type { Views } from '../../views/views.ts'
import type { Reply } from '../../wire/reply.ts'
import type { Request } from '../../wire/request.ts'
import type { Health } from '../admin/health.ts'
import type { InterfaceFiles } from '../admin/interface-files.ts'
import type { ServerWork } from '../admin/server-work.ts'
import type { FeedCounts } from '../changes/feed-counts.ts'
import type { RequestSettings } from './request-settings.ts'

/** The parts of every node. */
export interface HttpContext {
  readonly configuration: Configuration
  readonly settings: Derived<RequestSettings>
  readonly databases: Databases
  readonly functions: Functions
  readonly views: Views
  readonly auth: Auth
  readonly uuids: UuidSource
  /** The memory budget of request bodies. */
  readonly bodyMemory: MemoryBudget
  readonly log: Log
  /** The log, for reading it back. */
  readonly serverLog: ServerLog
  readonly statistics: Statistics
  readonly metrics: Metrics
  readonly feeds: FeedCounts
  /** The deadlines of feeds. */
  readonly deadlines: Deadlines
  /** What is served at `/_utils/`. */
  readonly interfaceFiles: InterfaceFiles
  readonly version: string
}

/** The parts of the primary. Secondaries forward the requests that need them. */
export interface PrimaryContext extends HttpContext {
  /** The history of databases. */
  readonly history: DatabaseHistory
  /** Slots of list functions: each occupies a sandbox process for as long as its client reads. */
  readonly listSlots: FairSemaphore
  /** External programs that answer requests. */
  readonly programs: ExternalPrograms
  readonly replications: Replications
  /** Long work in progress. */
  readonly work: ServerWork
  readonly health: Health
  /** The space of the file system of the databases; undefined in memory. */
  disk(): Promise<DiskSpace | undefined>
  /** Restarts the service after the reply. */
  restart(): void
  /**
   * Set if other nodes answer requests too. Resolves when what they have counted and logged so far has arrived here.
   */
  readonly gather?: () => Promise<void>
  /**
   * Set if other nodes answer requests too: is told of each request that they can answer where they have its database, before
   * its reply is begun.
   */
  readonly returning?: { read(request: Request, reply: Reply, database: string | undefined): void }
  /**
   * Set if other servers use the databases too. Undefined while they wait for this one before they acknowledge what makes its
   * caches stale, as far as a request for this database needs them; otherwise resolves when these are valid again, or rejects
   * if their engine cannot be reached.
   */
  readonly refreshed?: (database: string) => Promise<void> | undefined
}

/** How a secondary forwards requests to the primary. */
export interface Forwarding {
  /** Resolves when the reply is sent, or to the error for the client. */
  forward(request: Request, reply: Reply): Promise<RequestError | undefined>
  /** Undefined if this node is up to date; otherwise resolves when it is, or rejects after a timeout. */
  ready(): Promise<void> | undefined
  /** Whether only the primary has what a request of this database needs; undefined for a request of the server. */
  isElsewhere(database: string | undefined): boolean
}

export interface DiskSpace {
  /** Free bytes that the server may use. */
  readonly freeBytes: number
  readonly totalBytes: number
}
