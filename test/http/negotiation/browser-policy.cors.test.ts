import { describe, expect, it } from 'vitest'
import { silentLog } from '../../../src/runtime/log/log.ts'
import { Client, type Reply } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { HAS_SEVERAL_SERVERS, TEST_NODES } from '../../support/test-service.ts'

const ORIGIN = 'https://page.example'

async function server(cors: Record<string, string> = {}, more: Record<string, Record<string, string>> = {}) {
  const settings = {
    httpd: { enable_cors: 'true' },
    cors: { origins: `http://a.example, ${ORIGIN}`, ...cors },
    ...more,
  }
  return new Client((await startService({ settings })).url)
}

const from = (client: Client, method: string, path: string, headers: Record<string, string> = {}) =>
  client.request(method, path, { headers: { Origin: ORIGIN, ...headers } })

/** The headers that CORS added. */
const added = ({ headers }: Reply) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('access-control-')))

describe('a request of a page of another origin', () => {
  it('gets no CORS headers while CORS is off', async () => {
    const client = new Client((await startService({ settings: { cors: { origins: '*' } } })).url)
    expect(added(await from(client, 'GET', '/'))).toEqual({})
    expect((await from(client, 'OPTIONS', '/')).status).toBe(405)
  })

  it('gets its origin as allowed, and the headers that it may read', async () => {
    const client = await server()
    const db = await client.database()
    expect(added(await from(client, 'GET', `/${db.name}`))).toEqual({
      'access-control-allow-origin': ORIGIN,
      'access-control-expose-headers': 'Cache-Control, Content-Type, Server',
    })
    const rev = await db.save('doc', {})
    const document = await from(client, 'GET', `/${db.name}/doc`)
    expect(document.headers['access-control-expose-headers']).toBe('Cache-Control, Content-Type, Etag, Server')
    const known = await from(client, 'GET', `/${db.name}/doc`, { 'If-None-Match': `"${rev}"` })
    expect([known.status, known.headers['access-control-expose-headers']]).toEqual([304, 'Cache-Control, Etag, Server'])
    const missing = await from(client, 'GET', '/nosuch')
    expect([missing.status, missing.headers['access-control-allow-origin']]).toEqual([404, ORIGIN])
  })

  it('gets Vary: Origin, and so does any other', async () => {
    const client = await server()
    const db = await client.database()
    await db.put('_design/d', { shows: { x: 'function() { return "x" }' } })
    const vary = async (path: string, headers: Record<string, string> = {}, method = 'GET') =>
      (await client.request(method, path, { headers })).headers.vary
    for (const headers of [{}, { Origin: ORIGIN }, { Origin: 'http://none.example' }]) {
      for (const path of [
        '/',
        '/none',
        `/${db.name}`,
        `/${db.name}/_all_docs`,
        `/${db.name}/_changes`,
        '/_config/a/b',
      ]) {
        expect(await vary(path, headers), path).toBe('Origin')
      }
      expect(await vary(`/${db.name}/_design/d/_show/x`, headers)).toBe('Accept, Origin')
      expect(await vary('/', { ...headers, 'Access-Control-Request-Method': 'PUT' }, 'OPTIONS')).toBe('Origin')
    }
    const off = new Client((await startService()).url)
    expect((await from(off, 'GET', '/')).headers.vary).toBeUndefined()
  })

  it('gets no CORS headers when its origin is not listed', async () => {
    const client = await server()
    for (const origin of ['https://page.example:1', 'https://PAGE.example', 'null', '*']) {
      const reply = await from(client, 'GET', '/', { Origin: origin })
      expect([reply.status, added(reply)]).toEqual([200, {}])
    }
    expect(added(await client.request('GET', '/'))).toEqual({})
  })

  it('may send credentials where that is on, but not from everywhere', async () => {
    const some = await server({ credentials: 'true' })
    expect((await from(some, 'GET', '/')).headers['access-control-allow-credentials']).toBe('true')
    const all = await server({ credentials: 'true', origins: '*' })
    expect(added(await from(all, 'GET', '/'))).toMatchObject({ 'access-control-allow-origin': ORIGIN })
    expect((await from(all, 'GET', '/')).headers['access-control-allow-credentials']).toBeUndefined()
  })

  it('uses the settings of its host first', async () => {
    const client = await server(
      { methods: 'GET' },
      { 'cors:db.example': { origins: 'http://only.example', max_age: '5' } },
    )
    const at = (host: string, origin: string, method = 'GET') =>
      from(client, method, '/', { Host: host, Origin: origin })
    expect(added(await at('db.example:5984', ORIGIN))).toEqual({})
    expect(added(await at('db.example', 'http://only.example'))).not.toEqual({})
    expect(added(await at('other.example', ORIGIN))).not.toEqual({})
    expect(added(await at('db.example', 'http://only.example', 'OPTIONS'))).toMatchObject({
      'access-control-max-age': '5',
      'access-control-allow-methods': 'GET',
    })
  })
})

describe('a preflight', () => {
  const METHODS = 'GET, HEAD, POST, PUT, DELETE, TRACE, CONNECT, COPY, OPTIONS'

  it('is answered with what may be done', async () => {
    const client = await server()
    const bare = await from(client, 'OPTIONS', '/nosuch/doc')
    expect([bare.status, bare.text, bare.headers['content-type']]).toEqual([204, '', undefined])
    expect(added(bare)).toEqual({
      'access-control-allow-origin': ORIGIN,
      'access-control-max-age': '12345',
      'access-control-allow-methods': METHODS,
    })
    const asking = await from(client, 'OPTIONS', '/', {
      'Access-Control-Request-Method': 'PUT',
      'Access-Control-Request-Headers': 'content-type,X-Requested-With',
    })
    expect([asking.status, asking.headers['access-control-allow-headers']]).toEqual([
      204,
      'content-type,X-Requested-With',
    ])
    const noHeaders = await from(client, 'OPTIONS', '/', { 'Access-Control-Request-Method': 'COPY' })
    expect([noHeaders.status, noHeaders.headers['access-control-allow-headers']]).toEqual([204, ''])
  })

  it.each([
    [{ Origin: 'http://nobody.example' }],
    [{ 'Access-Control-Request-Method': 'PATCH' }],
    [{ 'Access-Control-Request-Method': 'put' }],
    [{ 'Access-Control-Request-Method': 'PUT', 'Access-Control-Request-Headers': 'Authorization' }],
  ])('with %j is handled like a simple request', async (headers) => {
    const reply = await from(await server(), 'OPTIONS', '/', headers)
    expect(reply.status).toBe(405)
  })

  it('may be for headers that the operator adds, and follows changes', async () => {
    const client = await server({ headers: 'Authorization' })
    const ask = () =>
      from(client, 'OPTIONS', '/', {
        'Access-Control-Request-Method': 'PUT',
        'Access-Control-Request-Headers': 'authorization',
      })
    expect((await ask()).status).toBe(204)
    await client.request('PUT', '/_config/httpd/enable_cors', { body: '"false"' })
    expect((await ask()).status).toBe(405)
  })
})

describe('credentials for any origin', () => {
  const open = { origins: '*', credentials: 'true' }
  const credentials = (reply: Reply) => reply.headers['access-control-allow-credentials']

  it('are not given because of a star', async () => {
    const client = await server(open)
    const reply = await from(client, 'GET', '/')
    expect([reply.headers['access-control-allow-origin'], credentials(reply)]).toEqual([ORIGIN, undefined])
    expect(credentials(await from(client, 'OPTIONS', '/'))).toBeUndefined()
  })

  it('are given where the operator asks for just that, with a warning in the log', async () => {
    const lines: string[] = []
    const servers = HAS_SEVERAL_SERVERS ? TEST_NODES : 1
    const log = { ...silentLog, warn: (message: string) => lines.push(message) }
    const settings = { httpd: { enable_cors: 'true' }, cors: { ...open, credentials_for_any_origin: 'true' } }
    const client = new Client((await startService({ settings, log })).url)
    expect(lines.filter((line) => line.includes('credentials_for_any_origin'))).toHaveLength(servers)
    for (const method of ['GET', 'OPTIONS']) {
      const reply = await from(client, method, '/')
      expect([reply.headers['access-control-allow-origin'], credentials(reply)]).toEqual([ORIGIN, 'true'])
    }
    await client.request('PUT', '/_config/cors/credentials_for_any_origin', { body: '"false"' })
    expect(credentials(await from(client, 'GET', '/'))).toBeUndefined()
    await client.request('PUT', '/_config/cors/credentials_for_any_origin', { body: '"true"' })
    expect(lines.filter((line) => line.includes('credentials_for_any_origin'))).toHaveLength(2 * servers)
  })

  it('may be asked for of one host', async () => {
    const own = { 'cors:open.example': { ...open, credentials_for_any_origin: 'true' } }
    const client = await server(open, own)
    expect(credentials(await from(client, 'GET', '/', { Host: 'open.example' }))).toBe('true')
    expect(credentials(await from(client, 'GET', '/'))).toBeUndefined()
  })

  it('are asked for by true or false alone', async () => {
    const client = await server(open)
    const reply = await client.request('PUT', '/_config/cors/credentials_for_any_origin', { body: '"yes"' })
    expect(reply.status).toBe(400)
  })
})
