/** The rows of the route table, and how a request finds its own. */
import { notFound } from '../document/request-error.ts'
import { type Answer, MethodNotAllowedError } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext } from './context.ts'

export type Handler = (call: Call, context: HttpContext) => Answer | Promise<Answer>

export interface Route {
  /** `{name}` stands for any one segment. */
  readonly path: string
  /** The list that a refused method is answered with. HEAD goes where GET goes. */
  readonly allow: string
  readonly handlers: Readonly<Record<string, Handler>>
}

export function route(path: string, allow: string, handlers: Record<string, Handler>): Route {
  return { path, allow, handlers }
}

export class RouteTable {
  readonly #routes: ReadonlyMap<string, Route>

  constructor(routes: readonly Route[]) {
    this.#routes = new Map(routes.map((each) => [each.path, each]))
  }

  /** Throws what the client is to be told when there is nothing to be had with that method. */
  handler({ segments, method }: Call): Handler {
    const found = this.#find(segments)
    if (!found) throw notFound('missing')
    const handler = found.handlers[method === 'HEAD' ? 'GET' : method]
    if (!handler) throw new MethodNotAllowedError(found.allow)
    return handler
  }

  #find(segments: readonly string[]): Route | undefined {
    const [first, second] = segments
    if (first === undefined) return this.#routes.get('/')
    // Resources of the server go by their first segment alone.
    if (first.startsWith('_')) {
      const server = this.#routes.get(`/${first}`)
      if (server) return server
    }
    if (second === undefined) return this.#routes.get('/{db}')
    if (second === '_design' || second === '_local')
      return this.#routes.get(`/{db}/${second}${'/{name}'.repeat(segments.length - 2)}`)
    if (segments.length > 2) return undefined
    return (second.startsWith('_') && this.#routes.get(`/{db}/${second}`)) || this.#routes.get('/{db}/{docid}')
  }
}
