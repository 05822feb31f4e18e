/**
 * `_partition`: the information of one partition, and queries of its documents alone, which are those of the database
 * with the partition as a parameter.
 */
import { partitionNumbers } from '../../database/listing/partition-numbers.ts'
import { checkPartition } from '../../document/partition.ts'
import { badRequest, notFound } from '../../document/request-error.ts'
import { type Answer, json } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import { Rewritten } from '../server/route.ts'

/** `_partition` without a name. */
export function refusePartitionRoot(): never {
  throw badRequest('invalid_partition_req')
}

/** `GET /{db}/_partition/{name}` */
export async function partitionInformation(call: Call): Promise<Answer> {
  const name = await partitionOf(call)
  const database = await databaseOf(call)
  database.reading?.check('list')
  const { documentCount, deletedCount, bodyBytes } = await partitionNumbers(database, name)
  return json({
    db_name: database.name,
    sizes: { active: bodyBytes, external: bodyBytes },
    partition: name,
    doc_count: documentCount,
    doc_del_count: deletedCount,
  })
}

/** `/{db}/_partition/{name}/…` */
export async function partitionRequest(call: Call): Promise<Rewritten> {
  const name = await partitionOf(call)
  const [, , , action = '', , function_ = ''] = call.segments
  const isKnown = ACTIONS.has(action) || (action === '_design' && function_.startsWith('_'))
  if (!isKnown) throw notFound('missing')
  if ((call.query('partition') ?? name) !== name) {
    throw badRequest('Conflicting value for `partition` in query string')
  }
  return new Rewritten(rewrittenTarget(call, name))
}

const ACTIONS = new Set(['_all_docs', '_find', '_explain'])

async function partitionOf(call: Call): Promise<string> {
  const name = call.segment(2)
  const { isPartitioned } = await databaseOf(call)
  if (!isPartitioned) throw badRequest('database is not partitioned')
  checkPartition(name)
  return name
}

/** The segments stay as they were sent: names may hold slashes. */
function rewrittenTarget({ path, url }: Call, name: string): string {
  const [database = '', , , ...rest] = path.split('/').filter((segment) => segment !== '')
  const end = url.indexOf('?')
  const query = end < 0 ? '' : `&${url.slice(end + 1)}`
  return `/${[database, ...rest].join('/')}?partition=${encodeURIComponent(name)}${query}`
}
