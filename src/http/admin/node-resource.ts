/**
 * `_node` and `_membership`, for clients of later CouchDB releases, which have clusters: the server is a single node,
 * called by its name or `_local`. Its settings and its restart are those at the top level.
 */

import { notFound } from '../../document/request-error.ts'
import type { Statistic, Statistics } from '../../runtime/statistics.ts'
import { type Answer, json, jsonText } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext, PrimaryContext } from '../server/context.ts'
import { MethodNotAllowedError } from '../server/errors.ts'
import { Rewritten } from '../server/route.ts'
import { reloadSettings } from './config-resource.ts'
import { NODE_NAME } from './node-name.ts'
import { PROMETHEUS_TYPE, prometheusText } from './prometheus.ts'

/** `_membership`: the list of nodes. */
export function membership(): Answer {
  return json({ all_nodes: [NODE_NAME], cluster_nodes: [NODE_NAME] })
}

/** `_node/{name}/…` */
export function nodeResource(call: Call, context: PrimaryContext): Answer | Rewritten | Promise<Answer> {
  const [, name, resource, part] = call.segments
  if (name === undefined) throw notFound('missing')
  if (name !== '_local' && name !== NODE_NAME) throw notFound(`no such node: ${name}`)
  if (resource === '_config' && part === '_reload') return reloadSettings(call, context)
  if (resource === '_config' || resource === '_restart') return new Rewritten(belowNode(call))
  if (resource === '_prometheus') return metrics(call, context)
  const read = READ.get(resource)
  if (!read) throw notFound('missing')
  if (call.method !== 'GET' && call.method !== 'HEAD') throw new MethodNotAllowedError('GET')
  return answered(read(call, context))
}

async function answered(value: unknown): Promise<Answer> {
  return json(await value)
}

/** What follows the name of the node, as it was sent. */
function belowNode({ url }: Call): string {
  return url.replace(/^https?:\/\/[^/?]*/i, '').replace(/^\/+[^/]+\/+[^/]+/, '')
}

async function metrics({ method }: Call, context: PrimaryContext): Promise<Answer> {
  if (method !== 'GET' && method !== 'HEAD') throw new MethodNotAllowedError('GET')
  return jsonText(await prometheusText(context), { headers: { 'Content-Type': PROMETHEUS_TYPE } })
}

function nodeName(): unknown {
  return { name: NODE_NAME }
}

/** The same counts in the form of later releases, in which everything is below one name; or the part that a path names. */
function nodeStatistics({ segments }: Call, { statistics }: HttpContext): unknown {
  statistics.flush()
  const { service = {}, ...sections } = statistics.all(0)
  const shown = (section: typeof service) =>
    Object.fromEntries(Object.entries(section).map(([name, statistic]) => [name, leafOf(name, statistic, statistics)]))
  const nested = Object.fromEntries(Object.entries(sections).map(([name, section]) => [name, shown(section)]))
  let part: unknown = { service: { ...shown(service), ...nested } }
  for (const name of segments.slice(3)) part = memberOf(part, name)
  return part
}

function leafOf(name: string, { description: desc, current }: Statistic, statistics: Statistics): unknown {
  if (name !== 'request_time') return { value: current ?? 0, type: 'counter', desc }
  return { value: statistics.histogram('service', name).summary(), type: 'histogram', desc }
}

function memberOf(part: unknown, name: string): unknown {
  const own = name === 'couchdb' ? 'service' : name
  if (typeof part !== 'object' || part === null || !Object.hasOwn(part, own)) throw notFound('missing')
  return Reflect.get(part, own)
}

async function nodeSystem(_: Call, { disk }: PrimaryContext): Promise<unknown> {
  const { rss, heapTotal, heapUsed, external, arrayBuffers } = process.memoryUsage()
  const space = await disk()
  return {
    uptime: Math.floor(process.uptime()),
    memory: {
      processes: rss,
      processes_used: heapUsed,
      binary: external,
      heap_total: heapTotal,
      array_buffers: arrayBuffers,
    },
    ...(space && { disk: { free: space.freeBytes, total: space.totalBytes } }),
  }
}

function nodeVersions(_: Call, { version }: HttpContext): unknown {
  const { v8, icu = '', node } = process.versions
  return {
    service: { name: 'Settle', version },
    runtime: { name: 'Node.js', version: node },
    javascript_engine: { name: 'v8', version: v8 },
    collation_driver: { name: 'libicu', library_version: icu },
  }
}

type Reader = (call: Call, context: PrimaryContext) => unknown

/** By their names; the node itself has none. */
const READ = new Map<string | undefined, Reader>([
  [undefined, nodeName],
  ['_stats', nodeStatistics],
  ['_system', nodeSystem],
  ['_versions', nodeVersions],
])
