/** `_bulk_docs`: many documents in one request, each with its own outcome. */
import { AllOrNothingError } from '../database/all-or-nothing.ts'
import { type AttachmentEdits, attachmentEdits, NO_EDITS } from '../database/attachment-edits.ts'
import type { Database } from '../database/database.ts'
import type { DocumentEdit, EditOutcome } from '../database/edit.ts'
import { readDocument, type SentDocument } from '../document/document-fields.ts'
import { type DocumentId, isLocalId, parseDocumentId } from '../document/document-id.ts'
import { badRequest, type RequestError } from '../document/request-error.ts'
import { formatRevision } from '../document/revision-id.ts'
import { JsonReader } from '../encoding/json-text.ts'
import { quoteText } from '../encoding/json-text-splice.ts'
import { type Answer, json, jsonText } from './answer.ts'
import { attachmentPolicy } from './attachment-policy.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import { databaseOf } from './database-resource.ts'
import { type EditMode, editOf, stubParentOf } from './document-edit.ts'
import { checkDocumentSizes } from './document-size.ts'
import { parsing, readJsonText, requireJsonType } from './request-body.ts'

export async function bulkDocuments(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call, context)
  requireJsonType(call)
  const text = await readJsonText(call, context)
  const request = parsing(() => readRequest(text))
  checkDocumentSizes(request.documents, context)
  const edits: DocumentEdit[] = []
  const releases: (() => void)[] = []
  try {
    for (const document of request.documents) {
      const { id, mode } = target(document, request, context)
      const kept = hasAttachments(id, document) ? await attachmentsOf(database, id, document, mode, context) : NO_EDITS
      edits.push(editOf(id, document, mode, kept))
      if (kept !== NO_EDITS) releases.push(kept.release)
    }
    return await writtenAnswer(database, edits)
  } finally {
    for (const release of releases) release()
  }
}

interface BulkRequest {
  readonly documents: readonly SentDocument[]
  readonly newEdits: boolean
  readonly allOrNothing: boolean
}

/** The documents are read where they stand: a bulk request is scanned once. */
function readRequest(text: Buffer): BulkRequest {
  const reader = new JsonReader(text)
  if (reader.kind() !== 'object') {
    reader.skip()
    reader.end()
    throw badRequest('Request body must be a JSON object')
  }
  let documents: SentDocument[] | undefined
  let newEdits: unknown = true
  let allOrNothing: unknown = false
  let refusal: Error | undefined
  for (const name of reader.members()) {
    if (name === 'new_edits') newEdits = reader.value()
    else if (name === 'all_or_nothing') allOrNothing = reader.value()
    else if (name === 'docs') {
      if (reader.kind() !== 'array') refusal = badRequest('`docs` parameter must be an array.')
      else documents = reader.listOf(() => readDocument(reader))
    }
  }
  reader.end()
  if (refusal) throw refusal
  if (!documents) throw badRequest("Missing JSON list of 'docs'")
  if (typeof newEdits !== 'boolean') throw badRequest('`new_edits` parameter must be a boolean.')
  return { documents, newEdits, allOrNothing: allOrNothing === true }
}

/** Which document is meant, and how it is to be written. */
function target(
  document: SentDocument,
  { newEdits, allOrNothing }: BulkRequest,
  { uuids }: HttpContext,
): { readonly id: DocumentId; readonly mode: EditMode } {
  if (!newEdits && document.id === undefined) throw badRequest('Document id must not be empty')
  const id = document.id ?? parseDocumentId(uuids.next())
  return { id, mode: newEdits ? { parent: document.revision, branching: allOrNothing } : { replicated: true } }
}

function hasAttachments(id: DocumentId, { attachments }: SentDocument): boolean {
  return attachments.length > 0 && !isLocalId(id)
}

function attachmentsOf(
  database: Database,
  id: DocumentId,
  document: SentDocument,
  mode: EditMode,
  { configuration }: HttpContext,
): Promise<AttachmentEdits> {
  const parent = stubParentOf(document, mode)
  return attachmentEdits(database, id, document.attachments, parent, attachmentPolicy(configuration))
}

async function writtenAnswer(database: Database, edits: readonly DocumentEdit[]): Promise<Answer> {
  try {
    const outcomes = await database.write(edits)
    return jsonText(`[${outcomes.map((outcome, i) => entryText(edits[i]!, outcome)).join(',')}]`, { status: 201 })
  } catch (error) {
    if (!(error instanceof AllOrNothingError)) throw error
    // Nothing is written, and only those that are refused are told of.
    return json(
      error.refused.map((each) => refusedEntry(each.edit, each.error)),
      { status: error.status },
    )
  }
}

function entryText(edit: DocumentEdit, outcome: EditOutcome): string {
  if (outcome.outcome === 'refused') return JSON.stringify(refusedEntry(edit, outcome.error))
  return `{"ok":true,"id":${quoteText(edit.id)},"rev":${quoteText(outcome.revision)}}`
}

/** Where a request may have several revisions of one document, it is told which one is meant. */
function refusedEntry(edit: DocumentEdit, { error, told: reason }: RequestError) {
  const { id, kind } = edit
  if (kind === 'interactive' || kind === 'local') return { id, error, reason }
  return { id, rev: sentRevision(edit), error, reason }
}

function sentRevision(edit: DocumentEdit): string {
  if (edit.kind === 'replicated') return formatRevision(edit.path.start, edit.path.hashes[0] ?? '')
  return edit.parent ?? '0-'
}
