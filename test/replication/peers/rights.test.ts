/** With whose rights a replication uses the databases of its server, while it runs too. */
import { expect, it } from 'vitest'
import { type RequestOptions, serverOfFile } from '../../support/client.ts'
import { until } from '../../support/until.ts'

const server = serverOfFile({
  settings: { admins: { root: 'pw' }, replicator: { startup_jitter: '0', checkpoint_interval: '50' } },
})

const ROOT = { Authorization: `Basic ${Buffer.from('root:pw').toString('base64')}` }

async function asRoot(method: string, path: string, body?: unknown) {
  const options: RequestOptions = { headers: ROOT, ...(body === undefined ? {} : { body }) }
  const reply = await server().request(method, path, options)
  expect(reply.status, reply.text).toBeLessThan(500)
  return reply
}

const members = (...names: string[]) => ({ members: { names, roles: [] } })

async function running(name: string): Promise<() => Promise<Record<string, unknown>>> {
  for (const each of ['source', 'target']) {
    await asRoot('PUT', `/${name}-${each}`)
    await asRoot('PUT', `/${name}-${each}/_security`, members('ann'))
  }
  await asRoot('PUT', `/${name}-source/a`, {})
  await asRoot('PUT', `/_replicator/${name}`, {
    source: `${name}-source`,
    target: `${name}-target`,
    continuous: true,
    user_ctx: { name: 'ann', roles: [] },
  })
  await until(async () => (await asRoot('GET', `/${name}-target/a`)).status === 200, 15_000)
  return async () => (await asRoot('GET', `/_replicator/${name}`)).as<Record<string, unknown>>()
}

it.each(['source', 'target'])('ends when the user may not use the %s any more', async (side) => {
  const document = await running(side)
  await asRoot('PUT', `/${side}-${side}/_security`, members('bob'))
  await asRoot('PUT', `/${side}-source/b`, {})
  await until(async () => (await document())._replication_state === 'error', 15_000)
  expect((await document())._replication_state_reason).toContain('unauthorized')
  expect((await asRoot('GET', `/${side}-target/b`)).status).toBe(404)
})

it('writes no design document for a user who may not', async () => {
  await running('designs')
  await asRoot('PUT', '/designs-source/_design/d', {})
  await asRoot('PUT', '/designs-source/c', {})
  await until(async () => (await asRoot('GET', '/designs-target/c')).status === 200, 15_000)
  expect((await asRoot('GET', '/designs-target/_design/d')).status).toBe(404)
})
