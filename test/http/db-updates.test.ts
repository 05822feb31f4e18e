import { describe, expect, it } from 'vitest'
import { Client, expectRefusal } from '../support/client.ts'
import { FeedClient } from '../support/feed.ts'
import { startService } from '../support/service.ts'

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
  it('ends with the first event unless told otherwise', async () => {
    const client = await server()
    for (const query of ['', '?feed=longpoll', '?feed=longpoll&heartbeat=true']) {
      const feed = await follow(client, query)
      expect([feed.status, feed.text, feed.headers['transfer-encoding']]).toEqual([200, '', 'chunked'])
      await client.request('PUT', '/things')
      expect(await feed.ended()).toBe(`${event('created', 'things')}\n`)
      await client.request('DELETE', '/things')
    }
  })

  it('tells what happens to databases, a line each, and nothing of before', async () => {
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

  it('frames events for EventSource', async () => {
    const client = await server()
    const feed = await follow(client, '?feed=eventsource')
    await client.request('PUT', '/things')
    await client.request('PUT', '/things/doc', { body: {} })
    await feed.receives(`data: ${event('created', 'things')}\n\ndata: ${event('updated', 'things')}\n\n`)
    expect(feed.headers).toMatchObject({ 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  })

  it('tells of writes of documents and of purges, and of nothing else', async () => {
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

  it('ends without an event when the time is over', async () => {
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

  it('sends a newline at each timeout and goes on, unless heartbeats are off', async () => {
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
    const begun = performance.now()
    expect(await (await follow(client, '?timeout=1000')).ended()).toBe('\n')
    expect(performance.now() - begun).toBeLessThan(4_000)
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

  it('refuses what cannot be meant', async () => {
    const client = await server()
    const kinds = 'Supported `feed` types: longpoll, continuous, eventsource'
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
