/** Writes one edit and tells its outcome. */
import type { Database } from '../../database/database.ts'
import type { DocumentEdit } from '../../database/writing/edit.ts'
import { type Answer, json } from '../server/answer.ts'
import type { Call } from '../server/call.ts'
import { documentSegments } from './document-path.ts'

/** `created` is the address of what was made, below the database; null when nothing was, the document unless given. */
export async function writeAnswer(
  call: Call,
  database: Database,
  edit: DocumentEdit,
  created: readonly string[] | null = edit.deleted ? null : documentSegments(edit.id),
): Promise<Answer> {
  const { id } = edit
  const headers = created ? { Location: call.location(database.name, ...created) } : {}
  if (call.query('batch') === 'ok') {
    database.writeLater(edit)
    return json({ ok: true, id }, { status: 202, headers })
  }
  const [outcome] = await database.write([edit])
  if (outcome?.outcome !== 'written') throw outcome?.error ?? new Error('A write has no outcome.')
  const { revision } = outcome
  return json(
    { ok: true, id, rev: revision },
    { status: created ? 201 : 200, headers: { ...headers, ETag: `"${revision}"` } },
  )
}
