/** `_find` and `_explain`: queries by selector. */

import type { Database } from '../../database/database.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import { explanation } from '../../views/find/explain.ts'
import { findGroups } from '../../views/find/find-groups.ts'
import { choiceFor, planFind } from '../../views/find/find-plan.ts'
import { FindQuery } from '../../views/find/find-query.ts'
import { findReply } from '../../views/find/find-reply.ts'
import { type FindRequest, readFindRequest } from '../../views/find/find-request.ts'
import { readJsonObject, requireJsonType } from '../bodies/request-body.ts'
import { type Answer, json, streamed } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import { type Call, CallClient } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { HttpError } from '../server/errors.ts'

/** `POST /{db}/_find` */
export async function find(call: Call, context: HttpContext): Promise<Answer> {
  const begunMs = performance.now()
  const { database, request } = await requestOf(call, context)
  const client = new CallClient(call)
  if (request.groups) {
    return json({ groups: await findGroups(database, context.views, request, request.groups, client) })
  }
  const slice = new TimeSlice()
  const plan = await planFind(database, request)
  if (slice.isOverNow) await slice.pause()
  const query = await FindQuery.open(database, context.views, plan, client)
  try {
    const count = request.count ? await countOf(query, context) : undefined
    const warningThreshold = context.configuration.integer('mango', 'index_scan_warning_threshold')
    return await begun(findReply(query, plan, { warningThreshold, begunMs, count }), query)
  } catch (error) {
    query.release()
    throw error
  }
}

/** `POST /{db}/_explain` */
export async function explain(call: Call, context: HttpContext): Promise<Answer> {
  const { database, request } = await requestOf(call, context)
  const choice = await choiceFor(database, request)
  // A query without a usable index is explained; other errors are reported.
  if (choice.refusal && choice.refusal.error !== 'no_usable_index') throw choice.refusal
  return json(await explanation(database.name, request, choice))
}

async function requestOf(
  call: Call,
  context: HttpContext,
): Promise<{ readonly database: Database; readonly request: FindRequest }> {
  requireJsonType(call)
  const database = await databaseOf(call)
  database.reading?.check('list')
  const body = await readJsonObject(call, context)
  const limit = context.configuration.integer('mango', 'default_limit')
  const slice = new TimeSlice()
  const request = readFindRequest(body, {
    limit,
    partition: call.query('partition'),
    isPartitioned: database.isPartitioned,
  })
  if (slice.isOverNow) await slice.pause()
  return { database, request }
}

async function countOf(query: FindQuery, { configuration }: HttpContext): Promise<number> {
  const mostRows = configuration.integer('mango', 'count_scan_limit')
  const count = await query.count(mostRows)
  if (count !== undefined) return count
  const reason =
    'The documents cannot be counted: the selector is not a range of an index, and more than ' +
    `${mostRows} rows would have to be read. Create an index on the fields of the selector.`
  throw new HttpError(400, 'no_usable_index', reason)
}

/** Small replies go out in one piece. */
const WHOLE_BYTES = 64 * 1024

async function begun(chunks: AsyncGenerator<Buffer>, query: FindQuery): Promise<Answer> {
  const first: Buffer[] = []
  for (let bytes = 0; bytes < WHOLE_BYTES; ) {
    const { done, value } = await chunks.next()
    if (done) {
      query.release()
      return { kind: 'whole', status: 200, headers: {}, body: Buffer.concat(first) }
    }
    first.push(value)
    bytes += value.length
  }
  return streamed(resumed(first, chunks), { release: () => query.release() })
}

async function* resumed(first: readonly Buffer[], rest: AsyncGenerator<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* first
    yield* rest
  } finally {
    await rest.return(undefined)
  }
}
