/** `/_session`: logging in, asking who is logged in, and logging out. */
import type { Auth } from '../../auth/auth.ts'
import type { Credentials } from '../../auth/passwords/logins.ts'
import { hasSessionCookie } from '../../auth/passwords/session-cookie.ts'
import { isServerAdmin, unauthorized } from '../../auth/rights/rights.ts'
import { badRequest } from '../../document/request-error.ts'
import { isObject } from '../../encoding/json/json-value.ts'
import { readBytes } from '../bodies/request-body.ts'
import { type Answer, json } from '../server/answer.ts'
import { authenticationOf } from '../server/authentication.ts'
import type { AuthenticatedCall, Call } from '../server/call.ts'

/** A name and a password need no more. */
const BODY_LIMIT_BYTES = 64 * 1024

/** `POST`: name and password for a cookie. */
export async function login(call: Call): Promise<Answer> {
  const { auth, request } = authenticationOf(call)
  const next = pageParameter(call, 'next')
  const fail = pageParameter(call, 'fail')
  const credentials = await sentCredentials(call)
  const entered = credentials && (await auth.login(credentials, request))
  if (!entered) {
    // Answered here and not thrown: a client that tries to log in needs no challenge to do so.
    const body = { error: 'unauthorized', reason: 'Name or password is incorrect.' }
    return redirected(body, 401, fail, auth.clearedCookie(request))
  }
  const { name, roles } = entered.user
  return redirected({ ok: true, name, roles }, 200, next, entered.cookie)
}

/** `GET`: who the sender is, and how that is known. */
export function sessionInformation(call: Call): Answer {
  const authenticated = authenticationOf(call)
  const { auth, user, handler } = authenticated
  if (user.name === null && call.querySwitch('basic')) throw unauthorized('Please login.')
  const cookie = freshCookie(authenticated)
  return json(
    {
      ok: true,
      userCtx: { name: user.name, roles: user.roles },
      info: {
        authentication_db: auth.settings.usersDatabase,
        authentication_handlers: auth.handlers.names,
        ...(handler && { authenticated: handler }),
      },
    },
    { headers: cookie === undefined ? {} : { 'Set-Cookie': cookie } },
  )
}

/** `DELETE`: removes the cookie, also an expired one. */
export function logout(call: Call): Answer {
  const { auth, user, request } = authenticationOf(call)
  const next = pageParameter(call, 'next')
  const mustBeKnown = call.dialect === '1.6' && !hasSessionCookie(call.header('cookie'))
  if (mustBeKnown && isAnonymous(auth, user)) throw unauthorized('Please login.')
  return redirected({ ok: true }, 200, next, auth.clearedCookie(request))
}

function isAnonymous(auth: Auth, user: AuthenticatedCall['user']): boolean {
  return user.name === null && !isServerAdmin(user) && !auth.settings.frequent.current.isOpen
}

/** Asking for the session always renews it. */
function freshCookie({ auth, session, request }: AuthenticatedCall): string | undefined {
  return session && auth.renewedCookie(session.record, request)
}

/** The page must be on this server: a link to us must not redirect anybody elsewhere. */
function pageParameter(call: Call, name: 'next' | 'fail'): string | undefined {
  const page = call.query(name)
  if (page === undefined) return undefined
  if (!/^\/(?![/\\])/.test(page) || hasControlCharacter(page)) {
    throw badRequest(`${name} must be a path that begins with one slash.`)
  }
  // What is not ASCII was decoded with the query, and must be encoded again for a header.
  return call.origin + page.toWellFormed().replace(/[^\x21-\x7e]/gu, encodeURIComponent)
}

function hasControlCharacter(text: string): boolean {
  return [...text].some((character) => character < ' ' || character === '\x7f')
}

function redirected(body: unknown, status: number, page: string | undefined, cookie: string): Answer {
  const headers = { 'Set-Cookie': cookie }
  if (page === undefined) return json(body, { status, headers })
  return json(body, { status: 302, headers: { ...headers, Location: page } })
}

/** Undefined when the body is of another type than those that can hold credentials. */
async function sentCredentials(call: Call): Promise<Credentials | undefined> {
  const type = call.header('content-type')?.trim().toLowerCase() ?? ''
  const isJson = type.startsWith('application/json')
  if (!isJson && !type.startsWith('application/x-www-form-urlencoded')) return undefined
  const text = (await readBytes(call, BODY_LIMIT_BYTES)).toString()
  return isJson ? jsonCredentials(text) : formCredentials(text)
}

function formCredentials(text: string): Credentials {
  const form = new URLSearchParams(text)
  return { name: form.get('name') ?? form.get('username') ?? '', password: form.get('password') ?? '' }
}

function jsonCredentials(text: string): Credentials {
  const body = parsed(text)
  if (!isObject(body)) throw badRequest('Request body must be a JSON object')
  const { username = '', name = username, password = '' } = body
  if (typeof name !== 'string' || typeof password !== 'string') throw badRequest('name and password must be strings')
  return { name, password }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw badRequest('invalid_json')
  }
}
