import { expect, it, onTestFinished } from 'vitest'
import { PostgresEngine } from '../../src/storage/postgres/postgres-engine.ts'
import type { Store } from '../../src/storage/store.ts'
import { Client } from '../support/client.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres } from '../support/postgres.ts'
import { type Cut, PostgresProxy } from '../support/postgres-proxy.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const key = Buffer.from('k')

async function proxied(): Promise<{ proxy: PostgresProxy; address: string; direct: string }> {
  const postgres = await sharedPostgres()
  const proxy = await PostgresProxy.open(postgres.socket)
  onTestFinished(() => proxy.close())
  const direct = postgres.address()
  const schema = new URL(direct).searchParams.get('schema') ?? ''
  return { proxy, address: postgres.address(schema, proxy.folder), direct }
}

async function open(address: string): Promise<PostgresEngine> {
  const engine = await PostgresEngine.open({ address })
  onTestFinished(() => engine.close())
  return engine
}

async function storedValueOf(store: Store): Promise<string | undefined> {
  using snapshot = store.snapshot()
  return (await snapshot.get(key))?.toString()
}

describeOnPostgres('a commit whose connection is lost', () => {
  it.each<[Cut, number]>([
    // It landed: nothing is repeated.
    ['after', 2],
    // It did not, and the version was raised so that it never will; then it is written again.
    ['before', 3],
    ['late', 3],
  ])('is looked up: cut %s it reached the server', async (cut, version) => {
    const { proxy, address } = await proxied()
    const store = await (await open(address)).create('a')
    await store.commit({ puts: [[key, Buffer.from('1')]] })
    proxy.cutNext(cut)
    const outcome = await store.commit({ puts: [[key, Buffer.from('2')]], expected: 1 })
    expect(proxy.cuts).toBe(1)
    expect(outcome).toEqual({ outcome: 'committed', version })
    expect(await storedValueOf(store)).toBe('2')
    await store.commit({ puts: [[key, Buffer.from('3')]], expected: version })
    proxy.deliverLate()
    expect(await store.commit({ puts: [], expected: version })).toEqual({ outcome: 'stale', version: version + 1 })
    expect(await storedValueOf(store)).toBe('3')
  })

  it('is stale where another server committed first', async () => {
    const { proxy, address, direct } = await proxied()
    const store = await (await open(address)).create('a')
    const other = await (await open(direct)).open('a')
    proxy.cutNext('late')
    const committing = store.commit({ puts: [[key, Buffer.from('mine')]], expected: 0 })
    await until(() => proxy.cuts === 1)
    const others = await other.commit({ puts: [[key, Buffer.from('others')]] })
    const mine = await committing
    proxy.deliverLate()
    expect(others.outcome).toBe('committed')
    // Whichever came first, exactly one of both is of the state that it expected, and what came last is there.
    using snapshot = other.snapshot()
    const seen = (await snapshot.get(key))?.toString()
    expect(seen).toBe(mine.outcome === 'committed' && mine.version > others.version ? 'mine' : 'others')
  })

  it('leaves a document that was written once', async () => {
    const { proxy, address } = await proxied()
    const service = await startService({ dir: await temporaryFolder(), engine: address })
    const client = new Client(service.url)
    onTestFinished(() => client.close())
    const db = await client.database()
    await db.save('first', {})
    for (const [i, cut] of (['after', 'before', 'late'] as const).entries()) {
      proxy.cutNext(cut)
      const reply = await db.put(`doc-${cut}`, { cut })
      expect([reply.status, reply.text]).toEqual([201, expect.stringContaining('"rev":"1-')])
      proxy.deliverLate()
      const { doc_count, update_seq } = await db.info()
      expect({ doc_count, update_seq }).toEqual({ doc_count: i + 2, update_seq: i + 2 })
    }
    expect(proxy.cuts).toBe(3)
  })

  it('gets 503 and Retry-After while the engine cannot be reached, and everything continues by itself', async () => {
    const { proxy, address } = await proxied()
    const service = await startService({ dir: await temporaryFolder(), engine: address })
    const client = new Client(service.url)
    onTestFinished(() => client.close())
    const db = await client.database()
    const rev = await db.save('a', { n: 1 })
    proxy.stall(true)
    for (const path of ['a', '_all_docs', '']) {
      const reply = await db.get(path)
      expect([path, reply.status]).toEqual([path, 503])
      expect(reply.headers['retry-after']).toBe('1')
      expect(reply.text).not.toContain(proxy.folder)
    }
    expect((await db.put(`a?rev=${rev}`, { n: 2 })).status).toBe(503)
    const setting = await client.request('PUT', '/_config/some/key', { body: '"value"' })
    expect([setting.status, setting.headers['retry-after']]).toEqual([503, '1'])
    proxy.stall(false)
    await until(async () => (await db.get('a')).status === 200)
    // Connections for writing are tried again after a pause of their own.
    await until(async () => (await db.put(`a?rev=${rev}`, { n: 2 })).status === 201)
    expect((await db.get('a')).json).toMatchObject({ n: 2 })
  })
})
