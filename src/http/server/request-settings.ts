/** The settings that requests depend on, read once for each change of the configuration. */
import type { Configuration, Derived } from '../../config/configuration.ts'
import { type Dialect, dialectOf } from '../../config/dialect.ts'
import { availableMemory, type BudgetLimits } from '../../runtime/memory-budget.ts'
import type { ForwardedNames } from './call.ts'

export interface RequestSettings {
  readonly dialect: Dialect
  readonly forwarded: ForwardedNames
  /** Whether a proxy may choose the ids of requests. */
  readonly acceptsRequestIds: boolean
  readonly longestUrl: number
  /** Of a body that is read whole, and of one document in it. */
  readonly largestBody: number
  readonly largestDocument: number
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
  /** Resources whose entry was removed from the configuration. */
  readonly removed: RemovedHandlers
}

/** First segments of paths, second ones after a database, and actions of design documents. */
export interface RemovedHandlers {
  readonly ofServer: ReadonlySet<string>
  readonly ofDatabases: ReadonlySet<string>
  readonly ofDesigns: ReadonlySet<string>
}

export function requestSettings(configuration: Configuration): Derived<RequestSettings> {
  return configuration.derive(() => readSettings(configuration))
}

/** The memory of all bodies together, of which a node has a share, and how long one waits for it. */
export function bodyMemoryLimits(configuration: Configuration, share: number): Derived<BudgetLimits> {
  return configuration.derive(() => ({
    limitBytes: share * bodyMemoryBytes(configuration.text('httpd', 'max_body_memory')),
    waitMs: configuration.integer('httpd', 'body_memory_timeout'),
  }))
}

/** The larger part: all uploads go through the primary, while secondaries read the bodies of queries. */
const PRIMARY_SHARE = 3 / 4

/** The shares of the primary and of each secondary in a limit of the server. */
export function bodyMemoryShares(secondaries: number): { readonly primary: number; readonly secondary: number } {
  if (secondaries === 0) return { primary: 1, secondary: 0 }
  return { primary: PRIMARY_SHARE, secondary: (1 - PRIMARY_SHARE) / secondaries }
}

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
    largestDocument: configuration.integer('service', 'max_document_size'),
    mostItems: configuration.integer('httpd', 'max_request_items'),
    allowsJsonp: section.get('allow_jsonp') === 'true',
    allowsCors: section.get('enable_cors') === 'true',
    contentPolicies: { attachments: policy('attachments'), showlist: policy('showlist'), utils: policy('utils') },
    virtualHosts: configuration.section('vhosts'),
    rewriteLimit: Number(section.get('rewrite_limit') ?? 100),
    globalHandlers: section.get('vhost_global_handlers') ?? '',
    removed: {
      ofServer: configuration.removedKeys('httpd_global_handlers'),
      ofDatabases: configuration.removedKeys('httpd_db_handlers'),
      ofDesigns: configuration.removedKeys('httpd_design_handlers'),
    },
  }
}

/** On a small machine a few requests must still fit. */
const SMALLEST_SHARE_BYTES = 64 * 1024 * 1024

/** Bytes, or a share of the memory. */
function bodyMemoryBytes(text: string): number {
  if (!text.endsWith('%')) return Number(text)
  return Math.max(SMALLEST_SHARE_BYTES, (availableMemory() * Number(text.slice(0, -1))) / 100)
}
