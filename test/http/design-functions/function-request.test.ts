import { describe, expect, it } from 'vitest'
import { rawRequest, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

async function database(): Promise<TestDatabase> {
  const db = await client().database()
  await db.save('_design/app', { shows: { request: 'function (doc, req) { return { json: req } }' } })
  return db
}

const PATH = '_design/app/_show/request'

interface Told {
  readonly [member: string]: unknown
  readonly headers: Record<string, string>
}

describe('the request object', () => {
  it('has these members, in this order', async () => {
    const db = await database()
    const told = (await db.get(`${PATH}/a/b`)).as<Told>()
    expect(Object.keys(told)).toEqual([
      'info',
      'id',
      'uuid',
      'method',
      'requested_path',
      'path',
      'raw_path',
      'query',
      'headers',
      'body',
      'peer',
      'form',
      'cookie',
      'userCtx',
      'secObj',
    ])
    expect(told).toMatchObject({
      info: await db.info(),
      id: 'a/b',
      uuid: expect.stringMatching(/^[0-9a-f]{32}$/),
      method: 'GET',
      requested_path: [db.name, '_design', 'app', '_show', 'request', 'a', 'b'],
      path: [db.name, '_design', 'app', '_show', 'request', 'a', 'b'],
      raw_path: `/${db.name}/${PATH}/a/b`,
      query: {},
      body: 'undefined',
      peer: '127.0.0.1',
      form: {},
      cookie: {},
      userCtx: { db: db.name, name: null, roles: ['_admin'] },
      secObj: {},
    })
  })

  it('has a new uuid each time', async () => {
    const db = await database()
    const uuids = [await db.get(PATH), await db.get(PATH)].map((reply) => reply.as<Told>().uuid)
    expect(new Set(uuids).size).toBe(2)
  })

  it('has the query as strings, three parameters as parsed values', async () => {
    const db = await database()
    const query = 'a=1&a=2&b&keys=[1]&key={"x":[1]}&startkey="s"&endkey=null&__proto__=p&%C3%BC=%26'
    const { query: told } = (await db.get(`${PATH}?${query}`)).as<{ query: object }>()
    expect(JSON.stringify(told)).toBe(
      '{"a":"2","b":"","keys":"[1]","key":{"x":[1]},"startkey":"s","endkey":null,"__proto__":"p","ü":"&"}',
    )
  })

  it('has paths decoded, the raw one as it was sent', async () => {
    const db = await database()
    const told = (await db.get(`${PATH}/%C3%BC%2Fa?q=%20`)).as<Told>()
    expect(told.id).toBe('ü/a')
    expect(told.path).toEqual([db.name, '_design', 'app', '_show', 'request', 'ü/a'])
    expect(told.requested_path).toEqual([db.name, '_design', 'app', '_show', 'request', 'ü/a?q= '])
    expect(told.raw_path).toBe(`/${db.name}/${PATH}/%C3%BC%2Fa?q=%20`)
  })

  it('has headers by names with capitals, repeated ones joined', async () => {
    const db = await database()
    const reply = await db.get(PATH, { 'x-lower-case': '1', 'X-TWICE': ['a', 'b'], 'User-agent': 'me' })
    expect(reply.as<Told>().headers).toMatchObject({ 'X-Lower-Case': '1', 'X-Twice': 'a, b', 'User-Agent': 'me' })
  })

  it('has no headers that only the server may set', async () => {
    const db = await database()
    const names = ['X-Service-Requested-Path', 'X-CouchDB-Requested-Path', 'X-Service-VHost-Path']
    const reply = await db.get(PATH, Object.fromEntries(names.map((name) => [name, '/forged'])))
    expect(reply.text).not.toContain('forged')
  })

  it('has the method of X-HTTP-Method-Override', async () => {
    const db = await database()
    const reply = await db.post(PATH, 'x', { 'X-HTTP-Method-Override': 'PUT' })
    expect(reply.as<Told>().method).toBe('PUT')
    expect((await db.request('PUT', PATH, { headers: { 'X-HTTP-Method-Override': 'GET' } })).json).toMatchObject({
      method: 'PUT',
    })
  })

  it('has the body as text, whatever it is', async () => {
    const db = await database()
    expect((await db.post(PATH, 'plain é')).json).toMatchObject({ body: 'plain é' })
    expect((await db.post(PATH, '')).json).toMatchObject({ body: '' })
    expect((await db.post(PATH, Buffer.from([0x61, 0xff, 0x62]))).json).toMatchObject({ body: 'a\ufffdb' })
  })

  it('has fields of a form', async () => {
    const db = await database()
    const form = { 'Content-Type': 'application/x-www-form-urlencoded; charset=utf-8' }
    const told = (await db.post(PATH, 'a=1&b=x+y&a=2&__proto__=z', form)).as<{ form: object }>()
    expect(JSON.stringify(told.form)).toBe('{"a":"2","b":"x y","__proto__":"z"}')
    expect((await db.post(PATH, 'a=1')).json).toMatchObject({ form: {} })
  })

  it('has cookies', async () => {
    const db = await database()
    const reply = await db.get(PATH, { Cookie: 'a=1; b="two"; c; d=x=y' })
    expect(reply.as<Told>().cookie).toEqual({ a: '1', b: 'two', d: 'x=y' })
  })

  it('has the client behind a trusted proxy', async () => {
    const db = await database()
    expect((await db.get(PATH, { 'X-Forwarded-For': '192.0.2.7' })).json).toMatchObject({ peer: '192.0.2.7' })
  })

  it('has the security object', async () => {
    const db = await database()
    await db.put('_security', { admins: { names: [], roles: [] }, own: [1, { a: 'b' }] })
    expect((await db.get(PATH)).json).toMatchObject({ secObj: { own: [1, { a: 'b' }] } })
  })

  it('is refused with a body that is too large', async () => {
    const db = await database()
    await client().request('PUT', '/_config/service/max_document_size', { body: '"1000"' })
    expect((await db.post(PATH, 'x'.repeat(1001))).status).toBe(413)
    const chunked = rawRequest(
      [
        `POST /${db.name}/${PATH} HTTP/1.1`,
        `Host: ${client().host}`,
        'Transfer-Encoding: chunked',
        'Connection: close',
      ],
      `7d0\r\n${'x'.repeat(2000)}\r\n0\r\n\r\n`,
    )
    expect(await client().exchange(chunked)).toContain('413')
    await client().request('DELETE', '/_config/service/max_document_size')
  })
})
