/**
 * `_view`: the rows of a view, or of several queries of it at once, with the parameters of the query string, the body
 * and the design document; and `_temp_view`, whose functions are in the request.
 */
import type { Database } from '../../database/database.ts'
import type { DesignDocument } from '../../database/design/design-document.ts'
import { badRequest, queryParseError } from '../../document/request-error.ts'
import type { Collation } from '../../encoding/collation/collation-key.ts'
import { isJsonValue, isObject } from '../../encoding/json/json-value.ts'
import { type ViewDesign, viewDesign } from '../../views/design/view-design.ts'
import { type QueryPlan, runsBackwards } from '../../views/query/query-plan.ts'
import type { RowQuery } from '../../views/query/row-query.ts'
import { type GivenParameter, isParameter, jsonParameter, textParameter } from '../../views/query/view-parameters.ts'
import { missingView, openView, planView } from '../../views/query/view-query.ts'
import { readJson, readJsonObject, requireJsonType } from '../bodies/request-body.ts'
import { designId } from '../design-functions/function-request.ts'
import { type Answer, entityTag, notModified, streamed } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import { type Call, CallClient } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { MethodNotAllowedError } from '../server/errors.ts'

export interface RequestedRows {
  readonly database: Database
  readonly design: DesignDocument
  readonly view: string
  /** The parsed body of a POST; undefined where there is none. */
  readonly body?: unknown
}

/** Errors of the request are reported before the index is updated. To be released. */
export function openRows(call: Call, context: HttpContext, requested: RequestedRows): RowQuery | Promise<RowQuery> {
  const { database, view: name, body } = requested
  const design = viewsOf(database, requested.design)
  const ofQuery = queryParameters(call)
  const given = body === undefined ? ofQuery : [...bodyParameters(body), ...ofQuery]
  const planned = limitedInPartition(planView(database, design, name, given), context)
  const plan = checkedRange(call, planned, collationOf(design, name))
  return openView(context.views, { database, design, name, plan, client: new CallClient(call) })
}

/** The operator may limit the rows of a partition query. */
export function limitedInPartition(plan: QueryPlan, { configuration }: HttpContext): QueryPlan {
  if (plan.partition === undefined) return plan
  const most = configuration.integer('query_server_config', 'partition_query_limit')
  if (plan.limit === Number.POSITIVE_INFINITY) return { ...plan, limit: most }
  if (plan.limit > most) throw queryParseError(`Limit is too large, must not exceed ${most}`)
  return plan
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

/** The views of a design document, parsed once for as long as the document is cached. */
export function viewsOf(database: Database, design: DesignDocument): ViewDesign {
  const known = viewDesigns.get(design)
  if (known) return known
  const parsed = viewDesign(design.id, design.members, database)
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

/** Takes ownership of the query: it is released in every case. */
export async function rowAnswer(call: Call, query: RowQuery): Promise<Answer> {
  const tag = entityTag(...query.version)
  try {
    if (call.hasTag(tag)) {
      query.release()
      return notModified(tag)
    }
    const headers = { ETag: tag }
    const whole = call.method === 'HEAD' ? undefined : await query.whole()
    if (whole) {
      query.release()
      return { kind: 'whole', status: 200, headers, body: whole, isChunked: true }
    }
    const begun = call.method === 'HEAD' ? query.chunks() : await begin(query.chunks())
    if (Symbol.asyncIterator in begun) return streamed(begun, { headers, release: () => query.release() })
    query.release()
    return { kind: 'whole', status: 200, headers, body: begun.whole, isChunked: true }
  } catch (error) {
    query.release()
    throw error
  }
}

/** The `queries` of a body. */
export function listedQueries(body: unknown): readonly unknown[] {
  if (!isObject(body)) throw badRequest('Request body must be a JSON object')
  if (body.queries === undefined) throw badRequest('POST body must include `queries` parameter.')
  if (!Array.isArray(body.queries)) throw badRequest('`queries` member must be an array.')
  return body.queries
}

type Opening = () => RowQuery | Promise<RowQuery>

/** Queries are opened one after the other, when the one before is sent. */
export async function queriesAnswer(opening: readonly Opening[]): Promise<Answer> {
  const chunks = resultChunks(opening)
  const begun = await begin(chunks)
  if (Symbol.asyncIterator in begun) return streamed(begun, { release: () => void chunks.return(undefined) })
  return { kind: 'whole', status: 200, headers: {}, body: begun.whole, isChunked: true }
}

async function* resultChunks(opening: readonly Opening[]): AsyncGenerator<string | Buffer> {
  let separator = '{"results":['
  for (const open of opening) {
    using query = await open()
    yield separator
    separator = ','
    yield* query.chunks()
  }
  yield opening.length === 0 ? '{"results":[]}\n' : ']}\n'
}

/**
 * The same pieces, the first two of them made in advance: an error in them can still be answered, and a reply of one
 * piece is sent whole.
 */
async function begin(chunks: Chunks): Promise<Chunks | { readonly whole: string | Buffer }> {
  const first = await chunks.next()
  const second = await chunks.next()
  if (first.done) return { whole: '' }
  return second.done ? { whole: first.value } : resumed([first.value, second.value], chunks)
}

async function* resumed(made: readonly (string | Buffer)[], rest: Chunks): Chunks {
  try {
    yield* made
    yield* rest
  } finally {
    await rest.return(undefined)
  }
}

type Chunks = AsyncGenerator<string | Buffer>

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
  const members = { language, options, views: { [TEMPORARY]: { map, reduce } } }
  // Its rows are those of all partitions.
  const design = viewDesign('_temp_view', members, { isPartitioned: false })
  // Here `reduce` is a function, and no parameter.
  const given = bodyParameters(body).filter(({ name }) => name !== 'reduce')
  const parameters = [...given, ...queryParameters(call)]
  const plan = checkedRange(call, planView(database, design, TEMPORARY, parameters), collationOf(design, TEMPORARY))
  const planned = { database, design, name: TEMPORARY, plan, client: new CallClient(call) }
  return rowAnswer(call, await openView(context.views, planned))
}

const TEMPORARY = 'temporary'

/** All queries are checked before the first is answered, so that an error in one can still be reported. */
async function postQueries(
  call: Call,
  context: HttpContext,
  { database, design: document, body }: { database: Database; design: DesignDocument; body: unknown },
): Promise<Answer> {
  const design = viewsOf(database, document)
  const name = viewName(call)
  const common = queryParameters(call)
  const collation = collationOf(design, name)
  const plans = listedQueries(body).map((query) => {
    const plan = planView(database, design, name, [...common, ...bodyParameters(query)])
    return checkedRange(call, limitedInPartition(plan, context), collation)
  })
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
