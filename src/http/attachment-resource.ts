/** What hangs on a document. */
import { openDocument, openRevision } from '../database/open-document.ts'
import { notFound } from '../document/request-error.ts'
import type { Answer } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import { databaseOf } from './database-resource.ts'
import { isEscapedDesign, redirectToDesign } from './document-resource.ts'
import { revisionParameter } from './revision-parameter.ts'

export async function readAttachment(call: Call, context: HttpContext): Promise<Answer> {
  if (isEscapedDesign(call)) return redirectToDesign(call)
  return findAttachment(call, context, call.segment(1))
}

/** Below a design document are its functions, by names that begin with an underscore, and its attachments. */
export async function readOfDesign(call: Call, context: HttpContext): Promise<Answer> {
  const name = call.segment(3)
  if (name.startsWith('_')) throw notFound(`missing handler: ${name}`)
  return findAttachment(call, context, call.segments.slice(1, 3).join('/'))
}

/** Documents cannot be given attachments yet, so there is none to be found. */
async function findAttachment(call: Call, context: HttpContext, id: string): Promise<Answer> {
  const database = await databaseOf(call, context)
  using view = database.view()
  const revision = revisionParameter(call)
  await (revision === undefined ? openDocument(view, id) : openRevision(view, id, revision))
  throw notFound('Document is missing attachment')
}
