/** The resources of the server itself: what it is, which databases it has, ids on demand. */
import { RequestError } from '../document/request-error.ts'
import { randomUuid } from '../runtime/uuids.ts'
import { type Answer, json } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'

export function serverInformation(_: Call, { configuration, version }: HttpContext): Answer {
  const vendor = { ...Object.fromEntries(configuration.section('vendor')), version }
  return json({ service: 'Welcome', couchdb: 'Welcome', uuid: configuration.text('service', 'uuid'), version, vendor })
}

export async function allDatabases(call: Call, { databases }: HttpContext): Promise<Answer> {
  const skip = call.queryCount('skip') ?? 0
  const limit = call.queryCount('limit') ?? Number.POSITIVE_INFINITY
  return json((await databases.list()).slice(skip, skip + limit))
}

export function uuids(call: Call, { configuration, uuids }: HttpContext): Answer {
  const count = call.queryCount('count') ?? 1
  if (count > configuration.integer('uuids', 'max_count')) {
    throw new RequestError(403, 'forbidden', 'count parameter too large')
  }
  const headers = {
    'Cache-Control': 'must-revalidate, no-cache',
    Pragma: 'no-cache',
    Expires: 'Fri, 01 Jan 1990 00:00:00 GMT',
    ETag: `"${randomUuid()}"`,
  }
  return json({ uuids: Array.from({ length: count }, () => uuids.next()) }, { headers })
}
