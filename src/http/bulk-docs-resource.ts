/** `_bulk_docs`: many documents in one request, each with its own outcome. */
import type { DocumentEdit, EditOutcome } from '../database/edit.ts'
import { namedRevision, readDocument, type SentDocument } from '../document/document-fields.ts'
import { isLocalId, parseDocumentId } from '../document/document-id.ts'
import { badRequest } from '../document/request-error.ts'
import { JsonReader } from '../encoding/json-text.ts'
import { type Answer, json } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import { databaseOf } from './database-resource.ts'
import { editOf } from './document-edit.ts'
import { checkDocumentSize } from './document-size.ts'
import { parsing, readJsonText, requireJsonType } from './request-body.ts'

export async function bulkDocuments(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call, context)
  requireJsonType(call)
  const text = await readJsonText(call, context)
  const request = parsing(() => readRequest(text))
  const edits = request.documents.map((document) => {
    checkDocumentSize(document, context)
    return bulkEdit(document, request, context)
  })
  const outcomes = await database.write(edits)
  return json(
    outcomes.map((outcome, i) => entry(edits[i]!, outcome)),
    { status: 201 },
  )
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
      else documents = Array.from(reader.elements(), () => readDocument(reader))
    }
  }
  reader.end()
  if (refusal) throw refusal
  if (!documents) throw badRequest("Missing JSON list of 'docs'")
  if (typeof newEdits !== 'boolean') throw badRequest('`new_edits` parameter must be a boolean.')
  return { documents, newEdits, allOrNothing: allOrNothing === true }
}

function bulkEdit(
  document: SentDocument,
  { newEdits, allOrNothing }: BulkRequest,
  { uuids }: HttpContext,
): DocumentEdit {
  if (!newEdits) {
    if (document.id === undefined) throw badRequest('Document id must not be empty')
    return editOf(document.id, document, { replicated: true })
  }
  const id = document.id ?? parseDocumentId(uuids.next())
  return editOf(id, document, { parent: namedRevision(document), branching: allOrNothing && !isLocalId(id) })
}

function entry({ id }: DocumentEdit, outcome: EditOutcome) {
  if (outcome.outcome === 'written') return { ok: true, id, rev: outcome.revision }
  const { error, reason } = outcome.error
  return { id, error, reason }
}
