/** A database as a whole: create, delete, information, compaction and limits. */
import { informationMembers } from '../../database/information-members.ts'
import { badRequest } from '../../document/request-error.ts'
import { NODE_NAME } from '../admin/node-name.ts'
import { readJson, requireJsonType } from '../bodies/request-body.ts'
import { type Answer, json } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

export async function createDatabase(call: Call, { databases }: HttpContext): Promise<Answer> {
  const name = call.segment(0)
  await databases.create(name, { isPartitioned: isPartitioned(call) })
  return json({ ok: true }, { status: 201, headers: { Location: call.location(name) } })
}

function isPartitioned(call: Call): boolean {
  const text = call.query('partitioned') ?? 'false'
  if (text !== 'true' && text !== 'false') throw badRequest('Invalid `partitioned` parameter')
  return text === 'true'
}

export async function databaseInformation(call: Call): Promise<Answer> {
  return json(await informationMembers(await databaseOf(call)))
}

/** A request that means a document is refused before the rights are checked. */
export function refuseRevision(call: Call): void {
  if (call.query('rev') === undefined) return
  throw badRequest('You tried to DELETE a database with a ?rev= parameter. Did you mean to DELETE a document instead?')
}

export async function deleteDatabase(call: Call, { databases }: HttpContext): Promise<Answer> {
  await databases.delete(call.segment(0))
  return json({ ok: true })
}

export async function compact(call: Call): Promise<Answer> {
  const database = await databaseOf(call)
  requireJsonType(call)
  await database.compact()
  return json({ ok: true }, { status: 202 })
}

/** Every commit is on disk before its reply; only writes with `batch=ok` are left. */
export async function ensureFullCommit(call: Call): Promise<Answer> {
  const database = await databaseOf(call)
  requireJsonType(call)
  const sequence = call.queryCount('seq')
  if (sequence !== undefined) {
    const { updateSequence } = await database.information()
    if (sequence > updateSequence) throw badRequest("can't do a full commit ahead of current update_seq")
  }
  await database.flush()
  return json({ ok: true, instance_start_time: String(database.openedUs) }, { status: 201 })
}

export async function revisionLimit(call: Call): Promise<Answer> {
  const database = await databaseOf(call)
  return json((await database.information()).revisionLimit)
}

export async function setRevisionLimit(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  const limit = await readJson(call, context)
  if (typeof limit !== 'number' || !Number.isSafeInteger(limit)) throw badRequest('Rev limit has to be an integer')
  if (limit <= 0) throw badRequest('Rev limit has to be greater than 0')
  await database.setRevisionLimit(limit)
  return json({ ok: true })
}

const WHOLE_RANGE = '00000000-ffffffff'

/** `_shards`: the cluster that later clients ask about. It has one node, and a database is one shard. */
export async function shards(call: Call): Promise<Answer> {
  await databaseOf(call)
  return json({ shards: { [WHOLE_RANGE]: [NODE_NAME] } })
}

/** `_shards/{docid}`: where a document is, or would be. */
export async function shardOfDocument(call: Call): Promise<Answer> {
  await databaseOf(call)
  return json({ range: WHOLE_RANGE, nodes: [NODE_NAME] })
}

/** `_sync_shards`: a single node is always in sync. */
export async function syncShards(call: Call): Promise<Answer> {
  requireJsonType(call)
  await databaseOf(call)
  return json({ ok: true }, { status: 202 })
}
