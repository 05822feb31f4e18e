/**
 * The request handler: every request passes through here, from routing and authentication to the last byte of its
 * reply.
 */

import { badRequest, notFound, RequestError } from '../../document/request-error.ts'
import type { RequestHandler } from '../../wire/connection.ts'
import type { Reply } from '../../wire/reply.ts'
import type { Request } from '../../wire/request.ts'
import { preflight, withCorsHeaders } from '../negotiation/browser-policy.ts'
import { checkCallback, wrapped } from '../negotiation/jsonp.ts'
import { virtualTarget } from '../negotiation/virtual-hosts.ts'
import { type Answer, errorAnswer, sendStreamed, sendWhole } from './answer.ts'
import {
  authenticate,
  authorizeOnDatabase,
  authorizeOnServer,
  refusal,
  rewrittenCall,
  withSession,
} from './authentication.ts'
import { type AuthenticatedCall, Call, hostOf } from './call.ts'
import type { Forwarding, HttpContext, PrimaryContext } from './context.ts'
import { HttpError, inDialect, MethodNotAllowedError, requestErrorOf } from './errors.ts'
import { logAnswer, logRequest, maskedUrl, RequestStatistics, requestId } from './request-log.ts'
import type { RequestSettings } from './request-settings.ts'
import { type Operation, operationOf, Rewritten, type Route } from './route.ts'
import { configuredRoute, routes } from './routes.ts'

/** Answers all requests. */
export function createApp(primary: PrimaryContext): RequestHandler {
  return handlerOf({ ...primary, primary, forwarding: undefined, counts: countsOf(primary) })
}

/** Answers the requests that a secondary can answer, and forwards all others. */
export function createSecondaryApp(context: HttpContext, forwarding: Forwarding): RequestHandler {
  return handlerOf({ ...context, primary: undefined, forwarding, counts: countsOf(context) })
}

interface AppContext extends HttpContext {
  readonly counts: RequestStatistics
  /** Undefined in a secondary. */
  readonly primary: PrimaryContext | undefined
  /** Set in a secondary. */
  readonly forwarding: Forwarding | undefined
}

function handlerOf(app: AppContext): RequestHandler {
  return (request, reply) => {
    handle(request, reply, app)
  }
}

function countsOf({ statistics, metrics }: HttpContext): RequestStatistics {
  return new RequestStatistics(statistics, metrics)
}

async function handle(request: Request, reply: Reply, context: AppContext): Promise<void> {
  const begunMs = performance.now()
  const { counts, log, settings } = context
  const { url, method } = request
  const call = callFor(request, reply, url, settings.current)
  const forwarding = context.forwarding && forwarded(call, context, context.forwarding)
  if (forwarding && (await forwarding)) return
  counts.begin(method)
  if (request.hasBody) call.memory = context.bodyMemory.lease(request.body)
  let status = 0
  try {
    const given = forBrowsers(call, context, await answer(call, context))
    status = given.status
    counts.reply(status, { isFile: given.isFile === true })
    logAnswer(call, context, given)
    if (given.kind === 'whole') sendWhole(call, given)
    else await sendStreamed(call, given)
  } catch (error) {
    // The head is already sent: only a broken connection shows the client that the rest is missing.
    log.error('A reply was aborted.', {
      request_id: call.requestId,
      method: call.method,
      url: maskedUrl(url),
      error: String(error),
    })
    reply.destroy()
  }
  call.memory?.release()
  const tookMs = performance.now() - begunMs
  counts.end(method, tookMs)
  logRequest(call, context, { status, tookMs })
}

/** Forwards the call to the primary; undefined, or false later, if this node answers it. */
function forwarded(call: Call, context: AppContext, forwarding: Forwarding): Promise<boolean> | undefined {
  if (!isAnsweredHere(call, context, forwarding)) return forward(call, context, forwarding)
  return forwarding.ready()?.then(
    () => false,
    () => forward(call, context, forwarding),
  )
}

async function forward(call: Call, context: AppContext, forwarding: Forwarding): Promise<boolean> {
  const begunMs = performance.now()
  const failure = await forwarding.forward(call.request, call.reply)
  if (failure && !call.reply.isGone) {
    context.counts.begin(call.request.method)
    const given = forBrowsers(call, context, errorAnswer(inDialect(failure, call.dialect)))
    context.counts.reply(given.status, { isFile: false })
    logAnswer(call, context, given)
    if (given.kind === 'whole') sendWhole(call, given)
    const tookMs = performance.now() - begunMs
    context.counts.end(call.request.method, tookMs)
    logRequest(call, context, { status: given.status, tookMs })
  }
  return true
}

function isAnsweredHere(call: Call, context: AppContext, forwarding: Forwarding): boolean {
  try {
    const route = routeFor(call, context)
    const operation = route && operationOf(route, call.method)
    if (!operation?.secondary?.answers(call)) return false
    return !forwarding.isElsewhere(route?.isOfDatabase ? call.segment(0) : undefined)
  } catch {
    // The primary reports the error.
    return false
  }
}

/** Headers that only the server itself sets, to pass on the original path. */
const INTERNAL_HEADERS = [
  'x-service-vhost-path',
  'x-couchdb-vhost-path',
  'x-service-requested-path',
  'x-couchdb-requested-path',
]

function callFor(request: Request, reply: Reply, requestedUrl: string, settings: RequestSettings): Call {
  for (const name of INTERNAL_HEADERS) {
    if (request.headers[name] !== undefined) delete request.headers[name]
  }
  const { forwarded, dialect, globalHandlers, virtualHosts: rules, acceptsRequestIds } = settings
  const id = requestId(request, { isAccepted: acceptsRequestIds })
  if (rules.size === 0) return new Call(request, reply, { url: requestedUrl, requestId: id, forwarded, dialect })
  const url = virtualTarget(rules, globalHandlers, hostOf(request, forwarded), requestedUrl)
  if (url !== undefined) request.headers['x-service-vhost-path'] = requestedUrl
  return new Call(request, reply, { url: url ?? requestedUrl, requestedUrl, requestId: id, forwarded, dialect })
}

async function answer(call: Call, context: AppContext): Promise<Answer> {
  let sender: AuthenticatedCall | undefined
  try {
    // Whether the server is up is reported in any case.
    const refreshed = call.segment(0) === '_up' ? undefined : context.primary?.refreshed?.(call.segment(0))
    if (refreshed) await refreshed
    checkFraming(call)
    checkLength(call, context)
    const { allowsJsonp, allowsCors } = context.settings.current
    if (allowsJsonp) checkCallback(call)
    const allowed = allowsCors ? preflight(call, context) : undefined
    if (allowed) return allowed
    const known = authenticate(call, context.auth)
    sender = known instanceof Promise ? await known : known
    return withSession(sender, await dispatch(call, sender, context))
  } catch (error) {
    const answer = refusal(call, context.auth, answeredError(call, error))
    return sender ? withSession(sender, answer) : answer
  }
}

/** The answer with JSONP and CORS applied, where the operator allows them. */
function forBrowsers(call: Call, context: AppContext, answer: Answer): Answer {
  const { allowsJsonp, allowsCors } = context.settings.current
  const wrappedAnswer = allowsJsonp ? wrapped(call, answer) : answer
  return allowsCors ? withCorsHeaders(call, context, wrappedAnswer) : wrappedAnswer
}

/** Finds the route, checks the rights and calls the handler; rewrite rules may lead to another route. */
async function dispatch(first: Call, sender: AuthenticatedCall, context: AppContext): Promise<Answer> {
  let call = first
  for (let rewrites = 0; ; rewrites++) {
    const route = routeFor(call, context)
    if (!route) throw notFound('missing')
    const operation = operationOf(route, call.method)
    if (!operation || operation.check) {
      // A missing database, or one that the user may not read, is reported before a wrong method.
      if (route.isOfDatabase && operation?.who !== 'server admin') await sender.openDatabase(call.segment(0))
      if (!operation) throw new MethodNotAllowedError(route.allow)
      await operation.check?.(call, context)
    }
    if (route.isOfDatabase && operation.who !== 'server admin') {
      const asking = authorizeOnDatabase(call, sender, operation.who)
      if (asking) await asking
    } else authorizeOnServer(sender, operation.who)
    count(call, operation, context)
    if (context.primary?.gather && OF_ALL_NODES.has(call.segment(0))) await context.primary.gather()
    const returning = context.primary?.returning
    if (returning && operation.secondary?.answers(call)) {
      returning.read(call.request, call.reply, route.isOfDatabase ? call.segment(0) : undefined)
    }
    const reply = await answerOf(operation, call, context)
    if (!(reply instanceof Rewritten)) return reply
    if (rewrites >= context.settings.current.rewriteLimit) {
      throw badRequest('Exceeded rewrite recursion limit')
    }
    call = rewrittenCall(call, reply.url)
  }
}

function answerOf({ handler, secondary }: Operation, call: Call, context: AppContext) {
  if (context.primary) return handler(call, context.primary)
  if (!secondary) throw new Error('A secondary node cannot answer this request.')
  return secondary.handler(call, context)
}

/** Resources that show what all nodes have counted or logged. */
const OF_ALL_NODES = new Set(['_stats', '_log', '_node'])

/** It is unknown where the body ends and the next request begins, so the request is refused. */
function checkFraming(call: Call): void {
  const encoding = call.header('transfer-encoding')
  if (encoding === undefined || encoding.toLowerCase() === 'chunked') return
  throw new HttpError(500, 'unknown_transfer_encoding', encoding)
}

function checkLength({ requestedUrl }: Call, { settings }: HttpContext): void {
  if (requestedUrl.length > settings.current.longestUrl) {
    throw new HttpError(414, 'too_long', 'the request entity is too long')
  }
}

/** A resource whose entry was removed from the configuration does not exist; its name is then an ordinary one. */
function routeFor({ segments }: Call, { configuration, settings }: HttpContext): Route | undefined {
  const { removed } = settings.current
  const [first = '/', second, , action] = segments
  const route = routes.find(segments)
  if (!route?.isOfDatabase) {
    if (!removed.ofServer.has(first)) return route
    return first === '/' ? undefined : routes.findInDatabase(segments)
  }
  if (second?.startsWith('_') && removed.ofDatabases.has(second)) throw notFound('missing')
  const isTaken = second === undefined || !second.startsWith('_') || routes.hasDatabaseAction(second)
  const configured = first.startsWith('_') || !isTaken ? configuredRoute(first, second, configuration) : undefined
  if (configured) return configured
  if (second === '_design' && action?.startsWith('_') && removed.ofDesigns.has(action)) {
    throw notFound(`missing handler: ${action}`)
  }
  return route
}

/** Requests to system databases are not counted. One to a missing database was refused before. */
function count(call: Call, { counted }: Operation, { counts }: AppContext): void {
  if (counted.length > 0 && !call.segment(0).startsWith('_')) counts.count(counted)
}

/** Work that is aborted by a shutdown did not fail. */
const CUT_OFF = new Set(['unknown_error', 'os_process_error', 'client_gone'])

function answeredError({ reply, dialect }: Call, error: unknown): RequestError {
  const answer = inDialect(requestErrorOf(error), dialect)
  if (!reply.isShuttingDown || !CUT_OFF.has(answer.error)) return answer
  return new RequestError('unavailable', 'service_unavailable', 'The server is shutting down.')
}
