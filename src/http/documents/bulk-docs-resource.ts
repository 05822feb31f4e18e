/** `_bulk_docs`: many documents in one request, each with its own outcome. */

import { NO_EDITS } from '../../database/attachments/attachment-edits.ts'
import type { Database } from '../../database/database.ts'
import { AllOrNothingError, type DocumentEdit, type EditOutcome } from '../../database/writing/edit.ts'
import type { SentDocument } from '../../document/document-fields.ts'
import { type DocumentId, formatRevision, parseDocumentId } from '../../document/ids.ts'
import { illegalDocumentId, type RequestError } from '../../document/request-error.ts'
import { quoteText } from '../../encoding/json/json-text-splice.ts'
import { TimeSlice } from '../../runtime/clock.ts'
import { type BulkRequest, bulkRequestIn } from '../../scan/json-body.ts'
import { joinedText } from '../bodies/joined-text.ts'
import { checkDocumentSizes, readingLimits, readJsonText, requireJsonType } from '../bodies/request-body.ts'
import { type Answer, json, jsonText } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { statusOf } from '../server/errors.ts'
import { type EditMode, editOf, hasAttachments, stagedAttachments } from './document-writing.ts'

export async function bulkDocuments(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  requireJsonType(call)
  const text = await readJsonText(call, context)
  const { mostItems } = context.settings.current
  const request = await bulkRequestIn(text, mostItems, readingLimits(call, context))
  checkDocumentSizes(request.documents, context)
  const edits: DocumentEdit[] = []
  const releases: (() => void)[] = []
  const slice = new TimeSlice()
  try {
    for (const document of request.documents) {
      const { id, mode } = target(document, request, context)
      const kept = hasAttachments(id, document)
        ? await stagedAttachments(context, database, { id, document, mode })
        : NO_EDITS
      edits.push(editOf(id, document, mode, kept, call.dialect))
      if (kept !== NO_EDITS) releases.push(kept.release)
      if (slice.isOver) await slice.pause()
    }
    // In dialect 3 the reply to a replicator lists failures only.
    const isTerse = !request.newEdits && call.dialect === '3'
    const answer = await writtenAnswer(database, edits, { isTerse })
    request.free()
    return answer
  } finally {
    for (const release of releases) release()
  }
}

/** The id of the document, and how it is written. */
function target(
  document: SentDocument,
  { newEdits, allOrNothing }: BulkRequest,
  { uuids }: HttpContext,
): { readonly id: DocumentId; readonly mode: EditMode } {
  if (!newEdits && document.id === undefined) throw illegalDocumentId('Document id must not be empty')
  const id = document.id ?? parseDocumentId(uuids.next())
  return { id, mode: newEdits ? { parent: document.revision, branching: allOrNothing } : { replicated: true } }
}

async function writtenAnswer(
  database: Database,
  edits: readonly DocumentEdit[],
  { isTerse }: { readonly isTerse: boolean },
): Promise<Answer> {
  try {
    const outcomes = await database.write(edits)
    if (isTerse) return json(refusedEntries(edits, outcomes), { status: 201 })
    return jsonText(await joinedText(outcomes, (outcome, i) => entryText(edits[i]!, outcome)), { status: 201 })
  } catch (error) {
    if (!(error instanceof AllOrNothingError)) throw error
    // Nothing is written, and the reply lists only the refused documents.
    return json(
      error.refused.map((each) => refusedEntry(each.edit, each.error)),
      { status: statusOf(error) },
    )
  }
}

function refusedEntries(edits: readonly DocumentEdit[], outcomes: readonly EditOutcome[]): unknown[] {
  return outcomes.flatMap((outcome, i) =>
    outcome.outcome === 'refused' ? [refusedEntry(edits[i]!, outcome.error)] : [],
  )
}

function entryText(edit: DocumentEdit, outcome: EditOutcome): string {
  if (outcome.outcome === 'refused') return JSON.stringify(refusedEntry(edit, outcome.error))
  return `{"ok":true,"id":${quoteText(edit.id)},"rev":${quoteText(outcome.revision)}}`
}

/** Names the revision where a request may have several of one document. */
function refusedEntry(edit: DocumentEdit, { error, reasonValue: reason }: RequestError) {
  const { id, kind } = edit
  if (kind === 'interactive' || kind === 'local') return { id, error, reason }
  return { id, rev: sentRevision(edit), error, reason }
}

function sentRevision(edit: DocumentEdit): string {
  if (edit.kind === 'replicated') return formatRevision(edit.path.start, edit.path.hashes[0] ?? '')
  return edit.parent ?? '0-'
}
