/**
 * Rows as a request asks for them: of a view of a design document, by what the query string, the body and the design
 * document say. For all that answers with rows or makes something of them.
 */
import type { Database } from '../../database/database.ts'
import type { DesignDocument } from '../../database/design/design-document.ts'
import { badRequest } from '../../document/request-error.ts'
import { isJsonValue, isObject } from '../../encoding/json/json-value.ts'
import { type ViewDesign, viewDesign } from '../../views/design/view-design.ts'
import type { RowQuery } from '../../views/query/row-query.ts'
import { type GivenParameter, isParameter, jsonParameter, textParameter } from '../../views/query/view-parameters.ts'
import { openView, planView } from '../../views/query/view-query.ts'
import type { Call } from '../server/call.ts'
import { CallClient } from '../server/client-signal.ts'
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
  const plan = planView(design, name, given)
  return openView(context.views, { database, design, name, plan, client: new CallClient(call) })
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
