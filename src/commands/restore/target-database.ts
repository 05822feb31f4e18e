/** The database that a backup is restored into: made as the backup has it, or refused where it is there already. */
import type { DatabaseHead } from '../../backup/database-frames.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { CommandError } from '../command-error.ts'
import { databasePath, type ServerClient } from '../server-client.ts'
import type { RestoreMarker } from './section-restore.ts'

export interface TargetPlan {
  readonly head: DatabaseHead
  readonly security: unknown
  readonly isMerged: boolean
  readonly marker: RestoreMarker
}

export async function prepareTarget(
  client: ServerClient,
  target: string,
  { head, security, isMerged, marker }: TargetPlan,
): Promise<{ readonly isNew: boolean; readonly isResumed: boolean }> {
  const path = databasePath(target)
  if (!(await client.find(path))) {
    await client.json('PUT', `${path}${head.partitioned ? '?partitioned=true' : ''}`)
    // Before the first document: nobody may read what they must not, and no history is cut.
    await applySettings(client, path, head, security)
    await marker.write('', 0)
    return { isNew: true, isResumed: false }
  }
  const isOfServer = target.startsWith('_')
  if (await marker.read())
    return { isNew: !isMerged && !isOfServer, isResumed: marker.segment !== '' || marker.sequence > 0 }
  if (isMerged) return { isNew: false, isResumed: false }
  if (isOfServer && (await hasDesignsOnly(client, path))) {
    await applySettings(client, path, head, security)
    return { isNew: false, isResumed: false }
  }
  throw new CommandError(
    `The database ${target} exists already. Delete it, restore under another name with --db ${head.name}=NEW, or use --merge.`,
  )
}

/** Throws where the database does not hold as many documents as the backup says. */
export async function checkCounts(client: ServerClient, target: string, head: DatabaseHead): Promise<void> {
  const information = await client.json('GET', databasePath(target))
  const { doc_count: live, doc_del_count: deleted } = isObject(information) ? information : {}
  if (live === head.doc_count && deleted === head.doc_del_count) return
  throw new CommandError(
    `After the restore ${target} has ${live} documents and ${deleted} tombstones; the backup was made of ${head.doc_count} and ${head.doc_del_count}.`,
    'damaged',
  )
}

async function applySettings(client: ServerClient, path: string, head: DatabaseHead, security: unknown): Promise<void> {
  await client.json('PUT', `${path}/_revs_limit`, head.revs_limit)
  await client.json('PUT', `${path}/_purged_infos_limit`, head.purged_infos_limit)
  if (security !== undefined) await client.json('PUT', `${path}/_security`, security)
}

/** As a new server has its own databases. */
async function hasDesignsOnly(client: ServerClient, path: string): Promise<boolean> {
  const listed = await client.json('GET', `${path}/_all_docs?limit=10`)
  const rows = isObject(listed) && Array.isArray(listed.rows) ? listed.rows : []
  return rows.length < 10 && rows.every((row) => isObject(row) && String(row.id).startsWith('_design/'))
}
