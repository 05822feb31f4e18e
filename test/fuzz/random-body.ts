/** Bodies of requests: what each resource takes, with something odd in it, and multipart that is broken anywhere. */
import { gzipSync } from 'node:zlib'
import { type FuzzRandom, IDS, jsonText, jsonValue, REVISIONS } from './random-json.ts'

export interface Body {
  readonly bytes: Buffer
  readonly type: string
  /** Content-Encoding, where there is one. */
  readonly encoding?: string
}

type Make = (random: FuzzRandom) => unknown

/** Sometimes something else than what belongs there. */
function or(random: FuzzRandom, make: () => unknown): unknown {
  return random.chance(0.15) ? jsonValue(random) : make()
}

function someMembers(random: FuzzRandom, members: Record<string, () => unknown>): Record<string, unknown> {
  const chosen = Object.entries(members).filter(() => random.chance(0.6))
  return Object.fromEntries(chosen.map(([name, make]) => [name, or(random, make)]))
}

const attachments: Make = (random) =>
  Object.fromEntries(
    random.many(2, () => [
      random.of(['a.txt', 'b', '', '_x', 'a/b', '__proto__']),
      or(random, () =>
        someMembers(random, {
          content_type: () => random.of(['text/plain', '', 'a\r\nb: c', 'é']),
          data: () => random.of(['YWJj', 'YWJ', '!!!', '', 'YW Jj']),
          stub: () => random.chance(0.7),
          follows: () => random.chance(0.7),
          length: () => random.of([3, 0, -1, 1e15, 3.5]),
          digest: () => random.of(['md5-kAFQmDzST7DWlj99KOF/cg==', 'md5-x', 'sha1-x', '']),
          revpos: () => random.of([1, 0, 99, -1]),
          encoding: () => random.of(['gzip', 'x']),
        }),
      ),
    ]),
  )

const plainDocument: Make = (random) =>
  someMembers(random, {
    _id: () => random.of(IDS),
    _rev: () => random.of(REVISIONS),
    _deleted: () => random.chance(0.5),
    a: () => jsonValue(random),
    type: () => random.of(['bad', 'good', 1]),
  })

const document: Make = (random) => ({
  ...(plainDocument(random) as object),
  ...(random.chance(0.3) && { _attachments: attachments(random) }),
  ...(random.chance(0.1) && {
    _revisions: or(random, () => ({
      start: random.of([1, 2, 3, -1]),
      ids: random.many(3, () => random.of(REVISIONS)),
    })),
  }),
  ...(random.chance(0.08) && { [random.of(['_odd', '_conflicts', '_local_seq', '_exp', '__proto__'])]: 1 }),
})

const FUNCTION_TEXTS = [
  'function (doc) { emit(doc._id, 1) }',
  'function (doc) { throw 1 }',
  'function (',
  '',
  '1',
  'function (doc, req) { return doc }',
  'function (doc, req) { return [null, {json: {a: 1}}] }',
  '_count',
  '_sum',
  '_nosuch',
]

const functions: Make = (random) =>
  Object.fromEntries(
    random.many(2, () => [random.of(['v', 's', 'f', '']), or(random, () => random.of(FUNCTION_TEXTS))]),
  )

const designDocument: Make = (random) =>
  someMembers(random, {
    _rev: () => random.of(REVISIONS),
    language: () => random.of(['javascript', 'query', 'erlang', '']),
    views: () => ({ v: or(random, () => ({ map: random.of(FUNCTION_TEXTS), reduce: random.of(FUNCTION_TEXTS) })) }),
    shows: () => functions(random),
    lists: () => functions(random),
    updates: () => functions(random),
    filters: () => functions(random),
    rewrites: () => or(random, () => [{ from: 'a', to: random.of(['../../../x', '../..', '_view/v', '*']) }]),
    validate_doc_update: () => random.of(FUNCTION_TEXTS),
    options: () => jsonValue(random),
  })

const bulk: Make = (random) =>
  someMembers(random, {
    docs: () => random.many(4, () => or(random, () => document(random))),
    new_edits: () => random.chance(0.5),
    all_or_nothing: () => random.chance(0.5),
  })

const revisionLists: Make = (random) =>
  Object.fromEntries(
    random.many(3, () => [random.of(IDS), or(random, () => random.many(3, () => random.of(REVISIONS)))]),
  )

const bulkGet: Make = (random) => ({
  docs: or(random, () =>
    random.many(3, () =>
      or(random, () => someMembers(random, { id: () => random.of(IDS), rev: () => random.of(REVISIONS) })),
    ),
  ),
})

const OPERATORS = [
  '$gt',
  '$lt',
  '$eq',
  '$ne',
  '$in',
  '$nin',
  '$and',
  '$or',
  '$not',
  '$nor',
  '$elemMatch',
  '$allMatch',
  '$size',
]
const MORE_OPERATORS = [
  '$exists',
  '$type',
  '$mod',
  '$regex',
  '$all',
  '$keyMapMatch',
  '$beginsWith',
  '$text',
  '$',
  '$nosuch',
]

function selector(random: FuzzRandom, depth: number): unknown {
  const names = [...OPERATORS, ...MORE_OPERATORS, 'a', '_id', 'type', 'a.b', 'a\\.b', '', '.']
  return Object.fromEntries(
    random.many(3, () => {
      const value = () => (depth > 0 && random.chance(0.5) ? selector(random, depth - 1) : jsonValue(random))
      return [random.of(names), random.chance(0.3) ? random.many(3, value) : value()]
    }),
  )
}

const query: Make = (random) => ({
  selector: or(random, () => selector(random, 2)),
  ...someMembers(random, {
    fields: () => random.many(3, () => random.of(['a', '_id', 'a.b', ''])),
    sort: () =>
      random.many(2, () => or(random, () => random.of<unknown>(['a', { a: 'desc' }, { _id: 'asc' }, { a: 'x' }]))),
    limit: () => random.of([0, 1, 25, -1, 1e9]),
    skip: () => random.of([0, 1, -1, 1e9]),
    use_index: () => random.of<unknown>(['_design/d', ['d', 'v'], '', 'nosuch']),
    bookmark: () => random.of(['nil', '', 'x', 'g1AAAA', 'bm9uZQ']),
    execution_stats: () => random.chance(0.5),
    reduce: () => jsonValue(random),
    group: () => jsonValue(random),
    count: () => random.chance(0.5),
  }),
})

const index: Make = (random) =>
  someMembers(random, {
    index: () =>
      someMembers(random, {
        fields: () => random.many(3, () => or(random, () => random.of(['a', '_id', '']))),
        partial_filter_selector: () => selector(random, 1),
      }),
    name: () => random.of(['i', '', 'x'.repeat(300)]),
    ddoc: () => random.of(['d', '_design/i', '_design/', '']),
    type: () => random.of(['json', 'text', 'nouveau', 'x']),
    partitioned: () => random.chance(0.5),
  })

const rows: Make = (random) => ({
  ...someMembers(random, {
    keys: () => random.many(4, () => jsonValue(random)),
    limit: () => random.of([0, 1, -1]),
    include_docs: () => random.chance(0.5),
    map: () => random.of(FUNCTION_TEXTS),
    reduce: () => random.of(FUNCTION_TEXTS),
  }),
  ...(random.chance(0.3) && { queries: or(random, () => random.many(3, () => or(random, () => rows(random)))) }),
})

const security: Make = (random) =>
  someMembers(random, {
    admins: () => someMembers(random, { names: () => random.many(2, () => random.of(IDS)), roles: () => ['_admin'] }),
    members: () => someMembers(random, { names: () => ['member'], roles: () => random.many(2, () => random.of(IDS)) }),
  })

/** To places where nothing listens, or to a copy: never into a database whose content is compared. */
const replication: Make = (random) =>
  someMembers(random, {
    source: () =>
      random.of<unknown>(['fuzz-source', 'http://127.0.0.1:1/x', 'x y', '', { url: 'http://[' }, { url: 1 }]),
    target: () => random.of<unknown>(['fuzz-copy', 'http://127.0.0.1:1/y', 'nosuch', 'UPPER']),
    create_target: () => random.chance(0.5),
    cancel: () => random.chance(0.3),
    doc_ids: () => random.many(3, () => random.of(IDS)),
    filter: () => random.of(['d/f', 'x', '']),
    selector: () => selector(random, 1),
  })

const login: Make = (random) => ({
  name: or(random, () => 'admin'),
  password: or(random, () => random.of(['secret', 'x'])),
})

const ANY: readonly Make[] = [document, bulk, revisionLists, query, rows, security, replication, jsonValue]

/** By the part of the path that says what is asked. */
const BY_RESOURCE: readonly (readonly [RegExp, Make])[] = [
  [/_bulk_docs/, bulk],
  [/_bulk_get/, bulkGet],
  [/_find|_explain/, query],
  [/_index/, index],
  [/_all_docs|_design_docs|_local_docs|_view|_temp_view|_list|_dbs_info/, rows],
  [/_missing_revs|_revs_diff|_purge$/, revisionLists],
  [/_security/, security],
  [/_replicate/, replication],
  [/_session/, login],
  [
    /_changes/,
    (random) =>
      someMembers(random, { doc_ids: () => random.many(3, () => random.of(IDS)), selector: () => selector(random, 1) }),
  ],
  [/_limit$/, (random) => random.of([1, 1000, 0, -1, 1.5, 'x', 1e30])],
  [/_config/, (random) => random.of(['true', 'x', '', '1', 'a\nb', '-1', 'é'])],
  [/_design\/[^/]+$/, designDocument],
]

const TYPES = [
  'application/json',
  'application/json; charset=utf-8',
  'text/plain',
  '',
  ';',
  'application/x-www-form-urlencoded',
]

export function randomBody(random: FuzzRandom, path: string): Body {
  const kind = random.below(20)
  if (kind === 0) return { bytes: randomBytes(random), type: random.of(TYPES) }
  if (kind <= 2) return multipart(random)
  if (kind === 3) return formBody(random)
  const make = random.chance(0.85) ? BY_RESOURCE.find(([pattern]) => pattern.test(path))?.[1] : undefined
  const text = jsonText(random, () => (make ?? random.of(random.chance(0.5) ? ANY : [document]))(random))
  const isUtf16 = random.chance(0.01)
  const bytes = Buffer.from(text, isUtf16 ? 'utf16le' : 'utf8')
  const type = random.chance(0.8) ? 'application/json' : random.of(TYPES)
  if (random.chance(0.05))
    return { bytes: packed(random, bytes), type, encoding: random.of(['gzip', 'x', 'deflate', 'gzip, gzip']) }
  return { bytes, type }
}

/** Gzip, some of it broken. */
function packed(random: FuzzRandom, bytes: Buffer): Buffer {
  const whole = gzipSync(bytes)
  if (random.chance(0.3)) return whole.subarray(0, random.below(whole.length))
  if (random.chance(0.2)) return Buffer.concat([whole, Buffer.from('x')])
  return random.chance(0.1) ? bytes : whole
}

function randomBytes(random: FuzzRandom): Buffer {
  return Buffer.from(random.many(60, () => random.below(256)))
}

function formBody(random: FuzzRandom): Body {
  const pairs = random.many(
    3,
    () => `${random.of(['name', 'password', 'next', '%', 'a'])}=${random.of(['admin', '%FF', 'secret', '%', '+'])}`,
  )
  return { bytes: Buffer.from(pairs.join('&')), type: 'application/x-www-form-urlencoded' }
}

const BOUNDARIES = ['b', '"b c"', '', 'x'.repeat(80), "'()+_,-./:=?", '"', 'é']

/** A document with attachments, or a form, with a cut, a slip or a wrong length somewhere. */
function multipart(random: FuzzRandom): Body {
  const parameter = random.chance(0.7) ? 'b' : random.of(BOUNDARIES)
  const boundary = parameter.replace(/^"|"$/g, '')
  const isForm = random.chance(0.4)
  const text = isForm ? formParts(random, boundary) : relatedParts(random, boundary)
  const type = random.chance(0.9)
    ? `multipart/${isForm ? 'form-data' : 'related'}; boundary=${parameter}`
    : random.of([
        'multipart/related',
        'multipart/',
        'multipart/mixed; boundary=b',
        'multipart/related; boundary=b; boundary=c',
      ])
  return { bytes: broken(random, Buffer.from(text)), type }
}

function relatedParts(random: FuzzRandom, boundary: string): string {
  const announced = { 'a.txt': { content_type: 'text/plain', length: random.of([3, 3, 3, 2, 4, 0]), follows: true } }
  const json = JSON.stringify({
    ...(plainDocument(random) as object),
    _attachments: random.chance(0.8) ? announced : attachments(random),
  })
  const disposition = random.of([
    '',
    'Content-Disposition: attachment; filename="a.txt"\r\n',
    'Content-Length: 3\r\n',
    'Content-Length: x\r\n',
  ])
  const preamble = random.of(['', '\r\n', 'preamble\r\n'])
  return `${preamble}--${boundary}\r\nContent-Type: application/json\r\n\r\n${json}\r\n--${boundary}\r\n${disposition}\r\nabc\r\n--${boundary}--${random.of(['', '\r\n', 'epilogue'])}`
}

function formParts(random: FuzzRandom, boundary: string): string {
  const part = (name: string, value: string) =>
    `--${boundary}\r\nContent-Disposition: form-data; name=${name}\r\n\r\n${value}\r\n`
  const parts = [
    () => part('"_rev"', random.of(REVISIONS)),
    () =>
      part(
        '"_doc"',
        jsonText(random, () => document(random)),
      ),
    () => part('"_attachments"; filename="f.txt"', 'abc'),
    () => part(random.of(['', '"', 'x', '"_attachments"; filename=""', '"_attachments"; filename="../a"']), 'x'),
  ]
  return `${random.many(4, () => random.of(parts)()).join('')}--${boundary}--`
}

/** Half of them are broken: cut off, with a byte more or less, or with a piece twice. */
function broken(random: FuzzRandom, bytes: Buffer): Buffer {
  const at = random.below(bytes.length + 1)
  switch (random.below(8)) {
    case 0:
      return bytes.subarray(0, at)
    case 1:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)])
    case 2:
      return Buffer.concat([bytes.subarray(0, at), Buffer.from([random.of([0, 10, 13, 45, 255])]), bytes.subarray(at)])
    case 3:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(random.below(at + 1))])
    default:
      return bytes
  }
}
