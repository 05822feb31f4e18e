import { expect, it, onTestFinished } from 'vitest'
import { Client, type Reply } from '../support/client.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres } from '../support/postgres.ts'
import { PostgresProxy } from '../support/postgres-proxy.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

/** A server on PostgreSQL, whose connections can be cut. */
async function serverBehindProxy() {
  const postgres = await sharedPostgres()
  const proxy = await PostgresProxy.open(postgres.socket)
  onTestFinished(() => proxy.close())
  const engine = postgres.address(undefined, proxy.folder)
  const client = new Client((await startService({ dir: await temporaryFolder(), engine })).url)
  onTestFinished(() => client.close())
  return { client, proxy, up: () => client.request('GET', '/_up') }
}

function expectUnavailable(reply: Reply): void {
  expect(reply.status, reply.text).toBe(503)
  expect(reply.json).toEqual({
    status: 'engine_unavailable',
    reason: expect.stringMatching(/^The (connection to the )?storage engine [^/@]*\.$/),
  })
  expect(reply.headers['retry-after']).toMatch(/^\d+$/)
}

describeOnPostgres('GET /_up of a server on PostgreSQL', () => {
  it('is 503 while PostgreSQL cannot be reached, and 200 when it is back', async () => {
    const { client, proxy, up } = await serverBehindProxy()
    expect((await up()).json).toEqual({ status: 'ok', seeds: {} })
    expect((await client.request('PUT', '/db')).status).toBe(201)
    proxy.stall(true)
    await until(async () => (await up()).status !== 200)
    for (let round = 0; round < 20; round++) expectUnavailable(await up())
    proxy.stall(false)
    await until(async () => (await up()).status === 200)
    expect((await client.request('PUT', '/db/doc', { body: {} })).status).toBe(201)
  })

  it('is 503 within seconds while PostgreSQL does not answer, and sends it a statement a second at most', async () => {
    const { proxy, up } = await serverBehindProxy()
    expect((await up()).status).toBe(200)
    const beganMs = performance.now()
    const before = proxy.heartbeats
    const replies = await Promise.all(Array.from({ length: 200 }, up))
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]))
    const seconds = (performance.now() - beganMs) / 1000
    // Beside the one that is sent every two seconds.
    expect(proxy.heartbeats - before).toBeLessThanOrEqual(2 + 1.5 * seconds)
    proxy.freeze()
    await until(async () => (await up()).status !== 200)
    for (let round = 0; round < 5; round++) {
      const askedMs = performance.now()
      expectUnavailable(await up())
      // Half of the time of a lease is what other requests take.
      expect(performance.now() - askedMs).toBeLessThan(4500)
    }
    proxy.thaw()
    await until(async () => (await up()).status === 200)
  })
})
