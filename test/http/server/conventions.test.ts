import { describe, expect, it } from 'vitest'
import { Client, expectRefusal, rawRequest, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

const client = serverOfFile()

async function limited(settings: Record<string, Record<string, string>>): Promise<TestDatabase> {
  const { url } = await startService({ settings })
  return new Client(url).database()
}

describe('a reply', () => {
  it.each([
    ['a database', 'GET', ''],
    ['a document', 'GET', 'doc'],
    ['all documents', 'GET', '_all_docs'],
    ['leaf revisions', 'GET', 'doc?open_revs=all'],
    ['a limit', 'GET', '_revs_limit'],
    ['the security object', 'GET', '_security'],
    ['a missing document', 'GET', 'nosuch'],
    ['a refusal', 'PATCH', 'doc'],
  ])('of %s has the headers of all, and ends with a newline', async (_what, method, path) => {
    const db = await client().database()
    await db.save('doc', {})
    for (const [accept, type] of [
      [undefined, 'text/plain;charset=utf-8'],
      ['*/*', 'text/plain;charset=utf-8'],
      ['text/html', 'text/plain;charset=utf-8'],
      ['application/*', 'text/plain;charset=utf-8'],
      ['application/json', 'application/json'],
      ['application/json, */*', 'application/json'],
      ['text/html, application/json;q=0.9', 'application/json'],
      ['application/json;q=0', 'text/plain;charset=utf-8'],
    ] as const) {
      const reply = await db.request(method, path, { headers: { Accept: accept } })
      expect(reply.headers['content-type'], String(accept)).toBe(type)
      expect(reply.headers['cache-control']).toBe('must-revalidate')
      expect(reply.headers.server).toMatch(/^Service\/\d+\.\d+\.\d+ \(.+\)$/)
      expect(reply.headers.date).toMatch(/ GMT$/)
      expect(reply.text).toMatch(/[^\n]\n$/)
    }
  })

  it('is never refused because of Accept', async () => {
    const db = await client().database()
    expect((await db.get('', { Accept: 'image/png;q=1' })).status).toBe(200)
  })

  it('ignores Range', async () => {
    const db = await client().database()
    await db.save('doc', { a: 1 })
    const reply = await db.get('doc', { Range: 'bytes=0-3' })
    expect([reply.status, reply.text]).toEqual([200, (await db.get('doc')).text])
  })

  it('is sent in the order of pipelined requests', async () => {
    const db = await client().database()
    const connection = await client().open()
    const get = rawRequest([`GET /${db.name}/nosuch HTTP/1.1`, 'Host: x'])
    connection.write(Buffer.concat([get, get, get]))
    await connection.receives(/(404 Not Found[\s\S]*){3}/)
    expect(connection.statuses).toEqual(['404', '404', '404'])
    connection.end()
  })
})

describe('Location', () => {
  it('has the host of the request', async () => {
    const db = await client().database()
    const put = (headers: Record<string, string>, id: string) => db.put(id, {}, headers)
    expect((await put({ Host: 'example.org' }, 'a')).headers.location).toBe(`http://example.org/${db.name}/a`)
    expect((await put({ Host: 'example.org:81' }, 'b')).headers.location).toBe(`http://example.org:81/${db.name}/b`)
  })

  it('follows the headers of a proxy', async () => {
    const db = await client().database()
    const location = async (id: string, headers: Record<string, string>) =>
      (await db.put(id, {}, { Host: 'inner', ...headers })).headers.location
    expect(await location('a', { 'X-Forwarded-Host': 'outer.example' })).toBe(`http://outer.example/${db.name}/a`)
    expect(await location('b', { 'X-Forwarded-Ssl': 'on' })).toBe(`https://inner/${db.name}/b`)
    expect(await location('c', { 'X-Forwarded-Proto': 'https' })).toBe(`https://inner/${db.name}/c`)
    expect(await location('d', { 'X-Forwarded-Proto': 'gopher' })).toBe(`http://inner/${db.name}/d`)
    expect(await location('e', { 'X-Forwarded-Ssl': 'off' })).toBe(`http://inner/${db.name}/e`)
  })
})

describe('HTTP/1.0', () => {
  it('gets a reply that is not chunked and ends with the connection', async () => {
    const db = await client().database()
    await db.save('doc', {})
    const received = await client().exchange(rawRequest([`GET /${db.name}/_all_docs HTTP/1.0`]))
    const [head, body] = received.split('\r\n\r\n{')
    expect(head).toMatch(/^HTTP\/1\.[01] 200/)
    expect(head?.toLowerCase()).not.toContain('transfer-encoding')
    expect(`{${body}`).toBe((await db.get('_all_docs')).text)
  })
})

describe('X-HTTP-Method-Override', () => {
  it('turns a POST into another method', async () => {
    const db = await client().database()
    const override = (path: string, method: string, body: unknown = '') =>
      db.post(path, body, { 'X-HTTP-Method-Override': method })
    const put = await override('doc', 'PUT', { a: 1 })
    expect([put.status, put.json]).toEqual([201, { ok: true, id: 'doc', rev: put.rev }])
    expect((await override('doc', 'GET')).json).toEqual({ _id: 'doc', _rev: put.rev, a: 1 })
    const head = await override('doc', 'HEAD')
    expect([head.status, head.headers.etag]).toEqual([200, `"${put.rev}"`])
    const copy = await db.post('doc', '', { 'X-HTTP-Method-Override': 'COPY', Destination: 'copy' })
    expect(copy.status).toBe(201)
    expect((await override(`doc?rev=${put.rev}`, 'DELETE')).status).toBe(200)
    expect((await db.get('doc')).status).toBe(404)
  })

  it('is ignored on other methods, and with other values', async () => {
    const db = await client().database()
    await db.save('doc', {})
    expect((await db.get('doc', { 'X-HTTP-Method-Override': 'DELETE' })).status).toBe(200)
    expect((await db.put('new', {}, { 'X-HTTP-Method-Override': 'DELETE' })).status).toBe(201)
    for (const value of ['put', 'PATCH', 'NOSUCH', '']) {
      expect((await db.post('', { _id: `x-${value}` }, { 'X-HTTP-Method-Override': value })).status).toBe(201)
    }
  })
})

describe('a path', () => {
  it('is split at its slashes before it is decoded', async () => {
    const db = await client().database()
    await db.save('a%2Fb', { n: 1 })
    expect((await db.get('a%2fb')).json).toMatchObject({ _id: 'a/b', n: 1 })
  })

  it('ignores empty segments', async () => {
    const db = await client().database()
    await db.save('doc', {})
    await db.save('_design/x', {})
    await db.save('_local/x', {})
    for (const [path, id] of [
      [`/${db.name}//doc`, 'doc'],
      [`//${db.name}/doc/`, 'doc'],
      [`/${db.name}///doc//`, 'doc'],
      [`/${db.name}//_design//x/`, '_design/x'],
      [`/${db.name}/_local//x/`, '_local/x'],
    ]) {
      expect((await client().request('GET', path ?? '')).json).toMatchObject({ _id: id })
    }
    expect((await client().request('GET', `/${db.name}//_all_docs/`)).status).toBe(200)
  })

  it('keeps an invalid percent-escape', async () => {
    const db = await client().database()
    for (const id of ['100%', '%zz', '%4', 'a%%b']) {
      expect((await db.put(id, {})).json).toMatchObject({ ok: true, id })
      expect((await db.get(id)).json).toMatchObject({ _id: id })
    }
  })

  it('does not resolve dot segments', async () => {
    const db = await client().database()
    for (const id of ['..', '.', '...']) {
      expect((await db.put(id, {})).json).toMatchObject({ ok: true, id })
    }
    expect((await db.info()).doc_count).toBe(3)
  })

  it('may be in absolute form', async () => {
    const db = await client().database()
    const received = await client().exchange(
      rawRequest([`GET http://example.org/${db.name} HTTP/1.1`, 'Host: example.org', 'Connection: close']),
    )
    expect(received).toContain(`"db_name":"${db.name}"`)
  })
})

describe('JSONP', () => {
  it('is off', async () => {
    const db = await client().database()
    const reply = await db.get('_revs_limit?callback=f')
    expect([reply.text, reply.headers['content-type']]).toEqual(['1000\n', 'text/plain;charset=utf-8'])
  })

  it('wraps replies when it is on', async () => {
    const db = await limited({ httpd: { allow_jsonp: 'true' } })
    const reply = await db.get('_revs_limit?callback=a.b_c[0]')
    expect(reply.text).toBe('/* Service */a.b_c[0](1000);\n')
    expect(reply.headers['content-type']).toMatch(/^text\/javascript/)
    expect((await db.get('nosuch?callback=f')).text).toBe('/* Service */f({"error":"not_found","reason":"missing"});\n')
    expectRefusal(await db.get('_revs_limit?callback=alert(1)'), 400, 'bad_request', 'invalid_callback')
    expect((await db.get('_revs_limit?callback=')).text).toBe('1000\n')
    const rows = (await db.get('_all_docs?callback=f')).text
    expect(rows).toBe('/* Service */f({"total_rows":0,"offset":0,"rows":[\r\n\r\n]});\n')
  })
})
