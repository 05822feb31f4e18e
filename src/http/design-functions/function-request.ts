/**
 * What a function of a design document is called with: the parts of its path, its document, and the request as an
 * object.
 */

import type { Database } from '../../database/database.ts'
import type { DatabaseView } from '../../database/database-view.ts'
import type { DesignDocument } from '../../database/design/design-document.ts'
import { informationMembers } from '../../database/information-members.ts'
import { stubText } from '../../database/reading/document-text.ts'
import { openDocument } from '../../database/reading/open-document.ts'
import type { RevisionId } from '../../document/ids.ts'
import { invalidJson, notFound, RequestError } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import type { Snapshot } from '../../storage/store.ts'
import { readBytes } from '../bodies/request-body.ts'
import { entityTag } from '../server/answer.ts'
import { authenticationOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { HttpError } from '../server/errors.ts'

export interface RequestedFunction {
  /** The document id in the path, whether that document exists or not; null if there is none. */
  readonly id: string | null
  /** What `functionBody` gave. */
  readonly body: string | undefined
  /** What else the caller reads meanwhile: the database is read beside it. */
  readonly beside?: Snapshot | undefined
}

/** The JSON text of the request object. */
export async function functionRequest(
  call: Call,
  context: HttpContext,
  database: Database,
  { id, body, beside }: RequestedFunction,
): Promise<string> {
  const query = queryOf(call)
  using view = database.view(beside)
  const [info, security] = await Promise.all([informationMembers(database, view), view.security()])
  const members = {
    info,
    id,
    uuid: context.uuids.next(),
    method: call.method === 'HEAD' ? 'GET' : call.method,
    requested_path: requestedPath(call),
    path: call.segments,
    raw_path: call.url,
    query,
    headers: headersOf(call),
    body: body ?? 'undefined',
    peer: call.peer,
    form: formOf(call, body),
    cookie: cookiesOf(call),
    userCtx: functionUser(call, database),
  }
  return `${JSON.stringify(members).slice(0, -1)},"secObj":${security?.toString() ?? '{}'}}`
}

/** The user context, as functions see it. */
function functionUser(call: Call, { name: db }: Database): { db: string; name: string | null; roles: string[] } {
  const { name, roles } = authenticationOf(call).user
  return { db, name, roles: [...roles] }
}

/** The body as text, or undefined if there is none. Invalid UTF-8 is replaced. */
export async function functionBody(call: Call, { configuration }: HttpContext): Promise<string | undefined> {
  if (!call.request.hasBody) return undefined
  return (await readBytes(call, configuration.integer('service', 'max_document_size'))).toString()
}

/** Parameters that are passed as parsed JSON; all others are strings. */
const JSON_PARAMETERS = new Set(['key', 'startkey', 'endkey'])

function queryOf(call: Call): Record<string, unknown> {
  const entries = [...call.parameters].map(([name, text]) => [name, JSON_PARAMETERS.has(name) ? decoded(text) : text])
  return Object.fromEntries(entries)
}

function decoded(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalidJson()
  }
}

/** As it was sent, the query on its last part. */
function requestedPath({ requestedUrl }: Call): string[] {
  return requestedUrl
    .replace(/^https?:\/\/[^/?]*/i, '')
    .split('/')
    .filter((part) => part !== '')
    .map(unescaped)
}

function unescaped(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** Set by the server itself; clients cannot send them. */
const OWN_HEADERS = new Set(['x-service-vhost-path', 'x-service-requested-path'])

function headersOf({ request }: Call): Record<string, string> {
  const named = Object.entries(request.headers).map(([lower, value = '']) => {
    const name = OWN_HEADERS.has(lower) ? lower : lower.replace(/(^|-)[a-z]/g, (begin) => begin.toUpperCase())
    return [name, value]
  })
  return Object.fromEntries(named)
}

function formOf(call: Call, body: string | undefined): Record<string, string> {
  const isForm = call.header('content-type')?.toLowerCase().startsWith('application/x-www-form-urlencoded')
  return isForm && body !== undefined ? Object.fromEntries(new URLSearchParams(body)) : {}
}

function cookiesOf(call: Call): Record<string, string> {
  const cookies = new Map<string, string>()
  for (const pair of (call.header('cookie') ?? '').split(';')) {
    const equals = pair.indexOf('=')
    if (equals > 0) cookies.set(pair.slice(0, equals).trim(), unquoted(pair.slice(equals + 1).trim()))
  }
  return Object.fromEntries(cookies)
}

function unquoted(value: string): string {
  return value.length > 1 && value.startsWith('"') && value.endsWith('"') ? value.slice(1, -1) : value
}

/** The kinds of functions that are called by their names. */
export type FunctionKind = 'shows' | 'lists' | 'updates'

export function designId(call: Call): string {
  return `_design/${call.segment(2)}`
}

/** The name of the function; throws the given error if the path has none. */
export function functionName(call: Call, error: 'show_error' | 'update_error'): string {
  const name = call.segments[4]
  if (name === undefined) throw new HttpError(404, error, 'Invalid path.')
  return name
}

/** The document for the function: an id with slashes is as many segments. Null where the path names none. */
export function functionDocument(call: Call): string | null {
  const rest = call.segments.slice(5)
  return rest.length === 0 ? null : rest.join('/')
}

/**
 * Throws if the design document has no such function. A value that is not a string may hold modules, and cannot be
 * called.
 */
export function requireFunction({ id, members }: DesignDocument, kind: FunctionKind, name: string): void {
  const functions = members[kind]
  if (isObject(functions) && Object.hasOwn(functions, name) && typeof functions[name] === 'string') return
  throw notFound(`missing ${kind} function ${name} on design doc ${id}`)
}

export interface CalledDocument {
  /** Null if the document is missing or deleted. */
  readonly text: string | null
  readonly revision: RevisionId | null
}

export async function calledDocument(view: DatabaseView, id: string | null): Promise<CalledDocument> {
  if (id === null) return NONE
  try {
    const document = await openDocument(view, id, { revisions: true, conflicts: true })
    return { text: stubText(document).toString(), revision: document.revision }
  } catch (error) {
    if (error instanceof RequestError && error.kind === 'not found') return NONE
    throw error
  }
}

const NONE: CalledDocument = { text: null, revision: null }

/** The ETag of a reply that a function makes of these for this client. */
export function functionTag(call: Call, ...made: readonly unknown[]): string {
  const { name, roles } = authenticationOf(call).user
  return entityTag(made, call.header('accept') ?? null, name, roles)
}
