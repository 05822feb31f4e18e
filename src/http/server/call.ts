/**
 * One request as handlers see it: path, query, headers and reply. The raw path is parsed here and nowhere else, since
 * names may hold escaped slashes and percent signs.
 */

import { isUtf8 } from 'node:buffer'
import { isIP } from 'node:net'
import type { Auth } from '../../auth/auth.ts'
import type { AuthRequest } from '../../auth/identity/auth-request.ts'
import type { Authentication, HandlerName, Session } from '../../auth/identity/handlers.ts'
import type { Dialect } from '../../config/dialect.ts'
import type { Database } from '../../database/database.ts'
import type { UserContext } from '../../database/user-context.ts'
import { parseRevision, type RevisionId } from '../../document/ids.ts'
import { queryParseError } from '../../document/request-error.ts'
import type { MemoryLease } from '../../runtime/memory-budget.ts'
import type { Reply } from '../../wire/reply.ts'
import type { Request, SocketAddresses } from '../../wire/request.ts'
import { namesJson } from '../negotiation/acceptance.ts'
import { HttpError } from './errors.ts'

/** The headers in which a proxy passes on how its client connected; the operator may choose other names. */
export interface ForwardedNames {
  readonly host: string
  readonly ssl: string
  readonly proto: string
}

export class Call {
  readonly request: Request
  readonly reply: Reply
  /** The effective method: a POST may override it. */
  readonly method: string
  /** The effective target: as it was sent, unless a virtual host rewrites it. */
  readonly url: string
  /** The path of it, not decoded. */
  readonly path: string
  /** The target as it was sent. */
  readonly requestedUrl: string
  /** In its reply and in the log. */
  readonly requestId: string
  /** The dialect, for cases where CouchDB releases contradict each other. */
  readonly dialect: Dialect
  /** Set after authentication: see `authenticationOf`. */
  authenticated: AuthenticatedCall | undefined
  /** The largest body that the sender may send to this path. */
  largestBody = Number.POSITIVE_INFINITY
  /** The lease of its body on the memory budget. */
  memory: MemoryLease | undefined
  readonly #forwarded: ForwardedNames
  readonly #queryText: string
  #segments: readonly string[] | undefined
  #query: URLSearchParams | undefined

  constructor(request: Request, reply: Reply, { url, requestedUrl = url, requestId, forwarded, dialect }: CallTarget) {
    this.request = request
    this.reply = reply
    this.url = url
    this.requestedUrl = requestedUrl
    this.requestId = requestId
    this.dialect = dialect
    this.#forwarded = forwarded
    this.method = methodOf(request)
    // An absolute target, as for a proxy.
    const target = url.startsWith('/') ? url : url.replace(/^https?:\/\/[^/?]*/i, '')
    const end = target.indexOf('?')
    this.path = end < 0 ? target : target.slice(0, end)
    this.#queryText = end < 0 ? '' : target.slice(end + 1)
  }

  /** The path, split at its slashes and then decoded; empty segments do not count. */
  get segments(): readonly string[] {
    this.#segments ??= pathSegments(this.path)
    return this.#segments
  }

  /** The same request, for another place on this server. */
  rewritten(url: string): Call {
    const { request, reply, requestedUrl, requestId, dialect } = this
    const call = new Call(request, reply, { url, requestedUrl, requestId, forwarded: this.#forwarded, dialect })
    call.memory = this.memory
    return call
  }

  /** One segment of the path; the route guarantees that it exists. */
  segment(index: number): string {
    return this.segments[index] ?? ''
  }

  header(name: string): string | undefined {
    return this.request.headers[name]
  }

  get hasQuery(): boolean {
    return this.#queryText !== ''
  }

  /** The value of a query parameter; of a repeated one the last counts. */
  query(name: string): string | undefined {
    if (this.#queryText === '') return undefined
    this.#query ??= new URLSearchParams(this.#queryText)
    return this.#query.getAll(name).at(-1)
  }

  /** All query parameters in the order in which they were given, repeated ones too. */
  get parameterList(): (readonly [name: string, text: string])[] {
    this.#query ??= new URLSearchParams(this.#queryText)
    return [...this.#query]
  }

  /** All query parameters; of a repeated one the last counts. */
  get parameters(): ReadonlyMap<string, string> {
    this.#query ??= new URLSearchParams(this.#queryText)
    return new Map(this.#query)
  }

  /** A non-negative integer; larger ones are cut to the largest safe integer. */
  queryCount(name: string): number | undefined {
    const text = this.query(name)
    if (text === undefined) return undefined
    if (!/^-?\d+$/.test(text)) throw queryParseError(`Invalid value for integer ${name}: ${JSON.stringify(text)}`)
    if (text.startsWith('-')) {
      throw queryParseError(`Invalid value for positive integer ${name}: ${JSON.stringify(text)}`)
    }
    return Math.min(Number(text), Number.MAX_SAFE_INTEGER)
  }

  /** A revision. */
  queryRevision(name: string): RevisionId | undefined {
    const text = this.query(name)
    return text === undefined ? undefined : parseRevision(text)
  }

  /** Whether a switch is on: anything but `true`, in any case, is off. */
  querySwitch(name: string): boolean {
    return this.query(name)?.toLowerCase() === 'true'
  }

  /** A switch that must be `true` or `false` if it is given. */
  queryBoolean(name: string): boolean | undefined {
    const text = this.query(name)
    if (text === undefined) return undefined
    const lower = text.toLowerCase()
    if (lower !== 'true' && lower !== 'false') {
      throw queryParseError(`Invalid boolean parameter ${name}: ${JSON.stringify(text)}`)
    }
    return lower === 'true'
  }

  /**
   * Whether JSON is sent as `application/json`; otherwise it is sent as plain text. In dialect 1.6 the client must
   * accept it explicitly.
   */
  get sendsJsonType(): boolean {
    return this.acceptsJson || this.dialect === '3'
  }

  /** Whether the client names JSON among what it accepts. */
  get acceptsJson(): boolean {
    const accept = this.request.headers.accept
    if (accept === 'application/json') return true
    return accept !== undefined && accept !== '*/*' && namesJson(accept)
  }

  /** Whether the client sent this ETag in `If-None-Match`. */
  hasTag(tag: string): boolean {
    const known = this.header('if-none-match')
    return known?.split(/[,\s]+/).includes(tag) ?? false
  }

  /** The ETag in `If-Match`, without its quotes. */
  get matchedTag(): string | undefined {
    return this.header('if-match')
      ?.trim()
      .replace(/^"(.*)"$/s, '$1')
  }

  /** `name` or `name:port`, as the client knows the server. */
  get host(): string {
    return hostOf(this.request, this.#forwarded)
  }

  /** Whether the connection itself uses TLS, whatever a proxy says. */
  get isEncrypted(): boolean {
    return this.request.addresses.isEncrypted
  }

  /** Scheme and host, as the client knows them. */
  get origin(): string {
    const { ssl, proto } = this.#forwarded
    const isSecure =
      this.isEncrypted || this.header(ssl)?.toLowerCase() === 'on' || this.header(proto)?.toLowerCase() === 'https'
    return `${isSecure ? 'https' : 'http'}://${this.host}`
  }

  /** The address of the client: the one that a proxy passes on, or the other end of the connection. */
  get peer(): string {
    const { remoteAddress = 'undefined' } = this.request.addresses
    const address = remoteAddress.startsWith(MAPPED) ? remoteAddress.slice(MAPPED.length) : remoteAddress
    if (address !== '127.0.0.1' && !address.startsWith('10.')) return address
    const behind = this.header('x-forwarded-for')?.split(',').at(-1)?.trim()
    return behind === undefined || isIP(behind) === 0 ? address : behind
  }

  /** The absolute address of something on this server, as the client knows it. */
  location(...segments: readonly string[]): string {
    return `${this.origin}/${segments.map(encodeSegment).join('/')}`
  }
}

export interface CallTarget {
  readonly url: string
  readonly requestedUrl?: string
  readonly requestId: string
  readonly forwarded: ForwardedNames
  readonly dialect: Dialect
}

/** The host of a request; needed before there is a call, since virtual hosts depend on it. */
export function hostOf({ headers, addresses: ends }: Request, { host }: ForwardedNames): string {
  return headers[host] ?? headers.host ?? localAddress(ends)
}

/** The prefix of IPv4 addresses in IPv6. */
const MAPPED = '::ffff:'

const OVERRIDES = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'TRACE', 'CONNECT', 'COPY'])

function methodOf({ method, headers }: Request): string {
  if (method !== 'POST') return method
  const override = headers['x-http-method-override']
  return override !== undefined && OVERRIDES.has(override) ? override : method
}

function pathSegments(path: string): string[] {
  const segments: string[] = []
  for (let start = 0, end = 0; start < path.length; start = end + 1) {
    const slash = path.indexOf('/', start)
    end = slash < 0 ? path.length : slash
    if (start === end) continue
    const segment = path.slice(start, end)
    // A plus is a space everywhere but in the name of a database, which may contain a plus and never a space.
    const hasBlanks = segments.length > 0 && segment.includes('+')
    segments.push(decode(hasBlanks ? segment.replaceAll('+', ' ') : segment))
  }
  return segments.length > 2 ? withDesign(segments) : segments
}

/** The slash of a design document id may be escaped; the paths of its functions are the same. */
function withDesign(segments: string[]): string[] {
  const [database = '', id = '', action = '', ...rest] = segments
  if (!id.startsWith(DESIGN) || !action.startsWith('_')) return segments
  return [database, '_design', id.slice(DESIGN.length), action, ...rest]
}

const DESIGN = '_design/'

/** An incomplete escape is taken literally. */
function decode(segment: string): string {
  if (!segment.includes('%')) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    const bytes = segment.replace(/%([0-9a-f]{2})/gi, (_, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 16)),
    )
    return textOf(Buffer.from(bytes, 'latin1'))
  }
}

/** Invalid UTF-8 becomes a string that is not well-formed: no name matches it. */
function textOf(bytes: Buffer): string {
  return isUtf8(bytes) ? bytes.toString() : `\ud800${bytes.toString('latin1')}`
}

const NOTHING_ESCAPED = /^[\w.:-]*$/

/** Escapes everything that CouchDB escapes. */
function encodeSegment(segment: string): string {
  if (NOTHING_ESCAPED.test(segment)) return segment
  return encodeURIComponent(segment)
    .replace(/[!'()*~]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%3A', ':')
}

function localAddress({ localAddress: address = 'localhost', localPort: port }: SocketAddresses): string {
  return `${address.includes(':') ? `[${address}]` : address}:${port ?? ''}`
}

/** A call after authentication, with its user, who may be anonymous. */
export class AuthenticatedCall {
  readonly auth: Auth
  readonly user: UserContext
  /** The handler that authenticated the sender; undefined if anonymous. */
  readonly handler: HandlerName | undefined
  readonly session: Session | undefined
  readonly request: AuthRequest
  #opened: { readonly name: string; readonly database: Database | Promise<Database> } | undefined

  constructor(auth: Auth, request: AuthRequest, { user, handler, session }: Authentication) {
    this.auth = auth
    this.request = request
    this.user = user
    this.handler = handler
    this.session = session
  }

  /** A database with the rights of the sender, opened once per call. */
  openDatabase(name: string): Database | Promise<Database> {
    if (this.#opened?.name !== name) {
      const { auth, user } = this
      this.#opened = { name, database: auth.access.opened(name, user) ?? auth.access.open(name, user) }
    }
    return this.#opened.database
  }
}

/** Creates the signal of `clientSignal` on demand: most calls never need it. */
export class CallClient {
  readonly #call: Call
  #signal: AbortSignal | undefined

  constructor(call: Call) {
    this.#call = call
  }

  get signal(): AbortSignal {
    this.#signal ??= clientSignal(this.#call)
    return this.#signal
  }
}

/** Aborts when the connection is closed, and when the reply is sent. */
export function clientSignal({ reply }: Call): AbortSignal {
  const gone = new AbortController()
  reply.onClose(() => gone.abort(GONE))
  return gone.signal
}

/** Shared: creating one each time would cost more than everything else here. Not a failure of the server. */
const GONE = new HttpError(499, 'client_gone', 'The client is gone.')
