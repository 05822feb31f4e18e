/**
 * The definition of a replication: the body of `POST /_replicate`, or a document of the replicator database, validated
 * and with defaults of the configuration. Nothing is opened here.
 */

import type { UserContext } from '../database/user-context.ts'
import { badRequest, RequestError } from '../document/request-error.ts'
import { isJsonValue, isObject, type JsonValue } from '../encoding/json/json-value.ts'
import { parseSelector } from '../selectors/parse-selector.ts'
import { type Address, addressIn } from './peers/address.ts'
import type { Sequence } from './peers/sequence.ts'
import type { ReplicationOptions } from './replication-settings.ts'

export interface ReplicationRequest {
  readonly source: Address
  readonly target: Address
  /** The user whose rights apply to local databases. */
  readonly user: UserContext
  readonly continuous: boolean
  readonly createTarget: boolean
  /** Of the request that creates it: `q`, `n`, `partitioned`. */
  readonly targetParameters: Readonly<Record<string, string>>
  readonly filter: ReplicationFilter | undefined
  /** Only winning revisions are replicated. */
  readonly winningRevisionsOnly: boolean
  /** Where the feed begins, whatever the log says. */
  readonly since: Sequence | undefined
  /** The proxy between this server and both peers. */
  readonly proxy: string | undefined
  readonly options: ReplicationOptions
}

/** Which documents are replicated, where it is not all of them. */
export type ReplicationFilter =
  | { readonly kind: 'documents'; readonly ids: readonly string[] }
  /** A function of a design document of the source. */
  | {
      readonly kind: 'function'
      readonly design: string
      readonly name: string
      readonly parameters: Readonly<Record<string, string>>
    }
  | { readonly kind: 'selector'; readonly selector: JsonValue }

/** Throws a `RequestError` if it is not valid. */
export function parseReplicationRequest(
  value: unknown,
  user: UserContext,
  defaults: ReplicationOptions,
): ReplicationRequest {
  if (!isObject(value)) throw badRequest('Request body must be a JSON object')
  const source = addressIn(value.source, 'source')
  const filter = filterIn(value)
  // Another server may know other selectors.
  if (source.kind === 'local' && filter?.kind === 'selector') parseSelector(filter.selector)
  return {
    source,
    target: addressIn(value.target, 'target'),
    user,
    continuous: isOn(value, 'continuous'),
    createTarget: isOn(value, 'create_target'),
    targetParameters: targetParametersIn(value.create_target_params),
    filter,
    winningRevisionsOnly: isOn(value, 'winning_revs_only'),
    since: value.since_seq === null || !isJsonValue(value.since_seq) ? undefined : jsonOf(value.since_seq),
    proxy: proxyIn(value.proxy),
    options: optionsIn(value, defaults),
  }
}

function targetParametersIn(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {}
  if (!isObject(value)) throw badRequest('The `create_target_params` field must be a JSON object.')
  return Object.fromEntries(Object.entries(value).map(([name, given]) => [name, String(given)]))
}

/** The id that a cancel names, where it names one instead of the replication itself. */
export function cancelledId(value: Readonly<Record<string, unknown>>): string | undefined {
  const id = value.replication_id ?? value._local_id ?? value.id
  return typeof id === 'string' && id !== '' ? id : undefined
}

/** Whether a switch is on. Anything but a boolean is the client's error. */
export function isOn(value: Readonly<Record<string, unknown>>, name: string): boolean {
  const given = value[name]
  if (given === undefined || given === null) return false
  if (typeof given === 'boolean') return given
  throw badRequest(`The \`${name}\` field must be a boolean.`)
}

function jsonOf(value: JsonValue): Sequence {
  return value
}

function filterIn(value: Readonly<Record<string, unknown>>): ReplicationFilter | undefined {
  const { filter, selector } = value
  const ids = value.doc_ids ?? undefined
  const parameters = queryParameters(value.query_params)
  const given = [filter, selector, ids].filter((each) => each !== undefined && each !== null)
  if (given.length > 1 && selector !== undefined && selector !== null) {
    throw badRequest('`doc_ids`, `filter` and `selector` are mutually exclusive.')
  }
  // The function counts where both are given, as the id of the replication has it.
  if (filter !== undefined && filter !== null) return functionFilter(filter, parameters)
  if (ids !== undefined) return { kind: 'documents', ids: documentIds(ids) }
  if (selector === undefined || selector === null) return undefined
  if (!isObject(selector)) throw badRequest('The `selector` field must be an object.')
  return { kind: 'selector', selector: selector as JsonValue }
}

function functionFilter(filter: unknown, parameters: Readonly<Record<string, string>>): ReplicationFilter {
  const [, design, name] = (typeof filter === 'string' && /^(?:_design\/)?([^/]+)\/([^/]+)$/.exec(filter)) || []
  if (design === undefined || name === undefined) {
    throw new RequestError('failed', 'error', 'Invalid filter. Must match `ddocname/filtername`.')
  }
  return { kind: 'function', design, name, parameters }
}

/** Throws where one of them is not a text. */
export function queryParameters(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {}
  if (!isObject(value)) throw badRequest('The `query_params` field must be an object.')
  const parameters = new Map<string, string>()
  for (const [name, text] of Object.entries(value)) {
    if (typeof text !== 'string') throw badRequest(`${name} value must be a string.`)
    parameters.set(name, text)
  }
  return Object.fromEntries(parameters)
}

/** Each once, in their order. Clients may escape them as they would in a path. */
function documentIds(value: unknown): readonly string[] {
  if (!Array.isArray(value)) throw badRequest('The `doc_ids` field must be an array of strings.')
  const ids = value.map((id) => {
    if (typeof id !== 'string') throw badRequest('The `doc_ids` field must be an array of strings.')
    return unescaped(id)
  })
  return [...new Set(ids)].filter((id) => id !== '')
}

function unescaped(id: string): string {
  if (!id.includes('%')) return id
  try {
    return decodeURIComponent(id)
  } catch {
    return id
  }
}

function proxyIn(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return undefined
  const url = typeof value === 'string' ? URL.parse(value) : null
  if (!url || !['http:', 'https:', 'socks5:'].includes(url.protocol) || url.hostname === '') {
    throw badRequest('The `proxy` field must be a URL that begins with http:// or socks5://.')
  }
  return url.href
}

function optionsIn(value: Readonly<Record<string, unknown>>, defaults: ReplicationOptions): ReplicationOptions {
  const count = (name: string, fallback: number, { least, most }: Bounds) => countIn(value, name, fallback, least, most)
  const useCheckpoints = value.use_checkpoints ?? defaults.useCheckpoints
  if (typeof useCheckpoints !== 'boolean') throw badRequest('The `use_checkpoints` field must be a boolean.')
  return {
    workerProcesses: count('worker_processes', defaults.workerProcesses, { least: 1, most: 64 }),
    workerBatchSize: count('worker_batch_size', defaults.workerBatchSize, { least: 1, most: 10_000 }),
    httpConnections: count('http_connections', defaults.httpConnections, { least: 1, most: 1000 }),
    connectionTimeoutMs: count('connection_timeout', defaults.connectionTimeoutMs, TIME_MS),
    retriesPerRequest: count('retries_per_request', defaults.retriesPerRequest, { least: 0, most: 1000 }),
    checkpointIntervalMs: count('checkpoint_interval', defaults.checkpointIntervalMs, TIME_MS),
    useCheckpoints,
  }
}

interface Bounds {
  readonly least: number
  readonly most: number
}

/** Up to a day. */
const TIME_MS: Bounds = { least: 1, most: 86_400_000 }

/** Numbers may come as text, as they do in forms of clients. */
function countIn(
  value: Readonly<Record<string, unknown>>,
  name: string,
  fallback: number,
  least: number,
  most: number,
): number {
  const given = value[name]
  if (given === undefined || given === null) return fallback
  const number = typeof given === 'string' && /^\d{1,9}$/.test(given) ? Number(given) : given
  if (typeof number !== 'number' || !Number.isInteger(number) || number < least) {
    throw badRequest(`The \`${name}\` field must be an integer of at least ${least}.`)
  }
  return Math.min(number, most)
}
