/** Turns a document that was sent into what the writer is asked for. */
import type { Dialect } from '../../config/dialect.ts'
import type { AttachmentEdits, StubParent } from '../../database/attachments/attachment-edits.ts'
import type { DocumentEdit } from '../../database/writing/edit.ts'
import { replicatedPath, type SentDocument } from '../../document/document-fields.ts'
import { isLocalId } from '../../document/document-id.ts'
import type { RevisionId } from '../../document/revisions/revision-id.ts'

export type EditMode =
  /** A new revision on this parent; with `branching` also where that makes a conflict. */
  | { readonly parent: RevisionId | undefined; readonly branching?: boolean; readonly replicated?: false }
  /** A revision of another server, stored as it is. */
  | { readonly replicated: true }

export function editOf(
  id: string,
  document: SentDocument,
  mode: EditMode,
  { attachments, refusal }: AttachmentEdits,
  dialect: Dialect,
): DocumentEdit {
  const { body, term, deleted } = document
  if (isLocalId(id)) {
    const parent = mode.replicated ? 'any' : localParent(mode.parent, dialect)
    return { kind: 'local', id, parent, deleted, body }
  }
  if (mode.replicated) {
    return { kind: 'replicated', id, path: replicatedPath(document), deleted, body, attachments, refusal }
  }
  const kind = mode.branching ? 'branching' : 'interactive'
  return { kind, id, parent: mode.parent, deleted, body, term, attachments, refusal }
}

/** The revision that a local document must have to be written; dialect 3 does not ask for one. */
export function localParent(parent: RevisionId | undefined, dialect: Dialect): RevisionId | 'any' | undefined {
  return dialect === '3' ? 'any' : parent
}

/** The revision whose attachments the stubs of a document stand for. */
export function stubParentOf(document: SentDocument, mode: EditMode): StubParent {
  if (mode.replicated) return { kind: 'replicated', path: replicatedPath(document) }
  return { kind: mode.branching ? 'branching' : 'interactive', parent: mode.parent }
}
