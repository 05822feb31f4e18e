import { describe, expect, it } from 'vitest'
import { expectRefusal, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

const MAPS = {
  all: { map: 'function (doc) { if (doc.n !== undefined) emit(doc.n, doc._id) }' },
  sums: { map: 'function (doc) { if (doc.n !== undefined) emit(doc.n % 2, doc.n) }', reduce: '_sum' },
  none: { map: 'function () {}' },
}

/** A database with ten documents and these list functions. */
async function databaseWith(lists: Record<string, string>, members: object = {}): Promise<TestDatabase> {
  const db = await client().database()
  await db.save('_design/app', { lists, views: MAPS, ...members })
  const docs = Array.from({ length: 10 }, (_, n) => ({ _id: `doc-${n}`, n }))
  expect((await db.post('_bulk_docs', { docs })).status).toBe(201)
  return db
}

const EACH_ROW = `function (head, req) {
  var row;
  while (row = getRow()) send(JSON.stringify(row) + '\\n');
  return 'tail';
}`

const ANSWER = (source: string) => `function (head, req) { ${source} }`

function typeOf(reply: Reply): string | undefined {
  return reply.headers['content-type']
}

describe('a list function', () => {
  it('renders the rows of a view, one after the other', async () => {
    const db = await databaseWith({ rows: EACH_ROW })
    const reply = await db.get('_design/app/_list/rows/all?limit=2&skip=3')
    expect([reply.status, typeOf(reply)]).toEqual([200, 'application/json'])
    expect(reply.text).toBe('{"id":"doc-3","key":3,"value":"doc-3"}\n{"id":"doc-4","key":4,"value":"doc-4"}\ntail')
    expect([reply.headers.vary, reply.headers['transfer-encoding']]).toEqual(['Accept', 'chunked'])
  })

  it.each([
    ['all?limit=1&skip=2', { total_rows: 10, offset: 2 }],
    ['all?limit=1&update_seq=true', { total_rows: 10, offset: 0, update_seq: expect.any(Number) }],
    ['sums', {}],
    ['sums?reduce=false&limit=1', { total_rows: 10, offset: 0 }],
    ['none', { total_rows: 0, offset: 0 }],
    ['_all_docs?limit=1', { total_rows: 11, offset: 0 }],
  ])('receives %s: %j', async (path, head) => {
    const db = await databaseWith({ head: ANSWER('return JSON.stringify(head)') })
    expect((await db.get(`_design/app/_list/head/${path}`)).json).toEqual(head)
  })

  it('gets rows as they are: reduced ones, those with documents, all documents', async () => {
    const db = await databaseWith({ rows: EACH_ROW })
    const lines = async (path: string) =>
      (await db.get(`_design/app/_list/rows/${path}`)).text
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line))
    expect(await lines('sums')).toEqual([{ key: null, value: 45 }])
    expect(await lines('sums?group=true')).toEqual([
      { key: 0, value: 20 },
      { key: 1, value: 25 },
    ])
    const [row] = await lines('all?key=7&include_docs=true')
    expect(row).toEqual({ id: 'doc-7', key: 7, value: 'doc-7', doc: { _id: 'doc-7', _rev: expect.any(String), n: 7 } })
    expect(await lines('_all_docs?startkey="doc-8"')).toEqual([
      { id: 'doc-8', key: 'doc-8', value: { rev: expect.any(String) } },
      { id: 'doc-9', key: 'doc-9', value: { rev: expect.any(String) } },
    ])
    expect(await lines('_all_docs?keys=["nosuch"]')).toEqual([{ key: 'nosuch', error: 'not_found' }])
  })

  it('gets null at the end, and ever after', async () => {
    const source = 'var n = 0; while (getRow()) n++; return [n, getRow(), getRow()].join()'
    const db = await databaseWith({ count: ANSWER(source) })
    expect((await db.get('_design/app/_list/count/all')).text).toBe('10,,')
    expect((await db.get('_design/app/_list/count/none')).text).toBe('0,,')
  })

  it('gets all of many rows', async () => {
    const db = await databaseWith({
      count: ANSWER('var n = 0, row; while (row = getRow()) { n++; send(row.key + ",") } return "of " + n'),
    })
    const docs = Array.from({ length: 3000 }, (_, i) => ({ _id: `more-${i}`, n: i + 10 }))
    expect((await db.post('_bulk_docs', { docs })).status).toBe(201)
    const { text } = await db.get('_design/app/_list/count/all')
    expect(text).toBe(`${Array.from({ length: 3010 }, (_, i) => `${i},`).join('')}of 3010`)
  })

  it('ends the reply by returning, with rows left', async () => {
    const db = await databaseWith({ first: ANSWER('var row = getRow(); return "first " + row.key') })
    const reply = await db.get('_design/app/_list/first/all')
    expect([reply.status, reply.text]).toEqual([200, 'first 0'])
  })

  it('may read the view of another design document', async () => {
    const db = await databaseWith({})
    await db.save('_design/lists', { lists: { rows: EACH_ROW } })
    const reply = await db.get('_design/lists/_list/rows/app/all?limit=1')
    expect(reply.text).toBe('{"id":"doc-0","key":0,"value":"doc-0"}\ntail')
    expectRefusal(await db.get('_design/lists/_list/rows/nosuch/all'), 404, 'not_found', 'missing')
    expectRefusal(await db.get('_design/lists/_list/rows/app/nosuch'), 404, 'not_found', 'missing_named_view')
    // In this form it is a view like others.
    expectRefusal(await db.get('_design/lists/_list/rows/app/_all_docs'), 404, 'not_found', 'missing_named_view')
  })

  it('is called with the request', async () => {
    const db = await databaseWith({ request: ANSWER('send(JSON.stringify(req))') })
    const { json } = await db.get('_design/app/_list/request/all?limit=1&foo=bar&startkey=[1]')
    expect(json).toMatchObject({
      id: null,
      method: 'GET',
      query: { limit: '1', foo: 'bar', startkey: [1] },
      path: [db.name, '_design', 'app', '_list', 'request', 'all'],
      body: 'undefined',
    })
  })

  it('takes keys from the body of a POST, and the function sees the text', async () => {
    const db = await databaseWith({ rows: ANSWER('var r; while (r = getRow()) send(r.key + ";"); return req.body') })
    const reply = await db.post('_design/app/_list/rows/all', '{"keys": [3, 1]}')
    expect(reply.text).toBe('3;1;{"keys": [3, 1]}')
    const wrong = await db.post('_design/app/_list/rows/all', { keys: 'x' })
    expectRefusal(wrong, 400, 'query_parse_error', '`keys` must be an array of strings.')
    expectRefusal(
      await db.post('_design/app/_list/rows/all', '[]'),
      400,
      'bad_request',
      'Request body must be a JSON object',
    )
    expectRefusal(await db.post('_design/app/_list/rows/all', 'x'), 400, 'bad_request', 'invalid_json')
    const form = await db.request('GET', '_design/app/_list/rows/all?limit=1', {
      headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
      body: 'a=b',
    })
    expect(form.text).toBe('0;a=b')
  })

  it('answers HEAD and OPTIONS as GET, and no other method', async () => {
    const db = await databaseWith({ rows: ANSWER('return "x"') })
    const head = await db.head('_design/app/_list/rows/all')
    expect([head.status, head.text]).toEqual([200, ''])
    expect((await db.request('OPTIONS', '_design/app/_list/rows/all')).text).toBe('x')
    for (const method of ['PUT', 'DELETE', 'COPY']) {
      const reply = await db.request(method, '_design/app/_list/rows/all')
      expectRefusal(reply, 405, 'method_not_allowed', 'Only GET,POST,HEAD allowed')
    }
  })

  it.each([
    ['_design/app/_list', 404, 'list_error', 'Bad path.'],
    ['_design/app/_list/rows', 404, 'list_error', 'Bad path.'],
    ['_design/app/_list/rows/a/b/c', 404, 'list_error', 'Bad path.'],
    ['_design/nosuch/_list/rows/all', 404, 'not_found', 'missing'],
    ['_design/app/_list/rows/nosuch', 404, 'not_found', 'missing_named_view'],
    ['_design/app/_list/nosuch/all', 404, 'not_found', 'missing lists function nosuch on design doc _design/app'],
    ['_design/app/_list/rows/all?limit=x', 400, 'query_parse_error', 'Invalid value for integer: "x"'],
    ['_design/app/_list/rows/all?group=true', 400, 'query_parse_error', 'Invalid use of grouping on a map view.'],
  ])('%s is refused', async (path, status, error, reason) => {
    const db = await databaseWith({ rows: EACH_ROW })
    expectRefusal(await db.get(path), status, error, reason)
  })
})

describe('the head of a list', () => {
  it('is what start says', async () => {
    const source = "start({ code: 203, headers: { 'Content-Type': 'text/csv', 'X-Own': 'mine' } }); send('a;b')"
    const db = await databaseWith({ csv: ANSWER(source) })
    const reply = await db.get('_design/app/_list/csv/all')
    expect([reply.status, typeOf(reply), reply.headers['x-own'], reply.text]).toEqual([203, 'text/csv', 'mine', 'a;b'])
  })

  it('may change until the first text goes out', async () => {
    const source = `start({ code: 201, headers: { 'X-First': '1' } }); getRow(); send('');
      start({ code: 202, headers: { 'X-Second': '2' } }); getRow(); send('text');
      getRow(); start({ code: 203 }); send(' more')`
    const db = await databaseWith({ late: ANSWER(source) })
    const reply = await db.get('_design/app/_list/late/all')
    expect([reply.status, reply.text]).toEqual([202, 'text more'])
    expect([reply.headers['x-first'], reply.headers['x-second']]).toEqual([undefined, '2'])
  })

  it('is sent even if there is no text', async () => {
    const db = await databaseWith({ quiet: ANSWER("start({ code: 404, headers: { 'X-Own': '1' } })") })
    const reply = await db.get('_design/app/_list/quiet/all')
    expect([reply.status, reply.headers['x-own'], reply.text]).toEqual([404, '1', ''])
  })

  it('cannot set the tag, nor what the reply depends on', async () => {
    const db = await databaseWith({ tag: ANSWER("start({ headers: { etag: 'x', vary: 'y' } }); send('a')") })
    const { headers } = await db.get('_design/app/_list/tag/all')
    expect(headers.etag).toMatch(/^"[0-9A-Z]+"$/)
    expect(headers.vary).toBe('Accept')
  })

  it('is refused when it would be split', async () => {
    const db = await databaseWith({ split: ANSWER("start({ headers: { 'X-A': 'a\\r\\nX-B: b' } }); send('x')") })
    const reply = await db.get('_design/app/_list/split/all')
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([500, 'external_response_error'])
  })

  it('has an ETag for conditional requests', async () => {
    const db = await databaseWith({ rows: EACH_ROW })
    const path = '_design/app/_list/rows/all'
    const { etag } = (await db.get(path)).headers
    const again = await db.get(path, { 'If-None-Match': etag })
    expect([again.status, again.headers.etag, again.text]).toEqual([304, etag, ''])
    const different = [
      await db.get(`${path}?limit=3`),
      await db.get(path, { Accept: 'text/html' }),
      await db.post(path, { keys: [1] }),
    ]
    for (const { headers } of different) expect(headers.etag).not.toBe(etag)
    await db.save('other', { without: 'rows' })
    expect((await db.get(path, { 'If-None-Match': etag })).status).toBe(304)
    await db.save('another', { n: 100 })
    expect((await db.get(path, { 'If-None-Match': etag })).status).toBe(200)
  })
})

describe('the formats of a list', () => {
  const PROVIDING = `function (head, req) {
    provides('json', function () { var n = 0; while (getRow()) n++; return JSON.stringify({ n: n }) });
    provides('html', function () { send('<ul>'); var r; while (r = getRow()) send('<li>' + r.key); return '</ul>' });
  }`

  it('are chosen by what the client accepts', async () => {
    const db = await databaseWith({ both: PROVIDING })
    const html = await db.get('_design/app/_list/both/all?limit=2', { Accept: 'text/html' })
    expect([typeOf(html), html.text]).toEqual(['text/html; charset=utf-8', '<ul><li>0<li>1</ul>'])
    const json = await db.get('_design/app/_list/both/all', { Accept: 'application/json' })
    expect([typeOf(json), json.json]).toEqual(['application/json', { n: 10 }])
    const named = await db.get('_design/app/_list/both/all?limit=1&format=html', { Accept: 'application/json' })
    expect(named.text).toBe('<ul><li>0</ul>')
  })

  it('are refused when none is acceptable', async () => {
    const db = await databaseWith({ both: PROVIDING })
    const reply = await db.get('_design/app/_list/both/all', { Accept: 'image/png' })
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([406, 'not_acceptable'])
  })
})

describe('a list function that fails', () => {
  it('before it asks for a row: is an error like others', async () => {
    const db = await databaseWith({
      thrown: ANSWER("send('x'); throw ['error', 'forbidden', 'Not you.']"),
      broken: ANSWER('nosuch()'),
      wrong: 'function (',
    })
    const thrown = await db.get('_design/app/_list/thrown/all')
    expectRefusal(thrown, 403, 'forbidden', 'Not you.')
    const broken = (await db.get('_design/app/_list/broken/all')).as<{ error: string; reason: string }>()
    expect(broken.error).toBe('render_error')
    expect(broken.reason).toContain('ReferenceError')
    const wrong = await db.get('_design/app/_list/wrong/all')
    expect([wrong.status, wrong.as<{ error: string }>().error]).toEqual([500, 'compilation_error'])
  })

  it('after that, and before any text: has the status of the error and the head of the list', async () => {
    const source = "start({ headers: { 'X-Own': '1' } }); getRow(); throw ['error', 'forbidden', 'Not you.']"
    const db = await databaseWith({ late: ANSWER(source) })
    const reply = await db.get('_design/app/_list/late/all')
    expect([reply.status, reply.headers['x-own'], reply.text]).toEqual([
      403,
      '1',
      '\n{"code":403,"error":"forbidden","reason":"Not you."}\n',
    ])
  })

  it('after text was sent: appends the error to it', async () => {
    const db = await databaseWith({ late: ANSWER("getRow(); send('text'); getRow(); throw ['error', 'odd', 'Why?']") })
    const reply = await db.get('_design/app/_list/late/all')
    expect([reply.status, reply.text]).toEqual([200, 'text\n{"code":500,"error":"odd","reason":"Why?"}\n'])
  })

  it('may replace what is sent', async () => {
    const db = await databaseWith({
      late: ANSWER("getRow(); send('a'); getRow(); throw ['error', 'x', { body: 'bye' }]"),
    })
    expect((await db.get('_design/app/_list/late/all')).text).toBe('abye')
  })
})
