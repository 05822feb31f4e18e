/** `_design_docs`: the list of all documents, as if there were none but design documents. */
import { DESIGN_IDS } from '../../document/document-id.ts'
import { notFound } from '../../document/request-error.ts'
import { readJson } from '../bodies/request-body.ts'
import type { Answer } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { openAllDocuments, planAllDocuments, planQueryOf } from './all-docs-request.ts'
import { listedQueries, queriesAnswer, rowAnswer } from './row-answer.ts'

export async function getDesignDocuments(call: Call): Promise<Answer> {
  const database = await databaseOf(call)
  return rowAnswer(call, await openAllDocuments(database, planAllDocuments(call), DESIGN_IDS))
}

export async function postDesignDocuments(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  const plan = planAllDocuments(call, await readJson(call, context))
  return rowAnswer(call, await openAllDocuments(database, plan, DESIGN_IDS))
}

/** `_design_docs/queries` */
export async function postDesignDocumentsQueries(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  if (call.segment(2) !== 'queries') throw notFound('missing')
  const plans = listedQueries(await readJson(call, context)).map((query) => planQueryOf(call, query))
  return queriesAnswer(plans.map((plan) => () => openAllDocuments(database, plan, DESIGN_IDS)))
}
