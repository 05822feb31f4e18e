import { describe, expect, it } from 'vitest'
import { silentLog } from '../../../src/runtime/log/log.ts'
import { createService } from '../../../src/service.ts'
import { Client, expectRefusal, type Reply, serverOfFile } from '../../support/client.ts'
import type { ChangesReply } from '../../support/feed.ts'
import { EMPTY } from '../../support/first-revisions.ts'
import { startService } from '../../support/service.ts'

const client = serverOfFile()

function row(seq: number, id: string): string {
  return `{"seq":${seq},"id":"${id}","changes":[{"rev":"${EMPTY}"}]}`
}

/** `seq:id … → last_seq`, to compare at a glance. */
function glance(reply: Reply): string {
  expect(reply.status, reply.text).toBe(200)
  const { results, last_seq } = reply.as<ChangesReply>()
  return `${results.map(({ seq, id }) => `${seq}:${id}`).join(' ')} → ${last_seq}`.trim()
}

describe('the reply of _changes', () => {
  it('is framed with one row for each line', async () => {
    const db = await client().databaseWith('a', 'b')
    const reply = await db.get('_changes')
    expect(reply.text).toBe(`{"results":[\n${row(1, 'a')},\n${row(2, 'b')}\n],\n"last_seq":2,"pending":0}\n\n`)
  })

  it('is framed the same without rows', async () => {
    const db = await client().database()
    expect((await db.get('_changes')).text).toBe('{"results":[\n\n],\n"last_seq":0,"pending":0}\n\n')
  })

  it('reports pending changes, and never too few', async () => {
    const db = await client().databaseWith('a', 'b', 'c')
    await db.save('a', { _rev: EMPTY })
    const pending = async (query: string) => (await db.get(`_changes?${query}`)).as<{ pending: number }>().pending
    // Sequence 1 is no row any more: b, c and a are 2, 3 and 4.
    expect(await pending('limit=1')).toBe(2)
    expect(await pending('limit=3')).toBe(0)
    expect(await pending('limit=2&since=2')).toBe(0)
    expect(await pending('limit=1&descending=true')).toBeGreaterThanOrEqual(2)
    expect(await pending('limit=3&descending=true')).toBe(0)
    expect(await pending('limit=1&feed=longpoll')).toBe(2)
    expect(await pending('filter=_doc_ids&doc_ids=["b"]')).toBe(0)
    await db.post('_purge', { a: [(await db.get('a')).as<{ _rev: string }>()._rev] })
    expect(await pending('limit=2')).toBe(0)
    expect(await pending('')).toBe(0)
  })

  it('comes in chunks, as the type that the client accepts', async () => {
    const db = await client().databaseWith('a')
    const plain = await db.get('_changes')
    expect(plain.headers).toMatchObject({
      'content-type': 'text/plain;charset=utf-8',
      'transfer-encoding': 'chunked',
      'cache-control': 'must-revalidate',
    })
    const json = await db.get('_changes', { Accept: 'application/json' })
    expect(json.headers['content-type']).toBe('application/json')
  })

  it('has each document once, where it changed last', async () => {
    const db = await client().databaseWith('a', 'b')
    const rev = await db.save('a', { _rev: EMPTY })
    expect((await db.get('_changes')).as<ChangesReply>().results).toEqual([
      { seq: 2, id: 'b', changes: [{ rev: EMPTY }] },
      { seq: 3, id: 'a', changes: [{ rev }] },
    ])
  })

  it('says which documents are deleted', async () => {
    const db = await client().database()
    const { tombstone } = await db.saveAndRemove('a', {})
    expect((await db.get('_changes')).text).toContain(
      `{"seq":2,"id":"a","changes":[{"rev":"${tombstone}"}],"deleted":true}`,
    )
  })

  it('has no local documents', async () => {
    const db = await client().databaseWith('a')
    await db.save('_local/x', {})
    expect(glance(await db.get('_changes'))).toBe('1:a → 1')
  })

  it('shows ids of any characters', async () => {
    const ids = ['ü', '漢字', '😀', 'a"b\\c', 'a\u0001b']
    const db = await client().database()
    await db.post('_bulk_docs', { docs: ids.map((_id) => ({ _id })) })
    expect((await db.get('_changes')).as<ChangesReply>().results.map(({ id }) => id)).toEqual(ids)
  })

  it('is complete when it is long', async () => {
    const db = await client().database()
    const docs = Array.from({ length: 5_000 }, (_, i) => ({ _id: `doc-${i}` }))
    await db.post('_bulk_docs', { docs })
    const { results, last_seq } = (await db.get('_changes')).as<ChangesReply>()
    expect(results.map(({ id }) => id)).toEqual(docs.map(({ _id }) => _id))
    expect(last_seq).toBe(5_000)
    const down = (await db.get('_changes?descending=true')).as<ChangesReply>()
    expect(down.results).toEqual(results.toReversed())
  })

  it('has a tag until something changes', async () => {
    const db = await client().databaseWith('a')
    const first = await db.get('_changes')
    const { etag } = first.headers
    expect(etag).toMatch(/^"[0-9A-Z]+"$/)
    const again = await db.get('_changes', { 'If-None-Match': etag })
    expect([again.status, again.text, again.headers.etag]).toEqual([304, '', etag])
    await db.save('b', {})
    expect((await db.get('_changes', { 'If-None-Match': etag })).status).toBe(200)
    expect((await db.get('_changes?feed=longpoll')).headers.etag).toBeUndefined()
  })

  it('is for HEAD too, which waits for nothing', async () => {
    const db = await client().databaseWith('a')
    for (const query of ['', '?feed=longpoll&since=now', '?feed=continuous', '?feed=eventsource']) {
      const reply = await db.head(`_changes${query}`)
      expect([reply.status, reply.text]).toEqual([200, ''])
    }
  })

  it('is for GET, HEAD and POST', async () => {
    const db = await client().database()
    const reply = await db.put('_changes', {})
    expectRefusal(reply, 405, 'method_not_allowed', 'Only GET,HEAD,POST allowed')
    expect(reply.headers.allow).toBe('GET,HEAD,POST')
    expectRefusal(await client().request('GET', '/none/_changes'), 404, 'not_found', 'no_db_file')
  })
})

describe('since', () => {
  it.each([
    ['since=1', '2:b 3:c → 3'],
    ['since=3', '→ 3'],
    ['since=9', '→ 9'],
    ['since=now', '→ 3'],
    ['since="now"', '→ 3'],
    // Of another server: what its number means, nobody here knows.
    ['since=2-g1AAAA', '1:a 2:b 3:c → 3'],
    ['since="2-g1AAAA"', '1:a 2:b 3:c → 3'],
    ['since="2"', '3:c → 3'],
    ['since=-1', '1:a 2:b 3:c → 3'],
    ['Since=2', '3:c → 3'],
    ['last-event-id=2', '3:c → 3'],
    ['since=1&last-event-id=2', '3:c → 3'],
    ['last-event-id=2&since=1', '2:b 3:c → 3'],
    ['since=1&since=2', '3:c → 3'],
  ])('%s gives %s', async (query, expected) => {
    const db = await client().databaseWith('a', 'b', 'c')
    expect(glance(await db.get(`_changes?${query}`))).toBe(expected)
  })

  it('of another server is logged', async () => {
    const lines: unknown[] = []
    const log = { ...silentLog, info: (message: string, details?: object) => lines.push({ message, ...details }) }
    const other = new Client((await startService({ log })).url)
    const db = await other.database()
    await db.get('_changes?since=2-g1AAAA')
    await db.get('_changes?since=0')
    const message = 'The sequence was issued by another server. The changes feed begins at the start.'
    expect(lines.filter((line) => JSON.stringify(line).includes(message))).toEqual([
      { message, database: db.name, since: '2-g1AAAA' },
    ])
  })

  it('is overridden by Last-Event-ID', async () => {
    const db = await client().databaseWith('a', 'b', 'c')
    expect(glance(await db.get('_changes?since=0', { 'Last-Event-ID': '2' }))).toBe('3:c → 3')
    expect(glance(await db.get('_changes?since=1', { 'Last-Event-ID': '' }))).toBe('2:b 3:c → 3')
  })
})

describe('limit and descending', () => {
  it.each([
    ['limit=2', '1:a 2:b → 2'],
    ['limit=0', '1:a → 1'],
    ['limit=9', '1:a 2:b 3:c → 3'],
    ['limit=9223372036854775807', '1:a 2:b 3:c → 3'],
    ['limit=1&since=1', '2:b → 2'],
    ['descending=true', '3:c 2:b 1:a → 1'],
    ['descending=TRUE&limit=1', '3:c → 3'],
    ['descending=true&since=2&limit=2', '3:c 2:b → 2'],
    ['descending=false', '1:a 2:b 3:c → 3'],
  ])('%s gives %s', async (query, expected) => {
    const db = await client().databaseWith('a', 'b', 'c')
    expect(glance(await db.get(`_changes?${query}`))).toBe(expected)
  })

  it('an empty database has nothing in any direction', async () => {
    const db = await client().database()
    expect(glance(await db.get('_changes?descending=true'))).toBe('→ 0')
  })
})

describe('style=all_docs', () => {
  it('lists all leaves, the winner first', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'a', _rev: '1-a' }, { _id: 'a', _rev: '2-x' }, { _id: 'a', _rev: '1-b', _deleted: true })
    const [change] = (await db.get('_changes?style=all_docs')).as<ChangesReply>().results
    expect(change?.changes).toEqual([{ rev: '2-x' }, { rev: '1-a' }, { rev: '1-b' }])
    const [winner] = (await db.get('_changes?style=main_only')).as<ChangesReply>().results
    expect(winner?.changes).toEqual([{ rev: '2-x' }])
  })
})

describe('include_docs', () => {
  it('shows the winners, tombstones too', async () => {
    const db = await client().database()
    const live = await db.save('a', { n: 1 })
    const { tombstone } = await db.saveAndRemove('b', { n: 2 })
    const { results } = (await db.get('_changes?include_docs=true')).as<ChangesReply>()
    expect(results.map(({ doc }) => doc)).toEqual([
      { _id: 'a', _rev: live, n: 1 },
      { _id: 'b', _rev: tombstone, _deleted: true },
    ])
    expect((await db.get('_changes')).text).not.toContain('"doc"')
  })

  it('is last in a row, as the document is stored', async () => {
    const db = await client().database()
    const rev = await db.save('a', '{"2":1.50,"1":12345678901234567890}')
    expect((await db.get('_changes?include_docs=true')).text).toContain(
      `"changes":[{"rev":"${rev}"}],"doc":{"_id":"a","_rev":"${rev}","2":1.50,"1":12345678901234567890}}`,
    )
  })

  it('includes conflicts when they are requested and exist', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'a', _rev: '1-a' }, { _id: 'a', _rev: '1-b' }, { _id: 'a', _rev: '1-c', _deleted: true })
    await db.save('b', {})
    const of = async (query: string) => (await db.get(`_changes?${query}`)).as<ChangesReply>().results
    const [torn, whole] = await of('include_docs=true&conflicts=true')
    expect(torn?.doc).toEqual({ _id: 'a', _rev: '1-b', _conflicts: ['1-a'] })
    expect(whole?.doc).not.toHaveProperty('_conflicts')
    expect((await of('include_docs=true'))[0]?.doc).not.toHaveProperty('_conflicts')
    expect((await of('conflicts=true'))[0]).not.toHaveProperty('doc')
  })

  it('shows attachments as stubs, or with their contents', async () => {
    const db = await client().database()
    const text = 'a text that compresses well, well, well, well'
    await db.save('a', { _attachments: { 't.txt': { content_type: 'text/plain', data: btoa(text) } } })
    await db.save('b', {})
    const attachments = async (query: string) => {
      const { results } = (await db.get(`_changes?include_docs=true&${query}`)).as<ChangesReply>()
      expect(results.map(({ id }) => id)).toEqual(['a', 'b'])
      const doc = results[0]?.doc as { _attachments: Record<string, object> } | undefined
      return doc?._attachments['t.txt']
    }
    const stub = await attachments('')
    expect(stub).toMatchObject({ stub: true, length: text.length, content_type: 'text/plain' })
    expect(stub).not.toHaveProperty('encoding')
    expect(await attachments('att_encoding_info=true')).toMatchObject({ stub: true, encoding: 'gzip' })
    const whole = await attachments('attachments=true')
    expect(whole).toMatchObject({ data: btoa(text) })
    expect(whole).not.toHaveProperty('stub')
    expect(await attachments('attachments=true&att_encoding_info=true')).toMatchObject({ encoding: 'gzip' })
  })

  it('includes contents of any size, each in its row', async () => {
    const db = await client().database()
    const data = Buffer.alloc(1_000_000, 'abc').toString('base64')
    for (const id of ['a', 'b', 'c']) {
      await db.save(id, id === 'b' ? {} : { _attachments: { x: { content_type: 'x/y', data } } })
    }
    const { results } = (await db.get('_changes?include_docs=true&attachments=true')).as<ChangesReply>()
    expect(results.map(({ id }) => id)).toEqual(['a', 'b', 'c'])
    expect(results[2]?.doc).toMatchObject({ _attachments: { x: { data } } })
  })

  it('sends large documents one after the other', async () => {
    const db = await client().database()
    const text = 'x'.repeat(100_000)
    await db.post('_bulk_docs', { docs: Array.from({ length: 40 }, (_, i) => ({ _id: `${i}`, text })) })
    const { results, last_seq } = (await db.get('_changes?include_docs=true&limit=33')).as<ChangesReply>()
    expect(results.map(({ doc }) => doc?._id)).toEqual(Array.from({ length: 33 }, (_, i) => `${i}`))
    expect(last_seq).toBe(33)
  })
})

describe('invalid parameters', () => {
  it.each([
    ['feed=x', 'Supported `feed` types: normal, continuous, live, longpoll, eventsource'],
    ['feed=', 'Supported `feed` types: normal, continuous, live, longpoll, eventsource'],
    ['since=x', 'Invalid value for since'],
    ['since=', 'Invalid value for since'],
    ['since=1.5', 'Invalid value for since'],
    ['last-event-id=x', 'Invalid value for last-event-id'],
    ['limit=x', 'Invalid value for limit'],
    ['limit=-1', 'Invalid value for limit'],
    ['style=x', 'Invalid value for style'],
    ['timeout=x', 'Invalid value for timeout'],
    ['timeout=-1', 'Invalid value for timeout'],
    ['heartbeat=x', 'Invalid value for heartbeat'],
    ['heartbeat=0', 'Invalid value for heartbeat'],
    ['heartbeat=-1', 'Invalid value for heartbeat'],
  ])('%s is refused', async (query, reason) => {
    const db = await client().database()
    expectRefusal(await db.get(`_changes?${query}`), 400, 'bad_request', reason)
  })

  it('of the header are refused', async () => {
    const db = await client().database()
    const reply = await db.get('_changes', { 'Last-Event-ID': 'x' })
    expectRefusal(reply, 400, 'bad_request', 'Invalid value for Last-Event-ID')
  })

  it('unknown parameters are ignored', async () => {
    const db = await client().databaseWith('a')
    const query = 'x=y&update_seq=true&seq_interval=5&include_docs=maybe&heartbeat=false&r=1'
    expect(glance(await db.get(`_changes?${query}`))).toBe('1:a → 1')
  })
})

describe('POST _changes', () => {
  it('is the same as GET', async () => {
    const db = await client().databaseWith('a', 'b')
    expect((await db.post('_changes?since=1', {})).text).toBe((await db.get('_changes?since=1')).text)
    expect((await db.post('_changes', '')).text).toBe((await db.get('_changes')).text)
  })

  it('requires Content-Type application/json', async () => {
    const db = await client().database()
    for (const type of [undefined, 'text/plain']) {
      const reply = await db.request('POST', '_changes', { body: '{}', headers: { 'Content-Type': type } })
      expectRefusal(reply, 415, 'bad_content_type', 'Content-Type must be application/json')
    }
    const typed = { 'Content-Type': 'application/json; charset=utf-8' }
    expect((await db.post('_changes', '{}', typed)).status).toBe(200)
  })
})

describe('who may see changes', () => {
  it('members may; of the users database only its admins', async () => {
    const server = new Client((await startService()).url)
    const basic = (password: string) => ({ headers: { Authorization: `Basic ${btoa(password)}` } })
    const user = { name: 'ann', password: 'pass', roles: [], type: 'user' }
    await server.request('PUT', '/_users/org.service.user:ann', { body: user })
    await server.request('PUT', '/open')
    await server.request('PUT', '/_config/admins/root', { body: '"top"' })
    const reason = 'You are not a db or server admin.'
    for (const options of [{}, basic('ann:pass')]) {
      expectRefusal(await server.request('GET', '/_users/_changes', options), 401, 'unauthorized', reason)
      expect((await server.request('GET', '/open/_changes', options)).status).toBe(200)
    }
    const seen = await server.request('GET', '/_users/_changes?include_docs=true', basic('root:top'))
    expect(seen.as<ChangesReply>().results.map(({ id }) => id)).toContain('org.service.user:ann')
  })
})

describe('after a restart', () => {
  it('changes are where they were', async () => {
    const service = await startService({ inMemory: false })
    const db = await new Client(service.url).database()
    await db.save('a', {})
    await db.saveAndRemove('b', {})
    const before = await db.get('_changes?include_docs=true')
    const dir = (await new Client(service.url).request('GET', '/_config/service/database_dir')).as<string>()
    await service.close()
    const again = await createService({ dir, port: 0 })
    try {
      const later = await new Client(await again.listen()).request('GET', `/${db.name}/_changes?include_docs=true`)
      expect(later.text).toBe(before.text)
    } finally {
      await again.close()
    }
  })
})
