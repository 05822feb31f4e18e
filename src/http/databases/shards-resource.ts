/** `_shards` and `_sync_shards`: the cluster that later clients ask about. It has one node, and a database is one shard. */
import { NODE_NAME } from '../admin/node-resource.ts'
import { requireJsonType } from '../bodies/request-body.ts'
import { type Answer, json } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'

const WHOLE_RANGE = '00000000-ffffffff'

export async function shards(call: Call): Promise<Answer> {
  await databaseOf(call)
  return json({ shards: { [WHOLE_RANGE]: [NODE_NAME] } })
}

/** `_shards/{docid}`: where a document is, or would be. */
export async function shardOfDocument(call: Call): Promise<Answer> {
  await databaseOf(call)
  return json({ range: WHOLE_RANGE, nodes: [NODE_NAME] })
}

/** A node is always in step with itself. */
export async function syncShards(call: Call): Promise<Answer> {
  requireJsonType(call)
  await databaseOf(call)
  return json({ ok: true }, { status: 202 })
}
