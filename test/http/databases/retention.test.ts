import { describe, expect, it } from 'vitest'
import { Client } from '../../support/client.ts'
import { scrape } from '../../support/prometheus.ts'
import { startService } from '../../support/service.ts'
import { HAS_SEVERAL_SERVERS } from '../../support/test-service.ts'
import { until } from '../../support/until.ts'

const QUICK = { retention: { check_interval: '1' } }

async function server(settings: Record<string, Record<string, string>> = QUICK): Promise<Client> {
  const client = new Client((await startService({ settings })).url)
  await client.request('PUT', '/db')
  return client
}

const get = async (client: Client, path: string) => (await client.request('GET', path)).as<Record<string, unknown>>()

describe('the member of _expiry', () => {
  it.each(['until', 'a;b', 'a ; b', 'a = b', '"quoted"', 'läuft ab', '[x]', '; x', '\\n', '%41'])(
    'may be %j, also after a restart',
    async (field) => {
      const service = await startService({ inMemory: false })
      const client = new Client(service.url)
      await client.request('PUT', '/db')
      const set = await client.request('PUT', '/db/_expiry', { body: { field } })
      await client.request('POST', '/_restart', { body: {} })
      await until(async () => (await client.request('GET', '/_up').catch(() => undefined))?.status === 200)
      expect(await get(client, '/db/_expiry')).toEqual({ field: set.status === 200 ? field : null })
    },
  )
})

describe('_tombstones', () => {
  it('is off by default, and accepts seconds or null', async () => {
    const client = await server()
    const set = (body: unknown) => client.request('PUT', '/db/_tombstones', { body: JSON.stringify(body) })
    expect(await get(client, '/db/_tombstones')).toEqual({
      retention_seconds: null,
      tombstones: 0,
      purged_through: 0,
      held_by: [],
    })
    for (const bad of [{}, { retention_seconds: 0 }, { retention_seconds: 1.5 }, { retention_seconds: '1' }, []]) {
      expect((await set(bad)).status, JSON.stringify(bad)).toBe(400)
    }
    expect((await set({ retention_seconds: 86_400 })).json).toEqual({ ok: true })
    expect(await get(client, '/db/_tombstones')).toMatchObject({ retention_seconds: 86_400 })
    expect((await set({ retention_seconds: null })).status).toBe(200)
    expect(await get(client, '/db/_tombstones')).toMatchObject({ retention_seconds: null })
    expect((await client.request('GET', '/none/_tombstones')).status).toBe(404)
    expect((await client.request('DELETE', '/db/_tombstones')).status).toBe(405)
  })

  it('purges old tombstones, and views stay right', async () => {
    const client = await server()
    await client.request('PUT', '/db/_design/d', { body: { views: { v: { map: 'function(doc) { emit(doc._id) }' } } } })
    const docs = Array.from({ length: 20 }, (_, i) => ({ _id: `${i}` }))
    const saved = (await client.request('POST', '/db/_bulk_docs', { body: { docs } })).as<
      { id: string; rev: string }[]
    >()
    const rows = async () => (await get(client, '/db/_design/d/_view/v')).total_rows
    expect(await rows()).toBe(20)
    await client.request('PUT', '/db/_tombstones', { body: { retention_seconds: 1 } })
    // The index has not seen these deletions when they are purged.
    const deleted = saved.slice(0, 15).map(({ id, rev }) => ({ _id: id, _rev: rev, _deleted: true }))
    await client.request('POST', '/db/_bulk_docs', { body: { docs: deleted } })
    await until(async () => (await get(client, '/db')).doc_del_count === 0)
    expect(await get(client, '/db')).toMatchObject({ doc_count: 6 })
    expect(await rows()).toBe(5)
    expect((await client.request('GET', '/db/_changes')).text).not.toContain('"deleted":true')
    // Each server counts for itself.
    if (!HAS_SEVERAL_SERVERS) expect((await scrape(client)).value('settle_tombstones_purged_total')).toBe(15)
    expect(await get(client, '/db/3')).toEqual({ error: 'not_found', reason: 'missing' })
  })

  it('reports which replication retains tombstones', async () => {
    const client = await server()
    await client.request('PUT', '/db/a', { body: {} })
    await client.request('PUT', '/db/_local/phone', { body: { last_seq: 1, replicator: 'pouchdb' } })
    await client.request('PUT', '/db/b', { body: {} })
    expect(await get(client, '/db/_tombstones')).toMatchObject({ held_by: [{ id: '_local/phone', sequence: 1 }] })
  })

  it('is forgotten with its database, and is for its administrators', async () => {
    const client = await server()
    await client.request('PUT', '/db/_tombstones', { body: { retention_seconds: 5 } })
    await client.request('PUT', '/db/_expiry', { body: { field: 'until' } })
    await client.request('DELETE', '/db')
    await client.request('PUT', '/db')
    expect(await get(client, '/db/_tombstones')).toMatchObject({ retention_seconds: null })
    expect(await get(client, '/db/_expiry')).toEqual({ field: null })
    await client.request('PUT', '/_config/admins/root', { body: '"secret"' })
    for (const path of ['/db/_tombstones', '/db/_expiry']) {
      expect((await client.request('PUT', path, { body: {} })).status).toBe(401)
    }
  })
})

describe('_expiry', () => {
  it('is off by default, and deletes documents when they expire', async () => {
    const client = await server()
    const soon = Date.now() / 1000 - 1
    await client.request('PUT', '/db/past', { body: { until: soon } })
    await client.request('PUT', '/db/future', { body: { until: '2999-01-01' } })
    const set = (body: unknown) => client.request('PUT', '/db/_expiry', { body: JSON.stringify(body) })
    for (const bad of [{}, { field: '' }, { field: '_id' }, { field: 5 }]) expect((await set(bad)).status).toBe(400)
    expect(await get(client, '/db/past')).toMatchObject({ until: soon })
    expect((await set({ field: 'until' })).json).toEqual({ ok: true })
    await until(async () => (await client.request('GET', '/db/past')).status === 404)
    expect(await get(client, '/db')).toMatchObject({ doc_count: 1, doc_del_count: 1 })
    await client.request('PUT', '/db/later', { body: { until: Date.now() / 1000 + 0.5 } })
    await until(async () => (await client.request('GET', '/db/later')).status === 404)
    expect((await client.request('GET', '/db/_changes')).text).toContain('"id":"later"')
    await set({ field: null })
    await client.request('PUT', '/db/stays', { body: { until: 1 } })
    expect(await get(client, '/db/_expiry')).toEqual({ field: null })
  })
})
