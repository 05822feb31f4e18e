/** `_all_docs`: the list of documents, sent while it is read, and several such lists at once. */
import { notFound } from '../../document/request-error.ts'
import { readJson } from '../bodies/request-body.ts'
import type { Answer } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { openAllDocuments, planAllDocuments, planQueryOf } from './all-docs-request.ts'
import { listedQueries, queriesAnswer, rowAnswer } from './row-answer.ts'

export async function getAllDocuments(call: Call): Promise<Answer> {
  const database = await databaseOf(call)
  return rowAnswer(call, await openAllDocuments(database, planAllDocuments(call)))
}

export async function postAllDocuments(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  const body = await readJson(call, context)
  return rowAnswer(call, await openAllDocuments(database, planAllDocuments(call, body)))
}

/** `_all_docs/queries` */
export async function postAllDocumentsQueries(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  if (call.segment(2) !== 'queries') throw notFound('missing')
  const plans = listedQueries(await readJson(call, context)).map((query) => planQueryOf(call, query))
  return queriesAnswer(plans.map((plan) => () => openAllDocuments(database, plan)))
}
