/** What clients of later releases of the family ask a server for, beside what was there before. */
import { describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile } from '../../support/client.ts'
import { HAS_SEVERAL_SERVERS } from '../../support/test-service.ts'

const client = serverOfFile()

const NODE = 'service@127.0.0.1'

describe('the information of a database', () => {
  it('includes sizes and the parameters of a cluster with one node', async () => {
    const db = await client().database()
    await db.save('a', { text: 'x'.repeat(1000) })
    const { disk_size, data_size, ...others } = await db.info()
    expect(others).toMatchObject({
      sizes: { file: disk_size, active: data_size, external: data_size },
      cluster: { q: 1, n: 1, w: 1, r: 1 },
      props: {},
    })
  })
})

describe('_dbs_info', () => {
  interface Entry {
    key: unknown
    info?: { db_name: string; doc_count: number }
    error?: string
  }

  it('returns the named databases, in their order', async () => {
    const one = await client().database()
    const two = await client().database()
    await two.save('a', {})
    const keys = [two.name, 'nothing', one.name, 1, 'No Name']
    const reply = await client().request('POST', '/_dbs_info', { body: { keys } })
    expect(reply.status, reply.text).toBe(200)
    expect(reply.as<Entry[]>().map(({ key, info, error }) => [key, info?.doc_count ?? error])).toEqual([
      [two.name, 1],
      ['nothing', 'not_found'],
      [one.name, 0],
      [1, 'not_found'],
      ['No Name', 'not_found'],
    ])
    expect(reply.as<Entry[]>()[0]?.info).toEqual(await two.info())
  })

  it('returns all databases, with the parameters of _all_dbs', async () => {
    const { name } = await client().database()
    const names = (await client().request('GET', '/_all_dbs')).as<string[]>()
    const all = (await client().request('GET', '/_dbs_info')).as<Entry[]>()
    expect(all.map(({ key }) => key)).toEqual(names)
    const some = await client().request('GET', `/_dbs_info?startkey="${name}"&limit=1`)
    expect(some.as<Entry[]>()).toMatchObject([{ key: name, info: { db_name: name } }])
    expect((await client().request('GET', '/_dbs_info?limit=0')).text).toBe('[]\n')
  })

  it.each([
    [{ keys: Array.from({ length: 101 }, () => 'a') }, 'too_many_keys'],
    [{}, '`keys` member must exist.'],
    [{ keys: 'a' }, '`keys` member must be an array.'],
    [[], 'Request body must be a JSON object'],
  ])('refuses %j', async (body, reason) => {
    expectRefusal(await client().request('POST', '/_dbs_info', { body }), 400, 'bad_request', reason)
  })
})

describe('the only node', () => {
  it('is listed by its name', async () => {
    const reply = await client().request('GET', '/_membership')
    expect(reply.json).toEqual({ all_nodes: [NODE], cluster_nodes: [NODE] })
    expect((await client().request('GET', '/_node/_local')).json).toEqual({ name: NODE })
  })

  it.each(['_local', NODE])('has the settings of the server: %s', async (name) => {
    const path = `/_node/${name}/_config`
    const whole = (await client().request('GET', path)).json
    // Each of several servers has folders of its own.
    const folders = { database_dir: expect.any(String), view_index_dir: expect.any(String) }
    const settings = (await client().request('GET', '/_config')).as<{ service: object }>()
    const service = HAS_SEVERAL_SERVERS ? { ...settings.service, ...folders } : settings.service
    expect(whole).toEqual({ ...settings, service })
    const setting = `${path}/some%20section/a%2Fb`
    expect((await client().request('PUT', setting, { body: '"one"' })).text).toBe('""\n')
    expect((await client().request('GET', '/_config/some%20section/a%2Fb')).text).toBe('"one"\n')
    expect((await client().request('GET', `${path}/some%20section`)).json).toEqual({ 'a/b': 'one' })
    expect((await client().request('DELETE', setting)).text).toBe('"one"\n')
    expectRefusal(await client().request('GET', setting), 404, 'not_found', 'unknown_config_value')
  })

  it('is found by a target in absolute form too', async () => {
    const target = `http://${client().host}/_node/_local/_config/uuids/algorithm?x=1`
    expect((await client().request('GET', target)).text).toBe('"sequential"\n')
  })

  it('returns the statistics of the server, each with its type', async () => {
    const whole = await client().request('GET', '/_node/_local/_stats')
    expect(whole.json).toMatchObject({
      service: {
        database_reads: { value: expect.any(Number), type: 'counter', desc: expect.any(String) },
        request_time: { value: { n: expect.any(Number), max: expect.any(Number) }, type: 'histogram' },
        httpd: { requests: { value: expect.any(Number), type: 'counter' } },
        httpd_request_methods: { GET: { value: expect.any(Number) } },
      },
    })
    const time = await client().request('GET', '/_node/_local/_stats/couchdb/request_time/value')
    expect(Object.keys(time.as<object>())).toEqual([
      'n',
      'min',
      'max',
      'arithmetic_mean',
      'geometric_mean',
      'harmonic_mean',
      'median',
      'variance',
      'standard_deviation',
      'skewness',
      'kurtosis',
      'percentile',
      'histogram',
    ])
    const missing = await client().request('GET', '/_node/_local/_stats/service/nothing')
    expectRefusal(missing, 404, 'not_found', 'missing')
  })

  // Each of several servers counts its own requests.
  it.skipIf(HAS_SEVERAL_SERVERS)('counts reads in its statistics', async () => {
    const read = async () =>
      (await client().request('GET', '/_node/_local/_stats/couchdb/database_reads')).as<{ value: number }>().value
    const before = await read()
    const db = await client().database()
    await db.get('nothing')
    expect(await read()).toBe(before + 1)
  })

  it('returns the versions that it runs on', async () => {
    expect((await client().request('GET', '/_node/_local/_system')).json).toMatchObject({
      uptime: expect.any(Number),
      memory: { processes: expect.any(Number) },
      disk: { free: expect.any(Number), total: expect.any(Number) },
    })
    expect((await client().request('GET', '/_node/_local/_versions')).json).toMatchObject({
      javascript_engine: { name: 'v8', version: process.versions.v8 },
    })
  })

  it('has a restart with the same rules as /_restart', async () => {
    const headers = { 'Content-Type': 'text/plain' }
    const reply = await client().request('POST', '/_node/_local/_restart', { headers })
    expectRefusal(reply, 415, 'bad_content_type', 'Content-Type must be application/json')
  })

  it.each([
    ['GET', '/_node/other/_config', 404, 'not_found', 'no such node: other'],
    ['GET', '/_node', 404, 'not_found', 'missing'],
    ['GET', '/_node/_local/_other', 404, 'not_found', 'missing'],
    ['PUT', '/_node/_local/_stats', 405, 'method_not_allowed', 'Only GET allowed'],
    ['POST', '/_node/_local/_config', 405, 'method_not_allowed', 'Only GET,PUT,DELETE allowed'],
  ])('answers 404 to %s %s', async (method, path, status, error, reason) => {
    expectRefusal(await client().request(method, path), status, error, reason)
  })
})

describe('the history of purges', () => {
  it('is listed until compaction removes what is beyond the limit', async () => {
    const db = await client().database()
    const revs = { a: await db.save('a', {}), b: await db.save('b', {}), c: await db.save('c', {}) }
    for (const [id, rev] of Object.entries(revs)) await db.post('_purge', { [id]: [rev] })
    const infos = async () => (await db.get('_purged_infos')).as<{ purged_infos: object[] }>().purged_infos
    expect(await infos()).toEqual(Object.entries(revs).map(([id, rev]) => ({ id, revs: [rev] })))
    expect((await db.get('_purged_infos_limit')).json).toBe(1000)
    expect((await db.put('_purged_infos_limit', 2)).json).toEqual({ ok: true })
    expect((await db.get('_purged_infos_limit')).json).toBe(2)
    expectRefusal(
      await db.put('_purged_infos_limit', 0),
      400,
      'bad_request',
      '`purged_infos_limit` must be positive integer',
    )
    await db.post('_compact', {})
    await expect.poll(infos).toEqual([
      { id: 'b', revs: [revs.b] },
      { id: 'c', revs: [revs.c] },
    ])
  })
})

describe('the cluster of one', () => {
  it('has one shard, which is in sync', async () => {
    const db = await client().database()
    const shards = { '00000000-ffffffff': ['service@127.0.0.1'] }
    expect((await db.get('_shards')).json).toEqual({ shards })
    expect((await db.get('_shards/any')).json).toEqual({ range: '00000000-ffffffff', nodes: ['service@127.0.0.1'] })
    expect((await db.post('_sync_shards', {})).status).toBe(202)
    expect((await client().request('GET', '/nosuch/_shards')).status).toBe(404)
  })
})
