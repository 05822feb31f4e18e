import { expect, it, onTestFinished } from 'vitest'
import { Client } from '../support/client.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres } from '../support/postgres.ts'
import { PostgresProxy } from '../support/postgres-proxy.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const LEASE_MS = 2000
const settings = { admins: { root: 'secret' }, service: { engine_lease: String(LEASE_MS) } }

function as(name: string) {
  return { Authorization: `Basic ${Buffer.from(`${name}:secret`).toString('base64')}` }
}

/** Two servers on one engine. The connections of the second one can be cut. */
async function servers() {
  const postgres = await sharedPostgres()
  const schema = new URL(postgres.address()).searchParams.get('schema') ?? undefined
  const proxy = await PostgresProxy.open(postgres.socket)
  onTestFinished(() => proxy.close())
  const start = async (engine: string) => {
    const service = await startService({ dir: await temporaryFolder(), engine, settings })
    const client = new Client(service.url)
    onTestFinished(() => client.close())
    return client
  }
  const first = await start(postgres.address(schema))
  const second = await start(postgres.address(schema, proxy.folder))
  return { first, second, proxy }
}

describeOnPostgres('a server that was cut off from the engine for longer than a lease', () => {
  it('answers nothing by rights, users and settings of before', async () => {
    const { first, second, proxy } = await servers()
    const root = as('root')
    const user = { name: 'reader', type: 'user', roles: [], password: 'secret' }
    const path = '/_users/org.couchdb.user:reader'
    await first.request('PUT', path, { headers: root, body: user })
    await first.request('PUT', '/db', { headers: root })
    await first.request('PUT', '/db/_security', { headers: root, body: { members: { names: ['reader'] } } })
    expect((await second.request('GET', '/db', { headers: as('reader') })).status).toBe(200)
    proxy.stall(true)
    const written = await Promise.all([
      first.request('PUT', '/db/_security', { headers: root, body: { members: { names: ['nobody'] } } }),
      first.request('PUT', '/_config/httpd/max_request_items', { headers: root, body: '"1234"' }),
    ])
    expect(written.map(({ status }) => status)).toEqual([200, 200])
    proxy.stall(false)
    const [reading, setting] = await Promise.all([
      firstAnswer(second, '/db', as('reader')),
      firstAnswer(second, '/_config/httpd/max_request_items', root),
    ])
    expect(reading.status).toBe(401)
    expect(setting.json).toBe('1234')
  })
})

/** That does not say that the engine cannot be reached. */
async function firstAnswer(client: Client, path: string, headers: Record<string, string>) {
  for (;;) {
    const reply = await client.request('GET', path, { headers })
    if (reply.status !== 503) return reply
  }
}
