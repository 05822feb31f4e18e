/** The rows of the route table, and how a request finds its own. */
import type { Answer } from './answer.ts'
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

  find(segments: readonly string[]): Route | undefined {
    const [first, second] = segments
    if (first === undefined) return this.#routes.get('/')
    // Resources of the server go by their first segment alone.
    if (first.startsWith('_')) {
      const server = this.#routes.get(`/${first}`)
      if (server) return server
    }
    if (second === undefined) return this.#routes.get('/{db}')
    const name = second.startsWith('_') ? second : '{docid}'
    const further = '/{name}'.repeat(Math.min(2, segments.length - 2))
    return this.#routes.get(`/{db}/${name}${further}`) ?? this.#routes.get(`/{db}/{docid}${further}`)
  }
}

/** The handler of a method; undefined when the path does not have it. */
export function handlerOf({ handlers }: Route, method: string): Handler | undefined {
  return handlers[method === 'HEAD' ? 'GET' : method]
}
