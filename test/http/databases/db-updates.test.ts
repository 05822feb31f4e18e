import { describe, expect, it } from 'vitest'
import { Client, expectRefusal } from '../../support/client.ts'
import { FeedClient } from '../../support/feed.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { HAS_SEVERAL_SERVERS } from '../../support/test-service.ts'

async function server(): Promise<Client> {
  return new Client((await startService()).url)
}

function follow(client: Client, query = ''): Promise<FeedClient> {
  return FeedClient.open(client, `/_db_updates${query}`)
}

function event(type: string, name: string): string {
  return JSON.stringify({ ok: true, type, db_name: name })
}

describe('GET /_db_updates', () => {
  // What other servers do is known here some milliseconds later, so a feed may begin with what was done before it.
  it.skipIf(HAS_SEVERAL_SERVERS)('ends with the first event by default', async () => {
    const client = await server()
    for (const query of ['', '?feed=longpoll', '?feed=longpoll&heartbeat=true']) {
      const feed = await follow(client, query)
      expect([feed.status, feed.text, feed.headers['transfer-encoding']]).toEqual([200, '', 'chunked'])
      await client.request('PUT', '/things')
      expect(await feed.ended()).toBe(`${event('created', 'things')}\n`)
      await client.request('DELETE', '/things')
    }
  })

  it.skipIf(HAS_SEVERAL_SERVERS)('sends events of databases, one for each line, and none from before', async () => {
    const client = await server()
    await client.request('PUT', '/before')
    const feed = await follow(client, '?feed=continuous')
    await client.request('PUT', '/things')
    await client.request('PUT', '/things/doc', { body: {} })
    await client.request('DELETE', '/things')
    const expected = ['created', 'updated', 'deleted'].map((type) => `${event(type, 'things')}\n`).join('')
    await feed.receives(expected)
    expect([feed.text, feed.state]).toEqual([expected, 'open'])
  })

  it.skipIf(HAS_SEVERAL_SERVERS)('frames events for EventSource', async () => {
    const client = await server()
    const feed = await follow(client, '?feed=eventsource')
    await client.request('PUT', '/things')
    await client.request('PUT', '/things/doc', { body: {} })
    await feed.receives(`data: ${event('created', 'things')}\n\ndata: ${event('updated', 'things')}\n\n`)
    expect(feed.headers).toMatchObject({ 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  })

  it.skipIf(HAS_SEVERAL_SERVERS)('sends writes of documents and purges, and nothing else', async () => {
    const client = await server()
    const db = await client.database()
    const rev = await db.save('doc', {})
    const feed = await follow(client, '?feed=continuous')
    await db.save('_local/x', {})
    await db.put('_security', {})
    await db.put('_revs_limit', '10')
    await db.compact()
    await db.save('_design/d', {})
    await db.post('_purge', { doc: [rev] })
    await client.request('PUT', '/last')
    await feed.receives('last')
    const expected = [event('updated', db.name), event('updated', db.name), event('created', 'last'), '']
    expect(feed.text).toBe(expected.join('\n'))
  })

  it('ends without an event at the timeout', async () => {
    const client = await server()
    expect(await (await follow(client, '?timeout=0')).ended()).toBe('\n')
    const begun = performance.now()
    expect(await (await follow(client, '?timeout=1')).ended()).toBe('\n')
    expect(performance.now() - begun).toBeGreaterThan(990)
    for (const kind of ['continuous', 'eventsource']) {
      const feed = await follow(client, `?feed=${kind}&timeout=0&heartbeat=false`)
      expect(await feed.ended()).toBe('\n')
    }
  })

  it('sends a newline at each timeout and continues, unless heartbeats are off', async () => {
    const client = await server()
    const feeds = await Promise.all(
      ['continuous', 'eventsource'].map((kind) => follow(client, `?feed=${kind}&timeout=1`)),
    )
    await Promise.all(feeds.map((feed) => feed.receives('\n\n')))
    await client.request('PUT', '/things')
    await Promise.all(feeds.map((feed) => feed.receives(event('created', 'things'))))
    expect(feeds.map(({ state }) => state)).toEqual(['open', 'open'])
  })

  it('takes a large timeout as milliseconds', async () => {
    const client = await server()
    // So many seconds would outlast the test.
    expect(await (await follow(client, '?timeout=1000')).ended()).toBe('\n')
  })

  it('ends when the server stops', async () => {
    const service = await startService()
    const client = new Client(service.url)
    const feeds = await Promise.all(
      ['longpoll', 'continuous', 'eventsource'].map((kind) => follow(client, `?feed=${kind}`)),
    )
    await service.close()
    expect(await Promise.all(feeds.map((feed) => feed.ended()))).toEqual(['\n', '\n', '\n'])
  })

  it('refuses invalid parameters', async () => {
    const client = await server()
    const kinds = 'Supported `feed` types: normal, longpoll, continuous, eventsource'
    expectRefusal(await client.request('GET', '/_db_updates?feed=x'), 400, 'bad_request', kinds)
    const reason = 'Invalid value for timeout'
    expectRefusal(await client.request('GET', '/_db_updates?timeout=x'), 400, 'bad_request', reason)
    expectRefusal(await client.request('POST', '/_db_updates'), 405, 'method_not_allowed', 'Only GET allowed')
  })

  it('is for server admins', async () => {
    const client = await server()
    await client.request('PUT', '/_config/admins/root', { body: '"top"' })
    const refused = await client.request('GET', '/_db_updates')
    expectRefusal(refused, 401, 'unauthorized', 'You are not a server admin.')
    const headers = { Authorization: `Basic ${btoa('root:top')}` }
    expect((await client.request('GET', '/_db_updates?timeout=0', { headers })).text).toBe('\n')
  })

  it('answers HEAD without waiting', async () => {
    const client = await server()
    expect((await client.request('HEAD', '/_db_updates')).status).toBe(200)
  })
})

interface Updates {
  results: { db_name: string; type: string; seq: string }[]
  last_seq: string
}

async function past(client: Client, query = ''): Promise<Updates> {
  const reply = await client.request('GET', `/_db_updates?feed=normal${query}`)
  expect(reply.status).toBe(200)
  return ofUsers(reply.as<Updates>())
}

/** The events of users' databases. */
function ofUsers({ results, last_seq }: Updates): Updates {
  return { results: results.filter(({ db_name }) => !db_name.startsWith('_')), last_seq }
}

function shown({ results }: Updates): string[] {
  return results.map(({ db_name, type }) => `${type} ${db_name}`)
}

// Each server has a history of its own, with numbers of its own.
describe.skipIf(HAS_SEVERAL_SERVERS)('the history of databases', () => {
  it('has the last event of each type, in order, and resumes after any of them', async () => {
    const client = await server()
    await client.request('PUT', '/a')
    await client.request('PUT', '/b')
    await client.request('PUT', '/a/one', { body: {} })
    await client.request('PUT', '/a/two', { body: {} })
    await client.request('DELETE', '/b')
    const all = await past(client)
    expect(shown(all)).toEqual(['created a', 'created b', 'updated a', 'deleted b'])
    expect(all.results.at(-1)?.seq).toBe(all.last_seq)
    const behind = await past(client, `&since=${all.results[1]?.seq}`)
    expect(behind).toEqual({ results: all.results.slice(2), last_seq: all.last_seq })
    for (const since of [all.last_seq, 'now']) {
      expect(await past(client, `&since=${since}`)).toEqual({ results: [], last_seq: all.last_seq })
    }
    expect(await past(client, '&since=0')).toEqual(all)
    expect((await client.request('GET', '/_db_updates?feed=normal')).text).toContain(
      '{"db_name":"_users","type":"created"',
    )
    await client.request('PUT', '/a/three', { body: {} })
    expect(shown(await past(client, `&since=${all.last_seq}`))).toEqual(['updated a'])
  })

  it('is empty when there is no database, and can still be resumed', async () => {
    const client = await server()
    const none = await past(client)
    expect(none.results).toEqual([])
    await client.request('PUT', '/a')
    expect(shown(await past(client, `&since=${none.last_seq}`))).toEqual(['created a'])
  })

  it('begins after a restart with all databases, whatever a client saw before', async () => {
    const dir = await temporaryFolder()
    const first = await startService({ dir })
    const before = new Client(first.url)
    for (const name of ['a', 'b']) await before.request('PUT', `/${name}`)
    await before.request('DELETE', '/a')
    const { last_seq: since } = await past(before)
    await first.close()
    const client = new Client((await startService({ dir })).url)
    for (const query of ['', `&since=${since}`, '&since=12-g1AAAA', '&since=x']) {
      expect(shown(await past(client, query))).toEqual(['created b', 'updated b'])
    }
    const all = await past(client)
    await client.request('PUT', '/b/doc', { body: {} })
    expect(shown(await past(client, `&since=${all.last_seq}`))).toEqual(['updated b'])
    expect(shown(await past(client))).toEqual(['created b', 'updated b'])
  })

  it('is bounded: a client from before its beginning gets all databases', async () => {
    const client = new Client((await startService({ settings: { httpd: { max_db_updates: '10' } } })).url)
    const names = Array.from({ length: 12 }, (_, i) => `db${String(i).padStart(2, '0')}`)
    await client.request('PUT', `/${names[0]}`)
    const { last_seq: since } = await past(client)
    for (const name of names.slice(1)) await client.request('PUT', `/${name}`)
    const all = await past(client, `&since=${since}`)
    expect(
      shown(all)
        .filter((each) => each.startsWith('created'))
        .sort(),
    ).toEqual(names.map((name) => `created ${name}`))
    expect(shown(await past(client, `&since=${all.last_seq}`))).toEqual([])
  })

  it('is a valid start for waiting feeds', async () => {
    const client = await server()
    await client.request('PUT', '/a')
    await client.request('PUT', '/b')
    const { results } = await past(client)
    const [a, b] = results.map(({ seq }) => seq)
    const poll = await follow(client, `?since=${a}`)
    expect(await poll.ended()).toBe(`${JSON.stringify({ ok: true, type: 'created', db_name: 'b', seq: b })}\n`)
    const feed = await follow(client, '?feed=continuous&since=0')
    await feed.receives('"db_name":"b"')
    await client.request('PUT', '/c')
    await feed.receives('"db_name":"c"')
    const names = feed.text.split('\n').map((line) => line && JSON.parse(line).db_name)
    expect(names.filter((name) => !name.startsWith('_'))).toEqual(['a', 'b', 'c', ''])
  })

  it('can be read by polls of one event each, after a restart too', async () => {
    const dir = await temporaryFolder()
    const first = await startService({ dir })
    const before = new Client(first.url)
    for (const name of ['a', 'b-c', 'd']) await before.request('PUT', `/${name}`)
    const { last_seq } = await past(before)
    await first.close()
    const client = new Client((await startService({ dir })).url)
    const seen: string[] = []
    let since = last_seq
    const poll = async () => {
      const event = JSON.parse(await (await follow(client, `?feed=longpoll&since=${since}`)).ended())
      since = event.seq
      if (!event.db_name.startsWith('_')) seen.push(`${event.type} ${event.db_name}`)
    }
    const listed = ['created a', 'updated a', 'created b-c', 'updated b-c', 'created d', 'updated d']
    // Meanwhile one goes that is not listed yet, and others come before and behind.
    while (seen.length < 3) await poll()
    await client.request('DELETE', '/d')
    await client.request('PUT', '/aa')
    await client.request('PUT', '/z')
    while (seen.length < 7) await poll()
    expect(seen).toEqual([...listed.slice(0, 4), 'deleted d', 'created aa', 'created z'])
    // A position in the list is one of feeds of any kind.
    const all = await past(client, '&since=0')
    const rest = await past(client, `&since=${all.results[1]?.seq}`)
    expect(rest.results).toEqual(all.results.slice(2))
    expect(rest.last_seq).toBe(all.last_seq)
  })

  it('lists the databases again when events were dropped during the listing', async () => {
    const dir = await temporaryFolder()
    const settings = { httpd: { max_db_updates: '2' } }
    const first = await startService({ dir })
    for (const name of ['a', 'm', 'z']) await new Client(first.url).request('PUT', `/${name}`)
    await first.close()
    const client = new Client((await startService({ dir, settings })).url)
    const { results } = await past(client)
    const middle = results.find(({ db_name }) => db_name === 'm')
    for (const name of ['b', 'c', 'd', 'e']) await client.request('PUT', `/${name}`)
    const created = (await past(client, `&since=${middle?.seq}`)).results.filter(({ type }) => type === 'created')
    expect(created.map(({ db_name }) => db_name).sort()).toEqual(['a', 'b', 'c', 'd', 'e', 'm', 'z'])
  })

  it('is the default of dialect 3', async () => {
    const client = new Client((await startService({ dialect: '3' })).url)
    await client.request('PUT', '/a')
    const all = (await client.request('GET', '/_db_updates')).as<Updates>()
    expect(shown(ofUsers(all))).toEqual(['created a'])
    const poll = await follow(client, `?feed=longpoll&since=${all.last_seq}`)
    await client.request('PUT', '/b')
    const polled: Updates = JSON.parse(await poll.ended())
    expect(shown(polled)).toEqual(['created b'])
    const lines = await follow(client, '?feed=continuous&timeout=1&heartbeat=false')
    const end = JSON.stringify({ last_seq: polled.last_seq })
    expect((await lines.ended()).split('\n').slice(-2)).toEqual([end, ''])
    const beating = await follow(client, '?feed=continuous&since=now&heartbeat=5')
    await beating.receives('\n\n')
  })
})
