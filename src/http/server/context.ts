/** What handlers use: the parts of the server, and the settings of requests. */
import type { Auth } from '../../auth/auth.ts'
import type { Configuration } from '../../config/configuration.ts'
import { type Dialect, dialectOf } from '../../config/dialect.ts'
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
import { availableMemory, type BudgetLimits, type MemoryBudget } from '../../runtime/memory-budget.ts'
import type { Metrics } from '../../runtime/metrics.ts'
import type { Statistics } from '../../runtime/statistics.ts'
import type { TaskRegistry } from '../../runtime/tasks.ts'
import type { UuidSource } from '../../runtime/uuids.ts'
import type { Views } from '../../views/views.ts'
import type { Reply } from '../../wire/reply.ts'
import type { Request } from '../../wire/request.ts'
import type { Health } from '../admin/health.ts'
import type { InterfaceFiles } from '../admin/interface-files.ts'
import type { FeedCounts } from '../changes/feed-counts.ts'
import type { ForwardedNames } from './call.ts'

export interface HttpContext {
  readonly configuration: Configuration
  readonly databases: Databases
  /** The history of databases. */
  readonly history: DatabaseHistory
  readonly functions: Functions
  /** Slots of list functions: each occupies a sandbox process for as long as its client reads. */
  readonly listSlots: FairSemaphore
  readonly views: Views
  readonly auth: Auth
  readonly uuids: UuidSource
  /** The memory budget of request bodies. */
  readonly bodyMemory: MemoryBudget
  /** External programs that answer requests. */
  readonly programs: ExternalPrograms
  readonly replications: Replications
  readonly tasks: TaskRegistry
  readonly log: Log
  /** The log, for reading it back. */
  readonly serverLog: ServerLog
  readonly statistics: Statistics
  readonly metrics: Metrics
  readonly feeds: FeedCounts
  readonly health: Health
  /** The deadlines of feeds. */
  readonly deadlines: Deadlines
  /** What is served at `/_utils/`. */
  readonly interfaceFiles: InterfaceFiles
  readonly version: string
  /** The space of the file system of the databases; undefined in memory. */
  disk(): Promise<DiskSpace | undefined>
  /** Restarts the service after the reply. */
  restart(): void
  /**
   * Set if other nodes answer requests too. Resolves when what they have counted and logged so far has arrived here.
   */
  readonly gather?: () => Promise<void>
  /** Set in a node that does not answer every request: forwards one to the node that does. */
  readonly forwarding?: Forwarding
}

export interface Forwarding {
  /** Resolves when the reply is sent, or to the error for the client. */
  forward(request: Request, reply: Reply): Promise<RequestError | undefined>
  /** Undefined if this node is up to date; otherwise resolves when it is, or rejects after a timeout. */
  ready(): Promise<void> | undefined
}

export interface DiskSpace {
  /** Free bytes that the server may use. */
  readonly freeBytes: number
  readonly totalBytes: number
}

export interface RequestSettings {
  readonly dialect: Dialect
  readonly forwarded: ForwardedNames
  /** Whether a proxy may choose the ids of requests. */
  readonly acceptsRequestIds: boolean
  readonly longestUrl: number
  /** Of a body that is read whole, and of one document in it. */
  readonly largestBody: number
  readonly largestDocument: number
  /** The memory of all bodies together, and how long one waits for its share. */
  readonly bodyMemory: BudgetLimits
  /** Documents, keys or revisions of one request. */
  readonly mostItems: number
  readonly allowsJsonp: boolean
  readonly allowsCors: boolean
  /** The policies of `[csp]` that are switched on. */
  readonly contentPolicies: Readonly<Record<'attachments' | 'showlist' | 'utils', string | undefined>>
  /** The rules of virtual hosts. */
  readonly virtualHosts: ReadonlyMap<string, string>
  /** Resources that virtual hosts leave alone. */
  readonly globalHandlers: string
  /** How often one request may be rewritten. */
  readonly rewriteLimit: number
}

/** Read once for each state of the configuration. */
export function requestSettings(configuration: Configuration): RequestSettings {
  const { state } = configuration
  if (last?.state !== state) last = { state, settings: readSettings(configuration) }
  return last.settings
}

/** A process nearly always has one configuration. */
let last: { readonly state: object; readonly settings: RequestSettings } | undefined

function readSettings(configuration: Configuration): RequestSettings {
  const policies = configuration.section('csp')
  const policy = (kind: string) =>
    policies.get(`${kind}_enable`) === 'true' ? policies.get(`${kind}_header_value`) : undefined
  const section = configuration.section('httpd')
  const name = (key: string, usual: string) => section.get(key)?.toLowerCase() ?? usual
  return {
    dialect: dialectOf(configuration),
    forwarded: {
      host: name('x_forwarded_host', 'x-forwarded-host'),
      ssl: name('x_forwarded_ssl', 'x-forwarded-ssl'),
      proto: name('x_forwarded_proto', 'x-forwarded-proto'),
    },
    acceptsRequestIds: section.get('accept_request_id') === 'true',
    longestUrl: Number(section.get('max_uri_length') ?? Number.POSITIVE_INFINITY),
    largestBody: configuration.integer('httpd', 'max_http_request_size'),
    bodyMemory: {
      limitBytes: bodyMemoryBytes(configuration.text('httpd', 'max_body_memory')),
      waitMs: configuration.integer('httpd', 'body_memory_timeout'),
    },
    largestDocument: configuration.integer('service', 'max_document_size'),
    mostItems: configuration.integer('httpd', 'max_request_items'),
    allowsJsonp: section.get('allow_jsonp') === 'true',
    allowsCors: section.get('enable_cors') === 'true',
    contentPolicies: { attachments: policy('attachments'), showlist: policy('showlist'), utils: policy('utils') },
    virtualHosts: configuration.section('vhosts'),
    rewriteLimit: Number(section.get('rewrite_limit') ?? 100),
    globalHandlers: section.get('vhost_global_handlers') ?? '',
  }
}

/** On a small machine a few requests must still fit. */
const SMALLEST_SHARE_BYTES = 64 * 1024 * 1024

/** Bytes, or a share of the memory. */
function bodyMemoryBytes(text: string): number {
  if (!text.endsWith('%')) return Number(text)
  return Math.max(SMALLEST_SHARE_BYTES, (availableMemory() * Number(text.slice(0, -1))) / 100)
}
