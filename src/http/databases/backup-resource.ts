/**
 * `_backup`: a database as frames of a backup, out of one state. `_restore`: such frames written back. Both are for
 * server administrators, and bypass validation: they are what `settle backup` and `settle restore` use.
 */
import { type BackupStart, type DatabaseHead, databaseFrames, remembersPurges } from '../../backup/database-frames.ts'
import { BACKUP_TYPE } from '../../backup/frame.ts'
import { restoreFrames } from '../../backup/restored-frames.ts'
import type { Database } from '../../database/database.ts'
import type { DatabaseView } from '../../database/database-view.ts'
import { badRequest } from '../../document/request-error.ts'
import { bodyPieces } from '../bodies/request-body.ts'
import { type Answer, json, streamed } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { HttpError } from '../server/errors.ts'

export async function readBackup(call: Call, context: HttpContext): Promise<Answer> {
  const start = { since: call.queryCount('since') ?? 0, purgeSince: call.queryCount('purge_since') ?? 0 }
  const database = await context.databases.get(call.segment(0))
  const view = database.view()
  try {
    checkIdentity(call, database, start)
    const head = await headOf(database, view, start, context.version)
    const state = await view.state()
    if (start.since > 0 && !(await remembersPurges(view, state, start.purgeSince))) throw needsWhole('purges')
    // A backup from the start needs no purges: purged revisions are not in it.
    const whole = start.since === 0 ? { ...head, purge_since: head.purge_until } : head
    const headers = { 'Content-Type': BACKUP_TYPE, 'Cache-Control': 'no-store' }
    return streamed(databaseFrames(view, whole), { headers, release: () => view.release() })
  } catch (error) {
    view.release()
    throw error
  }
}

export async function writeRestore(call: Call, context: HttpContext): Promise<Answer> {
  requireBackupType(call)
  const database = await context.databases.get(call.segment(0))
  const { largestDocument } = context.settings.current
  const { revisions, locals, refused } = await restoreFrames(database, bodyPieces(call), {
    largestFrame: Math.min(LARGEST_FRAME_BYTES, largestDocument + DOCUMENT_EXTRA_BYTES),
  })
  return json({ ok: true, revisions, locals, refused }, { status: 201 })
}

/** A page of another site cannot send this type without a CORS preflight. */
function requireBackupType(call: Call): void {
  const [type = ''] = (call.header('content-type') ?? '').split(';')
  if (type.trim().toLowerCase() === BACKUP_TYPE) return
  throw new HttpError(415, 'bad_content_type', `Content-Type must be ${BACKUP_TYPE}`)
}

const LARGEST_FRAME_BYTES = 512 * 1024 * 1024
/** What underscore members may add to a document: its history and its attachments. */
const DOCUMENT_EXTRA_BYTES = 16 * 1024 * 1024

async function headOf(
  database: Database,
  view: DatabaseView,
  { since, purgeSince }: BackupStart,
  version: string,
): Promise<DatabaseHead> {
  const state = await view.state()
  if (since > state.updateSequence || purgeSince > state.purgeSequence) throw needsWhole('sequences')
  return {
    name: database.name,
    uuid: database.uuid,
    partitioned: database.isPartitioned,
    since,
    until: state.updateSequence,
    purge_since: purgeSince,
    purge_until: state.purgeSequence,
    revs_limit: state.revisionLimit,
    purged_infos_limit: state.purgeLimit,
    doc_count: state.documentCount,
    doc_del_count: state.deletedCount,
    made: new Date().toISOString(),
    version,
  }
}

/** Sequences of another database of the same name mean nothing. */
function checkIdentity(call: Call, database: Database, { since }: BackupStart): void {
  const uuid = call.query('uuid')
  if (since > 0 && uuid === undefined) throw badRequest('`uuid` is required with a sequence.')
  if (uuid !== undefined && uuid !== database.uuid) throw needsWhole('database')
}

const REASONS = {
  database: 'The database was recreated under the same name.',
  sequences: 'The database is behind these sequences.',
  purges: 'The purges since then are no longer stored.',
}

function needsWhole(reason: keyof typeof REASONS): HttpError {
  return new HttpError(409, 'whole_backup_needed', `A full backup is needed. ${REASONS[reason]}`)
}
