import { expect, it, onTestFinished } from 'vitest'
import { Client, TestDatabase } from '../support/client.ts'
import { FeedClient } from '../support/feed.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres } from '../support/postgres.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { ownWork, type Work } from './own-work.ts'

interface Build extends Work {
  readonly changes_done: number
}

interface ReplicationJob extends Work {
  readonly id: string
}

interface Started {
  readonly clients: Client[]
  /** Starts another one. */
  start(): Promise<Client>
  /** Ends one of them as an operator would. */
  stop(server: number): Promise<void>
}

/** Servers on one engine, each with a folder of its own. */
async function servers(count: number, settings: Record<string, Record<string, string>> = {}): Promise<Started> {
  const engine = (await sharedPostgres()).address()
  const start = async () => {
    const service = await startService({ dir: await temporaryFolder(), engine, settings })
    const client = new Client(service.url)
    onTestFinished(() => client.close())
    return { service, client }
  }
  const started = await Promise.all(Array.from({ length: count }, start))
  return {
    clients: started.map(({ client }) => client),
    start: async () => (await start()).client,
    stop: async (server) => started[server]?.service.close(),
  }
}

function on(client: Client, { name }: TestDatabase): TestDatabase {
  return new TestDatabase(client, name)
}

describeOnPostgres('three servers on one engine', () => {
  it('agree on a database that all of them are asked for while one creates it', async () => {
    const { clients } = await servers(3)
    for (let round = 0; round < 5; round++) {
      const name = `new-${round}`
      const creating = clients[0]!.request('PUT', `/${name}?partitioned=true`)
      const asked = Array.from({ length: 12 }, (_, i) => clients[i % 3]!.request('GET', `/${name}/_all_docs`))
      expect((await creating).status).toBe(201)
      for (const reply of await Promise.all(asked)) expect([200, 404]).toContain(reply.status)
      const written = await Promise.all(
        Array.from({ length: 12 }, (_, i) => clients[i % 3]!.request('PUT', `/${name}/p:doc-${i}`, { body: {} })),
      )
      expect(written.map(({ status }) => status)).toEqual(Array(12).fill(201))
      const infos = await Promise.all(clients.map((client) => client.request('GET', `/${name}`)))
      for (const { json } of infos) expect(json).toMatchObject({ doc_count: 12, props: { partitioned: true } })
      // Clients that meet another server with each request must not take the database for another one.
      expect(new Set(infos.map((info) => info.as<{ instance_start_time: string }>().instance_start_time)).size).toBe(1)
      for (const client of clients) {
        const rows = await client.request('GET', `/${name}/_all_docs?skip=11&limit=5`)
        expect(rows.as<{ rows: unknown[] }>().rows).toHaveLength(1)
      }
    }
  })

  it('see databases come and go, in their lists and in the feed of all databases', async () => {
    const { clients } = await servers(3)
    const [a, b, c] = clients as [Client, Client, Client]
    for (let round = 0; round < 3; round++) {
      const name = `passing-${round}`
      await a.request('PUT', `/${name}`)
      expect((await b.request('PUT', `/${name}/doc`, { body: {} })).status).toBe(201)
      expect((await c.request('DELETE', `/${name}`)).status).toBe(200)
      for (const client of clients) expect((await client.request('GET', `/${name}/doc`)).status).toBe(404)
      // Another database of the same name has nothing of the one before.
      expect((await b.request('PUT', `/${name}`)).status).toBe(201)
      for (const client of clients)
        expect((await client.request('GET', `/${name}`)).json).toMatchObject({ doc_count: 0 })
      for (const client of clients) expect((await client.request('GET', '/_all_dbs')).json).toContain(name)
    }
    const feeds = await Promise.all(clients.map((client) => FeedClient.open(client, '/_db_updates?feed=continuous')))
    await a.request('PUT', '/told')
    await until(async () => (await b.request('GET', '/_all_dbs')).as<string[]>().includes('told'))
    for (const feed of feeds) await feed.receives('{"ok":true,"type":"created","db_name":"told"}\n')
    // The others do not have it open.
    await a.request('PUT', '/told/doc', { body: {} })
    for (const feed of feeds) await feed.receives('{"ok":true,"type":"updated","db_name":"told"}\n')
    await b.request('DELETE', '/told')
    for (const feed of feeds) await feed.receives('{"ok":true,"type":"deleted","db_name":"told"}\n')
  })

  it('do not take a new database for the deleted one of its name', async () => {
    const { clients } = await servers(3)
    for (let round = 0; round < 10; round++) {
      const [a, b, c] = clients.map((_, i) => clients[(round + i) % 3]) as [Client, Client, Client]
      await a.request('PUT', '/again')
      for (const client of [b, c]) await client.request('PUT', '/again/doc', { body: {} })
      expect((await a.request('DELETE', '/again')).status).toBe(200)
      expect((await a.request('PUT', '/again')).status).toBe(201)
      for (const client of [b, c]) {
        const reply = await client.request('POST', '/again', { body: {} })
        expect([reply.status, reply.text]).toEqual([201, expect.any(String)])
      }
      expect((await a.request('GET', '/again')).json).toMatchObject({ doc_count: 2 })
      await b.request('DELETE', '/again')
    }
  })

  it('notify every feed of every write, whichever server it was made in', async () => {
    const { clients } = await servers(3)
    const db = await clients[0]!.database()
    const feeds = clients.map((client) =>
      client.request('GET', `/${db.name}/_changes?feed=longpoll&since=0&timeout=30000`),
    )
    await on(clients[2]!, db).save('a', {})
    for (const feed of await Promise.all(feeds)) expect(feed.as<{ results: unknown[] }>().results).toHaveLength(1)
    const writes = clients.flatMap((client, i) =>
      Array.from({ length: 10 }, (_, n) => on(client, db).save(`doc-${i}-${n}`, {})),
    )
    await Promise.all(writes)
    for (const client of clients) {
      const { results } = (await on(client, db).get('_changes')).as<{ results: { seq: number; id: string }[] }>()
      expect(results.map(({ seq }) => seq)).toEqual(Array.from({ length: 31 }, (_, i) => i + 1))
    }
  })

  it('go by rights, users and functions that another one was given, from its reply on', async () => {
    const { clients } = await servers(3, { admins: { root: 'secret' } })
    const as = (name: string) => ({ Authorization: `Basic ${Buffer.from(`${name}:secret`).toString('base64')}` })
    const users = async (reader: string, expected: number, path: string) => {
      const replies = await Promise.all(clients.map((client) => client.request('GET', path, { headers: as(reader) })))
      expect(replies.map(({ status }) => status)).toEqual(Array(3).fill(expected))
    }
    const root = as('root')
    expect((await clients[0]!.request('PUT', '/db', { headers: root })).status).toBe(201)
    // Each server has cached that nobody else may read it.
    await clients[0]!.request('PUT', '/db/_security', { headers: root, body: { members: { names: ['nobody'] } } })
    for (let round = 0; round < 10; round++) {
      const name = `user-${round}`
      const writer = clients[round % 3]!
      await users(name, 401, '/_session')
      const user = { name, type: 'user', roles: [], password: 'secret' }
      const path = `/_users/org.couchdb.user:${name}`
      expect((await writer.request('PUT', path, { headers: root, body: user })).status).toBe(201)
      await users(name, 200, '/_session')
      await users(name, 401, '/db')
      const security = { members: { names: [name] } }
      expect((await writer.request('PUT', '/db/_security', { headers: root, body: security })).status).toBe(200)
      await users(name, 200, '/db')
      const design = { _id: '_design/d', shows: { s: `function () { return '${name}' }` } }
      const rev = (await writer.request('GET', '/db/_design/d', { headers: root })).headers.etag?.slice(1, -1)
      const body = rev === undefined ? design : { ...design, _rev: rev }
      expect((await writer.request('PUT', '/db/_design/d', { headers: root, body })).status).toBe(201)
      for (const client of clients) {
        expect((await client.request('GET', '/db/_design/d/_show/s', { headers: root })).text).toBe(name)
      }
    }
  })

  it('share settings that any of them was given, from its reply on', async () => {
    const { clients, start, stop } = await servers(3, { log: { level: 'error' } })
    const change = (client: Client, path: string, value: string) =>
      client.request('PUT', `/_config/${path}`, { body: JSON.stringify(value) })
    const shown = async (path: string) => {
      const replies = await Promise.all(clients.map((client) => client.request('GET', `/_config/${path}`)))
      return replies.map(({ status, json }) => (status === 200 ? json : status))
    }
    const identities = await Promise.all(clients.map((client) => client.request('GET', '/')))
    expect(new Set(identities.map((reply) => reply.as<{ uuid: string }>().uuid)).size).toBe(1)
    for (let round = 0; round < 9; round++) {
      const value = String(1000 + round)
      expect((await change(clients[round % 3]!, 'httpd/max_request_items', value)).status).toBe(200)
      expect(await shown('httpd/max_request_items')).toEqual(Array(3).fill(value))
    }
    // A flag of each start counts for less than what was asked for later, wherever that was.
    await change(clients[1]!, 'log/level', 'info')
    expect(await shown('log/level')).toEqual(Array(3).fill('info'))
    await clients[2]!.request('DELETE', '/_config/log/level')
    expect(await shown('log/level')).toEqual(Array(3).fill(404))
    // Several at once, of one setting too.
    const several = clients.flatMap((client, i) => [
      change(client, `some/key-${i}`, String(i)),
      change(client, 'some/same', String(i)),
    ])
    for (const { status } of await Promise.all(several)) expect(status).toBe(200)
    for (let i = 0; i < 3; i++) expect(await shown(`some/key-${i}`)).toEqual(Array(3).fill(String(i)))
    expect(new Set(await shown('some/same')).size).toBe(1)
    await clients[0]!.request('DELETE', '/_config/some/same')
    expect(await shown('some/same')).toEqual(Array(3).fill(404))
    // Ports and files are of one machine.
    await change(clients[0]!, 'log/file', 'other.log')
    expect((await shown('log/file')).slice(1)).not.toContain('other.log')
    // An administrator has one hash, and a session of one server is a session of the others.
    expect((await change(clients[0]!, 'admins/root', 'secret')).status).toBe(200)
    const login = await clients[1]!.request('POST', '/_session', { body: { name: 'root', password: 'secret' } })
    const cookie = login.headers['set-cookie']?.[0]?.split(';')[0]
    for (const client of clients) {
      const session = await client.request('GET', '/_session', { headers: { Cookie: cookie } })
      expect(session.json).toMatchObject({ userCtx: { name: 'root', roles: ['_admin'] } })
    }
    // They are in no folder: a server that is started later has them, and so has everybody after all have ended.
    await stop(0)
    await stop(1)
    await stop(2)
    const later = await start()
    const headers = { Cookie: cookie }
    expect((await later.request('GET', '/_config/httpd/max_request_items', { headers })).json).toBe('1008')
    expect((await later.request('GET', '/_config/some', { headers })).json).toEqual({
      'key-0': '0',
      'key-1': '1',
      'key-2': '2',
    })
    expect((await later.request('GET', '/')).as<{ uuid: string }>().uuid).toBe(
      identities[0]!.as<{ uuid: string }>().uuid,
    )
  })

  it('build an index once', async () => {
    const { clients } = await servers(3, { service: { engine_lease: '3000' } })
    const db = await clients[0]!.database()
    const docs = Array.from({ length: 3000 }, (_, i) => ({ _id: `doc-${i}`, n: i }))
    await db.post('_bulk_docs', { docs })
    await db.save('_design/d', { views: { v: { map: 'function (doc) { emit(doc.n, 1) }', reduce: '_count' } } })
    const asked = clients.map((client) => on(client, db).get('_design/d/_view/v?reduce=true'))
    let builders = 0
    let isDone = false
    const looking = until(async () => {
      const tasks = await Promise.all(
        clients.map(async (client) => (await client.request('GET', '/_active_tasks')).as<Build[]>()),
      )
      builders = Math.max(
        builders,
        tasks.filter((each) => ownWork(each).some(({ changes_done }) => changes_done > 0)).length,
      )
      return isDone
    })
    for (const reply of await Promise.all(asked)) expect(reply.json).toEqual({ rows: [{ key: null, value: 3000 }] })
    isDone = true
    await looking
    expect(builders).toBeLessThanOrEqual(1)
  })

  it('run a replication in one of them, and in another one when that ends', async () => {
    const { clients, stop } = await servers(3, { service: { engine_lease: '3000' } })
    const source = await clients[0]!.database()
    const target = await clients[0]!.database()
    await source.post('_bulk_docs', { docs: Array.from({ length: 20 }, (_, i) => ({ _id: `doc-${i}` })) })
    const document = { source: source.name, target: target.name, continuous: true }
    expect((await clients[2]!.request('PUT', '/_replicator/r', { body: document })).status).toBe(201)
    const jobs = async () =>
      Promise.all(
        clients.map(async (client) => {
          const reply = await client.request('GET', '/_scheduler/jobs').catch(() => undefined)
          return reply?.status === 200 ? ownWork(reply.as<{ jobs: ReplicationJob[] }>().jobs) : []
        }),
      )
    const isCopied = async (client: Client, documents: number) =>
      (await on(client, target).info()).doc_count === documents
    await until(() => isCopied(clients[2]!, 20))
    const before = await jobs()
    expect(before.map(({ length }) => length).sort()).toEqual([0, 0, 1])
    for (const client of clients) {
      await until(async () => {
        const { docs } = (await client.request('GET', '/_scheduler/docs')).as<{ docs: { state: string }[] }>()
        return docs[0]?.state === 'running'
      })
    }
    const holder = before.findIndex(({ length }) => length === 1)
    await stop(holder)
    const [left] = clients.filter((_, i) => i !== holder)
    await on(left!, source).save('later', {})
    await until(() => isCopied(left!, 21))
    const after = await jobs()
    expect(after.map(({ length }) => length).sort()).toEqual([0, 0, 1])
    // It is the same replication, which goes on behind its last checkpoint.
    expect(after.flat()[0]?.id).toBe(before.flat()[0]?.id)
  })
})
