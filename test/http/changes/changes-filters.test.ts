import { describe, expect, it } from 'vitest'
import { expectRefusal, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { type ChangesReply, FeedClient } from '../../support/feed.ts'

const client = serverOfFile()

const DESIGN = {
  filters: {
    even: 'function(doc, req) { return doc.n % 2 === 0 }',
    asked: 'function(doc, req) { return String(doc.n) === req.query.n }',
    deletions: 'function(doc) { return doc._deleted }',
    throwing: 'function(doc) { throw new Error("broken") }',
    throwingLate: 'function(doc) { if (doc.n === 150) throw new Error("broken"); return true }',
    historic: 'function(doc) { return doc._revisions && doc._revisions.start === 2 }',
    torn: 'function(doc) { return doc._conflicts && doc._conflicts.length === 1 }',
    leaf: 'function(doc) { return doc.keep }',
    truthy: 'function(doc) { return "yes" }',
    attached: 'function(doc) { return doc._attachments && doc._attachments.x.stub }',
    named: 'function(doc, req) { return req.method === "GET" && req.path[1] === "_changes" && req.id === null }',
    'a/b': 'function(doc) { return true }',
  },
  views: {
    small: { map: 'function(doc) { if (doc.n < 3) emit(null) }' },
    broken: { map: 'function(doc) { throw new Error("broken") }' },
  },
}

async function numbered(count: number, design: unknown = DESIGN): Promise<TestDatabase> {
  const db = await client().database()
  if (design) await db.save('_design/d', design)
  await db.post('_bulk_docs', { docs: Array.from({ length: count }, (_, i) => ({ _id: `${i + 1}`, n: i + 1 })) })
  return db
}

function ids(reply: Reply): string[] {
  expect(reply.status, reply.text).toBe(200)
  return reply.as<ChangesReply>().results.map(({ id }) => id)
}

function lastSequence(reply: Reply): number {
  return reply.as<ChangesReply>().last_seq
}

describe('filter=_doc_ids', () => {
  it('passes the documents that are named in the query', async () => {
    const db = await numbered(5)
    const reply = await db.get('_changes?filter=_doc_ids&doc_ids=["4","2","none","2"]')
    expect(ids(reply)).toEqual(['2', '4'])
    expect(lastSequence(reply)).toBe(6)
  })

  it('passes the documents that are named in the body', async () => {
    const db = await numbered(5)
    expect(ids(await db.post('_changes?filter=_doc_ids&since=3', { doc_ids: ['2', '4'] }))).toEqual(['4'])
  })

  it('takes long lists', async () => {
    const db = await numbered(300)
    const doc_ids = Array.from({ length: 250 }, (_, i) => `${i + 20}`)
    const reply = await db.post('_changes?filter=_doc_ids', { doc_ids })
    expect(ids(reply)).toEqual(doc_ids)
    expect(lastSequence(reply)).toBe(301)
    const few = await db.post('_changes?filter=_doc_ids&since=200', { doc_ids })
    expect(ids(few)).toEqual(doc_ids.filter((id) => Number(id) + 1 > 200))
  })

  it('honours deletions, limits and descending', async () => {
    const db = await numbered(5)
    await db.remove('3', (await db.get('3')).as<{ _rev: string }>()._rev)
    const of = (query: string) => db.get(`_changes?filter=_doc_ids&doc_ids=["1","3","5"]&${query}`)
    expect(ids(await of(''))).toEqual(['1', '5', '3'])
    const limited = await of('limit=2')
    expect([ids(limited), lastSequence(limited)]).toEqual([['1', '5'], 6])
    expect(ids(await of(`since=${lastSequence(limited)}`))).toEqual(['3'])
    expect(ids(await of('descending=true'))).toEqual(['3', '5', '1'])
    const [last] = (await of('descending=true&limit=1&include_docs=true')).as<ChangesReply>().results
    expect(last).toMatchObject({ id: '3', deleted: true, doc: { _deleted: true } })
  })

  it.each([
    ['GET', '', undefined],
    ['GET', '&doc_ids={}', undefined],
    ['GET', '&doc_ids="a"', undefined],
    ['POST', '', {}],
    ['POST', '', { doc_ids: 'a' }],
  ])('requires a list (%s %s)', async (method, query, body) => {
    const db = await client().database()
    const reply = await db.request(method, `_changes?filter=_doc_ids${query}`, { body })
    expectRefusal(reply, 400, 'bad_request', '`doc_ids` filter parameter is not a list.')
  })

  it('requires JSON', async () => {
    const db = await client().database()
    expectRefusal(await db.get('_changes?filter=_doc_ids&doc_ids=a'), 400, 'bad_request', 'invalid_json')
    expectRefusal(await db.post('_changes?filter=_doc_ids', '{'), 400, 'bad_request', 'invalid_json')
    const reason = 'Request body must be a JSON object'
    expectRefusal(await db.post('_changes?filter=_doc_ids', '[]'), 400, 'bad_request', reason)
  })

  it('is named by the query of a POST too, where its body does not name any', async () => {
    const db = await numbered(3)
    const path = `_changes?filter=_doc_ids&doc_ids=${encodeURIComponent('["2"]')}`
    for (const body of ['', '{}']) expect(ids(await db.post(path, body))).toEqual(['2'])
    expect(ids(await db.post(path, { doc_ids: ['1'] }))).toEqual(['1'])
    const reason = '`doc_ids` filter parameter is not a list.'
    expectRefusal(await db.post('_changes?filter=_doc_ids', ''), 400, 'bad_request', reason)
  })

  it('waits for the documents, and reads nothing twice', async () => {
    const db = await numbered(3)
    const path = `/${db.name}/_changes?filter=_doc_ids&feed=continuous&heartbeat=10000`
    const feed = await FeedClient.open(client(), path, { body: { doc_ids: ['2', 'x', 'y'] } })
    await feed.hears('2')
    for (const id of ['w', 'x', 'z', 'y']) await db.save(id, {})
    await feed.hears('2', 'x', 'y')
  })
})

describe('filter=_design', () => {
  it('passes design documents, and reads nothing else', async () => {
    const db = await numbered(3)
    await db.saveAndRemove('_design/gone', {})
    await db.save('design/x', {})
    const reply = await db.get('_changes?filter=_design')
    expect([ids(reply), lastSequence(reply)]).toEqual([['_design/d', '_design/gone'], 7])
  })
})

describe('a filter function', () => {
  it('is called for each change', async () => {
    const db = await numbered(300)
    const reply = await db.get('_changes?filter=d/even')
    expect(ids(reply)).toEqual(Array.from({ length: 150 }, (_, i) => `${2 * i + 2}`))
    expect(lastSequence(reply)).toBe(301)
  })

  it('advances last_seq over filtered changes', async () => {
    const db = await numbered(3)
    expect(lastSequence(await db.get('_changes?filter=d/even'))).toBe(4)
    const limited = await db.get('_changes?filter=d/even&limit=1')
    expect([ids(limited), lastSequence(limited)]).toEqual([['2'], 3])
  })

  it('receives the request', async () => {
    const db = await numbered(5)
    expect(ids(await db.get('_changes?filter=d/asked&n=3'))).toEqual(['3'])
    expect(ids(await db.get('_changes?filter=d/named&limit=1'))).toHaveLength(1)
  })

  it('passes a change by any truthy result', async () => {
    const db = await numbered(2)
    expect(ids(await db.get('_changes?filter=d/truthy'))).toEqual(['_design/d', '1', '2'])
  })

  it('is called for deletions', async () => {
    const db = await numbered(1)
    await db.saveAndRemove('gone', {})
    expect(ids(await db.get('_changes?filter=d/deletions'))).toEqual(['gone'])
  })

  it('receives the history, the conflicts and the attachments', async () => {
    const db = await numbered(1)
    const rev = await db.save('old', {})
    await db.save('old', { _rev: rev })
    await db.replicate({ _id: 'torn', _rev: '1-a' }, { _id: 'torn', _rev: '1-b' })
    await db.save('attached', { _attachments: { x: { content_type: 'x/y', data: 'eA==' } } })
    expect(ids(await db.get('_changes?filter=d/historic'))).toEqual(['old'])
    expect(ids(await db.get('_changes?filter=d/torn'))).toEqual(['torn'])
    expect(ids(await db.get('_changes?filter=d/attached'))).toEqual(['attached'])
  })

  it('is called for each leaf with style=all_docs', async () => {
    const db = await numbered(0)
    await db.replicate(
      { _id: 'doc', _rev: '1-a', keep: true },
      { _id: 'doc', _rev: '1-b' },
      { _id: 'doc', _rev: '1-c', keep: true },
    )
    await db.replicate({ _id: 'none', _rev: '1-a' }, { _id: 'none', _rev: '1-b' })
    const all = (await db.get('_changes?filter=d/leaf&style=all_docs')).as<ChangesReply>().results
    expect(all).toEqual([{ seq: expect.any(Number), id: 'doc', changes: [{ rev: '1-c' }, { rev: '1-a' }] }])
    const main = (await db.get('_changes?filter=d/leaf')).as<ChangesReply>().results
    expect(main.map(({ changes }) => changes)).toEqual([[{ rev: '1-c' }]])
  })

  it('may have a name that is escaped once more', async () => {
    const db = await numbered(1)
    expect(ids(await db.get('_changes?filter=d/a%252Fb'))).toEqual(['_design/d', '1'])
  })

  it('continues with the functions that it began with', async () => {
    const db = await numbered(2)
    const feed = await FeedClient.open(client(), `/${db.name}/_changes?filter=d/even&feed=continuous&heartbeat=10000`)
    await feed.hears('2')
    await db.delete(`_design/d?rev=${(await db.get('_design/d')).as<{ _rev: string }>()._rev}`)
    await db.save('5', { n: 5 })
    await db.save('6', { n: 6 })
    await feed.hears('2', '6')
  })

  it('waits in a longpoll until something passes', async () => {
    const db = await numbered(0)
    const feed = await FeedClient.open(client(), `/${db.name}/_changes?filter=d/even&feed=longpoll&heartbeat=10000`)
    await db.save('1', { n: 1 })
    await db.save('2', { n: 2 })
    expect(JSON.parse(await feed.ended())).toMatchObject({ results: [{ id: '2' }], last_seq: 3 })
  })

  it('that fails is answered as an error before the head is sent, and aborts the reply later', async () => {
    const db = await numbered(200)
    const early = await db.get('_changes?filter=d/throwing')
    expect(early.status, early.text).toBe(500)
    expect(early.as<{ reason: string }>().reason).toContain('broken')
    await expect(db.get('_changes?filter=d/throwingLate')).rejects.toThrow()
    const feed = await FeedClient.open(client(), `/${db.name}/_changes?filter=d/throwing&feed=continuous&since=now`)
    await db.save('x', {})
    await expect(feed.ended()).rejects.toThrow('broken')
  })
})

describe('a slow filter function', () => {
  it('is cancelled when the client disconnects', async () => {
    const slow = 'function(doc) { for (var until = Date.now() + 60000; Date.now() < until; ) {} }'
    const db = await numbered(0, { filters: { slow, fast: 'function() { return true }' } })
    const feed = await FeedClient.open(client(), `/${db.name}/_changes?filter=d/slow&feed=continuous&since=now`)
    await db.save('x', {})
    feed.leave()
    expect(ids(await db.get('_changes?filter=d/fast'))).toEqual(['_design/d', 'x'])
  })
})

describe('filter=_view', () => {
  it('passes documents for which the view emits rows', async () => {
    const db = await numbered(5)
    expect(ids(await db.get('_changes?filter=_view&view=d/small'))).toEqual(['1', '2'])
  })

  it('reports errors', async () => {
    const db = await numbered(1)
    expect((await db.get('_changes?filter=_view&view=d/broken')).status).toBe(500)
  })

  it.each([
    ['', 400, 'bad_request', '`view` filter parameter is not provided.'],
    ['&view=small', 400, 'bad_request', 'Invalid `view` parameter.'],
    ['&view=a/b/c', 400, 'bad_request', 'Invalid `view` parameter.'],
    ['&view=none/small', 404, 'not_found', 'missing'],
    ['&view=d/none', 404, 'not_found', 'missing json key: none'],
    ['&view=e/none', 404, 'not_found', 'missing json key: views'],
  ])('refuses "%s"', async (query, status, error, reason) => {
    const db = await numbered(0)
    await db.save('_design/e', {})
    for (const feed of ['normal', 'longpoll', 'continuous', 'eventsource']) {
      expectRefusal(await db.get(`_changes?filter=_view&feed=${feed}${query}`), status, error, reason)
    }
  })
})

describe('a missing filter', () => {
  it.each([
    ['even', 400, 'bad_request', 'filter parameter must be of the form `designname/filtername`'],
    ['a/b/c', 400, 'bad_request', 'filter parameter must be of the form `designname/filtername`'],
    ['_none', 400, 'bad_request', 'unknown builtin filter name'],
    ['none/even', 404, 'not_found', 'missing'],
    ['gone/even', 404, 'not_found', 'deleted'],
    ['d/none', 404, 'not_found', 'missing json key: none'],
    ['d/toString', 404, 'not_found', 'missing json key: toString'],
    ['e/even', 404, 'not_found', 'missing json key: filters'],
  ])('is refused: %s', async (filter, status, error, reason) => {
    const db = await numbered(0)
    await db.save('_design/e', {})
    await db.saveAndRemove('_design/gone', {})
    for (const feed of ['normal', 'longpoll', 'continuous', 'eventsource']) {
      expectRefusal(await db.get(`_changes?filter=${filter}&feed=${feed}`), status, error, reason)
    }
  })

  it('is ignored when it is empty', async () => {
    const db = await numbered(1, null)
    expect(ids(await db.get('_changes?filter='))).toEqual(['1'])
  })
})
