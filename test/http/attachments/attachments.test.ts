/** Attachments of their own: written, read and deleted one at a time. */
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { attach, digestOf, entries, inline, md5, OCTETS } from '../../support/attachments.ts'
import { Client, expectConflict, expectRefusal, type Reply, rawRequest, serverOfFile } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { until } from '../../support/until.ts'

const client = serverOfFile()

const MISSING = 'Document is missing attachment'
const OCTET_TYPE = { 'Content-Type': OCTETS }

/** Where the reply points to, its path as it is. */
function follow({ headers: { location = '' } }: Reply): Promise<Reply> {
  const server = `http://${client().host}`
  expect(location.startsWith(`${server}/`), location).toBe(true)
  return client().request('GET', location.slice(server.length))
}

describe('PUT of an attachment', () => {
  it('creates the document when there is none', async () => {
    const db = await client().database()
    const reply = await db.put('doc/h.bin', 'hello', OCTET_TYPE)
    expect(reply.status).toBe(201)
    expect(reply.text).toBe('{"ok":true,"id":"doc","rev":"1-e4d1953e9109ff8917fd2229e22521c6"}\n')
    expect(reply.headers.etag).toBe('"1-e4d1953e9109ff8917fd2229e22521c6"')
    expect(reply.headers.location).toBe(`${db.url}/doc/h.bin`)
    expect((await db.get('doc')).text).toBe(
      '{"_id":"doc","_rev":"1-e4d1953e9109ff8917fd2229e22521c6","_attachments":{"h.bin":{' +
        '"content_type":"application/octet-stream","revpos":1,"digest":"md5-XUFAKrxLKna5cZ2REBfFkg==",' +
        '"length":5,"stub":true}}}\n',
    )
    expect(await db.info()).toMatchObject({ doc_count: 1, update_seq: 1 })
  })

  it('makes a new revision of the document, whose members stay', async () => {
    const db = await client().database()
    const first = await db.save('doc', '{"2":"two","1":1.50,"a":12345678901234567890}')
    const reply = await db.put(`doc/a?rev=${first}`, 'content', OCTET_TYPE)
    expect([reply.status, reply.rev.slice(0, 2)]).toEqual([201, '2-'])
    expect((await db.get('doc')).text).toBe(
      `{"_id":"doc","_rev":"${reply.rev}","2":"two","1":1.50,"a":12345678901234567890,"_attachments":{"a":{` +
        `"content_type":"application/octet-stream","revpos":2,"digest":"${digestOf('content')}",` +
        '"length":7,"stub":true}}}\n',
    )
    expect(await db.info()).toMatchObject({ doc_count: 1, update_seq: 2 })
  })

  it('takes the revision from the query or from If-Match, quoted or not', async () => {
    const db = await client().database()
    const first = await db.save('doc', {})
    const second = await db.put('doc/a', 'one', { ...OCTET_TYPE, 'If-Match': `"${first}"` })
    expect(second.status).toBe(201)
    const third = await db.put('doc/b', 'two', { ...OCTET_TYPE, 'If-Match': second.rev })
    expect(third.status).toBe(201)
    const fourth = await db.put(`doc/c?rev=${third.rev}`, 'three', { ...OCTET_TYPE, 'If-Match': `"${third.rev}"` })
    expect(fourth.status).toBe(201)
    expect(Object.keys(await entries(db, 'doc')).sort()).toEqual(['a', 'b', 'c'])
    expectRefusal(
      await db.put(`doc/d?rev=${fourth.rev}`, '', { ...OCTET_TYPE, 'If-Match': third.rev }),
      400,
      'bad_request',
      'Document rev and etag have different values',
    )
  })

  it('replaces an attachment of that name and keeps the others', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', 'old')
    const second = await attach(db, `doc/b?rev=${first}`, 'other')
    const third = await attach(db, `doc/a?rev=${second}`, 'new content', 'image/png')
    expect(await entries(db, 'doc')).toEqual({
      a: { content_type: 'image/png', revpos: 3, digest: digestOf('new content'), length: 11, stub: true },
      b: { content_type: OCTETS, revpos: 2, digest: digestOf('other'), length: 5, stub: true },
    })
    expect((await db.get('doc/a')).text).toBe('new content')
    expect((await db.get(`doc/a?rev=${second}`)).text).toBe('old')
    expect((await db.get(`doc/a?rev=${third}`)).text).toBe('new content')
  })

  it('lists the new one before the old ones', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/h.bin', 'hello')
    const second = await attach(db, `doc/w.bin?rev=${first}`, 'world')
    const third = await attach(db, `doc/h.bin?rev=${second}`, 'hello again')
    expect(Object.keys(await entries(db, `doc?rev=${second}`))).toEqual(['w.bin', 'h.bin'])
    expect(Object.keys(await entries(db, `doc?rev=${third}`))).toEqual(['h.bin', 'w.bin'])
    const twin = await db.save('twin', { _attachments: { 'h.bin': inline('hello') } })
    expect(twin).toBe(first)
    const listed = { 'w.bin': inline('world'), 'h.bin': { stub: true } }
    expect(await db.save('twin', { _rev: twin, _attachments: listed })).toBe(second)
  })

  it('is a conflict without the latest revision', async () => {
    const db = await client().database()
    const first = await db.save('doc', {})
    const second = await db.save('doc', { _rev: first })
    expectConflict(await db.put('doc/a', 'x', OCTET_TYPE))
    expectConflict(await db.put(`doc/a?rev=${first}`, 'x', OCTET_TYPE))
    expectConflict(await db.put('doc/a?rev=1-abc', 'x', OCTET_TYPE))
    expectConflict(await db.put('unknown/a?rev=1-abc', 'x', OCTET_TYPE))
    expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: second })
    expect((await db.get('unknown')).status).toBe(404)
  })

  it('lets one of two concurrent writes win', async () => {
    const db = await client().database()
    const rev = await db.save('doc', {})
    const uploads = await Promise.all(
      Array.from({ length: 8 }, (_, n) => db.put(`doc/a${n}?rev=${rev}`, `content ${n}`, OCTET_TYPE)),
    )
    expect(uploads.map(({ status }) => status).sort()).toEqual([201, ...Array(7).fill(409)])
    const winner = uploads.findIndex(({ status }) => status === 201)
    expect(Object.keys(await entries(db, 'doc'))).toEqual([`a${winner}`])
    expect((await db.get(`doc/a${winner}`)).text).toBe(`content ${winner}`)
  })

  it('creates a deleted document again, or extends its tombstone', async () => {
    const db = await client().database()
    const { tombstone } = await db.saveAndRemove('doc', { a: 1 })
    const third = await attach(db, 'doc/a', 'x')
    expect(third.slice(0, 2)).toBe('3-')
    expect((await db.get('doc')).json).toEqual({
      _id: 'doc',
      _rev: third,
      _attachments: { a: { content_type: OCTETS, revpos: 3, digest: digestOf('x'), length: 1, stub: true } },
    })
    expect(tombstone.slice(0, 2)).toBe('2-')
  })

  it('defaults to application/octet-stream, and keeps any other type', async () => {
    const db = await client().database()
    const first = (await db.put('doc/none', 'x', { 'Content-Type': undefined })).rev
    expect((await db.get('doc/none')).headers['content-type']).toBe(OCTETS)
    const type = 'text/plain; charset="UTF-8"; Odd=Param'
    await attach(db, `doc/odd?rev=${first}`, 'x', type)
    expect((await db.get('doc/odd')).headers['content-type']).toBe(type)
    expect((await entries(db, 'doc')).odd?.content_type).toBe(type)
  })

  it('takes a missing body as an empty one', async () => {
    const db = await client().database()
    const reply = await db.request('PUT', 'doc/empty', { headers: { 'Content-Length': '0' } })
    expect(reply.status, reply.text).toBe(201)
    expect((await entries(db, 'doc')).empty).toMatchObject({ length: 0, digest: 'md5-1B2M2Y8AsgTpgAmY7PhCfg==' })
    const content = await db.get('doc/empty')
    expect([content.status, content.body.length, content.headers['content-length']]).toEqual([200, 0, '0'])
  })

  it('takes a body in chunks', async () => {
    const db = await client().database()
    const content = randomBytes(300_000)
    const reply = await db.put('doc/a', content, { ...OCTET_TYPE, 'Transfer-Encoding': 'chunked' })
    expect(reply.status, reply.text).toBe(201)
    expect((await db.get('doc/a')).body.equals(content)).toBe(true)
  })

  it('sends 100 Continue to a client that expects it', async () => {
    const db = await client().database()
    const connection = await client().open()
    connection.write(
      rawRequest([
        `PUT /${db.name}/doc/a HTTP/1.1`,
        'Host: x',
        'Content-Length: 5',
        `Content-Type: ${OCTETS}`,
        'Expect: 100-continue',
      ]),
    )
    await connection.receives('HTTP/1.1 100')
    expect(connection.statuses).toEqual(['100'])
    connection.write('hello')
    await connection.receives('HTTP/1.1 201')
    connection.end()
    expect((await db.get('doc/a')).text).toBe('hello')
  })

  it('answers before it has written when the client asks for a batch', async () => {
    const db = await client().database()
    const reply = await db.put('doc/a?batch=ok', 'content', OCTET_TYPE)
    expect([reply.status, reply.text]).toEqual([202, '{"ok":true,"id":"doc"}\n'])
    expect(reply.headers.etag).toBeUndefined()
    expect(reply.headers.location).toBe(`${db.url}/doc/a`)
    await until(async () => (await db.get('doc/a')).status === 200)
    expect((await db.get('doc/a')).text).toBe('content')
  })

  it('is not bound by the limits of documents', async () => {
    const service = await startService({
      settings: { httpd: { max_http_request_size: '1000' }, service: { max_document_size: '1000' } },
    })
    const small = new Client(service.url)
    const db = await small.database()
    const content = randomBytes(100_000)
    await attach(db, 'doc/a', content)
    expect((await db.get('doc/a')).body.equals(content)).toBe(true)
    small.close()
  })

  it('keeps content of any size', async () => {
    const db = await client().database()
    const content = randomBytes(20_000_000)
    const rev = await attach(db, 'doc/large', content)
    await attach(db, `doc/text?rev=${rev}`, content, 'text/plain')
    expect((await entries(db, 'doc')).large).toMatchObject({ length: content.length, digest: digestOf(content) })
    for (const name of ['large', 'text']) expect((await db.get(`doc/${name}`)).body.equals(content), name).toBe(true)
  })

  it('keeps any bytes of any type', async () => {
    const db = await client().database()
    const types = fc.constantFrom(OCTETS, 'text/plain', 'image/png', 'application/json', 'Text/HTML; charset=utf-8')
    let number = 0
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 3000, size: 'max' }), types, async (bytes, type) => {
        const content = Buffer.from(bytes)
        number++
        await attach(db, `doc${number}/a`, content, type)
        const reply = await db.get(`doc${number}/a`)
        expect(reply.body.equals(content)).toBe(true)
        expect(reply.headers).toMatchObject({ 'content-type': type, etag: `"${md5(content)}"` })
        expect((await entries(db, `doc${number}`)).a).toMatchObject({
          length: content.length,
          digest: digestOf(content),
        })
      }),
      { numRuns: 60 },
    )
  })
})

describe('GET of an attachment', () => {
  it('returns the content and its headers', async () => {
    const db = await client().database()
    await attach(db, 'doc/h.bin', 'hello')
    const reply = await db.get('doc/h.bin')
    expect([reply.status, reply.text]).toEqual([200, 'hello'])
    expect(reply.headers).toMatchObject({
      etag: '"XUFAKrxLKna5cZ2REBfFkg=="',
      'content-md5': 'XUFAKrxLKna5cZ2REBfFkg==',
      'cache-control': 'must-revalidate',
      'content-type': OCTETS,
      'content-length': '5',
      'accept-ranges': 'bytes',
    })
    expect(reply.headers['content-encoding']).toBeUndefined()
  })

  it('has a head of its own', async () => {
    const db = await client().database()
    await attach(db, 'doc/a', 'hello')
    const { headers: expected } = await db.get('doc/a')
    const reply = await db.head('doc/a')
    expect([reply.status, reply.body.length]).toEqual([200, 0])
    for (const name of ['etag', 'content-md5', 'cache-control', 'content-type', 'content-length', 'accept-ranges']) {
      expect(reply.headers[name], name).toBe(expected[name])
    }
    expect((await db.head('doc/b')).status).toBe(404)
  })

  it('is not repeated for a client that has it', async () => {
    const db = await client().database()
    const rev = await attach(db, 'doc/a', 'hello')
    const tag = `"${md5('hello')}"`
    for (const known of [tag, `"x", ${tag}`, `"x",${tag}`]) {
      const reply = await db.get('doc/a', { 'If-None-Match': known })
      expect([reply.status, reply.body.length, reply.headers.etag]).toEqual([304, 0, tag])
    }
    for (const other of ['"x"', `"${rev}"`, md5('hello')]) {
      expect((await db.get('doc/a', { 'If-None-Match': other })).status).toBe(200)
    }
  })

  it('returns that of the revision in If-Match; a digest there is ignored', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', 'one')
    const second = await attach(db, `doc/a?rev=${first}`, 'two')
    for (const tag of [first, `"${first}"`]) expect((await db.get('doc/a', { 'If-Match': tag })).text).toBe('one')
    expect((await db.head('doc/a', { 'If-Match': first })).headers.etag).toBe(`"${md5('one')}"`)
    expect((await db.get(`doc/a?rev=${second}`, { 'If-Match': first })).text).toBe('two')
    expectRefusal(await db.get('doc/a', { 'If-Match': '"1-abc"' }), 404, 'not_found', 'missing')
    for (const tag of [`"${md5('one')}"`, '*', '""']) {
      expect((await db.get('doc/a', { 'If-Match': tag })).text).toBe('two')
    }
  })

  it('returns that of a revision, and reports what is missing', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', 'one')
    const second = await attach(db, `doc/a?rev=${first}`, 'two')
    const third = await db.save('doc', { _rev: second })
    expect((await db.get(`doc/a?rev=${first}`)).text).toBe('one')
    expect((await db.get(`doc/a?rev=${second}`)).text).toBe('two')
    for (const path of ['doc/a', `doc/a?rev=${third}`, `doc/b?rev=${first}`]) {
      expectRefusal(await db.get(path), 404, 'not_found', MISSING)
    }
    expectRefusal(await db.get('doc/a?rev=1-abc'), 404, 'not_found', 'missing')
    expectRefusal(await db.get('unknown/a'), 404, 'not_found', 'missing')
    expectRefusal(await db.get('doc/a?rev=x'), 400, 'bad_request', 'Invalid rev format')
    await db.remove('doc', third)
    expectRefusal(await db.get('doc/a'), 404, 'not_found', 'deleted')
    expect((await db.get(`doc/a?rev=${second}`)).text).toBe('two')
    expectRefusal(await client().request('GET', '/no-such-database/doc/a'), 404, 'not_found', 'no_db_file')
  })

  it('returns it after a restart', async () => {
    const dir = await temporaryFolder()
    const content = randomBytes(500_000)
    const before = await startService({ dir })
    const writer = new Client(before.url)
    const db = await writer.database()
    const rev = await attach(db, 'doc/a', content)
    await attach(db, `doc/b?rev=${rev}`, content, 'text/plain')
    writer.close()
    await before.close()
    const reader = new Client((await startService({ dir })).url)
    for (const name of ['a', 'b']) {
      const reply = await reader.request('GET', `/${db.name}/doc/${name}`)
      expect(reply.body.equals(content), name).toBe(true)
    }
    reader.close()
  })
})

describe('DELETE of an attachment', () => {
  it('makes a revision without it', async () => {
    const db = await client().database()
    const first = await db.save('doc', { n: 1, _attachments: { a: inline('one'), b: inline('two') } })
    const reply = await db.delete(`doc/a?rev=${first}`)
    expect([reply.status, reply.json]).toEqual([200, { ok: true, id: 'doc', rev: reply.rev }])
    expect(reply.rev.slice(0, 2)).toBe('2-')
    expect(reply.headers.etag).toBe(`"${reply.rev}"`)
    expect(reply.headers.location).toBeUndefined()
    const document = (await db.get('doc')).json
    expect(document).toMatchObject({ n: 1, _attachments: { b: { revpos: 1 } } })
    expect(Object.keys(await entries(db, 'doc'))).toEqual(['b'])
    expectRefusal(await db.get('doc/a'), 404, 'not_found', MISSING)
    expect((await db.get(`doc/a?rev=${first}`)).text).toBe('one')
    const last = await db.delete('doc/b', { 'If-Match': reply.rev })
    expect(last.status).toBe(200)
    expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: last.rev, n: 1 })
  })

  it('needs the attachment, the document and its latest revision', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', 'x')
    const second = await db.save('doc', { _rev: first, _attachments: { a: { stub: true } } })
    expectConflict(await db.delete('doc/a'))
    expectConflict(await db.delete(`doc/a?rev=${first}`))
    expectRefusal(await db.delete(`doc/b?rev=${second}`), 404, 'not_found', MISSING)
    expectRefusal(await db.delete('unknown/a?rev=1-abc'), 404, 'not_found', 'missing')
    expectRefusal(await db.delete('doc/a?rev=x'), 400, 'bad_request', 'Invalid rev format')
    expect((await db.get('doc')).as<{ _rev: string }>()._rev).toBe(second)
  })

  it('answers before it has written when the client asks for a batch', async () => {
    const db = await client().database()
    const rev = await attach(db, 'doc/a', 'x')
    const reply = await db.delete(`doc/a?rev=${rev}&batch=ok`)
    expect([reply.status, reply.text]).toEqual([202, '{"ok":true,"id":"doc"}\n'])
    expect(reply.headers.etag).toBeUndefined()
    await until(async () => (await db.get('doc/a')).status === 404)
  })
})

describe('the name of an attachment', () => {
  it.each([
    ['a/b', 'a/b'],
    ['a%2Fb', 'a/b'],
    ['a/b/c.txt', 'a/b/c.txt'],
    ['a%252Fb', 'a%2Fb'],
    ['with%20blank', 'with blank'],
    ['with+blank', 'with blank'],
    ['%C3%A9%E2%98%83', 'é☃'],
    ['%22quoted%22', '"quoted"'],
    ['a%0D%0Ab', 'a\r\nb'],
    ['a/_b', 'a/_b'],
    ['100%25', '100%'],
    ['.', '.'],
    ['...', '...'],
    ['%F0%9F%90%9D', '🐝'],
    ['constructor', 'constructor'],
  ])('in the path %s is %j', async (path, name) => {
    const db = await client().database()
    const reply = await db.put(`doc/${path}`, 'content', OCTET_TYPE)
    expect(reply.status, reply.text).toBe(201)
    expect(Object.keys(await entries(db, 'doc'))).toEqual([name])
    expect((await db.get(`doc/${path}`)).text).toBe('content')
    expect((await db.get(`doc/${encodeURIComponent(name)}`)).text).toBe('content')
    expect((await follow(reply)).text).toBe('content')
    expect((await db.delete(`doc/${path}?rev=${reply.rev}`)).status).toBe(200)
  })

  it('does not begin with an underscore', async () => {
    const db = await client().database()
    for (const path of ['doc/_a', 'doc/_a/b', 'doc/__proto__']) {
      const reply = await db.put(path, 'x', OCTET_TYPE)
      expectRefusal(reply, 400, 'bad_request', "Attachment name can't start with '_'")
    }
    expect((await db.get('doc')).status).toBe(404)
  })

  it('is UTF-8', async () => {
    const db = await client().database()
    const reply = await db.put('doc/%FF', 'x', OCTET_TYPE)
    expectRefusal(reply, 400, 'bad_request', 'Attachment name is not UTF-8 encoded')
    expect((await db.get('doc')).status).toBe(404)
  })

  it('distinguishes names that a path would join', async () => {
    const db = await client().database()
    const first = await attach(db, 'a%2Fb/c', 'of a/b')
    await attach(db, 'a/b%2Fc', 'of a')
    expect(first.slice(0, 2)).toBe('1-')
    expect((await db.get('a%2Fb/c')).text).toBe('of a/b')
    expect((await db.get('a/b/c')).text).toBe('of a')
  })
})

describe('attachments of special documents', () => {
  it('may be on design documents', async () => {
    const db = await client().database()
    const reply = await db.put('_design/x/lib/a.js', 'content', OCTET_TYPE)
    expect([reply.status, reply.json]).toMatchObject([201, { id: '_design/x' }])
    expect((await follow(reply)).text).toBe('content')
    expect(Object.keys(await entries(db, '_design/x'))).toEqual(['lib/a.js'])
    expect((await db.get('_design/x/lib/a.js')).text).toBe('content')
    const escaped = await db.get('_design%2Fx/lib/a.js')
    expect([escaped.status, escaped.headers.location]).toEqual([301, `${db.url}/_design/x/lib/a.js`])
    const second = await attach(db, `_design%2Fx/b?rev=${reply.rev}`, 'other')
    expect((await db.get('_design/x/b')).text).toBe('other')
    expect((await db.delete(`_design/x/lib/a.js?rev=${second}`)).status).toBe(200)
    expectRefusal(await db.get('_design/x/lib/a.js'), 404, 'not_found', MISSING)
  })

  it('are refused on local documents', async () => {
    const db = await client().database()
    await db.save('_local/x', { n: 1 })
    const reason = '_local documents do not accept attachments.'
    expectRefusal(await db.put('_local/x/a', 'content', OCTET_TYPE), 400, 'bad_request', reason)
    expectRefusal(await db.put('_local/x/a?rev=0-1', 'content', OCTET_TYPE), 400, 'bad_request', reason)
    expectRefusal(await db.get('_local/x/a'), 400, 'bad_request', reason)
    expectRefusal(await db.delete('_local/x/a?rev=0-1'), 400, 'bad_request', reason)
    expect((await db.get('_local/x')).json).toEqual({ _id: '_local/x', _rev: '0-1', n: 1 })
  })

  it('need a document whose name is one', async () => {
    const db = await client().database()
    const reserved = 'Only reserved document ids may start with underscore.'
    expectRefusal(await db.put('_odd/a', 'x', OCTET_TYPE), 400, 'bad_request', reserved)
  })
})

describe('other methods', () => {
  it.each(['POST', 'COPY', 'PATCH'])('such as %s are refused', async (method) => {
    const db = await client().database()
    await attach(db, 'doc/a', 'x')
    const reply = await db.request(method, 'doc/a')
    expect(reply.status).toBe(405)
    expect(reply.headers.allow?.split(/, ?/).sort()).toEqual(['DELETE', 'GET', 'HEAD', 'PUT'])
  })
})
