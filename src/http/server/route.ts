/** The rows of the route table, how a request finds its own, and the document that a path names. */
import { isDesignId, isLocalId } from '../../document/ids.ts'
import { badRequest } from '../../document/request-error.ts'
import type { Answer } from './answer.ts'
import type { Call } from './call.ts'
import type { HttpContext, PrimaryContext } from './context.ts'

export type Handler<Context extends HttpContext = PrimaryContext> = (
  call: Call,
  context: Context,
) => Answer | Rewritten | Promise<Answer | Rewritten>

/** Instead of an answer: the request is rewritten to another path of this server. */
export class Rewritten {
  /** The new path and query. */
  readonly url: string

  constructor(url: string) {
    this.url = url
  }
}

/** What a request is counted as, beside the counts that all requests have. */
export type Counted = 'database_reads' | 'database_writes' | 'bulk_requests' | 'view_reads' | 'temporary_view_reads'

export type Check = (call: Call, context: HttpContext) => void | Promise<void>

/** One method of a path, and what its handler needs. */
export interface Operation<Context extends HttpContext = PrimaryContext> {
  readonly handler: Handler<Context>
  readonly who: Who
  readonly counted: readonly Counted[]
  /** Throws if the request is not valid, where that is reported before the rights are checked. */
  readonly check?: Check
  /** Set where a secondary can answer too. All other calls are answered by the primary. */
  readonly secondary?: SecondaryOperation
}

export interface SecondaryOperation {
  readonly handler: Handler<HttpContext>
  /** Whether a secondary answers this call. */
  answers(call: Call): boolean
}

export interface Route {
  /** `{name}` stands for any one segment. */
  readonly path: string
  /** The `Allow` header of a 405. HEAD is handled like GET. */
  readonly allow: string
  /** Whether the first segment names a database. */
  readonly isOfDatabase: boolean
  /** By method; `*` stands for all that are not named. */
  readonly operations: Readonly<Record<string, Operation>>
}

export function route(path: string, allow: string, operations: Record<string, Operation>): Route {
  return { path, allow, isOfDatabase: path.startsWith('/{db}'), operations }
}

/** Reads as a sentence in the table: `member(readDocument, 'database_reads')`. */
export const anyone = operationFor('anyone')
export const member = operationFor('member')
export const writer = operationFor('writer')
export const databaseAdmin = operationFor('database admin')
export const serverAdmin = operationFor('server admin')

function operationFor(who: Who) {
  return <Context extends HttpContext>(handler: Handler<Context>, ...counted: Counted[]): Operation<Context> => ({
    handler,
    who,
    counted,
  })
}

/** An operation whose request is checked before the rights of its sender. */
export function checked<Context extends HttpContext>(check: Check, operation: Operation<Context>): Operation<Context> {
  return { ...operation, check }
}

/**
 * An operation that every node can answer, since it only reads what every node has; only some of its calls, if a
 * condition is given.
 */
export function everywhere(
  operation: Operation<HttpContext>,
  answers: (call: Call) => boolean = () => true,
): Operation<HttpContext> {
  return { ...operation, secondary: { handler: operation.handler, answers } }
}

export class RouteTable {
  readonly #routes: ReadonlyMap<string, Route>
  /** Resources of the server, by their first segment, which alone decides. */
  readonly #ofServer: ReadonlyMap<string, Route>

  constructor(routes: readonly Route[]) {
    this.#routes = new Map(routes.map((each) => [each.path, each]))
    const single = routes.filter(({ path }) => /^\/[^/{]+$/.test(path))
    this.#ofServer = new Map(single.map((each) => [each.path.slice(1), each]))
  }

  /** Every route, in the order of the table. */
  all(): Route[] {
    return [...this.#routes.values()]
  }

  /** Whether a second segment names a resource of databases. */
  hasDatabaseAction(name: string): boolean {
    return DATABASE_ACTIONS.has(name) || this.#routes.has(`/{db}/${name}`)
  }

  find(segments: readonly string[]): Route | undefined {
    const [first] = segments
    if (first === undefined) return this.#routes.get('/')
    return this.#ofServer.get(first) ?? this.findInDatabase(segments)
  }

  /** The route if the first segment is taken as the name of a database. */
  findInDatabase(segments: readonly string[]): Route | undefined {
    const [, second] = segments
    if (second === undefined) return this.#routes.get('/{db}')
    const action = second === '_design' ? this.#routes.get(`/{db}/_design/{name}/${segments[3]}`) : undefined
    if (action) return action
    const further = FURTHER[Math.min(2, segments.length - 2)]!
    const named = second.startsWith('_') ? this.#routes.get(`/{db}/${second}${further}`) : undefined
    return named ?? this.#routes.get(DOCUMENT_PATHS[Math.min(2, segments.length - 2)]!)
  }
}

/** First segments of document ids. */
const DATABASE_ACTIONS = new Set(['_design', '_local'])

/** The pattern after the second segment, by the number of further segments, two at most. */
const FURTHER = ['', '/{name}', '/{name}/{name}']
const DOCUMENT_PATHS = FURTHER.map((further) => `/{db}/{docid}${further}`)

export const ANY_METHOD = '*'

/** What a method does; undefined when the path does not have it. */
export function operationOf({ operations }: Route, method: string): Operation | undefined {
  const name = method === 'HEAD' ? 'GET' : method
  return Object.hasOwn(operations, name) ? operations[name] : operations[ANY_METHOD]
}

/**
 * The right that an operation needs, from the least to the most. A `writer` is a member, or a database admin if a
 * design document is written: only the handler knows which document that is.
 */
export type Who = 'anyone' | 'member' | 'writer' | 'database admin' | 'server admin'

/** `/{db}/{docid}`, `/{db}/_design/{name}` or `/{db}/_local/{name}`. */
export function documentIdOf(call: Call): string {
  const { segments } = call
  const id = segments.length === 2 ? call.segment(1) : segments.slice(1).join('/')
  if (id === '_local' || id === '_local/') refuseLocalRoot()
  return id
}

/** A document and an attachment of it: all segments after the document's id are the name. */
export function attachmentPathOf(call: Call): { id: string; name: string } {
  const isDesign = call.segment(1) === '_design'
  const id = isDesign ? call.segments.slice(1, 3).join('/') : call.segment(1)
  if (isLocalId(id)) refuseLocalAttachment()
  return { id, name: call.segments.slice(isDesign ? 3 : 2).join('/') }
}

/** Whether the client escaped the slash in the id of a design document. */
export function isEscapedDesign(call: Call): boolean {
  return isDesignId(call.segment(1)) && ESCAPED_DESIGN.test(call.requestedUrl)
}

export const ESCAPED_DESIGN = /_design%2f/i

/** The path segments of a document: the slash after `_design` and `_local` separates two of them. */
export function documentSegments(id: string): string[] {
  if (!isDesignId(id) && !isLocalId(id)) return [id]
  const slash = id.indexOf('/')
  return [id.slice(0, slash), id.slice(slash + 1)]
}

export function refuseLocalRoot(): never {
  throw badRequest('Invalid _local document id.')
}

export function refuseLocalAttachment(): never {
  throw badRequest('_local documents do not accept attachments.')
}
