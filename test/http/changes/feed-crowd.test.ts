/** So many clients on the feed of one database that they are notified in rounds: each gets what it would get alone. */
import { describe, expect, it } from 'vitest'
import { serverOfFile, type TestDatabase } from '../../support/client.ts'
import { FeedClient } from '../../support/feed.ts'
import { until } from '../../support/until.ts'

const client = serverOfFile()

const CROWD = 100

function follow(db: TestDatabase, query: string): Promise<FeedClient> {
  return FeedClient.open(client(), `/${db.name}/_changes?heartbeat=60000&${query}`)
}

async function crowd(db: TestDatabase, query: string): Promise<FeedClient[]> {
  return Promise.all(Array.from({ length: CROWD }, () => follow(db, query)))
}

describe('many clients on the feed of one database', () => {
  it('gets every change once and in order, whatever each of them asked for', async () => {
    const db = await client().database()
    const plain = await crowd(db, 'feed=continuous')
    const events = await Promise.all([1, 2, 3].map(() => follow(db, 'feed=eventsource')))
    const documents = await Promise.all([1, 2, 3].map(() => follow(db, 'feed=continuous&include_docs=true')))
    const designs = await follow(db, 'feed=continuous&filter=_design')
    const few = await Promise.all([1, 5, 150].map((limit) => follow(db, `feed=continuous&limit=${limit}`)))
    const next = await follow(db, 'feed=longpoll')
    const names = Array.from({ length: 150 }, (_, i) => (i % 10 === 0 ? `_design/${i}` : `doc-${i}`))
    // One after the other, so that rounds begin while others write; and some at once.
    for (const _id of names.slice(0, 100)) await db.save(_id, {})
    await db.post('_bulk_docs', { docs: names.slice(100).map((_id) => ({ _id })) })
    for (const feed of [...plain, ...events, ...documents]) await feed.hears(...names)
    for (const { changes } of documents) expect(changes.map(({ doc }) => doc?._id)).toEqual(names)
    await designs.hears(...names.filter((name) => name.startsWith('_design/')))
    for (const [i, feed] of few.entries()) {
      await feed.ended()
      await feed.hears(...names.slice(0, [1, 5, 150][i]))
    }
    await next.ended()
    expect(next.changes[0]?.id).toBe(names[0])
  })

  it('is not blocked by a client that does not read, which gets everything when it does', async () => {
    const db = await client().database()
    const query = 'feed=continuous&include_docs=true'
    const [other, slow] = [await follow(db, query), await follow(db, query)]
    // The rest of the crowd hears nothing, so that little is to be done for it.
    await crowd(db, 'feed=continuous&filter=_design')
    slow.pause()
    const text = 'x'.repeat(20_000)
    const names = Array.from({ length: 500 }, (_, i) => `doc-${i}`)
    for (let i = 0; i < names.length; i += 10) {
      await db.post('_bulk_docs', { docs: names.slice(i, i + 10).map((_id) => ({ _id, text })) })
    }
    await other.grows(names.length * text.length)
    slow.resume()
    await slow.grows(names.length * text.length)
    await slow.hears(...names)
  })

  it('ends together when the database is deleted', async () => {
    const db = await client().database()
    const feeds = await crowd(db, 'feed=continuous')
    await db.save('a', {})
    await db.request('DELETE')
    for (const feed of feeds) await feed.ended()
  })

  it('leaves nothing behind when it goes', async () => {
    const db = await client().database()
    const feeds = await crowd(db, 'feed=continuous')
    await db.save('a', {})
    for (const feed of feeds) feed.leave()
    await until(async () => {
      const reply = await client().request('GET', '/_stats/httpd/clients_requesting_changes?flush=true')
      return reply.text.includes('"current":0')
    })
    await db.save('b', {})
  })
})
