/**
 * A request, and the parser of its head: request line and headers. Strict: what deviates from the standard is refused,
 * since differences between parsers allow request smuggling.
 */
import { METHODS } from 'node:http'
import { IncomingBody } from './incoming-body.ts'

/** By lower-case names. Repeated headers are joined into a list, unless only one is allowed. */
export type RequestHeaders = Record<string, string | undefined>

export interface RequestHead {
  readonly method: string
  /** As it was sent, but for bytes that should have been escaped. */
  readonly target: string
  readonly headers: RequestHeaders
  /** HTTP/1.0: its clients know no chunks, and close unless they say otherwise. */
  readonly isHttp10: boolean
  readonly keepsAlive: boolean
  readonly framing: BodyFraming
}

/** How the body is framed: by its length, in chunks, or in an unknown way, so that the request is refused. */
export type BodyFraming = number | 'chunked' | 'unknown'

/** The two ends of a connection. */
export interface SocketAddresses {
  /** The address of the client. */
  readonly remoteAddress: string | undefined
  /** Where it reached the server. */
  readonly localAddress: string | undefined
  readonly localPort: number | undefined
  /** Whether it uses TLS. */
  readonly isEncrypted: boolean
}

export class Request {
  readonly method: string
  /** The target as it was sent. */
  readonly url: string
  readonly headers: RequestHeaders
  readonly addresses: SocketAddresses
  #body: IncomingBody | undefined

  constructor(
    { method, target, headers }: Pick<RequestHead, 'method' | 'target' | 'headers'>,
    body: IncomingBody | undefined,
    ends: SocketAddresses,
  ) {
    this.method = method
    this.url = target
    this.headers = headers
    this.#body = body
    this.addresses = ends
  }

  /** The same request with other socket addresses. */
  from(addresses: SocketAddresses): Request {
    const { method, url: target, headers } = this
    return new Request({ method, target, headers }, this.#body, addresses)
  }

  /** An empty one where the request has none. */
  get body(): IncomingBody {
    this.#body ??= IncomingBody.empty()
    return this.#body
  }

  /** Whether there is a body, even an empty one. */
  get hasBody(): boolean {
    return this.headers['content-length'] !== undefined || this.headers['transfer-encoding'] !== undefined
  }
}

const LINE_END = '\r\n'
const HEADERS_LIMIT = 1000

/** Throws if the beginning of a head is already invalid. */
export function checkBeginning(text: string): void {
  // Its last character may be the first half of a line end.
  checkCharacters(text.endsWith('\r') ? text.slice(0, -1) : text)
}

/** The error of a head that is longer than the limit. */
export function tooLongHead(text: string): Refusal {
  checkBeginning(text)
  if (!KNOWN_METHODS.has(text.slice(0, Math.max(text.indexOf(' '), 0)))) return malformed('The method is not known.')
  if (text.includes(LINE_END)) return new Refusal(431, 'the request headers are too long', 'headers_too_long')
  return new Refusal(414, 'the request entity is too long', 'too_long')
}

/** The text of a head, a character a byte, without the empty line that ends it. */
export function parseHead(text: string): RequestHead {
  checkCharacters(text)
  const end = endOfLine(text, 0)
  const methodEnd = text.indexOf(' ')
  const targetEnd = text.lastIndexOf(' ', end - 1)
  const method = text.slice(0, Math.max(methodEnd, 0))
  const target = text.slice(methodEnd + 1, Math.max(targetEnd, 0))
  const version = text.slice(targetEnd + 1, end)
  if (!KNOWN_METHODS.has(method) && !isHeaderName(method)) throw malformed('The method is not valid.')
  if (target === '') throw malformed('The request target is empty.')
  if (target.includes(' ') || target.includes('\t')) throw malformed('The request target contains white space.')
  if (version !== 'HTTP/1.1' && version !== 'HTTP/1.0') throw malformed('The HTTP version is not supported.')
  const headers = parseHeaders(text, end + LINE_END.length)
  const isOldVersion = version === 'HTTP/1.0'
  if (!isOldVersion && headers.host === undefined) throw malformed('The Host header is missing.')
  if (headers.host !== undefined && !HOST.test(headers.host)) throw malformed('The Host header is not valid.')
  if (!target.startsWith('/')) readTarget(method, target, headers)
  const framing = framingOf(headers, isOldVersion)
  // A method of its own, since a proxy need not know it; the framing of its body is not guessed.
  if (!KNOWN_METHODS.has(method)) throw unknownMethod()
  return {
    method,
    target: UNESCAPED.test(target) ? escaped(target) : target,
    headers,
    isHttp10: isOldVersion,
    keepsAlive: keepsAlive(headers.connection, isOldVersion),
    framing,
  }
}

/** A name or address with or without a port. It may be empty. */
const HOST = /^[\w.~!$&'()*+,;=%:[\]-]*$/
const ABSOLUTE_TARGET = /^https?:\/\/([^/?#]+)(?:[/?]|$)/i

/** An absolute target, as for a proxy; its host then overrides the Host header. */
function readTarget(method: string, target: string, headers: RequestHeaders): void {
  if (target === '*' && method === 'OPTIONS') return
  const host = ABSOLUTE_TARGET.exec(target)?.[1]
  if (host === undefined || !HOST.test(host)) throw malformed('The request target is neither a path nor an address.')
  headers.host = host
}

/** Control characters, except tabs and line ends. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is about them.
const FORBIDDEN = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?<!\r)\n/

const UNESCAPED = /[\x80-\xff]/

/** Unescaped UTF-8 in a target is treated as if it were escaped. */
function escaped(target: string): string {
  return target.replace(/[\x80-\xff]/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase()}`)
}

export function checkCharacters(text: string): void {
  if (FORBIDDEN.test(text)) throw malformed('The head contains control characters.')
}

const KNOWN_METHODS = new Set(METHODS)

function endOfLine(text: string, from: number): number {
  const end = text.indexOf(LINE_END, from)
  return end < 0 ? text.length : end
}

/** The header lines from an offset on. */
export function parseHeaders(text: string, from: number): RequestHeaders {
  const headers: RequestHeaders = Object.create(NOTHING)
  let count = 0
  for (let at = from; at < text.length; ) {
    const end = endOfLine(text, at)
    const colon = text.indexOf(':', at)
    if (colon < 0 || colon > end) throw malformed('A header line has no colon.')
    if (++count > HEADERS_LIMIT) throw malformed('There are too many headers.')
    add(headers, lowerName(text.slice(at, colon)), trimmed(text, colon + 1, end))
    at = end + LINE_END.length
  }
  return headers
}

/** A prototype without members: objects with a null prototype are slow. */
const NOTHING: object = Object.create(null)

/** The first of several counts. */
const SINGLE = new Set([
  'authorization',
  'content-type',
  'from',
  'if-modified-since',
  'if-unmodified-since',
  'max-forwards',
  'proxy-authorization',
  'referer',
  'user-agent',
])

function add(headers: RequestHeaders, name: string, value: string): void {
  const before = headers[name]
  if (before === undefined) headers[name] = value
  else if (name === 'host' || name === 'content-length') throw malformed(`There is more than one ${name} header.`)
  else if (!SINGLE.has(name)) headers[name] = `${before}${name === 'cookie' ? '; ' : ', '}${value}`
}

/** The few names that clients use, checked and in lower case. */
const knownNames = new Map<string, string>()
const KNOWN_NAMES_LIMIT = 500
const KNOWN_NAME_LIMIT_CHARACTERS = 64

function lowerName(sent: string): string {
  const known = knownNames.get(sent)
  if (known !== undefined) return known
  if (!isHeaderName(sent)) throw malformed('The name of a header is not valid.')
  const lower = sent.toLowerCase()
  if (knownNames.size < KNOWN_NAMES_LIMIT && sent.length <= KNOWN_NAME_LIMIT_CHARACTERS) knownNames.set(sent, lower)
  return lower
}

const BLANK = 0x20
const TAB = 0x09

function trimmed(text: string, from: number, to: number): string {
  let start = from
  let end = to
  while (start < end && isBlank(text.charCodeAt(start))) start++
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--
  return text.slice(start, end)
}

function isBlank(code: number): boolean {
  return code === BLANK || code === TAB
}

function keepsAlive(connection: string | undefined, isOldVersion: boolean): boolean {
  if (connection === undefined) return !isOldVersion
  const options = connection.toLowerCase().split(/[\s,]+/)
  return !options.includes('close') && (!isOldVersion || options.includes('keep-alive'))
}

const LARGEST_LENGTH_DIGITS = 15

function framingOf(headers: RequestHeaders, isOldVersion: boolean): BodyFraming {
  const { 'transfer-encoding': encoding, 'content-length': length } = headers
  if (encoding !== undefined) {
    // A peer that uses the other header would see another end of the body.
    if (length !== undefined) throw malformed('There are both Content-Length and Transfer-Encoding.')
    if (isOldVersion) throw malformed('HTTP/1.0 has no Transfer-Encoding.')
    return transferFraming(encoding.toLowerCase())
  }
  if (length === undefined) return 0
  if (!/^\d+$/.test(length)) throw malformed('Content-Length is not a number.')
  if (length.length > LARGEST_LENGTH_DIGITS) throw malformed('Content-Length is too large.')
  return Number(length)
}

/** A transfer coding: its name, and parameters where it has any. */
const CODING = /^([\w!#$%&'*+.^`|~-]+)[\t ]*(?:;[\t -~]*)?$/

/** `chunked` must be last and occur once; other codings are not supported. */
function transferFraming(encoding: string): BodyFraming {
  if (encoding === 'chunked') return 'chunked'
  const codings = encoding.split(',').map((each) => trimmed(each, 0, each.length))
  for (const [i, coding] of codings.entries()) {
    const name = CODING.exec(coding)?.[1]
    if (name === undefined) throw malformed('Transfer-Encoding is not a list of codings.')
    const isPlainLast = i === codings.length - 1 && coding === name
    if (name === 'chunked' && !isPlainLast) throw malformed('Only the last transfer coding can be chunked.')
  }
  return 'unknown'
}

/** Why bytes are not a valid request. The client gets the status, and nothing that follows is read. */
export class Refusal extends Error {
  readonly status: number
  /** The identifier of the error, where the reply has a body that explains it. */
  readonly error: string | undefined
  /** Header lines that the status asks for. */
  readonly headerLines: string

  constructor(status: number, message: string, error?: string, headerLines = '') {
    super(message)
    this.status = status
    this.error = error
    this.headerLines = headerLines
  }
}

/** The methods of the interface: which path was meant makes no difference. */
const METHODS_OF_INTERFACE = 'GET,HEAD,POST,PUT,DELETE,COPY'

function unknownMethod(): Refusal {
  const told = `Only ${METHODS_OF_INTERFACE} allowed`
  return new Refusal(405, told, 'method_not_allowed', `Allow: ${METHODS_OF_INTERFACE}\r\n`)
}

export function malformed(message: string): Refusal {
  return new Refusal(400, message)
}

/** What header names and values may contain: anything else could inject a line. */
const TOKEN = /^[\w!#$%&'*+.^`|~-]+$/
const UNFIT = /[^\t\x20-\x7e\x80-\xff]/

export function isHeaderName(text: string): boolean {
  return TOKEN.test(text)
}

/** A character stands for a byte. */
export function isHeaderValue(text: string): boolean {
  return !UNFIT.test(text)
}
