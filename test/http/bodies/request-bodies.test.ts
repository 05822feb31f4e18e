import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { expectRefusal, rawRequest, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

const client = serverOfFile()

describe('the body of a request', () => {
  it('may be compressed', async () => {
    const db = await client().database()
    const packed = gzipSync(JSON.stringify({ text: 'x'.repeat(10_000) }))
    const put = await db.put('doc', packed, { 'Content-Encoding': 'gzip' })
    expect(put.status).toBe(201)
    expect((await db.get('doc')).json).toMatchObject({ text: 'x'.repeat(10_000) })
    const bulk = gzipSync(JSON.stringify({ docs: [{ _id: 'a' }] }))
    expect((await db.post('_bulk_docs', bulk, { 'Content-Encoding': 'gzip' })).status).toBe(201)
    const keys = gzipSync(JSON.stringify({ keys: ['a'] }))
    expect((await db.post('_all_docs', keys, { 'Content-Encoding': 'gzip' })).json).toMatchObject({
      rows: [{ id: 'a' }],
    })
    expect((await db.put('plain', {}, { 'Content-Encoding': 'identity' })).status).toBe(201)
  })

  it('may be compressed with gzip at login', async () => {
    const { url } = await startService({ settings: { admins: { root: 'top' } } })
    const login = (body: Buffer) =>
      fetch(`${url}_session`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' },
        body: new Uint8Array(body),
      })
    expect((await login(gzipSync('{"name":"root","password":"top"}'))).status).toBe(200)
    expect((await login(Buffer.from('{"name":"root","password":"top"}'))).status).toBe(400)
    expect((await login(gzipSync(`{"name":"${'x'.repeat(1_000_000)}"}`))).status).toBe(413)
  })

  it.each(['deflate', 'br', 'gzip, gzip', 'nosuch'])('may not be compressed with %s', async (encoding) => {
    const db = await client().database()
    const reply = await db.put('doc', {}, { 'Content-Encoding': encoding })
    expectRefusal(reply, 415, 'bad_content_type', `${encoding} is not a supported content encoding.`)
    expect((await db.get('doc')).status).toBe(404)
  })

  it('is refused when its compression is broken', async () => {
    const db = await client().database()
    const packed = gzipSync(JSON.stringify({ text: 'x'.repeat(1_000) }))
    for (const bytes of [Buffer.from('{}'), packed.subarray(0, -6), Buffer.alloc(0)]) {
      const reply = await db.put('doc', bytes, { 'Content-Encoding': 'gzip' })
      expect([reply.status, reply.as<{ error: string }>().error]).toEqual([400, 'bad_request'])
    }
    expect((await db.get('doc')).status).toBe(404)
  })

  it('is refused in an unknown transfer encoding', async () => {
    const db = await client().database()
    const lines = [`PUT /${db.name}/doc HTTP/1.1`, 'Host: x', 'Transfer-Encoding: gzip', 'Accept: application/json']
    const received = await client().exchange(rawRequest(lines, '{}'))
    expect(received).toMatch(/^HTTP\/1\.1 500 [\s\S]*{"error":"unknown_transfer_encoding","reason":"gzip"}\n$/)
    expect((await db.get('doc')).status).toBe(404)
  })

  it('may be chunked', async () => {
    const db = await client().database()
    const reply = await db.put('doc', { a: 1 }, { 'Transfer-Encoding': 'chunked' })
    expect([reply.status, reply.rev]).toEqual([201, '1-23202479633c2b380f79507a776743d5'])
    const connection = await client().open()
    connection.write(rawRequest([`PUT /${db.name}/raw HTTP/1.1`, 'Host: x', 'Transfer-Encoding: chunked']))
    for (const piece of ['1\r\n{\r\n', '3\r\n"a"\r\n', '3;x=y\r\n:1}\r\n', '0\r\n\r\n']) connection.write(piece)
    await connection.receives('1-23202479633c2b380f79507a776743d5')
    connection.end()
  })

  it('may begin with white space, and not with a byte order mark', async () => {
    const db = await client().database()
    expect((await db.put('a', ' \t\r\n{}')).status).toBe(201)
    expectRefusal(await db.put('b', '\ufeff{}'), 400, 'bad_request', 'invalid_json')
  })

  it.each([
    ['nothing', ''],
    ['white space', ' \n'],
    ['what breaks off', '{"a":'],
    ['what goes on after its end', '{} {}'],
    ['a byte after its end', '{}x'],
    ['a comment', '{/* no */}'],
    ['a comma too many', '{"a":1,}'],
    ['a comma too many in a list', '{"a":[1,]}'],
    ['single quotes', "{'a':1}"],
    ['a name without quotes', '{a:1}'],
    ['a number with a leading zero', '{"a":01}'],
    ['a number with a plus', '{"a":+1}'],
    ['a number that ends with its point', '{"a":1.}'],
    ['a number that begins with its point', '{"a":.5}'],
    ['a number without an exponent', '{"a":1e}'],
    ['a number out of range', '{"a":1e400}'],
    ['NaN', '{"a":NaN}'],
    ['Infinity', '{"a":-Infinity}'],
    ['a word', '{"a":undefined}'],
    ['a word in capitals', '{"a":True}'],
    ['a hexadecimal number', '{"a":0x10}'],
    ['a line break in text', '{"a":"x\ny"}'],
    ['a control character in text', '{"a":"\u0001"}'],
    ['an escape that is none', '{"a":"\\x41"}'],
    ['an escape that breaks off', '{"a":"\\u12"}'],
    ['text that breaks off', '{"a":"x'],
    ['a bracket that does not fit', '{"a":[1}'],
    ['a name that is a number', '{1:1}'],
    ['a member without a value', '{"a"}'],
  ])('is refused when it is %s', async (_what, body) => {
    const db = await client().database()
    expectRefusal(await db.put('doc', body), 400, 'bad_request', 'invalid_json')
    expectRefusal(await db.post('', body), 400, 'bad_request', 'invalid_json')
    expectRefusal(await db.post('_bulk_docs', `{"docs":[${body}]`), 400, 'bad_request', 'invalid_json')
    expect((await db.info()).update_seq).toBe(0)
  })

  it.each([
    ['a byte of no character', [0xff]],
    ['a lone continuation', [0x80]],
    ['a character that breaks off', [0xc3]],
    ['a character longer than it need be', [0xc0, 0x80]],
    ['half of a surrogate pair', [0xed, 0xa0, 0x80]],
    ['a character beyond the last', [0xf4, 0x90, 0x80, 0x80]],
  ])('is refused when it is not UTF-8: %s', async (_what, bytes) => {
    const db = await client().database()
    const body = Buffer.concat([Buffer.from('{"a":"'), Buffer.from(bytes), Buffer.from('"}')])
    expectRefusal(await db.put('doc', body), 400, 'bad_request', 'invalid_json')
    expect((await db.info()).update_seq).toBe(0)
  })

  it('may be nested, up to a limit', async () => {
    const db = await client().database()
    const nested = (depth: number) => `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`
    expect((await db.put('some', nested(100))).status).toBe(201)
    const reply = await db.put('endless', nested(1_000_000))
    expect(reply.status).toBe(400)
    expect((await db.put('unclosed', `{"a":${'['.repeat(1_000_000)}`)).status).toBe(400)
    expect((await db.put('members', `${'{"a":'.repeat(1_000_000)}`)).status).toBe(400)
    expect((await db.info()).doc_count).toBe(1)
  })
})

describe('the Content-Type of a request', () => {
  it.each(['', '_bulk_docs', '_purge', '_ensure_full_commit', '_compact'])(
    'is JSON for POST /{db}/%s',
    async (path) => {
      const db = await client().database()
      const body = path === '_bulk_docs' ? { docs: [] } : {}
      for (const type of [undefined, 'text/plain', 'application/x-www-form-urlencoded', 'application/xml']) {
        const reply = await db.post(path, body, { 'Content-Type': type })
        expectRefusal(reply, 415, 'bad_content_type', 'Content-Type must be application/json')
      }
      for (const type of ['application/json', 'application/json;charset=utf-8', 'Application/JSON; a=b; c=d']) {
        expect((await db.post(path, body, { 'Content-Type': type })).status, type).toBeLessThan(300)
      }
    },
  )

  it.each([
    ['PUT', 'doc', '{}'],
    ['POST', '_revs_diff', '{}'],
    ['POST', '_missing_revs', '{}'],
    ['POST', '_all_docs', '{}'],
    ['PUT', '_revs_limit', '7'],
    ['PUT', '_security', '{}'],
  ])('may be anything for %s %s', async (method, path, body) => {
    for (const type of [undefined, 'text/plain', 'application/octet-stream']) {
      const db = await client().database()
      const reply = await db.request(method, path, { body, headers: { 'Content-Type': type } })
      expect(reply.status, reply.text).toBeLessThan(300)
    }
  })
})

describe('an invalid Content-Type', () => {
  it.each([';', '/', 'x', 'application', 'application/', 'a b/c', '"'])(
    '%s is no JSON, where that is asked for',
    async (type) => {
      const db = await client().database()
      for (const path of ['', '_bulk_docs', '_purge']) {
        const reply = await db.post(path, {}, { 'Content-Type': type })
        expectRefusal(reply, 415, 'bad_content_type', 'Content-Type must be application/json')
      }
      expect((await db.put('doc', {}, { 'Content-Type': type })).status).toBe(201)
      expect((await db.post('_revs_diff', {}, { 'Content-Type': type })).status).toBe(200)
    },
  )
})

describe('Expect: 100-continue', () => {
  const body = '{"a":1}'
  const head = (db: TestDatabase, request: string, word = '100-continue', type = 'application/json') =>
    rawRequest([
      request.replace('DB', db.name),
      'Host: x',
      `Content-Type: ${type}`,
      `Content-Length: ${body.length}`,
      `Expect: ${word}`,
    ])

  it.each(['100-continue', '100-Continue'])('%s is answered before the body is sent', async (word) => {
    const db = await client().database()
    const connection = await client().open()
    connection.write(head(db, 'PUT /DB/doc HTTP/1.1', word))
    await connection.receives(/^HTTP\/1\.1 100 Continue\r\n\r\n$/)
    connection.write(body)
    await connection.receives(/HTTP\/1\.1 201 Created[\s\S]*1-23202479633c2b380f79507a776743d5/)
    connection.end()
  })

  it('is not answered when the request is refused before its body is read', async () => {
    const db = await client().database()
    for (const [request, status, type] of [
      ['POST /DB HTTP/1.1', '415', 'text/plain'],
      ['PUT /nosuch/doc HTTP/1.1', '404', 'application/json'],
      ['PUT /UPPER/doc HTTP/1.1', '400', 'application/json'],
      ['PATCH /DB/doc HTTP/1.1', '405', 'application/json'],
    ] as const) {
      const connection = await client().open()
      connection.write(head(db, request, '100-continue', type))
      await connection.receives(/\r\n\r\n\{/)
      expect(connection.statuses, request).toEqual([status])
      connection.end()
    }
  })
})

describe('a body that is not read', () => {
  it.each([
    ['POST /nosuch HTTP/1.1', '404'],
    ['PUT /UPPER HTTP/1.1', '400'],
    ['PATCH /DB/doc HTTP/1.1', '405'],
    ['GET /DB HTTP/1.1', '200'],
    ['DELETE /DB/nosuch HTTP/1.1', '404'],
  ])('is not taken for the next request: %s', async (request, status) => {
    const db = await client().database()
    const smuggled = `DELETE /${db.name} HTTP/1.1\r\nHost: x\r\n\r\n`
    const lines = [request.replace('DB', db.name), 'Host: x', 'Content-Type: application/json']
    const connection = await client().open()
    connection.write(rawRequest([...lines, `Content-Length: ${smuggled.length}`], smuggled))
    connection.write(rawRequest([`GET /${db.name} HTTP/1.1`, 'Host: x', 'Connection: close']))
    await connection.closed()
    const replies = connection.statuses
    expect(replies[0]).toBe(status)
    // Either the connection was closed after the first reply, or the body was read to its end.
    expect([[status], [status, '200']]).toContainEqual(replies)
    expect((await db.get()).status).toBe(200)
  })

  it('does not block the reply when it is large', async () => {
    const reply = await client().request('PUT', '/nosuch/doc', { body: 'x'.repeat(100_000) })
    expect(reply.status).toBe(404)
  })
})
