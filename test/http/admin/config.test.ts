import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Client, expectRefusal, type Reply, rawRequest } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { HAS_SEVERAL_SERVERS, isBalanced } from '../../support/test-service.ts'
import { until } from '../../support/until.ts'

async function server(settings: Record<string, Record<string, string>> = {}): Promise<Client> {
  const { url } = await startService({ settings })
  return new Client(url)
}

const get = (client: Client, path = '') => client.request('GET', `/_config${path}`)
const put = (client: Client, path: string, value: unknown, headers: Record<string, string> = {}) =>
  client.request('PUT', `/_config${path}`, { body: JSON.stringify(value), headers })
const remove = (client: Client, path: string, headers: Record<string, string> = {}) =>
  client.request('DELETE', `/_config${path}`, { headers })
const told = ({ status, text }: Reply) => [status, text]

describe('GET /_config', () => {
  it('returns all sections, with all values as strings and without comments', async () => {
    const client = await server()
    const reply = await get(client)
    expect(reply.status).toBe(200)
    const all = reply.as<Record<string, Record<string, string>>>()
    expect(all.service).toMatchObject({ delayed_commits: 'false', max_dbs_open: '500', uuid: expect.any(String) })
    expect(all.uuids).toEqual({ algorithm: 'sequential', max_count: '1000' })
    expect(all.vendor).toEqual({ name: 'Settle', version: expect.stringMatching(/^\d/) })
    expect(Object.values(all).every((section) => Object.keys(section).length > 0)).toBe(true)
    for (const section of Object.values(all)) {
      for (const value of Object.values(section)) expect(typeof value).toBe('string')
    }
  })

  // A change that is not stored is of one server.
  it.skipIf(HAS_SEVERAL_SERVERS)('returns the origin of each value', async () => {
    const client = await server({ log: { level: 'error' } })
    await put(client, '/uuids/max_count', '500')
    await put(client, '/uuids/algorithm', 'random', { 'X-Service-Persist': 'false' })
    expect((await get(client, '?layers=true')).json).toMatchObject({
      log: { level: 'flag' },
      uuids: { max_count: 'stored', algorithm: 'unsaved' },
      httpd: { dialect: 'default' },
    })
    await remove(client, '/uuids/max_count')
    expect((await get(client, '?layers=true')).json).toMatchObject({ uuids: { algorithm: 'unsaved' } })
  })

  it('returns one section, or one value', async () => {
    const client = await server()
    expect((await get(client, '/uuids')).json).toEqual({ algorithm: 'sequential', max_count: '1000' })
    expect(told(await get(client, '/nosuch'))).toEqual([200, '{}\n'])
    expect(told(await get(client, '/uuids/algorithm'))).toEqual([200, '"sequential"\n'])
    expect(told(await get(client, '/httpd_global_handlers/%2F'))[0]).toBe(200)
    expectRefusal(await get(client, '/uuids/nosuch'), 404, 'not_found', 'unknown_config_value')
    expectRefusal(await get(client, '/uuids/constructor'), 404, 'not_found', 'unknown_config_value')
  })

  it('accepts the section names of CouchDB', async () => {
    const client = await server()
    expect((await get(client, '/couchdb/max_dbs_open')).json).toBe('500')
    await put(client, '/couch_httpd_auth/timeout', '60')
    expect((await get(client, '/service_httpd_auth/timeout')).json).toBe('60')
    expect(Object.keys((await get(client)).as<object>())).not.toContain('couch_httpd_auth')
  })
})

describe('PUT and DELETE /_config', () => {
  it('return the previous value', async () => {
    const client = await server()
    expect(told(await put(client, '/test/k', 'one'))).toEqual([200, '""\n'])
    expect(told(await put(client, '/test/k', 'two'))).toEqual([200, '"one"\n'])
    expect(told(await get(client, '/test'))).toEqual([200, '{"k":"two"}\n'])
    expect(told(await remove(client, '/test/k'))).toEqual([200, '"two"\n'])
    expectRefusal(await remove(client, '/test/k'), 404, 'not_found', 'unknown_config_value')
    expect(Object.keys((await get(client)).as<object>())).not.toContain('test')
  })

  it('accept escaped names', async () => {
    const client = await server()
    await put(client, '/vhosts/example.org%2Fa', '/db')
    await put(client, '/a%20b/c%20d%25', 'x')
    expect((await get(client, '/vhosts')).json).toEqual({ 'example.org/a': '/db' })
    expect((await get(client, '/a%20b')).json).toEqual({ 'c d%': 'x' })
  })

  it('refuse values that are not strings', async () => {
    const client = await server()
    for (const value of [5, true, null, [], {}]) {
      expectRefusal(await put(client, '/test/k', value), 400, 'bad_request', 'value must be a JSON string')
    }
    for (const body of ['', 'plain', '"']) {
      const reply = await client.request('PUT', '/_config/test/k', { body })
      expectRefusal(reply, 400, 'bad_request', 'invalid_json')
    }
    expect((await get(client, '/test')).json).toEqual({})
  })

  it.each(['/test/a%3Db', '/test/%5Bk', '/test/%3Bk', '/test/a%0Ab', '/te%5Dst/k', '/te%0Ast/k'])(
    'refuse the name %s',
    async (path) => {
      const reply = await put(await server(), path, 'x')
      expect([reply.status, reply.as<{ error: string }>().error]).toEqual([400, 'bad_request'])
    },
  )

  it.each([
    ['PUT', ''],
    ['PUT', '/test'],
    ['DELETE', '/test'],
    ['GET', '/a/b/c'],
    ['PUT', '/a/b/c'],
    ['POST', ''],
    ['POST', '/a/b'],
  ])('%s /_config%s: 405', async (method, path) => {
    const reply = await (await server()).request(method, `/_config${path}`, method === 'GET' ? {} : { body: '"x"' })
    expectRefusal(reply, 405, 'method_not_allowed', 'Only GET,PUT,DELETE allowed')
    expect(reply.headers.allow).toBe('GET,PUT,DELETE')
  })

  it.each([
    ['/httpd/port', 'x'],
    ['/httpd/port', '99999'],
    ['/httpd/bind_address', 'nowhere'],
    ['/httpd/bind_address', '192.0.2.1'],
    ['/uuids/algorithm', 'nosuch'],
    ['/couch_httpd_auth/authentication_db', 'Users'],
    ['/replicator/db', '_jobs'],
    ['/stats/rate', '0'],
    ['/couchdb/max_document_size', 'much'],
    ['/log/file', '/tmp/.profile'],
  ])('refuse %s = %s, which would break a feature', async (path, value) => {
    const client = await server()
    const before = (await get(client)).text
    const reply = await put(client, path, value)
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([400, 'bad_request'])
    // Servers have folders and ports of their own.
    if (HAS_SEVERAL_SERVERS) expect((await get(client, path)).json).not.toBe(value)
    else expect((await get(client)).text).toBe(before)
  })

  it('refuse a port that is in use', async () => {
    const [client, other] = await Promise.all([server(), server()])
    const reply = await put(client, '/httpd/port', other.url.port)
    expect([reply.status, reply.as<{ reason: string }>().reason]).toEqual([
      400,
      `Port ${other.url.port} of 127.0.0.1 is in use by another process.`,
    ])
    expect((await get(client, '/httpd/port')).json).toBe('0')
  })

  it('are on disk before the reply', async () => {
    const dir = await temporaryFolder()
    const service = await startService({ dir })
    const client = new Client(service.url)
    await put(client, '/test/kept', 'a ; b')
    await put(client, '/test/passing', 'x', { 'X-Service-Persist': 'false' })
    await put(client, '/test/couch', 'x', { 'X-Couch-Persist': 'false' })
    await put(client, '/test/both', 'x', { 'X-Service-Persist': 'true', 'X-Couch-Persist': 'false' })
    await remove(client, '/cors/credentials')
    await remove(client, '/vendor/name', { 'X-Service-Persist': 'false' })
    expect(Object.keys((await get(client, '/test')).as<object>())).toEqual(['kept', 'both', 'passing', 'couch'])
    expect(await readFile(join(dir, 'settings.ini'), 'utf8')).toContain('credentials =\n')
    await service.close()
    const again = new Client((await startService({ dir })).url)
    expect((await get(again, '/test')).json).toEqual({ kept: 'a ; b', both: 'x' })
    expect((await get(again, '/cors/credentials')).status).toBe(404)
    expect((await get(again, '/vendor/name')).status).toBe(200)
  })

  it('change nothing when the file cannot be written', async () => {
    const dir = await temporaryFolder()
    const client = new Client((await startService({ dir })).url)
    // A folder in the place of the file that is written first.
    await mkdir(join(dir, 'settings.ini.new'))
    const reply = await put(client, '/test/k', 'x')
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([500, 'error'])
    expect((await get(client, '/test')).json).toEqual({})
  })
})

describe('the whitelist', () => {
  it('allows changes only of the settings that it names', async () => {
    const client = await server({
      httpd: { config_whitelist: '[{httpd,config_whitelist}, {test, "a"}, junk, {<<"couchdb">>,"*"}]' },
    })
    expect((await put(client, '/test/a', 'x')).status).toBe(200)
    expect((await put(client, '/service/any', 'x')).status).toBe(200)
    expect((await put(client, '/couchdb/any', 'y')).status).toBe(200)
    for (const path of ['/test/b', '/admins/ann', '/httpd/port']) {
      const reply = await put(client, path, 'x')
      expectRefusal(reply, 400, 'modification_not_allowed', 'This config variable is read-only')
      expectRefusal(await remove(client, path), 400, 'modification_not_allowed', 'This config variable is read-only')
    }
    expect((await get(client, '/httpd/port')).status).toBe(200)
  })

  it('that is malformed allows changes only of itself', async () => {
    const client = await server({ httpd: { config_whitelist: 'nonsense {' } })
    expect((await put(client, '/test/a', 'x')).status).toBe(400)
    expect((await remove(client, '/httpd/config_whitelist')).status).toBe(200)
    expect((await put(client, '/test/a', 'x')).status).toBe(200)
  })
})

describe('an administrator', () => {
  it('is stored as a hash at once', async () => {
    const client = await server()
    // In one go: the next request would need the password.
    await put(client, '/log/level', 'debug', { 'X-Service-Persist': 'false' })
    expect(told(await put(client, '/admins/ann', 'secret:word'))).toEqual([200, '""\n'])
    const authorized = { headers: { Authorization: `Basic ${Buffer.from('ann:secret:word').toString('base64')}` } }
    const stored = (await client.request('GET', '/_config/admins/ann', authorized)).as<string>()
    expect(stored).toMatch(/^-hashed-[0-9a-f]{40},[0-9a-f]{32}$/)
    const log = (await client.request('GET', '/_log?bytes=100000', authorized)).text
    expect(log).not.toContain('secret')
    // Each server has a log of its own.
    if (!HAS_SEVERAL_SERVERS) expect(log).toContain('admins/ann')
    expect(log).not.toContain(authorized.headers.Authorization)
  })

  it('may be given as a hash, but not as a text with only the prefix of one', async () => {
    const hash = `-hashed-${'a'.repeat(40)},${'b'.repeat(32)}`
    const [first, second, third] = await Promise.all([server(), server(), server()])
    expect((await put(first, '/admins/ann?raw=true', hash)).status).toBe(200)
    expect((await put(second, '/admins/ann', hash)).status).toBe(200)
    const reply = await put(third, '/admins/ann', '-hashed-x')
    expectRefusal(reply, 400, 'bad_request', 'A password cannot begin like a hash.')
  })

  it('is hashed even if it looks like a hash, with raw=false', async () => {
    for (const password of [`-hashed-${'a'.repeat(40)},${'b'.repeat(32)}`, '-hashed-x']) {
      const client = await server()
      expect((await put(client, '/admins/ann?raw=false', password)).status).toBe(200)
      const headers = { Authorization: `Basic ${btoa(`ann:${password}`)}` }
      const stored = (await client.request('GET', '/_config/admins/ann', { headers })).json
      expect(stored).toMatch(/^-hashed-[0-9a-f]{40},[0-9a-f]{32}$/)
      expect(stored).not.toBe(password)
    }
  })

  it('refuses other values of raw', async () => {
    const client = await server()
    const reply = await put(client, '/admins/ann?raw=maybe', 'x')
    expect(told(reply)).toEqual([400, `{"error":"Bad value for 'raw' option: maybe"}\n`])
    expect((await put(client, '/test/k?raw=', 'x')).status).toBe(200)
  })
})

describe('a change', () => {
  it('of the algorithm applies to the next id', async () => {
    const client = await server()
    await put(client, '/uuids/algorithm', 'utc_id')
    await put(client, '/uuids/utc_id_suffix', '-here')
    const { uuids } = (await client.request('GET', '/_uuids?count=20')).as<{ uuids: string[] }>()
    expect(uuids.every((id) => /^[0-9a-f]{14}-here$/.test(id))).toBe(true)
    expect(new Set(uuids).size).toBe(20)
    await put(client, '/uuids/max_count', '5')
    expect((await client.request('GET', '/_uuids?count=6')).status).toBe(403)
  })

  // There each node has a port.
  it.skipIf(isBalanced)('of the port moves the server, and lets requests finish', async () => {
    const service = await startService()
    const client = new Client(service.url)
    const db = await client.database()
    const waiting = await client.open()
    waiting.write(rawRequest([`PUT /${db.name}/doc HTTP/1.1`, 'Host: x', 'Content-Length: 2']))
    const free = await startService()
    const { port } = new URL(free.url)
    await free.close()
    const reply = await put(client, '/httpd/port', port)
    expect(told(reply)).toEqual([200, '"0"\n'])
    expect(reply.headers.connection).toBe('close')
    expect(service.url).toBe(`http://127.0.0.1:${port}/`)
    const moved = new Client(service.url)
    expect((await moved.request('GET', `/${db.name}`)).status).toBe(200)
    waiting.write('{}')
    await waiting.receives('201 Created')
    await waiting.closed()
    await expect(fetch(client.url)).rejects.toThrow()
    expect((await moved.request('GET', `/${db.name}/doc`)).status).toBe(200)
  })

  it.skipIf(isBalanced)('of the address keeps the port', async () => {
    const service = await startService()
    const { port } = new URL(service.url)
    const client = new Client(service.url)
    await put(client, '/httpd/bind_address', '0.0.0.0')
    expect(service.url).toBe(`http://0.0.0.0:${port}/`)
    await until(async () => (await fetch(`http://127.0.0.1:${port}/`)).ok)
  })

  it('that removes a handler removes its resource', async () => {
    const client = await server()
    await remove(client, '/httpd_global_handlers/_uuids')
    const reply = await client.request('GET', '/_uuids')
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([400, 'illegal_database_name'])
    await put(client, '/httpd_global_handlers/_uuids', 'back')
    expect((await client.request('GET', '/_uuids')).status).toBe(200)
    const db = await client.database()
    await remove(client, '/httpd_db_handlers/_all_docs')
    expect((await db.get('_all_docs')).status).toBe(404)
  })

  it('that removes a limit restores its default', async () => {
    const client = await server()
    const db = await client.database()
    await remove(client, '/couchdb/max_document_size')
    await remove(client, '/httpd/max_http_request_size')
    expect((await db.put('doc', { a: 1 })).status).toBe(201)
  })
})

describe('POST /_node/_local/_config/_reload', () => {
  const post = (client: Client) => client.request('POST', '/_node/_local/_config/_reload', { body: {} })

  it('reads the configuration files again', async () => {
    const dir = await temporaryFolder()
    const file = join(dir, 'local.ini')
    const client = new Client((await startService({ dir })).url)
    await writeFile(file, '[uuids]\nalgorithm = random\n[own]\nkey = value\n')
    const reply = await post(client)
    expect([reply.status, reply.text]).toEqual([200, '{"ok":true}\n'])
    expect((await client.request('GET', '/_config/own/key')).json).toBe('value')
    await writeFile(file, '[httpd]\nmax_connections = many\n[own]\nkey = other\n')
    expect((await post(client)).status).toBe(400)
    expect((await client.request('GET', '/_config/own/key')).json).toBe('value')
  })

  it('is a POST', async () => {
    const reply = await (await server()).request('GET', '/_node/_local/_config/_reload')
    expectRefusal(reply, 405, 'method_not_allowed', 'Only POST allowed')
  })
})
