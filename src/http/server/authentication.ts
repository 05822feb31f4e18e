/**
 * Authentication of calls: which databases the user may use, the session cookie of the reply, and the challenge of a
 * 401. The only file that knows both HTTP and authentication.
 */

import type { Auth } from '../../auth/auth.ts'
import type { AuthRequest } from '../../auth/identity/auth-request.ts'
import type { Authentication } from '../../auth/identity/handlers.ts'
import { authorize } from '../../auth/rights/rights.ts'
import type { Database } from '../../database/database.ts'
import type { Overview } from '../../database/user-context.ts'
import type { RequestError } from '../../document/request-error.ts'
import { isHeaderValue } from '../../wire/request.ts'
import { acceptsType } from '../negotiation/acceptance.ts'
import { type Answer, errorAnswer, type Headers } from './answer.ts'
import { AuthenticatedCall, type Call } from './call.ts'
import type { Who } from './route.ts'

/** Authenticates a call; throws or rejects if its credentials are not valid. */
export function authenticate(call: Call, auth: Auth): AuthenticatedCall | Promise<AuthenticatedCall> {
  const request = new SentRequest(call)
  const sentBy = (authentication: Authentication) => {
    call.authenticated = new AuthenticatedCall(auth, request, authentication)
    return call.authenticated
  }
  const authentication = auth.handlers.authenticate(request)
  return authentication instanceof Promise ? authentication.then(sentBy) : sentBy(authentication)
}

/** The request of the same user for another path on this server. */
export function rewrittenCall(call: Call, url: string): Call {
  const rewritten = call.rewritten(url)
  rewritten.authenticated = authenticationOf(call)
  return rewritten
}

/** For handlers: the authenticated sender of the call. */
export function authenticationOf(call: Call): AuthenticatedCall {
  const { authenticated } = call
  if (!authenticated) throw new Error('A handler was called before authentication.')
  return authenticated
}

/** For handlers: the database in the path, with the rights of the sender. */
export function databaseOf(call: Call): Database | Promise<Database> {
  return authenticationOf(call).openDatabase(call.segment(0))
}

/** Throws if the sender lacks this right on the server. */
export function authorizeOnServer({ user }: AuthenticatedCall, who: Who): void {
  authorize(who === 'writer' ? 'member' : who, user)
}

/** Throws or rejects if the sender lacks this right on the database in the path. */
export function authorizeOnDatabase(call: Call, sender: AuthenticatedCall, who: Who): Promise<void> | undefined {
  const opened = sender.openDatabase(call.segment(0))
  if (opened instanceof Promise || who === 'database admin') return authorizeLater(call, sender, who)
  checkOverview(call, opened)
  return undefined
}

async function authorizeLater(call: Call, sender: AuthenticatedCall, who: Who): Promise<void> {
  const name = call.segment(0)
  const database = await sender.openDatabase(name)
  if (who === 'database admin') await sender.auth.access.open(name, sender.user, who)
  checkOverview(call, database)
}

function checkOverview(call: Call, { reading, largestRequest }: Database): void {
  if (largestRequest !== undefined) call.largestBody = largestRequest
  const overview = reading && overviewOf(call.segments)
  if (overview) reading.check(overview)
}

/** The reply with the session cookie, errors included. */
export function withSession(authenticated: AuthenticatedCall, answer: Answer): Answer {
  if (!authenticated.session?.isRenewalDue) return answer
  const headers = sessionHeaders(authenticated, answer)
  return 'Set-Cookie' in headers ? { ...answer, headers: { ...answer.headers, ...headers } } : answer
}

/** A session in use is renewed, unless the reply sets another cookie. */
function sessionHeaders(authenticated: AuthenticatedCall, answer: Answer): Headers {
  const { auth, session, request } = authenticated
  if (!session?.isRenewalDue || 'Set-Cookie' in answer.headers) return {}
  const cookie = auth.renewedCookie(session.record, request)
  return cookie === undefined ? {} : { 'Set-Cookie': cookie }
}

/** The reply to an error; a 401 has a challenge or a redirect. */
export function refusal(call: Call, auth: Auth, error: RequestError): Answer {
  const answer = errorAnswer(error)
  if (answer.status !== 401) return answer
  const { status, headers } = unauthorizedHeaders(call, auth, error)
  return { ...answer, status, headers: { ...answer.headers, ...headers } }
}

/** How a 401 is sent: as it is, with a challenge, or as a redirect to a login page. */
function unauthorizedHeaders(
  call: Call,
  { settings }: Auth,
  error: RequestError,
): { readonly status: number; readonly headers: Headers } {
  const asked = call.header('x-service-www-authenticate') ?? call.header('x-couchdb-www-authenticate')
  const challenge = asked && asked.length <= LONGEST_CHALLENGE && isHeaderValue(asked) ? asked : settings.challenge
  if (challenge !== undefined) return { status: 401, headers: { 'WWW-Authenticate': challenge } }
  const { redirect, frequent } = settings
  if (redirect === undefined || error.error !== 'unauthorized') return PLAIN
  if (frequent.current.requiresUser) return { status: 401, headers: { 'WWW-Authenticate': 'Basic realm="server"' } }
  const accept = call.header('accept')
  if (acceptsType(accept, 'application', 'json') || !acceptsType(accept, 'text', 'html')) return PLAIN
  return { status: 302, headers: { Location: loginPage(call, redirect, error.reason) } }
}

const PLAIN = { status: 401, headers: {} }
const LONGEST_CHALLENGE = 1000

/** A call as authentication sees it. Made for every request; most use little of it. */
class SentRequest implements AuthRequest {
  readonly #call: Call

  constructor(call: Call) {
    this.#call = call
  }

  get method(): string {
    return this.#call.request.method
  }

  get url(): string {
    return this.#call.requestedUrl
  }

  get headers(): AuthRequest['headers'] {
    return this.#call.request.headers
  }

  get isSecure(): boolean {
    return this.#call.isEncrypted
  }

  get localAddress(): string {
    return this.#call.host
  }

  get connection(): object {
    return this.#call.request.addresses
  }
}

/** Paths below a database that are not documents but open to readers of single documents. */
const NO_OVERVIEW = new Set([
  '_bulk_docs',
  '_bulk_get',
  '_ensure_full_commit',
  '_local',
  '_missing_revs',
  '_revs_diff',
  '_revs_limit',
  '_security',
])

/** How a path shows many documents at once. An unknown one is treated like a design function. */
function overviewOf([, name, , action]: readonly string[]): Overview | undefined {
  if (!name?.startsWith('_') || NO_OVERVIEW.has(name)) return undefined
  if (name === '_all_docs') return 'list'
  if (name === '_changes') return 'changes'
  return name !== '_design' || action?.startsWith('_') ? 'design action' : undefined
}

function loginPage(call: Call, redirect: string, reason: string): string {
  const page = /^https?:\/\//i.test(redirect) ? redirect : `${call.origin}/${redirect.replace(/^\/+/, '')}`
  const [path = ''] = call.requestedUrl.split('?', 1)
  const query = `return=${encodeURIComponent(path)}&reason=${encodeURIComponent(reason)}`
  return `${page}${page.includes('?') ? '&' : '?'}${query}`
}
