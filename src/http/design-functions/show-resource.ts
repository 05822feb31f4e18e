/** `_show`: a document as a function of its design document renders it. */

import { contentPolicy } from '../negotiation/browser-policy.ts'
import { type Answer, notModified } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import { type Call, clientSignal } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import {
  calledDocument,
  designId,
  functionBody,
  functionDocument,
  functionName,
  functionRequest,
  functionTag,
  requireFunction,
} from './function-request.ts'
import { responseAnswer } from './function-response.ts'

export async function showDocument(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  using view = database.view()
  const design = await database.design(view, designId(call))
  const name = functionName(call, 'show_error')
  const id = functionDocument(call)
  const { text, revision } = await calledDocument(view, id)
  view.release()
  const tag = functionTag(call, design.revision, revision)
  if (call.hasTag(tag)) return notModified(tag)
  requireFunction(design, 'shows', name)
  const body = await functionBody(call, context)
  const request = await functionRequest(call, context, database, { id, body })
  const run = { owner: database.name, signal: clientSignal(call) }
  const response = await context.functions.show(design.program, name, { document: text, request }, run)
  return responseAnswer(response, {
    fixed: { ETag: tag, Vary: 'Accept', ...contentPolicy(context.settings.current, 'showlist') },
  })
}
