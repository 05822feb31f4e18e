/** `_rewrite`: the rules of a design document lead a request to another place on this server, with its sender and body. */
import { notFound } from '../../document/request-error.ts'
import { databaseOf } from '../server/authentication.ts'
import type { Call } from '../server/call.ts'
import type { HttpContext } from '../server/context.ts'
import { Rewritten } from '../server/route.ts'
import { designId } from './function-path.ts'
import { parseRules, rewrite } from './rewrite-rules.ts'

export async function rewriteRequest(call: Call, context: HttpContext): Promise<Rewritten> {
  const database = await databaseOf(call)
  using view = database.view()
  const { members } = await database.design(view, designId(call))
  view.release()
  const isSecure = context.configuration.get('httpd', 'secure_rewrites') !== 'false'
  const rules = parseRules(members.rewrites, { isSecure })
  const url = rewrite(rules, {
    base: call.segments.slice(0, 3),
    method: call.method === 'HEAD' ? 'GET' : call.method,
    path: call.segments.slice(4),
    query: call.parameters,
  })
  if (url === undefined) throw notFound('missing')
  // Who serves the request can tell what it was before all rewriting.
  call.request.headers['x-service-requested-path'] ??= call.requestedUrl
  return new Rewritten(url)
}
