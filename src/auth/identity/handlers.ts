/**
 * The authentication handlers. They are tried in the order of the configuration until one recognizes the user; a
 * handler may also refuse the request.
 */

import { createHmac } from 'node:crypto'
import { listedHandlers } from '../../config/term-text.ts'
import { ANONYMOUS, NAMELESS_ADMIN, type UserContext } from '../../database/user-context.ts'
import { randomUuid } from '../../runtime/uuids.ts'
import type { AuthSettings } from '../auth-settings.ts'
import type { Credentials } from '../passwords/logins.ts'
import { equalTexts } from '../passwords/passwords.ts'
import { ageOf, hasSessionCookie, provenTime, type SessionToken, tokenOf } from '../passwords/session-cookie.ts'
import { unauthorized } from '../rights/rights.ts'
import { contextOf, type UserRecord } from '../users/user-documents.ts'
import { type AuthRequest, eitherHeaderOf, targetOf, utf8HeaderOf } from './auth-request.ts'
import type { HandlerTools } from './handler-tools.ts'
import { bearerToken, tokenUser } from './jwt.ts'
import { type SignedRequest, signedRequest } from './oauth.ts'
import { isSignedWith, secretsOf } from './oauth-signature.ts'
import type { KnownState } from './recognized.ts'

/** The user of a request, and the handler that authenticated it. */
export interface Authentication {
  readonly user: UserContext
  /** The name of the handler; undefined if the user is anonymous. */
  readonly handler: HandlerName | undefined
  /** The session that proved it, where one did. */
  readonly session?: Session | undefined
}

export interface Session {
  readonly record: UserRecord
  /** Whether the reply should renew the cookie. */
  readonly isRenewalDue: boolean
}

export type HandlerName = 'oauth' | 'cookie' | 'proxy' | 'default' | 'jwt' | 'null' | 'special'

/** Undefined: the next handler is tried. */
type Handler = (request: AuthRequest, tools: HandlerTools) => Known | undefined | Promise<Known | undefined>
type Known = Pick<Authentication, 'user' | 'session'>

const HANDLERS: Readonly<Record<HandlerName, Handler>> = {
  oauth,
  cookie,
  proxy: (request, { settings }) => known(proxyUser(request, settings)),
  default: passwordOrOpen,
  jwt: bearer,
  null: () => OPEN,
  special: testUser,
}

const OPEN: Known = { user: NAMELESS_ADMIN }

export class AuthenticationHandlers {
  readonly #tools: HandlerTools

  constructor(tools: HandlerTools) {
    this.#tools = tools
  }

  /** Those that are tried, in their order. */
  get names(): readonly HandlerName[] {
    return handlerNames(this.#tools.settings.frequent.current.handlers)
  }

  /** Synchronous if nothing has to be looked up. Throws or rejects if the request is refused. */
  authenticate(request: AuthRequest): Authentication | Promise<Authentication> {
    return authenticate(request, this.#tools, this.names)
  }
}

/** Tries the handlers; throws if one refuses, or if the user is anonymous and a login is required. */
function authenticate(
  request: AuthRequest,
  tools: HandlerTools,
  names: readonly HandlerName[],
): Authentication | Promise<Authentication> {
  for (let i = 0; i < names.length; i++) {
    const name = names[i]!
    const found = HANDLERS[name](request, tools)
    // Most handlers have nothing to look up, so nothing has to be awaited.
    if (found instanceof Promise) {
      return found.then((later) =>
        later ? authenticationOf(later, name, tools) : authenticate(request, tools, names.slice(i + 1)),
      )
    }
    if (found) return authenticationOf(found, name, tools)
  }
  return nobody(request, tools)
}

function authenticationOf({ user, session }: Known, handler: HandlerName, { settings }: HandlerTools): Authentication {
  const isUnbound = settings.frequent.current.isOpen && user !== NAMELESS_ADMIN
  return { user: isUnbound ? { ...user, isUnbound } : user, session, handler }
}

function nobody(request: AuthRequest, { settings }: HandlerTools): Authentication {
  const { requiresUser } = settings.frequent.current
  if (requiresUser && !isLogin(request) && !isLogout(request)) throw unauthorized('Authentication required.')
  return { user: ANONYMOUS, handler: undefined }
}

/** The handlers of a list. Unknown names are ignored. */
export function handlerNames(list: string): readonly HandlerName[] {
  if (lastParsed.list !== list) lastParsed = { list, names: parseHandlers(list) }
  return lastParsed.names
}

/** The list is asked for with every request and hardly ever changes. */
let lastParsed: { readonly list: string; readonly names: readonly HandlerName[] } = { list: '', names: [] }

function parseHandlers(list: string): HandlerName[] {
  return listedHandlers(list).filter((name) => isHandlerName(name))
}

function wrongPassword() {
  return unauthorized('Name or password is incorrect.')
}

function isHandlerName(name: string | undefined): name is HandlerName {
  return name !== undefined && Object.hasOwn(HANDLERS, name)
}

/** Logging in is allowed even where every request needs a login. */
function isLogin(request: AuthRequest): boolean {
  return request.method === 'POST' && isForSession(request)
}

/** A client may log out with any session cookie, valid or not. */
function isLogout(request: AuthRequest): boolean {
  return request.method === 'DELETE' && isForSession(request) && hasSessionCookie(request.headers.cookie)
}

function isForSession(request: AuthRequest): boolean {
  return /^\/+_session\/*$/.test(targetOf(request).path)
}

function known(user: UserContext | undefined): Known | undefined {
  return user && { user }
}

function cookie(request: AuthRequest, tools: HandlerTools): Known | undefined | Promise<Known | undefined> {
  const header = request.headers.cookie
  if (header === undefined) return undefined
  const recognized = tools.sessions.find(request.connection, header)
  if (recognized) return sessionOf(recognized.record, recognized.proof, tools)
  const token = sentToken(request, header)
  if (!token || tools.settings.frequent.current.secret === undefined) return undefined
  const state = tools.directory.state()
  const record = tools.directory.find(token.name)
  const proven = (found: UserRecord | undefined) => provenSession(request, { header, token, state }, found, tools)
  return record instanceof Promise ? record.then(proven) : proven(record)
}

/** Throws if there is a malformed token, unless the request is a logout. */
function sentToken(request: AuthRequest, header: string): SessionToken | undefined {
  try {
    return tokenOf(header)
  } catch (error) {
    if (isLogout(request)) return undefined
    throw error
  }
}

/** For unknown users, so that the same work is done for them. */
const DECOY_SALT = randomUuid()

interface SentToken {
  readonly header: string
  readonly token: SessionToken
  readonly state: KnownState | undefined
}

function provenSession(
  { connection }: AuthRequest,
  { header, token, state }: SentToken,
  record: UserRecord | undefined,
  tools: HandlerTools,
): Known | undefined {
  const { secret } = tools.settings.frequent.current
  if (secret === undefined) return undefined
  const salt = record?.password?.salt
  const proof = provenTime(token, { secret, salt: salt ?? DECOY_SALT })
  if (!record || salt === undefined || proof === undefined) return undefined
  tools.sessions.note(connection, { header, record, proof }, state)
  return sessionOf(record, proof, tools)
}

function sessionOf(record: UserRecord, madeSeconds: number, { settings, clock }: HandlerTools): Known | undefined {
  const nowSeconds = Math.floor(clock.nowMs() / 1000)
  const age = ageOf(madeSeconds, { nowSeconds, timeoutSeconds: settings.frequent.current.timeoutSeconds })
  if (age === 'over') return undefined
  return { user: contextOf(record), session: { record, isRenewalDue: age === 'renewal due' } }
}

/** Basic authentication; and everybody while there is no administrator. */
function passwordOrOpen(request: AuthRequest, tools: HandlerTools): Known | undefined | Promise<Known> {
  const header = request.headers.authorization
  return (header && passwordUser(request, header, tools)) || openUser(tools)
}

function passwordUser(
  { connection }: AuthRequest,
  header: string,
  { passwords, directory, logins }: HandlerTools,
): Known | undefined | Promise<Known> {
  const recognized = passwords.find(connection, header)
  if (recognized) return loggedIn(recognized.record)
  const credentials = basicCredentials(header)
  if (!credentials) return undefined
  const state = directory.state()
  const proven = (record: UserRecord | undefined) => {
    if (record) passwords.note(connection, { header, record, proof: undefined }, state)
    return loggedIn(record)
  }
  const record = logins.check(credentials)
  return record instanceof Promise ? record.then(proven) : proven(record)
}

function openUser({ settings }: HandlerTools): Known | undefined {
  const { isOpen, requiresUser } = settings.frequent.current
  return isOpen && !requiresUser ? OPEN : undefined
}

function loggedIn(record: UserRecord | undefined): Known {
  if (!record) throw wrongPassword()
  return { user: contextOf(record) }
}

function bearer(request: AuthRequest, { settings, clock }: HandlerTools): Known | undefined {
  const token = bearerToken(request.headers.authorization)
  if (token === undefined) return undefined
  return { user: tokenUser(token, settings.tokens, Math.floor(clock.nowMs() / 1000)) }
}

const MENTIONS_OAUTH = /oauth/i

function oauth(request: AuthRequest, tools: HandlerTools): Promise<Known | undefined> | undefined {
  // Most requests are not signed, and skip the parsing of parameters.
  const { authorization = '' } = request.headers
  if (!MENTIONS_OAUTH.test(authorization) && !MENTIONS_OAUTH.test(request.url)) return undefined
  const signed = signedRequest(request, tools.settings.frequent.current.forwarded)
  return signed && signerOf(signed, tools)
}

async function signerOf(signed: SignedRequest, tools: HandlerTools): Promise<Known | undefined> {
  const secrets = await secretsOf(signed, tools)
  if (!isSignedWith(secrets, signed, tools)) return undefined
  const record = await tools.directory.find(secrets.user)
  return record && { user: contextOf(record) }
}

/** For tests of what comes after authentication: users without documents, administrators without a name. */
async function testUser(request: AuthRequest, { settings }: HandlerTools): Promise<Known> {
  const credentials = testCredentials(request.headers['www-authenticate'])
  if (!credentials) return { user: NAMELESS_ADMIN }
  const password = settings.testPassword(credentials.name)
  if (password === undefined || !equalTexts(password, credentials.password)) throw wrongPassword()
  return { user: { name: credentials.name, roles: [] } }
}

function testCredentials(header: string | undefined): Credentials | undefined {
  const [, name, password] = /^X-(?:Service|Couch)-Test-Auth ([^:]*):(.*)$/.exec(header ?? '') ?? []
  return name === undefined || password === undefined ? undefined : { name, password }
}

/** HTTP's Basic scheme; names of schemes are the same in any letter case. */
const SCHEME = 'basic '

/** Undefined if there are none; `_:_` makes a browser forget its credentials. */
export function basicCredentials(authorization: string | undefined): Credentials | undefined {
  if (authorization?.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return undefined
  const text = Buffer.from(authorization.slice(SCHEME.length).trim(), 'base64').toString()
  const colon = text.indexOf(':')
  if (colon < 0 || text === '_:_') return undefined
  // A password may have colons, a name may not.
  return { name: text.slice(0, colon), password: text.slice(colon + 1) }
}

/**
 * Proxy authentication: the user is taken from headers of a trusted proxy. A client that can bypass the proxy can be
 * anybody, unless the proxy has to sign the name.
 */
export function proxyUser(request: AuthRequest, settings: AuthSettings): UserContext | undefined {
  const { proxy } = settings
  const { secret } = settings.frequent.current
  const header = (configured: string | undefined, usual: string) =>
    configured
      ? utf8HeaderOf(request, configured.toLowerCase())
      : eitherHeaderOf(request, `x-auth-service-${usual}`, `x-auth-couchdb-${usual}`)
  const name = header(proxy.username, 'username')
  if (!name) return undefined
  if (proxy.needsToken) {
    const token = header(proxy.token, 'token')
    if (!secret || token === undefined || !equalTexts(token, proxyToken(name, secret))) return undefined
  }
  const roles = header(proxy.roles, 'roles') ?? ''
  return { name, roles: roles.split(',').filter((role) => role !== '') }
}

/** The signature of a proxy. */
function proxyToken(name: string, secret: string): string {
  return createHmac('sha1', secret).update(name).digest('hex')
}
