/** The route table's rows and how a request finds its own. */
import { type Answer, MethodNotAllowedError } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'

export type Handler = (call: Call, context: HttpContext) => Answer | Promise<Answer>

export interface Route {
  /** The first segments that the path must have; `{…}` stands for any one. */
  readonly path: readonly string[]
  /** The list that a refused method is answered with. HEAD goes where GET goes. */
  readonly allow: string
  readonly handlers: Readonly<Record<string, Handler>>
}

export function route(path: string, allow: string, handlers: Record<string, Handler>): Route {
  return { path: path.split('/').filter((segment) => segment !== ''), allow, handlers }
}

export function handlerFor({ handlers, allow }: Route, method: string): Handler {
  const handler = handlers[method === 'HEAD' ? 'GET' : method]
  if (!handler) throw new MethodNotAllowedError(allow)
  return handler
}

/** Resources of the server go by their first segment alone; what follows it is the handler's business. */
export function findRoute(routes: readonly Route[], segments: readonly string[]): Route | undefined {
  return routes.find(({ path }) => (path.length === 0 ? segments.length === 0 : path[0] === segments[0]))
}
