/**
 * Random requests: a resource of the route table, a method, what belongs to it and what does not, as bytes,
 * and the manner in which they are sent. The same seed gives the same ones.
 */
import { METHODS } from 'node:http'
import { routes } from '../../src/http/server/routes.ts'
import { QUERY_PARAMETERS, QUERY_VALUES } from '../support/odd-values.ts'
import type { Manner } from './exchange.ts'
import { type Body, randomBody } from './random-body.ts'
import { type FuzzRandom, jsonValue } from './random-json.ts'

export interface FuzzCase {
  readonly bytes: Buffer
  readonly manner: Manner
  /** Of the requests in the bytes, as they were before anything was broken. */
  readonly methods: readonly string[]
  readonly paths: readonly string[]
  /** Nothing in the bytes is broken, and all of them are sent: there must be a reply. */
  readonly isWhole: boolean
  /** The reply may wait for something to happen. */
  readonly isFeed: boolean
  /** The last request is not all sent: nothing of it may count. */
  readonly isCutShort: boolean
}

const TABLE = routes.all()
/** What most requests write to, with the methods that write. */
const WRITES = [
  '/{db}',
  '/{db}/{docid}',
  '/{db}/_bulk_docs',
  '/{db}/{docid}/{name}',
  '/{db}/_local/{name}',
  '/{db}/_purge',
]
const WRITING = TABLE.filter(({ path }) => WRITES.includes(path))

export interface Round {
  readonly database: string
  /** Only then are settings changed, since they are the same for all databases. */
  readonly changesSettings: boolean
}

export function randomCase(random: FuzzRandom, round: Round): FuzzCase {
  const count = random.chance(0.06) ? 2 + random.below(2) : 1
  const requests = Array.from({ length: count }, (_, i) => randomRequest(random, round, i === count - 1))
  const whole = Buffer.concat(requests.map(({ bytes }) => bytes))
  const isSlipped = random.chance(0.12)
  const bytes = isSlipped ? slipped(random, whole) : whole
  const manner = randomManner(random, bytes)
  const isAllSent = manner.kind === 'whole' || manner.kind === 'slow'
  return {
    bytes,
    manner,
    methods: requests.map(({ method }) => method),
    paths: requests.map(({ path }) => path),
    isWhole: isAllSent && !isSlipped,
    isFeed: /feed=|_replicate|_db_updates/.test(whole.toString('latin1')),
    // The cut is in the last one where there is only one. Of an endless one the length was told, or chunks go on.
    isCutShort: !isAllSent && !isSlipped && count === 1 && isUnfinished(manner, requests[0]!),
  }
}

function isUnfinished(manner: Manner, { needsAll }: { needsAll: number }): boolean {
  return (manner.kind === 'cut short' || manner.kind === 'broken off') && manner.at < needsAll
}

interface Made {
  readonly bytes: Buffer
  readonly method: string
  readonly path: string
  /** How many bytes there must be before the server can know the request. */
  readonly needsAll: number
}

function randomRequest(random: FuzzRandom, round: Round, isLast: boolean): Made {
  const route = random.of(random.chance(0.3) ? WRITING : TABLE)
  const own = Object.keys(route.operations).filter((each) => each !== '*')
  const method =
    random.chance(0.75) && own.length > 0 ? random.of(own) : random.of(random.chance(0.9) ? COMMON : METHODS)
  const path = randomPath(random, route.path, round.database)
  const query = randomQuery(random)
  const target = random.chance(0.02) ? `http://${random.of(['x', 'x:1', ''])}${path}${query}` : `${path}${query}`
  const isWrite = method !== 'GET' && method !== 'HEAD'
  const body = random.chance(isWrite ? 0.9 : 0.05) ? randomBody(random, path) : undefined
  const version = random.chance(0.02) ? '1.0' : '1.1'
  const headers = [
    `Host: ${random.chance(0.98) ? 'localhost' : random.of(['', 'a.b:99', 'x y', '[::1]', 'x'.repeat(300)])}`,
    ...identity(random, route.path, round),
    ...(isLast && random.chance(0.85) ? ['Connection: close'] : []),
    ...randomHeaders(random),
    ...(body?.type ? [`Content-Type: ${body.type}`] : []),
    ...(body?.encoding ? [`Content-Encoding: ${body.encoding}`] : []),
  ]
  const framed = body
    ? framedBody(random, body)
    : { lines: isWrite && random.chance(0.5) ? ['Content-Length: 0'] : [], bytes: Buffer.alloc(0) }
  const head = Buffer.from(
    `${method} ${target} HTTP/${version}\r\n${[...headers, ...framed.lines].join('\r\n')}\r\n\r\n`,
    'latin1',
  )
  const bytes = Buffer.concat([head, framed.bytes])
  const isBodyRead = TAKES_BODY.has(method) && route.path !== '/{db}' && !bytes.includes('X-HTTP-Method-Override')
  return { bytes, method, path, needsAll: isBodyRead ? bytes.length : head.length }
}

/** Others act as soon as the head is there. */
const TAKES_BODY = new Set(['PUT', 'POST'])

const COMMON = ['GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'COPY', 'OPTIONS', 'PATCH', 'TRACE', 'CONNECT']

const DATABASES = [
  'nosuch',
  'UPPER',
  '_users',
  '_replicator',
  'fuzz-copy',
  'a%2Fb',
  '%FF',
  '..',
  'x'.repeat(1_100),
  '_nosuch',
]

/** What stands for `{name}`, `{docid}`, or follows a path. */
const SEGMENTS = [
  ...[
    'doc',
    'torn',
    'gone',
    'files',
    'new',
    'n1',
    'n2',
    'n3',
    'a%2Fb',
    '%',
    '%FF',
    '%00',
    '%F0%9F%98%80',
    '_x',
    '..',
    '.',
    '',
    'p:1',
  ],
  ...[
    'd',
    'v',
    's',
    'l',
    'u',
    'f',
    'queries',
    'a.txt',
    'b',
    'x'.repeat(2_500),
    '%C0%AF',
    '%ED%A0%80',
    '+',
    '__proto__',
  ],
]

const FURTHER: Readonly<Record<string, readonly string[]>> = {
  _view: ['v', 'reduced', 'v/queries', 'broken', 'nosuch', ''],
  _list: ['l/v', 'l/reduced', 'l/d/v', 'bad/v', 'nosuch/v', 'l', ''],
  _show: ['s', 's/doc', 's/nosuch', 'bad/doc', 'nosuch', ''],
  _update: ['u', 'u/doc', 'u/new', 'bad', 'bad/doc', 'nosuch/doc', ''],
  _rewrite: ['a', 'b/c', 'up', 'loop', 'nosuch', ''],
  _compact: ['d', 'nosuch'],
  _node: ['_local/_stats', '_local/_system', '_local/_config', '_local', 'x', '_local/_versions', '_local/_prometheus'],
  _scheduler: ['jobs', 'docs', 'jobs/x', 'docs/_replicator/x', 'x'],
  _utils: ['', 'index.html', '../../etc/passwd', '..%2F..%2Fetc%2Fpasswd', '%00', 'assets/'],
  _oauth: ['request_token', 'authorize', 'access_token', 'x'],
  _config: [
    'fuzz',
    'fuzz/a',
    'fuzz/%FF',
    'log/level',
    'uuids/algorithm',
    'query_server_config/reduce_limit',
    'httpd/allow_jsonp',
    'a/b/c',
  ],
  _stats: ['httpd', 'httpd/requests', 'a/b', 'x/y/z'],
  _index: ['_design/d/json/i', '_design/d/text/i', '_bulk_delete', 'd/json/nosuch'],
  _partition: ['p', 'p/_all_docs', 'p/_find', 'p/_design/d/_view/v', 'nosuch/_x', ''],
  _db_updates: ['', 'x'],
  _session: ['', 'x'],
  _uuids: ['', 'x'],
}

function randomPath(random: FuzzRandom, pattern: string, database: string): string {
  const name = random.chance(0.9) ? database : random.of(DATABASES)
  const filled = pattern
    .replace('{db}', () => name)
    .replaceAll(/_design\/\{name\}/g, () => `_design/${random.chance(0.8) ? 'd' : random.of(SEGMENTS)}`)
    .replaceAll(/\{(?:docid|name)\}/g, () => random.of(SEGMENTS))
  const last = /[^/]*$/.exec(pattern)?.[0] ?? ''
  const further = FURTHER[last]
  let path = further && random.chance(0.85) ? `${filled}/${random.of(further)}` : filled
  if (random.chance(0.03)) path += `/${random.of(SEGMENTS)}`
  if (random.chance(0.02)) path = path.replace('/', random.of(['//', '/./', '/../', '/%2F', '\\', '']))
  if (random.chance(0.03))
    path = path.replace(/\w/g, (letter) => (random.chance(0.3) ? `%${letter.charCodeAt(0).toString(16)}` : letter))
  return path
}

function randomQuery(random: FuzzRandom): string {
  if (random.chance(0.5)) return ''
  const pairs = random.many(4, () => {
    const value = random.chance(0.85) ? random.of(QUERY_VALUES) : JSON.stringify(jsonValue(random, 1))
    return `${random.of(QUERY_PARAMETERS)}${random.chance(0.97) ? '=' : ''}${random.chance(0.97) ? encodeURIComponent(value) : 'x%'}`
  })
  return `?${pairs.join(random.chance(0.98) ? '&' : '&&')}`
}

const CREDENTIALS = ['admin:secret', 'admin:wrong', 'member:member', ':', 'nobody:x', 'admin']

/** Mostly that of the administrator. Nobody may restart the server, and no setting is changed but by an administrator. */
function identity(random: FuzzRandom, pattern: string, { changesSettings }: Round): string[] {
  if (pattern === '/_restart') return []
  if (!changesSettings && (pattern === '/_config' || pattern === '/_node')) return []
  if (random.chance(0.85)) return [`Authorization: Basic ${btoa('admin:secret')}`]
  if (random.chance(0.5)) return []
  if (random.chance(0.5)) return [`Cookie: AuthSession=${random.of(['', 'x', 'YWRtaW46NTAwMDAwMDA6eHh4', '%'])}`]
  const scheme = random.of(['Basic', 'Basic', 'Bearer', 'OAuth', ''])
  return [`Authorization: ${scheme} ${random.chance(0.8) ? btoa(random.of(CREDENTIALS)) : '!'}`]
}

const HEADERS: readonly (readonly [string, readonly string[]])[] = [
  ['If-Match', ['"1-a"', '*', '1-a', '"', '']],
  ['If-None-Match', ['"1-a"', '*', '"', 'W/"x"', '']],
  [
    'Destination',
    ['new', 'doc', 'doc?rev=1-a', '_x', '', '?', '%', '%FF', '_local/l', '_design/d', 'http://x', '../x', 'a/b'],
  ],
  ['X-HTTP-Method-Override', ['PUT', 'DELETE', 'COPY', 'GET', 'POST', 'x', '']],
  ['X-Service-Full-Commit', ['true', 'x']],
  [
    'Accept',
    [
      'application/json',
      '*/*',
      ';;',
      ',',
      '',
      'multipart/mixed',
      'multipart/related',
      'text/event-stream',
      'text/html;q=x',
    ],
  ],
  ['Accept-Encoding', ['gzip', 'identity;q=0', '*;q=0', ';']],
  ['Range', ['bytes=0-1', 'bytes=-1', 'bytes=5-1', 'bytes=0-0,2-3', 'x', 'bytes=99999999999999999999-']],
  ['Content-MD5', ['kAFQmDzST7DWlj99KOF/cg==', 'x', '']],
  ['Expect', ['100-continue', 'x']],
  ['Origin', ['http://x', 'null', '']],
  ['Referer', ['http://localhost/', 'x']],
  ['Cookie', ['a=b', ';', 'AuthSession=;AuthSession=x']],
  ['X-Request-ID', ['x', 'x'.repeat(400), '']],
  ['X-Forwarded-Host', ['x', '/']],
  ['Last-Event-ID', ['0', '5', 'x']],
  ['Upgrade', ['websocket', 'h2c']],
  ['TE', ['trailers', 'x']],
  ['Content-Encoding', ['identity', 'gzip']],
]

function randomHeaders(random: FuzzRandom): string[] {
  if (random.chance(0.5)) return random.chance(0.01) ? Array.from({ length: 300 }, (_, i) => `X-${i}: y`) : []
  return random.many(3, () => {
    const [name, values] = random.of(HEADERS)
    return `${name}: ${random.of(values)}`
  })
}

function framedBody(random: FuzzRandom, { bytes }: Body): { lines: string[]; bytes: Buffer } {
  if (random.chance(0.75)) return { lines: [`Content-Length: ${bytes.length}`], bytes }
  const pieces: Buffer[] = []
  for (let at = 0; at < bytes.length; ) {
    const size = 1 + random.below(random.of([1, 8, 100, 5_000]))
    const piece = bytes.subarray(at, at + size)
    const extension = random.chance(0.05) ? random.of([';a', ';a=b', ';a="b c"', ';']) : ''
    pieces.push(Buffer.from(`${piece.length.toString(16)}${extension}\r\n`), piece, Buffer.from('\r\n'))
    at += size
  }
  const trailers = random.chance(0.05) ? random.of(['X: y\r\n', 'Content-MD5: x\r\n', 'X-Checksum: 1\r\nY: 2\r\n']) : ''
  return {
    lines: ['Transfer-Encoding: chunked'],
    bytes: Buffer.concat([...pieces, Buffer.from(`0\r\n${trailers}\r\n`)]),
  }
}

const SLIPS = [
  '',
  '\0',
  '\t',
  ' ',
  '\r',
  '\n',
  '\r\n',
  '\r\n\r\n',
  '\x7f',
  '\xff',
  ';',
  ',',
  ':',
  '0',
  'x',
  '-',
  '"',
  '%',
  '{',
  '}',
  '/',
  'HTTP/1.1',
]

/** A few places have something less, more or twice. */
function slipped(random: FuzzRandom, bytes: Buffer): Buffer {
  let text = bytes.toString('latin1')
  for (let i = 1 + random.below(3); i > 0; i--) {
    // The head has most of the rules.
    const at = random.below(random.chance(0.7) ? Math.min(text.length, 400) + 1 : text.length + 1)
    const instead = random.chance(0.1) ? text.slice(at, at + random.below(200)).repeat(2) : random.of(SLIPS)
    text = text.slice(0, at) + instead + text.slice(at + random.below(3))
  }
  return Buffer.from(text, 'latin1')
}

function randomManner(random: FuzzRandom, bytes: Buffer): Manner {
  const cuts = (limit: number) => random.many(limit, () => random.below(bytes.length)).sort((a, b) => a - b)
  const kind = random.below(100)
  if (kind < 78) return { kind: 'whole', cuts: [] }
  if (kind < 86) return { kind: 'whole', cuts: cuts(6) }
  if (kind < 87) return { kind: 'whole', cuts: Array.from({ length: Math.min(bytes.length, 500) }, (_, i) => i) }
  if (kind < 90) return { kind: 'slow', cuts: cuts(4) }
  if (kind < 95) return { kind: 'cut short', at: random.below(bytes.length) }
  if (kind < 99) return { kind: 'broken off', at: random.below(bytes.length + 1) }
  return {
    kind: 'endless',
    piece: Buffer.from(
      random.of(['x'.repeat(65_536), '1\r\nx\r\n'.repeat(5_000), '0,'.repeat(30_000), '\r\n'.repeat(10_000)]),
    ),
  }
}
