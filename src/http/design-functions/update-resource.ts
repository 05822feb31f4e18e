/** `_update`: a function makes the new revision of a document out of the old one and the request. */

import type { Database } from '../../database/database.ts'
import type { RevisionId } from '../../document/ids.ts'
import { illegalDocumentId } from '../../document/request-error.ts'
import { documentIn } from '../../scan/json-body.ts'
import { checkDocumentSize } from '../bodies/request-body.ts'
import { withEdit, writeOne } from '../documents/document-writing.ts'
import { contentPolicy } from '../negotiation/browser-policy.ts'
import type { Answer, Headers } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import { type Call, clientSignal } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { MethodNotAllowedError } from '../server/errors.ts'
import {
  calledDocument,
  designId,
  functionBody,
  functionDocument,
  functionName,
  functionRequest,
  requireFunction,
} from './function-request.ts'
import { responseAnswer } from './function-response.ts'

export async function updateDocument(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  using view = database.view()
  const design = await database.design(view, designId(call))
  const name = functionName(call, 'update_error')
  requireFunction(design, 'updates', name)
  const id = functionDocument(call)
  const { text } = await calledDocument(view, id)
  view.release()
  const body = await functionBody(call, context)
  const request = await functionRequest(call, context, database, { id, body })
  const run = { owner: database.name, signal: clientSignal(call) }
  const { document, response } = await context.functions.update(design.program, name, { document: text, request }, run)
  // A response that cannot be sent is refused before anything is written.
  const fixed = contentPolicy(context.settings.current, 'showlist')
  const answer = responseAnswer(response, { fixed })
  if (document === null) return answer
  const written = await write(call, context, database, document)
  return responseAnswer(response, { status: 201, usual: writtenHeaders(written), fixed })
}

export const UPDATE_METHODS = 'POST,PUT,DELETE,COPY'

/** A GET must not change anything. */
export function refuseReading(call: Call): never {
  throw new MethodNotAllowedError(UPDATE_METHODS, `Update functions do not allow ${call.method}`)
}

interface WrittenDocument {
  readonly id: string
  readonly revision: RevisionId
}

/** Writes the document of the function with the rights of the caller. */
async function write(call: Call, context: HttpContext, database: Database, text: string): Promise<WrittenDocument> {
  const document = await documentIn(Buffer.from(text))
  const { id } = document
  if (id === undefined) throw illegalDocumentId('Document id must not be empty')
  checkDocumentSize(document, context)
  const sent = { id, document, mode: { parent: document.revision } }
  return { id, revision: await withEdit(call, context, database, sent, (edit) => writeOne(database, edit)) }
}

function writtenHeaders({ id, revision }: WrittenDocument): Headers {
  return { 'X-Service-Update-NewRev': revision, 'X-Service-Id': headerText(id) }
}

/** An id may be any text. What a header cannot hold is escaped, the rest is sent as UTF-8. */
function headerText(id: string): string {
  const isPrintable = [...id].every((character) => character >= ' ' && character !== '\x7f')
  return isPrintable ? Buffer.from(id).toString('latin1') : encodeURIComponent(id)
}
