/** `_list`: the rows of a view, or of all documents, as a function of a design document renders them. */
import type { Database } from '../../database/database.ts'
import type { DesignDocument } from '../../database/design/design-document.ts'
import { badRequest, invalidJson, queryParseError, RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { FairSemaphore } from '../../runtime/queues/fair-semaphore.ts'
import type { Run } from '../../runtime/queues/run.ts'
import type { RowQuery } from '../../views/query/row-query.ts'
import { contentPolicy } from '../negotiation/browser-policy.ts'
import { openAllDocuments, planAllDocuments } from '../rows/all-docs-request.ts'
import { openRows } from '../rows/row-request.ts'
import { type Answer, notModified } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import { type Call, clientSignal } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { functionTag } from './function-document.ts'
import { designId, requireFunction } from './function-path.ts'
import { functionBody, functionRequest } from './function-request.ts'
import { listAnswer } from './list-answer.ts'

export async function listRows(call: Call, context: HttpContext): Promise<Answer> {
  const database = await databaseOf(call)
  const { name, viewDesign, view } = listPath(call)
  const { design, other } = await designsOf(database, designId(call), viewDesign)
  const body = await functionBody(call, context)
  const signal = clientSignal(call)
  const run = { owner: database.name, signal }
  const listed = { database, design: other, view, body: keysIn(call, body) }
  using held = new DisposableStack()
  const rows = await placedRows(() => openListed(call, context, listed), context.listSlots, run, held)
  const tag = functionTag(call, rows.tag, design.revision)
  if (call.hasTag(tag)) return notModified(tag)
  requireFunction(design, 'lists', name)
  const head = JSON.stringify(await rows.head())
  const request = await functionRequest(call, context, database, { id: null, body })
  const list = await context.functions.list(design.program, name, { head, request }, run)
  const kept = held.move()
  const fixed = { ETag: tag, Vary: 'Accept', ...contentPolicy(context.configuration, 'showlist') }
  return await listAnswer({ run: list, rows: rows.rows(), fixed, signal, release: () => kept.dispose() })
}

/**
 * The rows, and a place for the function that is to render them; `held` lets go of both. An index is brought up to date
 * before a place is taken, however long it takes, and no rows are held while a place is waited for.
 */
async function placedRows(
  open: () => Promise<RowQuery>,
  semaphore: FairSemaphore,
  run: Run,
  held: DisposableStack,
): Promise<RowQuery> {
  const rows = await open()
  if (semaphore.tryAcquire(run.owner)) {
    held.defer(() => semaphore.release(run.owner))
    return held.use(rows)
  }
  rows.release()
  await semaphore.acquire(run)
  held.defer(() => semaphore.release(run.owner))
  return held.use(await open())
}

interface ListPath {
  readonly name: string
  /** The design document of the view. */
  readonly viewDesign: string
  readonly view: string
}

/** `…/_list/{function}/{view}`, or `…/_list/{function}/{design}/{view}` for the view of another one. */
function listPath(call: Call): ListPath {
  const [name, second, third, ...more] = call.segments.slice(4)
  if (name === undefined || second === undefined || more.length > 0) {
    throw new RequestError(404, 'list_error', 'Bad path.')
  }
  if (third === undefined) return { name, viewDesign: designId(call), view: second }
  return { name, viewDesign: `_design/${second}`, view: third }
}

async function designsOf(database: Database, id: string, viewDesign: string) {
  using view = database.view()
  const design = await database.design(view, id)
  return { design, other: viewDesign === id ? design : await database.design(view, viewDesign) }
}

/** The body of a POST, which may bring keys; anywhere else it is for the function alone. */
function keysIn(call: Call, text: string | undefined): Record<string, unknown> | undefined {
  if (call.method !== 'POST') return undefined
  const body = parsed(text ?? '')
  if (!isObject(body)) throw badRequest('Request body must be a JSON object')
  if ('keys' in body && !Array.isArray(body.keys)) throw queryParseError('`keys` must be an array of strings.')
  return body
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalidJson()
  }
}

interface ListedView {
  readonly database: Database
  readonly design: DesignDocument
  readonly view: string
  readonly body: Record<string, unknown> | undefined
}

/** To be released. */
async function openListed(call: Call, context: HttpContext, listed: ListedView): Promise<RowQuery> {
  const { database, view, body } = listed
  const isOfAll = view === '_all_docs' && call.segments.length === 6
  return isOfAll ? openAllDocuments(database, planAllDocuments(call, body)) : openRows(call, context, listed)
}
