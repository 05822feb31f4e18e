/** The filter that a request names: one of the server's own, or a function of a design document. */
import {
  type ChangeFilter,
  DESIGN_FILTER,
  type DocumentFilter,
  documentIdFilter,
  type SelectorFilter,
} from '../../database/changes/change-filter.ts'
import type { Database } from '../../database/database.ts'
import type { DesignDocument } from '../../database/design/design-document.ts'
import { badRequest, notFound } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { Run } from '../../runtime/fair-semaphore.ts'
import { documentTest } from '../../scan/large-match.ts'
import { type FieldProjection, fieldProjection } from '../../selectors/field-projection.ts'
import { functionRequest } from '../design-functions/function-request.ts'
import { type Call, CallClient, clientSignal } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import type { ChangesParameters } from './changes-query.ts'

export interface FilterRequest {
  readonly call: Call
  readonly context: HttpContext
  readonly database: Database
  readonly parameters: ChangesParameters
  /** The text of the body, where there is one. */
  readonly body: string | undefined
}

/** Undefined if every change passes. Errors of a filter are reported before the feed begins. */
export async function requestedFilter(request: FilterRequest): Promise<ChangeFilter | undefined> {
  const { filter } = request.parameters
  if (filter === '') return undefined
  if (!filter.startsWith('_')) return designFilter(request)
  if (filter === '_design') return DESIGN_FILTER
  if (filter === '_doc_ids') return documentIdFilter(wantedIds(request))
  if (filter === '_view') return viewFilter(request)
  if (filter === '_selector') return selectorFilter(request)
  throw badRequest('unknown builtin filter name')
}

/** In the body of a POST, or in the query: a POST takes what a GET takes. */
function wantedIds({ parameters, body }: FilterRequest): string[] {
  const ids = (body ? bodyObject(body).doc_ids : undefined) ?? jsonOf(parameters.documentIds)
  if (!Array.isArray(ids)) throw badRequest('`doc_ids` filter parameter is not a list.')
  return ids.filter((id) => typeof id === 'string')
}

function jsonOf(text: string | undefined): unknown {
  if (text === undefined) return undefined
  try {
    return JSON.parse(text)
  } catch {
    throw badRequest('invalid_json')
  }
}

function bodyObject(body: string): Record<string, unknown> {
  const value = jsonOf(body)
  if (!isObject(value)) throw badRequest('Request body must be a JSON object')
  return value
}

async function designFilter(request: FilterRequest): Promise<DocumentFilter> {
  const { call, context, database, parameters, body } = request
  const names = twoParts(parameters.filter)
  if (!names) throw badRequest('filter parameter must be of the form `designname/filtername`')
  const [, name] = names
  const { program } = await designWith(request, names, 'filters')
  const asked = await functionRequest(call, context, database, { id: null, body })
  const run = runOf(request)
  return {
    by: 'document',
    passes: (documents) => context.functions.filter(program, name, documents, asked, run),
  }
}

async function viewFilter(request: FilterRequest): Promise<DocumentFilter> {
  const { context, parameters } = request
  const { view } = parameters
  if (view === undefined || view === '') throw badRequest('`view` filter parameter is not provided.')
  const names = twoParts(view)
  if (!names) throw badRequest('Invalid `view` parameter.')
  const [, name] = names
  const { program } = await designWith(request, names, 'views')
  const run = runOf(request)
  return { by: 'document', passes: (documents) => context.functions.filterByView(program, name, documents, run) }
}

function selectorFilter({ call, body }: FilterRequest): SelectorFilter {
  if (call.method !== 'POST') throw badRequest('Selector must be specified in POST payload')
  const { selector } = bodyObject(body ?? '')
  if (!isObject(selector)) throw badRequest('Selector error: expected a JSON object')
  return { by: 'text', passes: documentTest(selector, new CallClient(call)) }
}

/** The fields of documents that are shown, where the body of a filter by selector names some. */
export function shownFields({ parameters, body }: FilterRequest): FieldProjection | undefined {
  if (parameters.filter !== '_selector' || body === undefined) return undefined
  const { fields } = bodyObject(body)
  return fields === undefined ? undefined : fieldProjection(fields)
}

function runOf({ call, database }: FilterRequest): Run {
  return { owner: database.name, signal: clientSignal(call) }
}

type Names = readonly [design: string, name: string]

/** `design/name`; each part may be escaped once more. */
function twoParts(text: string): Names | undefined {
  const parts = text.split('/').map(unescaped)
  const [design, name] = parts
  return parts.length === 2 && design && name ? [design, name] : undefined
}

function unescaped(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** The current design document, whose function filters the whole feed. */
async function designWith({ database }: FilterRequest, [design, name]: Names, kind: string): Promise<DesignDocument> {
  using view = database.view()
  const document = await database.design(view, `_design/${design}`)
  const functions = own(document.members, kind)
  if (!isObject(functions)) throw notFound(`missing json key: ${kind}`)
  if (own(functions, name) === undefined) throw notFound(`missing json key: ${name}`)
  return document
}

/** The design document's own member of this name. */
function own(object: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined
}
