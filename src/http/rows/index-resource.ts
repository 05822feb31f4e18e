/** The indexes of views: their information, compaction and cleanup. */

import type { DesignDocument } from '../../database/design/design-document.ts'
import { requireJsonType } from '../bodies/request-body.ts'
import { designId } from '../design-functions/function-request.ts'
import { type Answer, json } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { viewsOf } from './view-resource.ts'

/** `_design/{name}/_info` */
export async function indexInformation(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  using view = database.view()
  const design = viewsOf(database, await database.design(view, designId(call)))
  view.release()
  const information = await context.views.information(database, design)
  // Read last: it cannot be behind the index.
  const { updateSequence } = await database.latestState()
  const pending = updateSequence - information.updateSequence
  return json({
    name: call.segment(2),
    view_index: {
      compact_running: information.isCompacting,
      data_size: information.dataBytes,
      disk_size: information.fileBytes,
      language: information.language,
      purge_seq: information.purgeSequence,
      signature: information.signature,
      update_seq: information.updateSequence,
      updater_running: information.isUpdating,
      waiting_clients: information.waitingClients,
      // Rows are on disk before they can be read.
      waiting_commit: false,
      // Where clients of later releases look.
      sizes: { file: information.fileBytes, external: information.dataBytes, active: information.dataBytes },
      updates_pending: { minimum: pending, preferred: pending, total: pending },
    },
  })
}

/** `_compact/{name}` and `_design/{name}/_compact` */
export async function compactIndex(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  requireJsonType(call)
  await context.views.compact(database, viewsOf(database, await compactedDesign(call)))
  return json({ ok: true }, { status: 202 })
}

/** A missing design document is reported before the rights are checked. */
export async function requireCompactedDesign(call: Call): Promise<void> {
  await compactedDesign(call)
}

export async function cleanUpIndexes(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  requireJsonType(call)
  await context.views.cleanup(database)
  return json({ ok: true }, { status: 202 })
}

async function compactedDesign(call: Call): Promise<DesignDocument> {
  const database = await databaseOf(call)
  using view = database.view()
  return await database.design(view, call.segment(1) === '_compact' ? `_design/${call.segment(2)}` : designId(call))
}
