/** `_view`: the rows of a view, or of several queries of it at once; `_temp_view`, whose functions come with the request. */

import type { Database } from '../../database/database.ts'
import type { DesignDocument } from '../../database/design/design-document.ts'
import { viewDesign } from '../../views/design/view-design.ts'
import { missingView, openView, planView } from '../../views/query/view-query.ts'
import { readJson, readJsonObject, requireJsonType } from '../bodies/request-body.ts'
import { designId } from '../design-functions/function-request.ts'
import type { Answer } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import { type Call, CallClient } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { MethodNotAllowedError } from '../server/errors.ts'
import {
  bodyParameters,
  checkedRange,
  collationOf,
  listedQueries,
  openRows,
  queriesAnswer,
  queryParameters,
  rowAnswer,
  viewsOf,
} from './rows.ts'

export async function getView(call: Call, context: HttpContext): Promise<Answer> {
  const { database, design } = await designOf(call)
  if (isOfQueries(call)) throw new MethodNotAllowedError('POST')
  return rowAnswer(call, await openRows(call, context, { database, design, view: viewName(call) }))
}

export async function postView(call: Call, context: HttpContext): Promise<Answer> {
  const { database, design } = await designOf(call)
  const body = await readJson(call, context)
  if (isOfQueries(call)) return postQueries(call, context, { database, design, body })
  return rowAnswer(call, await openRows(call, context, { database, design, view: viewName(call), body }))
}

export async function postTemporaryView(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  requireJsonType(call)
  const body = await readJsonObject(call, context)
  const { map, reduce, language, options } = body
  const design = viewDesign('_temp_view', { language, options, views: { [TEMPORARY]: { map, reduce } } })
  // Here `reduce` is a function, and no parameter.
  const given = bodyParameters(body).filter(({ name }) => name !== 'reduce')
  const parameters = [...given, ...queryParameters(call)]
  const plan = checkedRange(call, planView(design, TEMPORARY, parameters), collationOf(design, TEMPORARY))
  const planned = { database, design, name: TEMPORARY, plan, client: new CallClient(call) }
  return rowAnswer(call, await openView(context.views, planned))
}

const TEMPORARY = 'temporary'

/** All queries are looked at before the first is answered, so that what is wrong with one can still be told. */
async function postQueries(
  call: Call,
  context: HttpContext,
  { database, design: document, body }: { database: Database; design: DesignDocument; body: unknown },
): Promise<Answer> {
  const design = viewsOf(document)
  const name = viewName(call)
  const common = queryParameters(call)
  const collation = collationOf(design, name)
  const plans = listedQueries(body).map((query) =>
    checkedRange(call, planView(design, name, [...common, ...bodyParameters(query)]), collation),
  )
  const client = new CallClient(call)
  return queriesAnswer(plans.map((plan) => () => openView(context.views, { database, design, name, plan, client })))
}

async function designOf(call: Call) {
  const database = await databaseOf(call)
  return { database, design: await database.currentDesign(designId(call)) }
}

/** `…/_view/{view}` */
function viewName(call: Call): string {
  const { segments } = call
  const isView = segments.length === 5 || (segments.length === 6 && segments[5] === QUERIES)
  if (!isView || segments[4] === undefined) throw missingView()
  return segments[4]
}

const QUERIES = 'queries'

function isOfQueries({ segments }: Call): boolean {
  return segments.length === 6 && segments[5] === QUERIES
}
