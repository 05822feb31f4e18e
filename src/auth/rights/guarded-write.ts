/** What the guards of system databases have in common when they let writes pass. */

import type { DatabaseView } from '../../database/database-view.ts'
import type { Commit } from '../../database/document-access.ts'
import { type DocumentEdit, type EditOutcome, type LocalEdit, refuseTogether } from '../../database/writing/edit.ts'
import { RequestError } from '../../document/request-error.ts'
import type { RevisionNode } from '../../document/tree/branch.ts'

/** An edit of a document that has revisions. */
export type BodyEdit = Exclude<DocumentEdit, LocalEdit>

/** What a guard makes of an edit: the edit as it is to be written, or why it is not. */
export type Decision = DocumentEdit | RequestError

/** Commits what may be written. The outcomes are those of all decisions, in their order. */
export async function commitAllowed(
  edits: readonly DocumentEdit[],
  decided: readonly Decision[],
  commit: Commit,
): Promise<EditOutcome[]> {
  refuseTogether(
    edits,
    decided.map((each) => (each instanceof RequestError ? each : undefined)),
  )
  const allowed = decided.filter((each): each is DocumentEdit => !(each instanceof RequestError))
  const written = (await commit(allowed)).values()
  return decided.map((each) => (each instanceof RequestError ? { outcome: 'refused', error: each } : nextOf(written)))
}

/**
 * The text of the document that an edit changes: the revision it is to follow, or else the one that counts now. So nobody
 * can put a branch beside a document that is there and call it new, or bring back what an older revision allowed.
 */
export async function textBefore(view: DatabaseView, edit: BodyEdit): Promise<Buffer | 'conflict' | undefined> {
  const record = await view.record(edit.id)
  if (!record) return undefined
  const current = record.deleted ? undefined : record.body
  let followed: RevisionNode | undefined
  if (edit.kind === 'interactive') {
    if (edit.parent === undefined && current !== undefined) return 'conflict'
    const tree = await view.tree(edit.id, record)
    followed = edit.parent && tree.find(edit.parent)
  }
  const number = followed?.status === 'live' ? followed.body : current
  return number === undefined ? undefined : (await view.body(number)).text
}

function nextOf(outcomes: Iterator<EditOutcome>): EditOutcome {
  const { value, done } = outcomes.next()
  if (done) throw new Error('A write has no outcome.')
  return value
}
