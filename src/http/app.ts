/**
 * The Fastify application. Fastify keeps the connections and the life of the server; routing, bodies, negotiation and
 * errors are our own, since the interface has rules for all of them.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type FastifyInstance, fastify } from 'fastify'
import { notFound, RequestError } from '../document/request-error.ts'
import { CommitFailedError, StoreGoneError } from '../storage/storage-error.ts'
import { type Answer, errorAnswer, MethodNotAllowedError, send } from './answer.ts'
import { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import { checkCallback, wrapped } from './jsonp.ts'
import { type Handler, handlerOf } from './route.ts'
import { routes } from './routes.ts'

const HEADERS_LIMIT_BYTES = 64 * 1024
const HEADERS_WAIT_MS = 30_000
const REQUEST_WAIT_MS = 300_000

export function createApp(context: HttpContext): FastifyInstance {
  const app = fastify({
    // Every path is ours: the table of routes is asked, with the path as it was sent.
    rewriteUrl: () => '/',
    exposeHeadRoutes: false,
    forceCloseConnections: 'idle',
    logger: false,
    keepAliveTimeout: REQUEST_WAIT_MS,
    // Uploads may take long; each body has a limit on its silence instead.
    requestTimeout: 0,
    http: { maxHeaderSize: HEADERS_LIMIT_BYTES, headersTimeout: HEADERS_WAIT_MS },
  })
  const server = `Service/${context.version} (Node.js/${process.versions.node})`
  // Taken over before Fastify routes or looks at the body: methods, types and paths are judged by our own rules.
  app.addHook('onRequest', async (request, reply) => {
    reply.hijack()
    reply.raw.setHeader('Server', server)
    await handle(request.raw, reply.raw, request.originalUrl, context)
  })
  // Whoever waits for a go-ahead gets it when its body is read, and not when it is refused.
  app.server.on('checkContinue', (request, response) => app.server.emit('request', request, response))
  return app
}

async function handle(
  request: IncomingMessage,
  response: ServerResponse,
  url: string,
  context: HttpContext,
): Promise<void> {
  const call = new Call(request, response, url)
  try {
    const reply = await answer(call, context)
    await send(call, wrapped(call, context, reply))
  } catch (error) {
    // The head is out: only a broken connection can tell the client that the rest is missing.
    context.log.error('A reply broke off.', { method: call.method, url, error: String(error) })
    response.destroy()
  }
}

async function answer(call: Call, context: HttpContext): Promise<Answer> {
  try {
    checkLength(call, context)
    checkCallback(call, context)
    const handler = await handlerFor(call, context)
    return await handler(call, context)
  } catch (error) {
    return errorAnswer(told(error, call, context))
  }
}

function checkLength({ url }: Call, { configuration }: HttpContext): void {
  const limit = configuration.get('httpd', 'max_uri_length')
  if (limit !== undefined && url.length > Number(limit)) {
    throw new RequestError(414, 'too_long', 'the request entity is too long')
  }
}

async function handlerFor(call: Call, { databases }: HttpContext): Promise<Handler> {
  const route = routes.find(call.segments)
  if (!route) throw notFound('missing')
  const handler = handlerOf(route, call.method)
  if (handler) return handler
  // That there is no such database is said before what one could do with it.
  if (route.path.startsWith('/{db}')) await databases.get(call.segment(0))
  throw new MethodNotAllowedError(route.allow)
}

/** What the client is told of a failure. */
function told(error: unknown, call: Call, { log }: HttpContext): RequestError {
  if (error instanceof RequestError) return error
  // The database was deleted while the request was under way.
  if (error instanceof StoreGoneError) return notFound('no_db_file')
  const reason = error instanceof Error ? error.message : String(error)
  log.error('A request failed.', { method: call.method, url: call.url, error: reason })
  if (error instanceof CommitFailedError) return new RequestError(500, 'commit_failed', reason)
  return new RequestError(500, 'unknown_error', reason)
}
