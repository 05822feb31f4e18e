/**
 * The request as user functions see it: the object that shows, lists, updates, filters and external handlers are given.
 * Made as JSON text, since functions run elsewhere.
 */
import type { Database } from '../../database/database.ts'
import { invalidJson } from '../../document/request-error.ts'
import { readBytes } from '../bodies/request-body.ts'
import { informationOf } from '../databases/database-resource.ts'
import { authenticationOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'

export interface RequestedFunction {
  /** The document that the path names, whether there is such a one or not; null where it names none. */
  readonly id: string | null
  /** What `functionBody` gave. */
  readonly body: string | undefined
}

/** The JSON text of the request object. */
export async function functionRequest(
  call: Call,
  context: HttpContext,
  database: Database,
  { id, body }: RequestedFunction,
): Promise<string> {
  const query = queryOf(call)
  using view = database.view()
  const [info, security] = await Promise.all([informationOf(database), view.security()])
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

/** Who asks, as functions are told. */
export function functionUser(call: Call, { name: db }: Database): { db: string; name: string | null; roles: string[] } {
  const { name, roles } = authenticationOf(call).user
  return { db, name, roles: [...roles] }
}

/** The body as text, or undefined where there is none. What is no UTF-8 is replaced. */
export async function functionBody(call: Call, { configuration }: HttpContext): Promise<string | undefined> {
  if (!call.request.hasBody) return undefined
  return (await readBytes(call, configuration.integer('service', 'max_document_size'))).toString()
}

/** The parameters that are told as the values they stand for; all others are texts. */
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

/** Set by the server itself, so nobody can have sent them: told by the names they have. */
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
