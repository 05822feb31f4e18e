/**
 * The Fastify application. Fastify keeps the connections and the life of the server; routing, bodies, negotiation and
 * errors are our own, since the interface has rules for all of them.
 */
import { type FastifyInstance, fastify } from 'fastify'
import { notFound, RequestError } from '../document/request-error.ts'
import { type Answer, errorAnswer, send } from './answer.ts'
import { Call } from './call.ts'
import type { HttpContext } from './context.ts'
import { findRoute, handlerFor } from './route.ts'
import { routes } from './routes.ts'

export function createApp(context: HttpContext): FastifyInstance {
  const app = fastify({
    // Every path is ours: the table of routes is asked, with the path as it was sent.
    rewriteUrl: () => '/',
    exposeHeadRoutes: false,
    forceCloseConnections: 'idle',
    logger: false,
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  // No route of Fastify's: methods that it does not know are answered by our table too.
  app.setNotFoundHandler(async (request, reply) => {
    reply.hijack()
    const call = new Call(request.raw, request.originalUrl)
    reply.raw.setHeader('Server', `Service/${context.version} (Node.js/${process.versions.node})`)
    send(call, reply.raw, await answer(call, context))
  })
  return app
}

async function answer(call: Call, context: HttpContext): Promise<Answer> {
  try {
    const route = findRoute(routes, call.segments)
    if (!route) throw notFound('missing')
    return await handlerFor(route, call.method)(call, context)
  } catch (error) {
    if (error instanceof RequestError) return errorAnswer(error)
    context.log.error('A request failed.', { method: call.method, url: call.request.url, error: String(error) })
    return errorAnswer(new RequestError(500, 'unknown_error', error instanceof Error ? error.message : String(error)))
  }
}
