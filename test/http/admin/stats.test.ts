import { describe, expect, it } from 'vitest'
import { Client, expectRefusal, type RequestOptions } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { until } from '../../support/until.ts'

interface Statistic {
  description: string
  current: number | null
  sum: number | null
}
type All = Record<string, Record<string, Statistic>>

async function server(): Promise<Client> {
  return new Client((await startService()).url)
}

async function current(client: Client, section: string, name: string): Promise<number> {
  const all = (await client.request('GET', '/_stats?flush=true')).as<All>()
  return all[section]?.[name]?.current ?? Number.NaN
}

/** There are no files then, and none to be closed. */
const isOnPostgres = process.env.SETTLE_TEST_STORE === 'postgres'

describe('GET /_stats', () => {
  it('returns every statistic, each a number from the start', async () => {
    const all = (await (await server()).request('GET', '/_stats')).as<All>()
    expect(Object.fromEntries(Object.entries(all).map(([name, keys]) => [name, Object.keys(keys).sort()]))).toEqual({
      service: [
        'auth_cache_hits',
        'auth_cache_misses',
        'database_reads',
        'database_writes',
        'open_databases',
        'open_os_files',
        'request_time',
      ],
      httpd: ['bulk_requests', 'clients_requesting_changes', 'requests', 'temporary_view_reads', 'view_reads'],
      httpd_request_methods: ['COPY', 'DELETE', 'GET', 'HEAD', 'POST', 'PUT'],
      httpd_status_codes: '200 201 202 301 304 400 401 403 404 405 409 412 500'.split(' '),
    })
    for (const statistic of Object.values(all).flatMap(Object.values)) {
      expect(Object.keys(statistic)).toEqual(['description', 'current', 'sum', 'mean', 'stddev', 'min', 'max'])
      expect([typeof statistic.current, statistic.description === '']).toEqual(['number', false])
    }
  })

  it("returns one statistic, under CouchDB's name of its section", async () => {
    const client = await server()
    const one = async (path: string) => (await client.request('GET', `/_stats/${path}`)).as<All>()
    expect(await one('service/open_databases')).toMatchObject({ service: { open_databases: { current: 0 } } })
    expect(await one('couchdb/open_databases')).toMatchObject({ couchdb: { open_databases: { current: 0 } } })
    expect(await one('a/b')).toMatchObject({ a: { b: { description: '', current: null, max: null } } })
    for (const path of ['/_stats/httpd', '/_stats/a/b/c']) {
      const reply = await client.request('GET', path)
      expectRefusal(reply, 400, 'bad_request', 'Stat names must have exactly two parts.')
    }
    expectRefusal(await client.request('POST', '/_stats'), 405, 'method_not_allowed', 'Only GET allowed')
  })

  it('counts requests by method and status; its own is not yet among them', async () => {
    const client = await server()
    for (const method of ['GET', 'HEAD', 'PUT', 'COPY']) await client.request(method, '/_up')
    await client.request('POST', '/', { headers: { 'X-HTTP-Method-Override': 'GET' } })
    expect(await current(client, 'httpd', 'requests')).toBe(5)
    const all = (await client.request('GET', '/_stats?flush=true')).as<All>()
    expect(all.httpd_request_methods).toMatchObject({
      GET: { current: 3 },
      HEAD: { current: 1 },
      PUT: { current: 1 },
      POST: { current: 1 },
      COPY: { current: 1 },
      DELETE: { current: 0 },
    })
    expect(all.httpd_status_codes).toMatchObject({ '200': { current: 4 }, '405': { current: 2 } })
    expect(all.service?.request_time?.sum).toBeGreaterThan(0)
    expect(all.httpd?.requests?.current).toBe(6)
  })

  it.each<[status: string, method: string, path: string, options?: RequestOptions]>([
    ['200', 'GET', '/'],
    ['201', 'PUT', '/other'],
    ['202', 'PUT', '/db/batched?batch=ok', { body: {} }],
    ['301', 'GET', '/db/_design%2Fx'],
    ['304', 'GET', '/db/doc', { headers: { 'If-None-Match': '"1-967a00dff5e02add41819138abb3284d"' } }],
    ['400', 'GET', '/_nosuch'],
    ['401', 'GET', '/', { headers: { Authorization: 'Basic eDp5' } }],
    ['403', 'GET', '/_uuids?count=100000'],
    ['404', 'GET', '/nosuch'],
    ['405', 'PUT', '/_stats'],
    ['409', 'PUT', '/db/doc', { body: {} }],
    ['412', 'PUT', '/db'],
    ['500', 'PUT', '/db/x', { body: { _nosuch: 1 } }],
  ])('counts replies with %s', async (status, method, path, options) => {
    const client = await server()
    await client.request('PUT', '/db')
    await client.request('PUT', '/db/doc', { body: {} })
    const before = await current(client, 'httpd_status_codes', status)
    expect((await client.request(method, path, options)).status).toBe(Number(status))
    // Each look at the statistics is a reply with 200 itself.
    expect(await current(client, 'httpd_status_codes', status)).toBe(before + (status === '200' ? 2 : 1))
  })

  it('counts reads and writes of documents, one for each call', async () => {
    const client = await server()
    const db = await client.database()
    await db.save('a', {})
    await db.put('a', {}) // A conflict counts too.
    await db.post('', {})
    await db.post('_bulk_docs', { docs: [{}, {}, {}] })
    await db.get('a')
    await db.get('nosuch')
    await db.get('')
    await client.request('GET', '/nosuch/a')
    expect(await current(client, 'service', 'database_writes')).toBe(4)
    expect(await current(client, 'service', 'database_reads')).toBe(2)
    expect(await current(client, 'httpd', 'bulk_requests')).toBe(1)
    expect(await current(client, 'service', 'open_databases')).toBe(1)
    await client.request('DELETE', `/${db.name}`)
    expect(await current(client, 'service', 'open_databases')).toBe(0)
  })

  it.skipIf(isOnPostgres)('counts open files', async () => {
    const client = new Client((await startService()).url)
    await (await client.database()).save('a', {})
    expect(await current(client, 'service', 'open_os_files')).toBe(1)
  })

  it.skipIf(isOnPostgres)('counts files of indexes with those of databases', async () => {
    const client = new Client((await startService()).url)
    const db = await client.database()
    await db.save('_design/d', { views: { v: { map: 'function (doc) { emit(doc._id) }' } } })
    expect((await db.get('_design/d/_view/v')).status).toBe(200)
    expect(await current(client, 'service', 'open_os_files')).toBe(2)
    await client.request('DELETE', `/${db.name}`)
    await until(async () => (await current(client, 'service', 'open_os_files')) === 0)
  })

  it.skipIf(isOnPostgres)('never counts more databases as open than may be idle', async () => {
    const service = await startService({ settings: { service: { max_dbs_open: '3' } } })
    const client = new Client(service.url)
    for (let i = 0; i < 8; i++) await (await client.database()).save('a', {})
    expect(await current(client, 'service', 'open_databases')).toBeLessThanOrEqual(3)
    for (let i = 1; i <= 8; i++) expect((await client.request('GET', `/test-${i}/a`)).status).toBe(200)
    expect(await current(client, 'service', 'open_databases')).toBeLessThanOrEqual(3)
  })

  it('takes its samples by itself', async () => {
    const client = new Client((await startService({ settings: { stats: { rate: '20' } } })).url)
    await client.request('GET', '/_up')
    await expect
      .poll(async () => (await client.request('GET', '/_stats/httpd/requests')).as<All>().httpd?.requests?.current)
      .toBeGreaterThan(0)
  })

  it('covers a time window', async () => {
    const client = await server()
    await client.request('GET', '/_up')
    const range = async (seconds: string) => (await client.request('GET', `/_stats?flush=true&range=${seconds}`)).json
    expect(await range('60')).toMatchObject({ httpd: { requests: { current: 1 } } })
    expect(await range('61')).toEqual({})
    expect((await client.request('GET', '/_stats/httpd/requests?range=61')).json).toMatchObject({
      httpd: { requests: { sum: null } },
    })
    expect((await client.request('GET', '/_stats?range=x')).status).toBe(400)
  })
})
