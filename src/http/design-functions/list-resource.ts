/**
 * `_list`: rows rendered by a list function, as a streamed reply: rows are read as fast as the client reads the result.
 */

import type { Database } from '../../database/database.ts'
import type { DesignDocument } from '../../database/design/design-document.ts'
import { badRequest, invalidJson, queryParseError, RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { FunctionResponse, ListOutput, ListRun } from '../../functions/functions.ts'
import type { FairSemaphore, Run } from '../../runtime/fair-semaphore.ts'
import type { RowQuery } from '../../views/query/row-query.ts'
import { contentPolicy } from '../negotiation/browser-policy.ts'
import { openAllDocuments, planAllDocuments } from '../rows/all-docs-resource.ts'
import { openRows } from '../rows/view-resource.ts'
import { type Answer, entityTag, type Headers, notModified, streamed } from '../server/answer.ts'
import { databaseOf } from '../server/authentication.ts'
import { type Call, clientSignal } from '../server/call.ts'
import type { HttpContext, PrimaryContext } from '../server/context.ts'
import { HttpError, statusOf } from '../server/errors.ts'
import { designId, functionBody, functionRequest, functionTag, requireFunction } from './function-request.ts'
import { responseHead } from './function-response.ts'

export async function listRows(call: Call, context: PrimaryContext): Promise<Answer> {
  const database = await databaseOf(call)
  const { name, viewDesign, view } = listPath(call)
  const { design, other } = await designsOf(database, designId(call), viewDesign)
  const body = await functionBody(call, context)
  const signal = clientSignal(call)
  const run = { owner: database.name, signal }
  const listed = { database, design: other, view, body: keysIn(call, body) }
  using held = new DisposableStack()
  const rows = await placedRows(() => openListed(call, context, listed), context.listSlots, run, held)
  const tag = functionTag(call, entityTag(...rows.version), design.revision)
  if (call.hasTag(tag)) return notModified(tag)
  requireFunction(design, 'lists', name)
  const head = JSON.stringify(await rows.head())
  const request = await functionRequest(call, context, database, { id: null, body, beside: rows.snapshot })
  const list = await context.functions.list(design.program, name, { head, request }, run)
  const kept = held.move()
  const fixed = { ETag: tag, Vary: 'Accept', ...contentPolicy(context.settings.current, 'showlist') }
  return await listAnswer({ run: list, rows: rows.rows(), fixed, signal, release: () => kept.dispose() })
}

/**
 * The rows, and a slot for the function that renders them; `held` releases both. An index is updated before a slot is
 * taken, however long it takes, and no snapshot is held while waiting for a slot.
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
    throw new HttpError(404, 'list_error', 'Bad path.')
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
  if (!isOfAll) return openRows(call, context, listed)
  const partitioning = database.isPartitioned ? 'either' : 'none'
  return openAllDocuments(database, planAllDocuments(call, context, { partitioning, body }))
}

export interface ListedRows {
  readonly run: ListRun
  /** JSON texts, a block at a time. */
  readonly rows: AsyncIterable<readonly string[]>
  /** Headers that the function cannot change. */
  readonly fixed: Headers
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal
  /** Releases the rows. */
  release(): void
}

/** Takes ownership of `run` and `rows`: they are released in every case. */
export async function listAnswer(listed: ListedRows): Promise<Answer> {
  const { run, rows, fixed } = listed
  const release = () => {
    run.abandon()
    listed.release()
  }
  try {
    const outputs = outputsOf(run, rows)
    const { text, response, error } = await beginning(outputs)
    const { status, headers } = responseHead(response, { fixed })
    if (error) return streamed(once(errorText(error)), { status: statusOf(error), headers, release })
    return streamed(texts(text, outputs, listed.signal), { status, headers, release })
  } catch (error) {
    release()
    throw error
  }
}

async function* outputsOf(run: ListRun, rows: AsyncIterable<readonly string[]>): AsyncGenerator<ListOutput> {
  if (yield* taken(run, run.begun)) return
  for await (const block of rows) {
    // If it wants no more rows, no more are read.
    if (yield* taken(run, await run.rows(block))) return
  }
  yield* taken(run, await run.end())
}

/** Sends an output, and those that follow it without another row. Returns whether the function ended. */
async function* taken(run: ListRun, first: ListOutput): AsyncGenerator<ListOutput, boolean> {
  let output = first
  yield output
  while (output.isPaused && !output.ended) {
    output = await run.rows([])
    yield output
  }
  return output.ended
}

interface Beginning {
  /** The first text, empty if there is none. */
  readonly text: string
  readonly response: FunctionResponse
  /** The error of the function before its first text. */
  readonly error?: RequestError
}

async function beginning(outputs: AsyncGenerator<ListOutput>): Promise<Beginning> {
  let response: FunctionResponse = {}
  try {
    for (let step = await outputs.next(); !step.done; step = await outputs.next()) {
      response = step.value.response ?? response
      const text = step.value.chunks.join('')
      if (text !== '') return { text, response }
    }
  } catch (error) {
    if (!(error instanceof RequestError)) throw error
    return { text: '', response, error }
  }
  return { text: '', response }
}

async function* texts(
  first: string,
  outputs: AsyncGenerator<ListOutput>,
  signal: AbortSignal,
): AsyncGenerator<string | Buffer> {
  // As bytes: a text would go out in one piece with the head, in one encoding, and that of the head is another one.
  if (first !== '') yield Buffer.from(first)
  try {
    for await (const { chunks } of outputs) {
      const text = chunks.join('')
      if (text !== '') yield text
    }
  } catch (error) {
    if (signal.aborted) return
    if (!(error instanceof RequestError)) throw error
    yield errorText(error)
  }
}

/** The status is already sent, so the error is appended to the text. */
function errorText(failure: RequestError): string {
  const { error, reasonValue: reason } = failure
  if (isObject(reason) && typeof reason.body === 'string' && Object.keys(reason).length === 1) return reason.body
  return `\n${JSON.stringify({ code: statusOf(failure), error, reason })}\n`
}

async function* once(text: string): AsyncGenerator<string> {
  yield text
}
