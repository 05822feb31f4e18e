/**
 * Rows as a request asks for them: of a view of a design document, by what the query string, the body and the design
 * document say. For all that answers with rows or makes something of them.
 */
import type { Database } from '../../database/database.ts'
import type { DesignDocument } from '../../database/design/design-document.ts'
import { badRequest, queryParseError } from '../../document/request-error.ts'
import type { Collation } from '../../encoding/collation/collation-key.ts'
import { isJsonValue, isObject } from '../../encoding/json/json-value.ts'
import { type ViewDesign, viewDesign } from '../../views/design/view-design.ts'
import { runsBackwards } from '../../views/query/key-bounds.ts'
import type { QueryPlan } from '../../views/query/query-plan.ts'
import type { RowQuery } from '../../views/query/row-query.ts'
import { type GivenParameter, isParameter, jsonParameter, textParameter } from '../../views/query/view-parameters.ts'
import { openView, planView } from '../../views/query/view-query.ts'
import { type Call, CallClient } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

export interface RequestedRows {
  readonly database: Database
  readonly design: DesignDocument
  readonly view: string
  /** The parsed body of a POST; undefined where there is none. */
  readonly body?: unknown
}

/** What is wrong with the request is told before the index is brought up to date. To be released. */
export function openRows(call: Call, context: HttpContext, requested: RequestedRows): RowQuery | Promise<RowQuery> {
  const { database, view: name, body } = requested
  const design = viewsOf(requested.design)
  const ofQuery = queryParameters(call)
  const given = body === undefined ? ofQuery : [...bodyParameters(body), ...ofQuery]
  const plan = checkedRange(call, planView(design, name, given), collationOf(design, name))
  return openView(context.views, { database, design, name, plan, client: new CallClient(call) })
}

/** In dialect 3 a range whose end lies before its start is an error; in dialect 1.6 it has no rows. */
export function checkedRange(call: Call, plan: QueryPlan, collation: Collation): QueryPlan {
  if (call.dialect === '3' && !plan.keys && runsBackwards(plan, collation)) {
    const remedy = `reverse your start_key and end_key or set descending=${!plan.descending}`
    throw queryParseError(`No rows can match your key range, ${remedy}`)
  }
  return plan
}

export function collationOf(design: ViewDesign, name: string): Collation {
  const view = design.views.get(name)
  return (view && design.maps[view.number]?.collation) ?? 'unicode'
}

/** What a design document says about views, found out once for as long as the document is kept. */
export function viewsOf(design: DesignDocument): ViewDesign {
  const known = viewDesigns.get(design)
  if (known) return known
  const parsed = viewDesign(design.id, design.members)
  viewDesigns.set(design, parsed)
  return parsed
}

const viewDesigns = new WeakMap<DesignDocument, ViewDesign>()

/** Members of a body that are named like parameters; `keys` must be right. */
export function bodyParameters(body: unknown): GivenParameter[] {
  if (!isObject(body)) throw badRequest('Request body must be a JSON object')
  if ('keys' in body && !Array.isArray(body.keys)) throw badRequest('`keys` member must be a array.')
  return Object.entries(body).flatMap(([name, value]) =>
    isParameter(name) && isJsonValue(value) ? [jsonParameter(name, value)] : [],
  )
}

export function queryParameters(call: Call): GivenParameter[] {
  if (!call.hasQuery) return []
  return call.parameterList.map(([name, text]) => textParameter(name, text))
}
