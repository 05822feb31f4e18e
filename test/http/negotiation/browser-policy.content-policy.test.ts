import { describe, expect, it } from 'vitest'
import { serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

const DESIGN = {
  views: { v: { map: 'function(doc) { emit(doc._id) }' } },
  shows: {
    plain: 'function() { return "x" }',
    own: `function() { return { body: 'x', headers: {
      'content-security-policy': "default-src *", 'x-content-type-options': 'none' } } }`,
    head: `function() { return { body: 'x', headers: {
      'X-Service-Request-ID': 'mine', Date: 'yesterday', date: 'today', SERVER: 'mine', Server: 'another', 'Content-Length': '99', Connection: 'close',
      'transfer-encoding': 'gzip', 'Keep-Alive': 'x', Upgrade: 'h2c', trailer: 'A', 'cache-control': 'no-store',
      'content-type': 'a/b', vary: 'Cookie', etag: '"mine"', 'access-control-allow-credentials': 'true' } } }`,
  },
  lists: { plain: 'function() { send("x") }' },
  updates: {
    plain: 'function(doc) { return [null, "x"] }',
    writes: 'function(doc, req) { return [{_id: req.uuid}, "x"] }',
  },
}

async function filled(): Promise<TestDatabase> {
  const db = await client().database()
  expect((await db.put('_design/d', DESIGN)).status).toBe(201)
  expect((await db.put('doc/a.html', '<b>', { 'Content-Type': 'text/html' })).status).toBe(201)
  return db
}

async function set(key: string, value: string | undefined): Promise<void> {
  const reply =
    value === undefined
      ? await client().request('DELETE', `/_config/${key}`)
      : await client().request('PUT', `/_config/${key}`, { body: JSON.stringify(value) })
  expect(reply.status, reply.text).toBe(200)
}

const FUNCTIONS: [method: string, path: string][] = [
  ['GET', '_design/d/_show/plain'],
  ['GET', '_design/d/_list/plain/v'],
  ['POST', '_design/d/_update/plain'],
  ['POST', '_design/d/_update/writes'],
]
const ATTACHMENTS: [path: string, headers: Record<string, string>][] = [
  ['doc/a.html', {}],
  ['doc/a.html', { 'Accept-Encoding': 'gzip' }],
  ['doc/a.html', { Range: 'bytes=0-0' }],
  ['doc/a.html', { Range: 'bytes=0-0,1-1' }],
]

describe('content of users', () => {
  it('has its declared type, whatever its bytes look like', async () => {
    const db = await filled()
    for (const [method, path] of FUNCTIONS) {
      const { headers } = await db.request(method, path, { body: '' })
      expect([headers['x-content-type-options'], headers['content-security-policy']]).toEqual(['nosniff', undefined])
    }
    for (const [path, sent] of ATTACHMENTS) {
      const { headers } = await db.get(path, sent)
      expect([headers['x-content-type-options'], headers['content-security-policy']]).toEqual(['nosniff', undefined])
    }
    expect((await db.get('_design/d/_show/own')).headers['x-content-type-options']).toBe('none')
  })

  it('has the configured policy, whatever a function sets', async () => {
    const db = await filled()
    for (const kind of ['attachments', 'showlist', 'utils']) await set(`csp/${kind}_enable`, 'true')
    await set('csp/showlist_header_value', 'sandbox allow-forms')
    for (const [method, path] of [...FUNCTIONS, ['GET', '_design/d/_show/own'] as const]) {
      const { headers } = await db.request(method, path, { body: method === 'GET' ? undefined : '' })
      expect(headers['content-security-policy'], path).toBe('sandbox allow-forms')
    }
    for (const [path, sent] of ATTACHMENTS) {
      expect((await db.get(path, sent)).headers['content-security-policy']).toBe('sandbox')
    }
    expect((await client().request('GET', '/_utils/')).headers['content-security-policy']).toMatch(
      /^default-src 'self';/,
    )
    expect((await db.get('doc')).headers['content-security-policy']).toBeUndefined()
    for (const kind of ['attachments', 'showlist', 'utils']) await set(`csp/${kind}_enable`, undefined)
    await set('csp/showlist_header_value', undefined)
    const reply = await client().request('PUT', '/_config/csp/showlist_header_value', { body: '"a\\r\\nb"' })
    expect(reply.status, reply.text).toBe(400)
  })

  it('has no header twice, and none of the server', async () => {
    const db = await filled()
    const head = `GET /${db.name}/_design/d/_show/head HTTP/1.1\r\nHost: x\r\n`
    const exchange = async (more: string) =>
      (await client().exchange(`${head}${more}Connection: close\r\n\r\n`)).split('\r\n\r\n')[0]!
    const names = (text: string) =>
      text
        .split('\r\n')
        .slice(1)
        .map((line) => line.split(':')[0]!.toLowerCase())
    const plain = await exchange('')
    expect(new Set(names(plain)).size).toBe(names(plain).length)
    expect(plain).toMatch(/\r\nServer: Service\//)
    expect(plain).toMatch(/\r\nDate: \w{3}, /)
    for (const word of ['yesterday', 'today', 'mine', 'another', 'gzip', 'h2c']) expect(plain).not.toContain(word)
    expect(plain).toContain('Content-Length: 1')
    await set('httpd/enable_cors', 'true')
    await set('cors/origins', 'http://a.example')
    await set('cors/credentials', 'true')
    const crossed = await exchange('Origin: http://a.example\r\n')
    expect(new Set(names(crossed)).size).toBe(names(crossed).length)
    for (const key of ['httpd/enable_cors', 'cors/origins', 'cors/credentials']) await set(key, undefined)
  })
})

describe('names that every object has', () => {
  it.each(['constructor', 'toString', '__proto__', 'hasOwnProperty', 'valueOf'])(
    '%s: nothing is there',
    async (name) => {
      const db = await filled()
      for (const section of ['httpd', 'constructor', '__proto__', name]) {
        const { json } = await client().request('GET', `/_stats/${section}/${name}`)
        expect(JSON.stringify(json)).toContain(`{"${name}":{"description":"","current":null,`)
      }
      const paths = [`_show/${name}`, `_view/${name}`, `_list/${name}/v`, `_list/plain/${name}`].map(
        (path) => `_design/d/${path}`,
      )
      for (const path of [
        ...paths,
        `doc/${name}`,
        `_changes?filter=d/${name}`,
        `_changes?filter=_view&view=d/${name}`,
      ]) {
        expect((await db.get(path)).status, path).toBe(404)
      }
      expect((await db.post(`_design/d/_update/${name}`, '')).status).toBe(404)
      expect((await client().request('GET', `/_config/${name}/${name}`)).status).toBe(404)
      expect((await client().request('GET', `/_config/httpd/${name}`)).status).toBe(404)
      for (const query of [`feed=${name}`, `style=${name}`]) {
        expect((await db.get(`_changes?${query}`)).status, query).toBeLessThan(500)
      }
      expect((await db.get(`_design/d/_show/plain?format=${name}`)).status).toBeLessThan(500)
      expect((await db.get(`doc/a.html`, { 'Accept-Encoding': name })).status).toBeLessThan(500)
    },
  )
})
