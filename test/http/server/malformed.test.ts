/** Whatever a client sends, it gets a reply that says what is wrong, and the data stays as it was. */
import { describe, expect, it } from 'vitest'
import { Client, type RequestOptions, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { EMPTY } from '../../support/first-revisions.ts'
import { startService } from '../../support/service.ts'

const client = serverOfFile()

const JSON_TYPE = { 'Content-Type': 'application/json' }

async function filled(from: Client = client()): Promise<TestDatabase> {
  const db = await from.database()
  await db.save('doc', {})
  await db.save('doc', { _rev: EMPTY, n: 2 })
  await db.saveAndRemove('gone', {})
  await db.replicate({ _id: 'torn', _rev: '1-a' }, { _id: 'torn', _rev: '1-b' })
  await db.save('_design/d', {})
  await db.save('_local/l', { n: 1 })
  return db
}

/** All that can be seen of a database, local documents and settings too. */
async function everything(db: TestDatabase): Promise<unknown> {
  const paths = ['_local/l', '_revs_limit', '_security', 'doc?open_revs=all', 'torn?open_revs=all&revs=true']
  const others = await Promise.all(paths.map(async (path) => (await db.get(path)).text))
  return { state: await db.state(), others }
}

type Case = [method: string, path: string, options: RequestOptions, status: number, error: string]

const body = (text: unknown, headers: Record<string, string | undefined> = {}): RequestOptions => ({
  body: text,
  headers,
})

const requests: Case[] = [
  // Documents.
  ['PUT', 'new', {}, 400, 'bad_request'],
  ['PUT', 'new', body(''), 400, 'bad_request'],
  ['PUT', 'new', body('{'), 400, 'bad_request'],
  ['PUT', 'new', body('{"a":1'), 400, 'bad_request'],
  ['PUT', 'new', body('null'), 400, 'bad_request'],
  ['PUT', 'new', body('[{}]'), 400, 'bad_request'],
  ['PUT', 'new', body(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), 400, 'bad_request'],
  ['PUT', 'new', body('{"_id":5}'), 400, 'bad_request'],
  ['PUT', 'new', body('{"_id":"_x"}'), 400, 'bad_request'],
  ['PUT', 'new', body('{"_rev":5}'), 400, 'bad_request'],
  ['PUT', 'new', body('{"_rev":"x"}'), 400, 'bad_request'],
  ['PUT', 'new', body('{"_rev":"1-x"}'), 409, 'conflict'],
  ['PUT', 'new', body('{"_odd":1}'), 500, 'doc_validation'],
  ['PUT', 'new', body('{"_deleted":"true"}'), 500, 'doc_validation'],
  ['PUT', 'new', body('{"_revisions":5}'), 500, 'doc_validation'],
  ['PUT', 'new', body('{"_attachments":5}'), 500, 'doc_validation'],
  ['PUT', 'new', body('{}', { 'Content-Encoding': 'br' }), 415, 'bad_content_type'],
  ['PUT', 'new', body('{}', { 'Content-Encoding': 'gzip' }), 400, 'bad_request'],
  ['PUT', 'new', body('{}', { 'If-Match': 'x' }), 400, 'bad_request'],
  ['PUT', 'new?rev=x', body('{}'), 400, 'bad_request'],
  ['PUT', 'new?rev=1-a', body('{"_rev":"1-b"}'), 400, 'bad_request'],
  ['PUT', 'new?rev=1-a', body('{}', { 'If-Match': '1-b' }), 400, 'bad_request'],
  ['PUT', 'new?new_edits=false', body('{}'), 400, 'bad_request'],
  ['PUT', 'new?new_edits=false', body('{"_rev":"x"}'), 400, 'bad_request'],
  ['PUT', 'new?new_edits=false', body('{"_revisions":{"start":1}}'), 500, 'doc_validation'],
  ['PUT', 'new?new_edits=false', body('{"_revisions":{"ids":["a"]}}'), 500, 'doc_validation'],
  ['PUT', 'new?new_edits=false', body('{"_revisions":{"start":1.5,"ids":["a"]}}'), 500, 'doc_validation'],
  ['PUT', 'new?batch=ok', body('{'), 400, 'bad_request'],
  ['PUT', 'doc', body('{}'), 409, 'conflict'],
  ['PUT', 'doc', body(`{"_rev":"${EMPTY}"}`), 409, 'conflict'],
  ['PUT', 'doc', body('{"_deleted":true}'), 409, 'conflict'],
  ['PUT', 'gone', body(`{"_rev":"${EMPTY}"}`), 409, 'conflict'],
  ['PUT', 'torn', body('{}'), 409, 'conflict'],
  ['PUT', '_x', body('{}'), 400, 'bad_request'],
  ['PUT', '%FF', body('{}'), 400, 'bad_request'],
  ['PUT', '_design/d', body('{}'), 409, 'conflict'],
  ['PUT', '_local/l', body('{}'), 409, 'conflict'],
  ['PUT', '_local/l', body('{"_rev":"0-7"}'), 409, 'conflict'],
  ['PUT', '_local/l', body('nonsense'), 400, 'bad_request'],
  ['PUT', '_local', body('{}'), 400, 'bad_request'],
  ['PUT', '_local%2F', body('{}'), 400, 'bad_request'],
  ['PUT', '_local/l/x', body('x'), 400, 'bad_request'],
  ['POST', 'doc', body('{}'), 400, 'bad_request'],
  ['PATCH', 'doc', body('{}'), 405, 'method_not_allowed'],
  ['PROPFIND', 'doc', {}, 405, 'method_not_allowed'],
  ['DELETE', 'nosuch', {}, 404, 'not_found'],
  ['DELETE', 'nosuch?rev=x', {}, 404, 'not_found'],
  ['DELETE', 'gone', {}, 404, 'not_found'],
  ['DELETE', 'doc', {}, 409, 'conflict'],
  ['DELETE', 'doc?rev=x', {}, 400, 'bad_request'],
  ['DELETE', `doc?rev=${EMPTY}`, {}, 409, 'conflict'],
  ['DELETE', '_local/l', {}, 409, 'conflict'],
  ['DELETE', '_local/nosuch?rev=0-1', {}, 404, 'not_found'],
  ['DELETE', '_design/d', {}, 409, 'conflict'],
  ['COPY', 'doc', {}, 400, 'bad_request'],
  ['COPY', 'doc', { headers: { Destination: '_x' } }, 400, 'bad_request'],
  ['COPY', 'doc', { headers: { Destination: 'http://x/y/z' } }, 400, 'bad_request'],
  ['COPY', 'doc', { headers: { Destination: 'new?rev=x' } }, 400, 'bad_request'],
  ['COPY', 'doc', { headers: { Destination: 'new?rev=1-x' } }, 409, 'conflict'],
  ['COPY', 'doc', { headers: { Destination: 'torn' } }, 409, 'conflict'],
  ['COPY', 'doc', { headers: { Destination: '%FF' } }, 400, 'bad_request'],
  ['COPY', 'doc', { headers: { Destination: '_local/' } }, 400, 'bad_request'],
  ['COPY', 'doc?rev=x', { headers: { Destination: 'new' } }, 400, 'bad_request'],
  ['COPY', 'doc?rev=9-x', { headers: { Destination: 'new' } }, 404, 'not_found'],
  ['COPY', 'nosuch', { headers: { Destination: 'new' } }, 404, 'not_found'],
  ['COPY', 'gone', { headers: { Destination: 'new' } }, 404, 'not_found'],
  ['GET', 'doc?rev=x', {}, 400, 'bad_request'],
  ['GET', 'doc?rev=9-x', {}, 404, 'not_found'],
  ['GET', 'doc?open_revs=x', {}, 400, 'bad_request'],
  ['GET', 'doc?open_revs=[5]', {}, 400, 'bad_request'],
  ['GET', '%FF', {}, 404, 'not_found'],
  ['GET', '_nosuch', {}, 404, 'not_found'],
  // Databases.
  ['PUT', '', {}, 412, 'file_exists'],
  ['DELETE', '?rev=1-a', {}, 400, 'bad_request'],
  ['PATCH', '', {}, 405, 'method_not_allowed'],
  ['COPY', '', { headers: { Destination: 'x' } }, 405, 'method_not_allowed'],
  ['POST', '', { headers: JSON_TYPE }, 400, 'bad_request'],
  ['POST', '', {}, 415, 'bad_content_type'],
  ['POST', '', body('{}', { 'Content-Type': 'text/plain' }), 415, 'bad_content_type'],
  ['POST', '', body('{"_id":"doc"}'), 409, 'conflict'],
  ['POST', '', body('{"_id":""}'), 400, 'bad_request'],
  ['POST', '', body('"x"'), 400, 'bad_request'],
  // Bulk.
  ['POST', '_bulk_docs', { headers: JSON_TYPE }, 400, 'bad_request'],
  ['POST', '_bulk_docs', body('{}'), 400, 'bad_request'],
  ['POST', '_bulk_docs', body('{"docs":5}'), 400, 'bad_request'],
  ['POST', '_bulk_docs', body('{"docs":[{"_id":"new"},5]}'), 400, 'bad_request'],
  ['POST', '_bulk_docs', body('{"docs":[{"_id":"new"},{"_id":"_x"}]}'), 400, 'bad_request'],
  ['POST', '_bulk_docs', body('{"docs":[{"_id":"new"},{"_odd":1}]}'), 500, 'doc_validation'],
  ['POST', '_bulk_docs', body('{"docs":[{"_id":"new"},{"_rev":"x"}]}'), 400, 'bad_request'],
  ['POST', '_bulk_docs', body('{"docs":[{"_id":"new"}]'), 400, 'bad_request'],
  ['POST', '_bulk_docs', body('{"docs":[{"_id":"new"}]}', { 'Content-Type': 'x/y' }), 415, 'bad_content_type'],
  ['POST', '_bulk_docs', body('{"docs":[{"_id":"new"}],"new_edits":0}'), 400, 'bad_request'],
  ['POST', '_bulk_docs', body('{"docs":[{"_id":"new"}],"new_edits":false}'), 400, 'bad_request'],
  ['PUT', '_bulk_docs', body('{"docs":[]}'), 405, 'method_not_allowed'],
  // Listings and revisions.
  ['GET', '_all_docs?limit=x', {}, 400, 'query_parse_error'],
  ['GET', '_all_docs?skip=-1', {}, 400, 'query_parse_error'],
  ['GET', '_all_docs?descending=x', {}, 400, 'query_parse_error'],
  ['POST', '_all_docs', body('[]'), 400, 'bad_request'],
  ['POST', '_all_docs', body('{"keys":5}'), 400, 'bad_request'],
  ['DELETE', '_all_docs', {}, 405, 'method_not_allowed'],
  ['POST', '_revs_diff', body('[]'), 400, 'bad_request'],
  ['POST', '_revs_diff', body('{"doc":5}'), 400, 'bad_request'],
  ['POST', '_revs_diff', body('{"doc":["x"]}'), 400, 'bad_request'],
  ['POST', '_missing_revs', body('{"doc":["x"]}'), 400, 'bad_request'],
  ['POST', '_purge', body('{"torn":["1-a"],"doc":5}'), 400, 'bad_request'],
  ['POST', '_purge', body('{"torn":["1-a"],"doc":["x"]}'), 400, 'bad_request'],
  ['POST', '_purge', body('{"torn":["1-a"]'), 400, 'bad_request'],
  ['POST', '_purge', body('{"torn":["1-a"]}', { 'Content-Type': undefined }), 415, 'bad_content_type'],
  ['PUT', '_revs_limit', body('0'), 400, 'bad_request'],
  ['PUT', '_revs_limit', body('"5"'), 400, 'bad_request'],
  ['PUT', '_revs_limit', body('5x'), 400, 'bad_request'],
  ['PUT', '_security', body('[]'), 400, 'bad_request'],
  ['PUT', '_security', body('{"admins":{"names":5,"roles":[]}}'), 400, 'bad_request'],
  ['POST', '_ensure_full_commit', { headers: {} }, 415, 'bad_content_type'],
  ['POST', '_ensure_full_commit?seq=99999', body(''), 400, 'bad_request'],
  ['POST', '_compact', body('', { 'Content-Type': 'text/plain' }), 415, 'bad_content_type'],
  ['GET', '_compact', {}, 405, 'method_not_allowed'],
  ['GET', '_design/d/_nosuch', {}, 404, 'not_found'],
]

describe('a request that cannot be done', () => {
  it.each(requests)('%s /{db}/%s %j gets %i %s and changes nothing', async (method, path, options, status, error) => {
    const db = await filled()
    const before = await everything(db)
    const reply = await db.request(method, path, options)
    expect([reply.status, reply.as<{ error: string }>().error], reply.text).toEqual([status, error])
    expect(reply.text).toMatch(/^\{"error":".*","reason":".*"\}\n$/)
    expect(reply.text).not.toMatch(/\.ts|\.js|node_modules|\bat /)
    expect(await everything(db)).toEqual(before)
  })

  it('changes nothing on disk either', async () => {
    const { url } = await startService()
    const onDisk = new Client(url)
    const db = await filled(onDisk)
    const before = await everything(db)
    for (const [method, path, options, status, error] of requests) {
      const reply = await db.request(method, path, options)
      const label = `${method} ${path} ${JSON.stringify(options)}`
      expect([reply.status, reply.as<{ error: string }>().error], label).toEqual([status, error])
    }
    expect(await everything(db)).toEqual(before)
    onDisk.close()
  })
})

describe('bytes that are not a request', () => {
  const raw: [string, string][] = [
    ['nonsense', 'nonsense\r\n\r\n'],
    ['another protocol', 'GET /DB SPDY/9\r\nHost: x\r\n\r\n'],
    ['a blank in the path', 'GET /DB/a b HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['a header without a colon', 'GET /DB HTTP/1.1\r\nHost x\r\n\r\n'],
    ['a header name with a blank', 'GET /DB HTTP/1.1\r\nHost: x\r\nX Y: z\r\n\r\n'],
    ['a length that is no number', 'PUT /DB/new HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n{}'],
    ['a negative length', 'PUT /DB/new HTTP/1.1\r\nHost: x\r\nContent-Length: -2\r\n\r\n{}'],
    ['two lengths', 'PUT /DB/new HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} '],
    [
      'a length and chunks',
      'PUT /DB/new HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n',
    ],
    [
      'a chunk that is none',
      'PUT /DB/new HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n',
    ],
    ['headers without end', `GET /DB HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(200_000)}\r\n\r\n`],
    ['more headers than anybody needs', `GET /DB HTTP/1.1\r\nHost: x\r\n${'X: y\r\n'.repeat(100_000)}\r\n`],
    ['a path without end', `GET /DB/${'x'.repeat(200_000)} HTTP/1.1\r\nHost: x\r\n\r\n`],
  ]

  it.each(raw)('%s: refused, and the connection closed', async (_what, bytes) => {
    const db = await filled()
    const before = await everything(db)
    const received = await client().exchange(bytes.replaceAll('DB', db.name))
    if (received !== '') expect(received).toMatch(/^HTTP\/1\.1 4\d\d /)
    expect(await everything(db)).toEqual(before)
  })

  it('an unknown transfer encoding: refused', async () => {
    const db = await filled()
    const before = await everything(db)
    const received = await client().exchange(
      `PUT /${db.name}/new HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: nosuch\r\n\r\n{}`,
    )
    expect(received).toMatch(/^HTTP\/1\.1 [45]\d\d /)
    expect(await everything(db)).toEqual(before)
  })

  it.each([
    ['a body that breaks off', 'Content-Length: 100\r\n\r\n{"a":1}'],
    ['a whole document of a longer body', 'Content-Length: 9\r\n\r\n{"a":1}'],
    ['chunks that break off', 'Transfer-Encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n'],
  ])('%s, when the client disconnects: nothing is stored', async (_what, rest) => {
    const db = await filled()
    const before = await everything(db)
    for (const request of ['PUT /DB/new', 'POST /DB', 'PUT /DB/_local/new']) {
      const connection = await client().open()
      const line = `${request.replace('DB', db.name)} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n`
      connection.write(line + rest)
      // The next request of another client shows that the server has seen this one.
      await db.get()
      connection.end()
      await db.get()
    }
    expect(await everything(db)).toEqual(before)
    expect((await db.get('_local/new')).status).toBe(404)
  })
})

describe('names with a meaning in other software', () => {
  it.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'length', '0'])(
    '%s is an id like others',
    async (id) => {
      const db = await client().database()
      expect((await db.get(id)).status).toBe(404)
      const missing = (await db.post('_revs_diff', `{"${id}":["9-x"]}`)).text
      expect(missing).toBe(`{"${id}":{"missing":["9-x"]}}\n`)
      expect((await db.put(id, { [`${id}x`]: 1 })).status).toBe(id.startsWith('_') ? 400 : 201)
      expect((await db.post('_purge', `{"${id}":["9-x"]}`)).json).toMatchObject({ purged: {} })
    },
  )

  it.each(['constructor', 'toString', '__proto__'])('%s is not a database', async (name) => {
    expect((await client().request('GET', `/${name}`)).status).toBe(name === 'constructor' ? 404 : 400)
  })

  it.each(['constructor', 'hasOwnProperty', '__proto__'])('%s is not a method', async (name) => {
    const db = await client().database()
    const reply = await db.post('doc', {}, { 'X-HTTP-Method-Override': name })
    expect(reply.status).toBe(400)
  })
})
