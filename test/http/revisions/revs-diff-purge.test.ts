import { describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile } from '../../support/client.ts'
import { EMPTY } from '../../support/first-revisions.ts'

const client = serverOfFile()

describe.each(['_missing_revs', '_revs_diff', '_purge'])('%s', (resource) => {
  it.each([
    ['{"doc":["abc"]}', 'Invalid rev format'],
    ['{"doc":[5]}', 'Invalid rev format'],
    ['{"doc":["1-a",null]}', 'Invalid rev format'],
    ['{"doc":["x-a"]}', 'Invalid rev format'],
    ['{"doc":"1-a"}', 'Invalid list of revisions'],
    ['{"doc":{}}', 'Invalid list of revisions'],
    ['{"doc":null}', 'Invalid list of revisions'],
    ['{"fine":["1-a"],"doc":5}', 'Invalid list of revisions'],
    ['[]', 'Request body must be a JSON object'],
    ['"doc"', 'Request body must be a JSON object'],
    ['null', 'Request body must be a JSON object'],
    ['', 'invalid_json'],
    ['{', 'invalid_json'],
  ])('refuses %s', async (body, reason) => {
    const db = await client().database()
    await db.save('doc', {})
    const before = await db.state()
    expectRefusal(await db.post(resource, body), 400, 'bad_request', reason)
    expect(await db.state()).toEqual(before)
  })
})

describe('_missing_revs', () => {
  it('lists what is missing, and omits what exists', async () => {
    const db = await client().database()
    const first = await db.save('doc', {})
    const second = await db.save('doc', { _rev: first })
    await db.save('whole', {})
    const reply = await db.post('_missing_revs', {
      doc: [first, '5-x', second, '1-y'],
      whole: [EMPTY],
      unknown: ['1-a'],
    })
    expect(reply.status).toBe(200)
    expect(reply.json).toEqual({ missing_revs: { doc: expect.any(Array), unknown: ['1-a'] } })
    const { missing_revs } = reply.as<{ missing_revs: Record<string, string[]> }>()
    expect(missing_revs.doc?.sort()).toEqual(['1-y', '5-x'])
  })

  it('answers an empty request with an empty object', async () => {
    const db = await client().database()
    await db.save('doc', {})
    expect((await db.post('_missing_revs', {})).text).toBe('{"missing_revs":{}}\n')
    expect((await db.post('_missing_revs', { doc: [EMPTY] })).text).toBe('{"missing_revs":{}}\n')
    expect((await db.post('_missing_revs', { doc: [] })).text).toBe('{"missing_revs":{}}\n')
  })

  it('needs no Content-Type', async () => {
    const db = await client().database()
    const reply = await db.post('_missing_revs', { a: ['1-a'] }, { 'Content-Type': undefined })
    expect([reply.status, reply.text]).toEqual([200, '{"missing_revs":{"a":["1-a"]}}\n'])
  })
})

describe('_revs_diff', () => {
  it('lists what is missing of each document', async () => {
    const db = await client().database()
    await db.save('whole', {})
    const reply = await db.post('_revs_diff', { whole: [EMPTY], unknown: ['3-c', '1-a'] })
    expect(reply.status).toBe(200)
    expect(reply.json).toEqual({ unknown: { missing: expect.any(Array) } })
    expect(reply.as<{ unknown: { missing: string[] } }>().unknown.missing.sort()).toEqual(['1-a', '3-c'])
  })

  it('answers an empty request with an empty object', async () => {
    const db = await client().database()
    await db.save('doc', {})
    expect((await db.post('_revs_diff', {})).text).toBe('{}\n')
    expect((await db.post('_revs_diff', { doc: [EMPTY] })).text).toBe('{}\n')
    expect((await db.post('_revs_diff', { unknown: [] })).text).toBe('{}\n')
  })

  it('names the leaves that may be ancestors: those of a lower generation', async () => {
    const db = await client().database()
    await db.replicate(
      { _id: 'doc', _revisions: { start: 2, ids: ['b', 'a'] } },
      { _id: 'doc', _revisions: { start: 3, ids: ['e', 'd', 'a'] }, _deleted: true },
      { _id: 'doc', _revisions: { start: 5, ids: ['z'] } },
    )
    const ask = async (...revs: string[]) => {
      const reply = await db.post('_revs_diff', { doc: revs })
      const { missing, possible_ancestors } = reply.as<{ doc: { missing: string[]; possible_ancestors?: string[] } }>()
        .doc
      return { missing: missing.sort(), ancestors: possible_ancestors?.sort() }
    }
    expect(await ask('4-x')).toEqual({ missing: ['4-x'], ancestors: ['2-b', '3-e'] })
    expect(await ask('3-x')).toEqual({ missing: ['3-x'], ancestors: ['2-b'] })
    expect(await ask('2-x')).toEqual({ missing: ['2-x'], ancestors: undefined })
    expect(await ask('2-x', '9-x')).toEqual({ missing: ['2-x', '9-x'], ancestors: ['2-b', '3-e', '5-z'] })
  })

  it('knows revisions whose bodies it does not have', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'doc', _revisions: { start: 3, ids: ['c', 'b', 'a'] } })
    expect((await db.post('_revs_diff', { doc: ['1-a', '2-b', '3-c'] })).text).toBe('{}\n')
    expect((await db.post('_revs_diff', { doc: ['2-a'] })).text).toBe('{"doc":{"missing":["2-a"]}}\n')
  })

  it('knows tombstones', async () => {
    const db = await client().database()
    const { live, tombstone } = await db.saveAndRemove('doc', {})
    expect((await db.post('_revs_diff', { doc: [live, tombstone] })).text).toBe('{}\n')
  })

  it('takes digits of either case', async () => {
    const db = await client().database()
    await db.save('doc', {})
    expect((await db.post('_revs_diff', { doc: [EMPTY.toUpperCase()] })).text).toBe('{}\n')
  })

  it('lists what a peer must send, and nothing afterwards', async () => {
    const source = await client().database()
    const target = await client().database()
    const first = await source.save('doc', { n: 1 })
    const second = await source.save('doc', { _rev: first, n: 2 })
    const missing = (await target.post('_revs_diff', { doc: [second] })).as<Record<string, { missing: string[] }>>()
    expect(missing).toEqual({ doc: { missing: [second] } })
    await target.replicate((await source.get(`doc?rev=${second}&revs=true`)).json)
    expect((await target.post('_revs_diff', { doc: [first, second] })).text).toBe('{}\n')
  })
})

describe('_purge', () => {
  it('makes a document vanish', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { n: 1 })
    await db.save('other', {})
    const reply = await db.post('_purge', { doc: [rev] })
    expect([reply.status, reply.text]).toEqual([200, `{"purge_seq":1,"purged":{"doc":["${rev}"]}}\n`])
    expectRefusal(await db.get('doc'), 404, 'not_found', 'missing')
    expectRefusal(await db.get(`doc?rev=${rev}`), 404, 'not_found', 'missing')
    expect((await db.post('_all_docs', { keys: ['doc'] })).json).toMatchObject({
      total_rows: 1,
      rows: [{ key: 'doc', error: 'not_found' }],
    })
    expect(await db.info()).toMatchObject({ doc_count: 1, doc_del_count: 0, purge_seq: 1, update_seq: 3 })
    expect((await db.post('_revs_diff', { doc: [rev] })).json).toEqual({ doc: { missing: [rev] } })
  })

  it('leaves an id that can be used again', async () => {
    const db = await client().database()
    const first = await db.save('doc', {})
    const second = await db.save('doc', { _rev: first })
    await db.post('_purge', { doc: [second] })
    expect(await db.save('doc', {})).toBe(EMPTY)
  })

  it('removes a tombstone too', async () => {
    const db = await client().database()
    const { tombstone } = await db.saveAndRemove('doc', {})
    expect((await db.post('_purge', { doc: [tombstone] })).json).toEqual({ purge_seq: 1, purged: { doc: [tombstone] } })
    expectRefusal(await db.get('doc'), 404, 'not_found', 'missing')
    expect(await db.info()).toMatchObject({ doc_count: 0, doc_del_count: 0 })
  })

  it('removes a branch and leaves the others', async () => {
    const db = await client().database()
    await db.replicate(
      { _id: 'doc', _revisions: { start: 3, ids: ['c', 'b', 'a'] }, n: 'c' },
      { _id: 'doc', _revisions: { start: 2, ids: ['x', 'a'] }, n: 'x' },
    )
    const before = (await db.info()).update_seq
    expect((await db.post('_purge', { doc: ['3-c'] })).json).toEqual({ purge_seq: 1, purged: { doc: ['3-c'] } })
    expect((await db.get('doc?conflicts=true&revs=true&local_seq=true')).json).toEqual({
      _id: 'doc',
      _rev: '2-x',
      n: 'x',
      _revisions: { start: 2, ids: ['x', 'a'] },
      _local_seq: expect.any(Number),
    })
    expect((await db.info()).update_seq).toBe(before + 2)
    // The branch is gone down to the fork.
    expect((await db.post('_revs_diff', { doc: ['1-a', '2-b', '3-c'] })).json).toMatchObject({
      doc: { missing: expect.arrayContaining(['2-b', '3-c']) },
    })
    expect(await db.info()).toMatchObject({ doc_count: 1 })
  })

  it('of the live branch leaves a deleted document', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'doc', _rev: '1-a' }, { _id: 'doc', _rev: '1-b', _deleted: true })
    await db.post('_purge', { doc: ['1-a'] })
    expectRefusal(await db.get('doc'), 404, 'not_found', 'deleted')
    expect(await db.info()).toMatchObject({ doc_count: 0, doc_del_count: 1 })
  })

  it('skips revisions that are not leaves, or missing', async () => {
    const db = await client().database()
    const first = await db.save('doc', {})
    const second = await db.save('doc', { _rev: first })
    const reply = await db.post('_purge', { doc: [first, '9-x'], unknown: ['1-a'] })
    expect([reply.status, reply.text]).toEqual([200, '{"purge_seq":1,"purged":{}}\n'])
    expect((await db.get('doc')).json).toMatchObject({ _rev: second })
    const mixed = await db.post('_purge', { doc: ['9-x', second], unknown: ['1-a'] })
    expect(mixed.text).toBe(`{"purge_seq":2,"purged":{"doc":["${second}"]}}\n`)
  })

  it('counts every request, even with nothing purged', async () => {
    const db = await client().database()
    for (const count of [1, 2, 3]) {
      expect((await db.post('_purge', {})).text).toBe(`{"purge_seq":${count},"purged":{}}\n`)
      expect(await db.info()).toMatchObject({ purge_seq: count, update_seq: count })
    }
  })

  it('takes several documents and revisions', async () => {
    const db = await client().database()
    await db.replicate(
      { _id: 'a', _rev: '1-a' },
      { _id: 'a', _rev: '1-b' },
      { _id: 'b', _rev: '1-a' },
      { _id: 'c', _rev: '1-a' },
    )
    const { purged } = (await db.post('_purge', { a: ['1-a', '1-b'], b: ['1-a'] })).as<{
      purged: Record<string, string[]>
    }>()
    expect({ a: purged.a?.sort(), b: purged.b }).toEqual({ a: ['1-a', '1-b'], b: ['1-a'] })
    expect((await db.get('_all_docs')).json).toMatchObject({ total_rows: 1, rows: [{ id: 'c' }] })
  })

  it('lets the revision come back', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'doc', _rev: '2-b', n: 1 })
    await db.post('_purge', { doc: ['2-b'] })
    await db.replicate({ _id: 'doc', _rev: '2-b', n: 1 })
    expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: '2-b', n: 1 })
  })

  it.each([undefined, 'text/plain'])('refuses a body of type %s', async (type) => {
    const db = await client().database()
    const reply = await db.post('_purge', {}, { 'Content-Type': type })
    expectRefusal(reply, 415, 'bad_content_type', 'Content-Type must be application/json')
    expect((await db.info()).purge_seq).toBe(0)
  })
})
