import { describe, expect, it } from 'vitest'
import { Client, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { FeedClient } from '../../support/feed.ts'
import { EMPTY } from '../../support/first-revisions.ts'
import { MeasuredServer } from '../../support/measured-server.ts'
import { startService } from '../../support/service.ts'
import { HAS_SEVERAL_SERVERS } from '../../support/test-service.ts'
import { until } from '../../support/until.ts'

const client = serverOfFile()

function follow(db: TestDatabase, query: string, headers: Record<string, string> = {}): Promise<FeedClient> {
  return FeedClient.open(db.client, `/${db.name}/_changes?${query}`, { headers })
}

function row(seq: number, id: string): string {
  return `{"seq":${seq},"id":"${id}","changes":[{"rev":"${EMPTY}"}]}`
}

async function clientsCounted(server: Client): Promise<number> {
  const reply = await server.request('GET', '/_stats/httpd/clients_requesting_changes?flush=true')
  return reply.as<{ httpd: { clients_requesting_changes: { current: number } } }>().httpd.clients_requesting_changes
    .current
}

describe('feed=longpoll', () => {
  it('returns at once when there are changes', async () => {
    const db = await client().databaseWith('a', 'b')
    const feed = await follow(db, 'feed=longpoll&since=1')
    expect(await feed.ended()).toBe(`{"results":[\n${row(2, 'b')}\n],\n"last_seq":2,"pending":0}\n\n`)
  })

  it('begins its reply, and ends it with the next change', async () => {
    const db = await client().databaseWith('a')
    const feed = await follow(db, 'feed=longpoll&since=1')
    await feed.receives('{"results":[\n')
    expect([feed.state, feed.text, feed.status]).toEqual(['open', '{"results":[\n', 200])
    await db.save('b', {})
    expect(await feed.ended()).toBe(`{"results":[\n${row(2, 'b')}\n],\n"last_seq":2,"pending":0}\n\n`)
  })

  it('has all changes of one commit', async () => {
    const db = await client().database()
    const feed = await follow(db, 'feed=longpoll')
    await db.post('_bulk_docs', { docs: Array.from({ length: 2_000 }, (_, i) => ({ _id: `${i}` })) })
    await feed.ended()
    expect(feed.changes).toHaveLength(2_000)
  })

  it('honours a limit', async () => {
    const db = await client().databaseWith('a', 'b', 'c')
    const feed = await follow(db, 'feed=longpoll&limit=2')
    expect(await feed.ended()).toContain('"last_seq":2,"pending":1}')
  })

  it('ends without rows at the timeout, with its last sequence', async () => {
    const db = await client().databaseWith('a', 'b')
    const feed = await follow(db, 'feed=longpoll&since=now&timeout=20')
    expect(await feed.ended()).toBe('{"results":[\n\n],\n"last_seq":2,"pending":0}\n\n')
  })

  it('does not wait at all for timeout=0', async () => {
    const db = await client().databaseWith('a')
    const feed = await follow(db, 'feed=longpoll&since=1&timeout=0')
    expect(await feed.ended()).toBe('{"results":[\n\n],\n"last_seq":1,"pending":0}\n\n')
  })

  it('sends heartbeats, and has no timeout with them', async () => {
    const db = await client().database()
    const feed = await follow(db, 'feed=longpoll&heartbeat=15&timeout=1')
    await feed.receives('{"results":[\n\n\n\n')
    await db.save('a', {})
    expect(JSON.parse(await feed.ended())).toMatchObject({ results: [{ id: 'a' }], last_seq: 1 })
  })

  it('waits after a sequence that does not exist yet', async () => {
    const db = await client().database()
    const feed = await follow(db, 'feed=longpoll&since=1&heartbeat=10000')
    await feed.receives('{"results":[\n')
    await db.save('a', {})
    await db.save('b', {})
    await feed.hears('b')
  })

  it('begins at the end when descending', async () => {
    const db = await client().databaseWith('a')
    const feed = await follow(db, 'feed=longpoll&descending=true')
    await feed.receives('{"results":[\n')
    await db.save('b', {})
    expect(await feed.ended()).toContain(row(2, 'b'))
    await feed.hears('b')
  })
})

describe('feed=continuous', () => {
  it('has one row for each line, ended by CRLF, and continues', async () => {
    const db = await client().databaseWith('a')
    const feed = await follow(db, 'feed=continuous')
    await feed.receives(`${row(1, 'a')}\r\n`)
    await db.save('b', {})
    await feed.receives(`${row(1, 'a')}\r\n${row(2, 'b')}\r\n`)
    expect([feed.state, feed.headers['transfer-encoding']]).toEqual(['open', 'chunked'])
  })

  it('is also called live', async () => {
    const db = await client().databaseWith('a')
    await (await follow(db, 'feed=live')).receives(`${row(1, 'a')}\r\n`)
  })

  it('sends its head before the first change', async () => {
    const db = await client().database()
    const feed = await follow(db, 'feed=continuous', { Accept: 'application/json' })
    expect([feed.status, feed.headers['content-type'], feed.text]).toEqual([200, 'application/json', ''])
    expect(feed.headers.etag).toBeUndefined()
  })

  it('ends with its last sequence at the timeout', async () => {
    const db = await client().databaseWith('a')
    const feed = await follow(db, 'feed=continuous&timeout=20')
    expect(await feed.ended()).toBe(`${row(1, 'a')}\r\n{"last_seq":1,"pending":0}\r\n\n`)
  })

  it('restarts the timeout with each update, whether it passes the filter or not', async () => {
    const db = await client().database()
    const feed = await follow(db, 'feed=continuous&timeout=1000&filter=_design')
    const begun = performance.now()
    for (let i = 0; performance.now() - begun < 1500; i++) await db.save(`doc-${i}`, {})
    expect(feed.state).toBe('open')
    expect(await feed.ended()).toMatch(/^\{"last_seq":\d+,"pending":\d+\}\r\n\n$/)
  })

  it('sends a newline as heartbeat, and continues', async () => {
    const db = await client().database()
    const feed = await follow(db, 'feed=continuous&heartbeat=15&timeout=1')
    await feed.receives('\n\n\n')
    await db.save('a', {})
    await feed.receives(`\n${row(1, 'a')}\r\n\n`)
  })

  it('sends heartbeats while filtered updates arrive all the time', async () => {
    const db = await client().database()
    const feed = await follow(db, 'feed=continuous&heartbeat=40&filter=_design')
    for (let i = 0; feed.text === ''; i++) await db.save(`doc-${i}`, {})
    expect(feed.text).toMatch(/^\n+$/)
  })

  it('limits the timeout to the configured maximum', async () => {
    const { url } = await startService({ settings: { httpd: { changes_timeout: '30' } } })
    const db = await new Client(url).database()
    for (const query of ['', '&timeout=60000']) {
      expect(await (await follow(db, `feed=continuous${query}`)).ended()).toBe('{"last_seq":0,"pending":0}\r\n\n')
    }
    await (await follow(db, 'feed=continuous&heartbeat=60000')).receives('\n\n')
    await (await follow(db, 'feed=continuous&heartbeat=true')).receives('\n\n')
  })

  it('ends at its limit, with what was there and what came', async () => {
    const db = await client().databaseWith('a')
    const feed = await follow(db, 'feed=continuous&limit=2')
    await feed.hears('a')
    await db.save('b', {})
    expect(await feed.ended()).toBe(`${row(1, 'a')}\r\n${row(2, 'b')}\r\n{"last_seq":2,"pending":0}\r\n\n`)
  })

  it('shows documents as they are when they are shown', async () => {
    const db = await client().database()
    const feed = await follow(db, 'feed=continuous&include_docs=true&style=all_docs')
    await db.save('a', { n: 1 })
    await feed.receives(',"n":1}}\r\n')
    await db.saveAndRemove('b', {})
    await feed.receives('"_deleted":true}}\r\n')
  })

  it('shows attachments with their contents', async () => {
    const db = await client().database()
    const feed = await follow(db, 'feed=continuous&include_docs=true&attachments=true')
    await db.save('a', { _attachments: { x: { content_type: 'x/y', data: btoa('content') } } })
    await feed.receives(/"data":"Y29udGVudA=="\}\}\}\}\r\n$/)
  })

  it('sends each change exactly once to clients that joined at different times', async () => {
    const db = await client().database()
    const feeds: FeedClient[] = []
    for (let i = 0; i < 30; i++) {
      feeds.push(await follow(db, `feed=continuous&since=${i % 3 === 0 ? 'now' : 0}`))
      await db.save(`doc-${String(i).padStart(2, '0')}`, {})
    }
    await Promise.all(feeds.map((feed) => feed.receives('doc-29')))
    for (const [i, feed] of feeds.entries()) {
      const first = i % 3 === 0 ? i : 0
      expect(feed.changes.map(({ seq }) => seq)).toEqual(Array.from({ length: 30 - first }, (_, j) => first + j + 1))
    }
  })

  it('waits without chunks for clients of HTTP/1.0', async () => {
    const db = await client().databaseWith('a')
    const connection = await client().open()
    connection.write(`GET /${db.name}/_changes?feed=continuous&timeout=50 HTTP/1.0\r\nHost: x\r\n\r\n`)
    const reply = await connection.closed()
    expect(reply.split('\r\n\r\n', 2)[1]).toBe(`${row(1, 'a')}\r\n{"last_seq":1,"pending":0}\r\n\n`)
    expect(reply.toLowerCase()).not.toContain('transfer-encoding')
  })

  it('waits its turn behind other replies of the connection', async () => {
    const db = await client().databaseWith('a')
    const connection = await client().open()
    const get = (path: string) => `GET /${db.name}${path} HTTP/1.1\r\nHost: x\r\n\r\n`
    connection.write(get('/a') + get('/_changes?feed=continuous&timeout=50') + get('/a'))
    await connection.receives(
      /HTTP\/1.1 200[\s\S]*"_id":"a"[\s\S]*HTTP\/1.1 200[\s\S]*"last_seq":1[\s\S]*HTTP\/1.1 200[\s\S]*"_id":"a"/,
    )
    connection.end()
  })
})

describe('feed=eventsource', () => {
  it('frames changes as events, each with its sequence', async () => {
    const db = await client().databaseWith('a')
    const feed = await follow(db, 'feed=eventsource')
    await db.save('b', {})
    await feed.receives(`data: ${row(1, 'a')}\nid: 1\n\ndata: ${row(2, 'b')}\nid: 2\n\n`)
    expect(feed.headers).toMatchObject({ 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  })

  it('resumes where the client was', async () => {
    const db = await client().databaseWith('a', 'b', 'c')
    await (await follow(db, 'feed=eventsource&since=0', { 'Last-Event-ID': '2' })).hears('c')
  })

  it('sends a newline as heartbeat and at its end', async () => {
    const db = await client().database()
    await (await follow(db, 'feed=eventsource&heartbeat=15')).receives('\n\n')
    expect(await (await follow(db, 'feed=eventsource&timeout=15')).ended()).toBe('\n')
  })
})

describe('a feed ends regularly', () => {
  it.each([
    ['longpoll', '{"results":[\n\n],\n"last_seq":1,"pending":0}\n\n'],
    ['continuous', '{"last_seq":1,"pending":0}\r\n\n'],
    ['eventsource', '\n'],
  ])('when its database is deleted (%s)', async (kind, expected) => {
    const db = await client().databaseWith('a')
    const feed = await follow(db, `feed=${kind}&since=now&heartbeat=10000`)
    await db.request('DELETE')
    expect(await feed.ended()).toBe(expected)
  })

  it('when the server stops, at once', async () => {
    const service = await startService()
    const db = await new Client(service.url).database()
    const feeds = await Promise.all(
      ['longpoll', 'continuous', 'eventsource'].map((kind) => follow(db, `feed=${kind}&heartbeat=10000`)),
    )
    const begun = performance.now()
    await service.close()
    // The next heartbeat would be ten seconds away.
    expect(performance.now() - begun).toBeLessThan(9_000)
    const texts = await Promise.all(feeds.map((feed) => feed.ended()))
    expect(texts).toEqual([
      '{"results":[\n\n],\n"last_seq":0,"pending":0}\n\n',
      '{"last_seq":0,"pending":0}\r\n\n',
      '\n',
    ])
  })

  it('when its listener is replaced', async () => {
    const service = await startService()
    const db = await new Client(service.url).database()
    const feed = await follow(db, 'feed=continuous&heartbeat=10000')
    await new Client(service.url).request('PUT', '/_config/httpd/socket_options', { body: '"[{nodelay, false}]"' })
    expect(await feed.ended()).toBe('{"last_seq":0,"pending":0}\r\n\n')
  })

  it('when its reader may no longer read, and no other', async () => {
    const { url } = await startService()
    const server = new Client(url)
    const db = await server.database()
    for (const name of ['ann', 'bob']) {
      await server.request('PUT', `/_users/org.service.user:${name}`, {
        body: { name, password: 'pass', roles: [], type: 'user' },
      })
    }
    await server.request('PUT', '/_config/admins/root', { body: '"top"' })
    const asAdmin = { Authorization: `Basic ${btoa('root:top')}` }
    const as = (name: string) =>
      follow(db, 'feed=continuous&heartbeat=10000', { Authorization: `Basic ${btoa(`${name}:pass`)}` })
    const [ann, bob] = await Promise.all([as('ann'), as('bob')])
    await db.put('_security', { members: { names: ['bob'], roles: [] } }, asAdmin)
    expect(await ann.ended()).toBe('{"last_seq":0,"pending":0}\r\n\n')
    await db.put('doc', {}, asAdmin)
    await bob.hears('doc')
    expect(ann.changes).toEqual([])
  })
})

describe('clients on feeds', () => {
  // Each server has statistics of its own.
  it.skipIf(HAS_SEVERAL_SERVERS)('are counted while they are connected', async () => {
    const server = new Client((await startService()).url)
    const db = await server.database()
    const feeds = [await follow(db, 'feed=continuous'), await follow(db, 'feed=longpoll')]
    expect(await clientsCounted(server)).toBe(2)
    for (const feed of feeds) feed.leave()
    await until(async () => (await clientsCounted(server)) === 0)
    await db.get('_changes')
    expect(await clientsCounted(server)).toBe(0)
  })

  it.skipIf(HAS_SEVERAL_SERVERS)('are counted as before when statistics are restarted', async () => {
    const server = new Client((await startService()).url)
    const db = await server.database()
    const [feed, other] = [await follow(db, 'feed=continuous'), await follow(db, 'feed=longpoll')]
    await server.request('PUT', '/_config/stats/rate', { body: '"900"' })
    expect(await clientsCounted(server)).toBe(2)
    feed.leave()
    await until(async () => (await clientsCounted(server)) === 1)
    await server.request('PUT', '/_config/stats/rate', { body: '"800"' })
    other.leave()
    await until(async () => (await clientsCounted(server)) === 0)
  })

  it('that disconnect are removed at once, without an update', async () => {
    const server = new Client((await startService()).url)
    const db = await server.database()
    const feed = await follow(db, 'feed=continuous&heartbeat=60000')
    feed.leave()
    await until(async () => (await clientsCounted(server)) === 0)
  })

  it('that do not read are waited for, and nothing is buffered for them', async () => {
    const server = await MeasuredServer.start()
    const db = await server.client.database()
    const query = 'feed=continuous&include_docs=true&heartbeat=10000'
    const [slow, other] = await Promise.all([follow(db, query), follow(db, query)])
    slow.pause()
    const before = await server.heldBytes()
    // More than the system itself keeps for a connection.
    const text = 'x'.repeat(250_000)
    const names = Array.from({ length: 80 }, (_, i) => `doc-${i}`)
    for (let i = 0; i < names.length; i += 10) {
      await db.post('_bulk_docs', { docs: names.slice(i, i + 10).map((_id) => ({ _id, text })) })
    }
    await other.grows(names.length * text.length)
    expect((await server.heldBytes()) - before).toBeLessThan(8 * 1024 * 1024)
    expect(slow.text.length).toBeLessThan(names.length * text.length)
    slow.resume()
    await slow.grows(names.length * text.length)
    await slow.hears(...names)
  })

  it('may call for JSONP where the operator allows it', async () => {
    const { url } = await startService({ settings: { httpd: { allow_jsonp: 'true' } } })
    const db = await new Client(url).database()
    const feed = await follow(db, 'feed=longpoll&callback=f')
    await db.save('a', {})
    expect(await feed.ended()).toMatch(
      /^\/\* Service \*\/f\(\{"results":\[\n\{"seq":1.*\n\],\n"last_seq":1,"pending":0\}\);\n$/,
    )
  })

  it('get changes at once with JSONP', async () => {
    const { url } = await startService({ settings: { httpd: { allow_jsonp: 'true' } } })
    const db = await new Client(url).database()
    const feed = await follow(db, 'feed=continuous&limit=2&heartbeat=20&callback=f')
    await feed.receives('f(\n')
    await db.save('a', {})
    await feed.receives(row(1, 'a'))
    await db.save('b', {})
    expect((await feed.ended()).replace(/\n+/g, '\n')).toBe(
      `/* Service */f(\n${row(1, 'a')}\r\n${row(2, 'b')}\r\n{"last_seq":2,"pending":0});\n`,
    )
  })
})
