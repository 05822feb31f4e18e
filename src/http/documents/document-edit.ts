/** Turns a document that was sent into what the writer is asked for. */
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
): DocumentEdit {
  const { body, term, deleted } = document
  if (isLocalId(id)) return { kind: 'local', id, parent: mode.replicated ? 'any' : mode.parent, deleted, body }
  if (mode.replicated) {
    return { kind: 'replicated', id, path: replicatedPath(document), deleted, body, attachments, refusal }
  }
  const kind = mode.branching ? 'branching' : 'interactive'
  return { kind, id, parent: mode.parent, deleted, body, term, attachments, refusal }
}

/** The revision whose attachments the stubs of a document stand for. */
export function stubParentOf(document: SentDocument, mode: EditMode): StubParent {
  if (mode.replicated) return { kind: 'replicated', path: replicatedPath(document) }
  return { kind: mode.branching ? 'branching' : 'interactive', parent: mode.parent }
}
