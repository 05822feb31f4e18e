/**
 * The identifiers of errors, each with a request that gets it: what clients decide by. Reasons that are part of the
 * interface are checked exactly.
 */
import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import { type Reply, type RequestOptions, serverOfFile } from '../../support/client.ts'

const PROGRAM = fileURLToPath(new URL('../../functions/support/query-server.mjs', import.meta.url))

const client = serverOfFile({
  settings: {
    admins: { root: 'top' },
    httpd: { max_uri_length: '2000' },
    service: { max_document_size: '100000' },
    query_servers: { node: `"${process.execPath}" "${PROGRAM}"` },
    external: { silent: 'true', list: `printf '[]\\n'` },
    httpd_db_handlers: { _external: '{service_httpd_external, handle_external_req}' },
    oauth_consumer_secrets: { app: 'secret' },
    oauth_token_secrets: { token: 'secret' },
    oauth_token_users: { token: 'root' },
  },
})

const ADMIN = { Authorization: `Basic ${btoa('root:top')}` }

/** Sent by an administrator unless its headers say otherwise. */
interface Example {
  readonly method?: string
  readonly path: string
  readonly options?: RequestOptions
}

type Row = readonly [status: number, error: string, reason: string | RegExp, example: Example]

const get = (path: string, options: RequestOptions = {}): Example => ({ path, options })
const put = (path: string, body?: unknown, headers = {}): Example => ({
  method: 'PUT',
  path,
  options: { body, headers },
})
const post = (path: string, body?: unknown, headers = {}): Example => ({
  method: 'POST',
  path,
  options: { body, headers },
})
const asNobody = (example: Example): Example => {
  const { headers = {} } = example.options ?? {}
  return { ...example, options: { ...example.options, headers: { ...headers, Authorization: undefined } } }
}
const oauth = (parameters: string): Example => get(`/_oauth/access_token?${parameters}`)

const TEXT = { 'Content-Type': 'text/plain' }
const D = '/db/_design/d'

async function ask({ method = 'GET', path, options = {} }: Example): Promise<Reply> {
  return client().request(method, path, { ...options, headers: { ...ADMIN, ...options.headers } })
}

const DESIGN = {
  views: {
    torn: { map: 'function (doc) {' },
    fine: { map: 'function (doc) { emit(doc._id, "text") }' },
  },
  shows: {
    throws: 'function () { throw new Error("oh") }',
    forbids: 'function () { throw ["error", "forbidden", "no"] }',
    provides: 'function () { provides("xml", function () { return "x" }) }',
    requires: 'function () { require("none") }',
    torn: 'function (',
    member: 'function () { return { unknown: 1 } }',
    loops: 'function () { for (;;) {} }',
  },
  lists: { all: 'function () { return "" }' },
  updates: { nothing: 'function () { return [null, "x"] }', nameless: 'function () { return [{}, "x"] }' },
  filters: { torn: 'function (' },
}

/** Each breaks its own index: one that cannot be built is of no use to others. */
const MORE_DESIGNS: Record<string, object> = {
  stats: { views: { stats: { map: 'function (doc) { emit(1, "text") }', reduce: '_stats' } } },
  unknown: { views: { x: { map: 'function (doc) { emit(1, 1) }', reduce: '_nosuch' } } },
  grows: {
    views: {
      x: {
        map: 'function (doc) { emit(1, 1) }',
        reduce: 'function () { return "x".repeat(1000) }',
      },
    },
  },
  fatal: { views: { x: { map: 'function (doc) { throw "fatal_error" }' } } },
  foreign: { language: 'nosuch', views: { x: { map: 'x' } } },
  dies: { language: 'node', views: { x: { map: 'function () { process.exit(9) }' } } },
  custom: { language: 'node', shows: { x: 'function () { fail("my_error", "my reason") }' } },
  rewrites: {
    rewrites: [
      { from: 'a', to: 'b' },
      { from: 'self', to: '_rewrite/self' },
    ],
  },
  insecure: { rewrites: [{ from: 'a', to: '../../../x' }] },
  text: { rewrites: 'x' },
  pointless: { rewrites: [{ from: 'a' }] },
}

beforeAll(async () => {
  const made = async (example: Example) => {
    const reply = await ask(example)
    expect(reply.status, `${example.path} ${reply.text}`).toBeLessThan(300)
  }
  await made(put('/db'))
  await made(put('/db/doc', { a: 1 }))
  await made(put(D, DESIGN))
  for (const [name, members] of Object.entries(MORE_DESIGNS)) await made(put(`/db/_design/${name}`, members))
  await made(put('/db/attached/file', 'content', { 'Content-Type': 'application/octet-stream' }))
  await made(put('/closed'))
  await made(put('/closed/_security', { members: { names: ['mia'], roles: [] } }))
  await made(put('/guarded'))
  const validation =
    'function (doc) { if (doc.bad) throw { forbidden: "not this" }; if (doc.who) throw { unauthorized: "log in" } }'
  await made(put('/guarded/_design/v', { validate_doc_update: validation }))
})

describe('an error', () => {
  it.each<Row>([
    [400, 'bad_request', 'invalid_json', put('/db/new', '{')],
    [400, 'bad_request', 'Document must be a JSON object', put('/db/new', '[]')],
    [400, 'bad_request', 'Request body must be a JSON object', post('/db/_revs_diff', '[]')],
    [400, 'bad_request', 'Invalid rev format', get('/db/doc?rev=x')],
    [400, 'bad_request', 'Only reserved document ids may start with underscore.', put('/db/_x', {})],
    [400, 'bad_request', 'Stat names must have exactly two parts.', get('/_stats/httpd')],
    [400, 'bad_request', "'bytes' cannot exceed 1000000", get('/_log?bytes=1000001')],
    [400, 'bad_request', /^Malformed AuthSession cookie/, get('/', { headers: { Cookie: 'AuthSession=x' } })],
    [400, 'bad_request', /^You tried to DELETE a database with a \?rev=/, { method: 'DELETE', path: '/db?rev=1-x' }],
    [400, 'bad_request', 'Exceeded rewrite recursion limit', get('/db/_design/rewrites/_rewrite/self')],
    [400, 'bad_request', 'Document id must not be empty', post(`${D}/_update/nameless`, 'x')],
    [400, 'query_parse_error', /./, get('/db/_all_docs?limit=x')],
    [
      400,
      'content_md5_mismatch',
      'Possible message corruption.',
      put('/db/new/file', 'x', { 'Content-MD5': createHash('md5').digest('base64') }),
    ],
    [400, 'illegal_database_name', /^Name: '_nosuch'\. Only lowercase characters/, get('/_nosuch')],
    [400, 'invalid_consumer', 'Invalid consumer.', oauth('')],
    [400, 'invalid_oauth_version', 'Invalid OAuth version.', oauth('oauth_version=2.0')],
    [400, 'invalid_consumer_token_pair', 'Invalid consumer and token pair.', oauth('oauth_consumer_key=x')],
    [
      400,
      'invalid_signature',
      'Invalid signature value.',
      oauth('oauth_consumer_key=app&oauth_token=token&oauth_signature_method=PLAINTEXT&oauth_signature=x'),
    ],
    [400, 'rewrite_error', /String/, get('/db/_design/text/_rewrite/a')],
    [401, 'unauthorized', 'You are not a server admin.', asNobody(get('/_config'))],
    [401, 'unauthorized', 'You are not a db or server admin.', asNobody(put('/db/_design/x', {}))],
    [401, 'unauthorized', 'You are not authorized to access this db.', asNobody(get('/closed'))],
    [
      401,
      'unauthorized',
      'Name or password is incorrect.',
      get('/', { headers: { Authorization: `Basic ${btoa('root:wrong')}` } }),
    ],
    [401, 'unauthorized', 'Please login.', asNobody(get('/_session?basic=true'))],
    [401, 'unauthorized', 'log in', put('/guarded/x', { who: 1 })],
    [403, 'forbidden', 'count parameter too large', get('/_uuids?count=1001')],
    [403, 'forbidden', 'Only admins can access _all_docs of system databases.', asNobody(get('/_users/_all_docs'))],
    [403, 'forbidden', 'not this', put('/guarded/x', { bad: 1 })],
    [403, 'forbidden', 'no', get(`${D}/_show/forbids`)],
    [404, 'not_found', 'missing', get('/db/none')],
    [404, 'not_found', 'no_db_file', get('/none')],
    [404, 'not_found', 'unknown_config_value', get('/_config/none/none')],
    [404, 'not_found', 'Document is missing attachment', get('/db/doc/none')],
    [404, 'not_found', 'missing_named_view', get('/db/_design/stats/_view/none')],
    [404, 'not_found', 'missing handler: _none', get(`${D}/_none`)],
    [404, 'not_found', 'missing json key: none', get('/db/_changes?filter=d/none')],
    [404, 'not_found', 'missing shows function none on design doc _design/d', get(`${D}/_show/none`)],
    [404, 'external_server_error', 'No server name specified.', get('/db/_external')],
    [404, 'show_error', 'Invalid path.', get(`${D}/_show`)],
    [404, 'update_error', 'Invalid path.', post(`${D}/_update`, '')],
    [404, 'list_error', 'Bad path.', get(`${D}/_list/all`)],
    [404, 'rewrite_error', 'Invalid path.', get(`${D}/_rewrite/x`)],
    [405, 'method_not_allowed', 'Only GET,HEAD allowed', put('/_all_dbs')],
    [405, 'method_not_allowed', 'Update functions do not allow GET', get(`${D}/_update/nothing`)],
    [
      406,
      'not_acceptable',
      'unsupported encoding',
      get('/db/attached/file', { headers: { 'Accept-Encoding': 'x, *;q=0' } }),
    ],
    [
      406,
      'not_acceptable',
      /^Content-Type text\/css not supported/,
      get(`${D}/_show/provides`, { headers: { Accept: 'text/css' } }),
    ],
    [409, 'conflict', 'Document update conflict.', put('/db/doc', {})],
    [412, 'file_exists', 'The database could not be created, the file already exists.', put('/db')],
    [412, 'missing_stub', /./, put('/db/new', { _attachments: { a: { stub: true } } })],
    [413, 'too_large', 'the request entity is too large', put('/db/new', { text: 'x'.repeat(100_001) })],
    [414, 'too_long', 'the request entity is too long', get(`/db/${'x'.repeat(2000)}`)],
    [415, 'bad_content_type', 'Content-Type must be application/json', post('/db', '{}', TEXT)],
    [
      415,
      'bad_content_type',
      'br is not a supported content encoding.',
      put('/db/new', '{}', { 'Content-Encoding': 'br' }),
    ],
    [
      416,
      'requested_range_not_satisfiable',
      'Requested range not satisfiable',
      get('/db/attached/file', { headers: { Range: 'bytes=100-200' } }),
    ],
    [500, 'doc_validation', 'Bad special document member: _nosuch', put('/db/new', { _nosuch: 1 })],
    [500, 'compilation_error', /./, get(`${D}/_view/fine`)],
    [500, 'compilation_error', /./, get(`${D}/_show/torn`)],
    [500, 'render_error', /^function raised error: .*oh/s, get(`${D}/_show/throws`)],
    [500, 'invalid_require_path', /^Object has no property "none"/, get(`${D}/_show/requires`)],
    [500, 'external_response_error', /^Invalid data from external server: /, get(`${D}/_show/member`)],
    [500, 'external_response_error', /^Invalid data from external server: /, get('/db/_external/list')],
    [
      500,
      'invalid_value',
      'builtin _stats function requires map values to be numbers',
      get('/db/_design/stats/_view/stats'),
    ],
    [500, 'invalid_value', '`_nosuch` is not a supported reduce function.', get('/db/_design/unknown/_view/x')],
    [500, 'reduce_overflow_error', /^Reduce output must shrink more rapidly/, get('/db/_design/grows/_view/x')],
    [500, 'map_runtime_error', "function raised 'fatal_error'", get('/db/_design/fatal/_view/x')],
    [500, 'unknown_query_language', 'nosuch', get('/db/_design/foreign/_view/x')],
    [500, 'os_process_error', '{exit_status,9}', get('/db/_design/dies/_view/x')],
    [500, 'os_process_error', '{exit_status,0}', get('/db/_external/silent')],
    [500, 'my_error', 'my reason', get('/db/_design/custom/_show/x')],
    [500, 'insecure_rewrite_rule', 'too many ../.. segments', get('/db/_design/insecure/_rewrite/a')],
    [500, 'error', 'invalid_rewrite_target', get('/db/_design/pointless/_rewrite/a')],
    [501, 'not_implemented', 'Plugins are not supported.', post('/_plugins', '{}')],
  ])('%i %s, %s', async (status, error, reason, example) => {
    const reply = await ask(example)
    const expected = typeof reason === 'string' ? reason : expect.stringMatching(reason)
    expect([reply.status, reply.json]).toEqual([status, { error, reason: expected }])
    expect(Object.keys(reply.as<object>())).toEqual(['error', 'reason'])
    expect(reply.text.endsWith('\n')).toBe(true)
  })

  it('500 os_process_error, when a function exceeds its time limit', async () => {
    await ask(put('/_config/service/os_process_timeout', '"300"'))
    const reply = await ask(get(`${D}/_show/loops`))
    expect([reply.status, reply.json]).toEqual([500, { error: 'os_process_error', reason: 'OS process timed out.' }])
    await ask(put('/_config/service/os_process_timeout', '"5000"'))
  })

  it('417 with the refused documents, for an all_or_nothing request', async () => {
    const docs = [{ _id: 'fine' }, { _id: 'refused', bad: 1 }]
    const reply = await ask(post('/guarded/_bulk_docs', { all_or_nothing: true, docs }))
    expect([reply.status, reply.json]).toEqual([
      417,
      [expect.objectContaining({ id: 'refused', error: 'forbidden', reason: 'not this' })],
    ])
    expect((await ask(get('/guarded/fine'))).status).toBe(404)
  })

  it('is reported for each document of a bulk request', async () => {
    const docs = [{ _id: 'doc' }, { _id: 'other' }]
    expect((await ask(post('/db/_bulk_docs', { docs }))).json).toMatchObject([
      { id: 'doc', error: 'conflict', reason: 'Document update conflict.' },
      { ok: true, id: 'other' },
    ])
  })

  it('400 modification_not_allowed, when the whitelist does not name a setting', async () => {
    await ask(put('/_config/httpd/config_whitelist', '"[{httpd,config_whitelist}]"'))
    const reply = await ask(put('/_config/log/level', '"debug"'))
    expect([reply.status, reply.json]).toEqual([
      400,
      { error: 'modification_not_allowed', reason: 'This config variable is read-only' },
    ])
  })
})
