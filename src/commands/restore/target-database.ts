/** The database that a backup is restored into: created as in the backup, or refused where it exists already. */
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

export interface PreparedTarget {
  readonly isNew: boolean
  /** A part of the backup is there. */
  readonly isResumed: boolean
  /** All of it is there. */
  readonly isDone: boolean
}

export async function prepareTarget(
  client: ServerClient,
  target: string,
  { head, security, isMerged, marker }: TargetPlan,
): Promise<PreparedTarget> {
  const path = databasePath(target)
  const fresh = { isNew: true, isResumed: false, isDone: false }
  const present = await client.find(path)
  const isOfServer = target.startsWith('_')
  // An empty database may be left from an interrupted restore, and is created again.
  if (present === undefined || (!isOfServer && isEmpty(present, head) && !(await marker.read()))) {
    if (present === undefined) await client.json('PUT', `${path}${head.partitioned ? '?partitioned=true' : ''}`)
    // Before the first document, so that access rules hold and no history is cut.
    await applySettings(client, path, head, security)
    await marker.write('', 0)
    return fresh
  }
  const isKnown = await marker.read()
  if (isMerged && (!isKnown || marker.isDone)) return { ...fresh, isNew: false }
  if (isKnown) {
    const isResumed = marker.segment !== '' || marker.sequence > 0
    return { isNew: !isMerged && !isOfServer, isResumed, isDone: marker.isDone }
  }
  if (isOfServer && (await hasDesignsOnly(client, path))) {
    await applySettings(client, path, head, security)
    await marker.write('', 0)
    return { ...fresh, isNew: false }
  }
  throw new CommandError(
    `The database ${target} exists already. Delete it, restore under another name with --db ${head.name}=NEW, or use --merge.`,
  )
}

/** Throws where the number of documents differs from the backup. */
export async function checkCounts(client: ServerClient, target: string, head: DatabaseHead): Promise<void> {
  const information = await client.json('GET', databasePath(target))
  const { doc_count: live, doc_del_count: deleted } = isObject(information) ? information : {}
  if (live === head.doc_count && deleted === head.doc_del_count) return
  throw new CommandError(
    `After the restore ${target} has ${live} documents and ${deleted} tombstones; the backup was made of ${head.doc_count} and ${head.doc_del_count}.`,
    'damaged',
  )
}

function isEmpty(information: unknown, { partitioned }: DatabaseHead): boolean {
  if (!isObject(information)) return false
  const { doc_count, doc_del_count, props } = information
  const isPartitioned = isObject(props) && props.partitioned === true
  return doc_count === 0 && doc_del_count === 0 && isPartitioned === partitioned
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
