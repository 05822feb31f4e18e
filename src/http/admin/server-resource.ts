/** The resources of the server itself: its welcome message, its databases, UUIDs, statistics, active tasks, restart. */

import { canonicalSection } from '../../config/ini-text.ts'
import { badRequest, queryParseError } from '../../document/request-error.ts'
import { commit } from '../../runtime/commit.ts'
import { randomUuid } from '../../runtime/uuids.ts'
import { requireJsonType } from '../bodies/request-body.ts'
import { type Answer, json, RETRY_AFTER } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext, PrimaryContext } from '../server/context.ts'
import { HttpError } from '../server/errors.ts'

export function serverInformation(_: Call, { configuration, version }: HttpContext): Answer {
  const vendor = Object.fromEntries(configuration.section('vendor'))
  return json({
    service: 'Welcome',
    couchdb: 'Welcome',
    uuid: configuration.text('service', 'uuid'),
    version,
    ...(commit !== undefined && { git_sha: commit }),
    features: FEATURES,
    ...(Object.keys(vendor).length > 0 && { vendor }),
  })
}

/** Those that clients of later releases look for. */
const FEATURES = ['partitioned', 'scheduler']

/** Health, for monitoring. */
export async function up(_: Call, { health }: PrimaryContext): Promise<Answer> {
  const state = await health.status()
  if (state.status === 'ok') return json({ ...state, seeds: {} })
  return 'reason' in state
    ? json(state, { status: 503, headers: { 'Retry-After': RETRY_AFTER } })
    : json(state, { status: 404 })
}

export async function allDatabases(call: Call, context: HttpContext): Promise<Answer> {
  return json(await listedDatabases(call, context))
}

/** The names that the parameters of a request choose. */
export async function listedDatabases(call: Call, { databases }: HttpContext): Promise<string[]> {
  const skip = call.queryCount('skip') ?? 0
  const limit = call.queryCount('limit') ?? Number.POSITIVE_INFINITY
  const isDescending = call.queryBoolean('descending') ?? false
  const start = nameParameter(call, 'startkey', 'start_key')
  const end = nameParameter(call, 'endkey', 'end_key')
  const [lowest, highest] = isDescending ? [end, start] : [start, end]
  const all = await databases.list()
  // Names are ASCII: their order as texts is the order of their bytes.
  const names = all.filter(
    (name) => (lowest === undefined || name >= lowest) && (highest === undefined || name <= highest),
  )
  if (isDescending) names.reverse()
  return names.slice(skip, skip + limit)
}

/** A name as JSON; a plain one is taken as it is. */
function nameParameter(call: Call, ...spellings: readonly string[]): string | undefined {
  const spelling = spellings.find((name) => call.query(name) !== undefined)
  const text = spelling && call.query(spelling)
  if (!text?.startsWith('"')) return text
  try {
    return String(JSON.parse(text))
  } catch {
    throw queryParseError(`Invalid value for ${spelling}: ${text}`)
  }
}

export function uuids(call: Call, { configuration, uuids }: HttpContext): Answer {
  const count = countOf(call)
  if (count > configuration.integer('uuids', 'max_count')) {
    throw new HttpError(403, 'forbidden', 'count parameter too large')
  }
  const headers = {
    'Cache-Control': 'must-revalidate, no-cache',
    Pragma: 'no-cache',
    Expires: 'Fri, 01 Jan 1990 00:00:00 GMT',
    ETag: `"${randomUuid()}"`,
  }
  return json({ uuids: Array.from({ length: count }, () => uuids.next()) }, { headers })
}

/** Here, unlike elsewhere, a wrong number is a `bad_request`. */
function countOf(call: Call): number {
  const text = call.query('count') ?? '1'
  if (!/^\d+$/.test(text)) throw badRequest(`Invalid value for count: ${JSON.stringify(text)}`)
  return Number(text)
}

/** `_active_tasks`: long work in progress. */
export async function activeTasks(_: Call, { work }: PrimaryContext): Promise<Answer> {
  return json(await work.tasks())
}

/**
 * `_restart`: closes everything and opens it again with a freshly read configuration, once the client has its reply.
 */
export function restart(call: Call, context: PrimaryContext): Answer {
  call.reply.keepsAlive = false
  call.reply.onClose(() => context.restart())
  return json({ ok: true }, { status: 202 })
}

/** `_stats`: the statistics of the server. */
export function statistics(call: Call, { statistics }: HttpContext): Answer {
  const [, section, name, ...rest] = call.segments
  const windowSeconds = call.queryCount('range') ?? 0
  if (call.querySwitch('flush')) statistics.flush()
  if (section === undefined) return json(statistics.all(windowSeconds))
  if (name === undefined || rest.length > 0) throw badRequest('Stat names must have exactly two parts.')
  // Under the name that the client knows the section by.
  return json({ [section]: { [name]: statistics.one(canonicalSection(section), name, windowSeconds) } })
}

/** `_plugins`: where CouchDB installs code that is sent to it. Settle does not. */
export function installPlugin(call: Call): Answer {
  requireJsonType(call)
  throw new HttpError(501, 'not_implemented', 'Plugins are not supported.')
}
