import { describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

describe('POST /{db}', () => {
  it('creates a document with a generated id', async () => {
    const db = await client().database()
    const reply = await db.post('', { a: 1 })
    expect(reply.status).toBe(201)
    const { id, rev } = reply.as<{ id: string; rev: string }>()
    expect(id).toMatch(/^[0-9a-f]{32}$/)
    expect(reply.text).toBe(`{"ok":true,"id":"${id}","rev":"1-23202479633c2b380f79507a776743d5"}\n`)
    expect(reply.headers.etag).toBe(`"${rev}"`)
    expect(reply.headers.location).toBe(`${db.url}/${id}`)
    expect((await db.get(id)).text).toBe(`{"_id":"${id}","_rev":"${rev}","a":1}\n`)
  })

  it('never generates an id twice', async () => {
    const db = await client().database()
    const replies = await Promise.all(Array.from({ length: 50 }, () => db.post('', {})))
    expect(new Set(replies.map((reply) => reply.as<{ id: string }>().id)).size).toBe(50)
  })

  it('with an id does what PUT does', async () => {
    const db = await client().database()
    const first = await db.post('', { _id: 'mine', n: 1 })
    expect([first.status, first.json]).toEqual([201, { ok: true, id: 'mine', rev: first.rev }])
    expect(first.headers.location).toBe(`${db.url}/mine`)
    expectRefusal(await db.post('', { _id: 'mine' }), 409, 'conflict', 'Document update conflict.')
    const second = await db.post('', { _id: 'mine', _rev: first.rev, n: 2 })
    expect([second.status, second.rev.slice(0, 2)]).toEqual([201, '2-'])
    expect((await db.get('mine')).json).toMatchObject({ n: 2 })
    const unknown = await db.post('', { _id: 'unknown', _rev: '1-abc' })
    expectRefusal(unknown, 409, 'conflict', 'Document update conflict.')
  })

  it('with _deleted makes a tombstone: 200 and no Location', async () => {
    const db = await client().database()
    const rev = await db.save('d', {})
    const reply = await db.post('', { _id: 'd', _rev: rev, _deleted: true })
    expect([reply.status, reply.headers.location]).toEqual([200, undefined])
    expect((await db.get('d')).status).toBe(404)
  })

  it.each([
    ['', 'Document id must not be empty'],
    [5, 'Document id must be a string'],
    [null, 'Document id must be a string'],
    [['a'], 'Document id must be a string'],
    ['_odd', 'Only reserved document ids may start with underscore.'],
  ])('refuses %j for an id', async (_id, reason) => {
    const db = await client().database()
    expectRefusal(await db.post('', { _id }), 400, 'bad_request', reason)
    expect((await db.info()).update_seq).toBe(0)
  })

  it.each([['[]'], ['"text"'], ['5'], ['null'], ['true']])('refuses %s for a document', async (body) => {
    const db = await client().database()
    expectRefusal(await db.post('', body), 400, 'bad_request', 'Document must be a JSON object')
  })

  it.each([undefined, 'text/plain', 'application/x-www-form-urlencoded', 'application/jsonx'])(
    'refuses a body of type %s',
    async (type) => {
      const db = await client().database()
      const reply = await db.post('', {}, { 'Content-Type': type })
      expectRefusal(reply, 415, 'bad_content_type', 'Content-Type must be application/json')
      expect((await db.info()).update_seq).toBe(0)
    },
  )

  it.each(['application/json', 'application/json;charset=utf-8', 'application/json; charset=utf-8'])(
    'takes a body of type %s',
    async (type) => {
      const db = await client().database()
      expect((await db.post('', {}, { 'Content-Type': type })).status).toBe(201)
    },
  )

  it('is the same with a slash at the end', async () => {
    const db = await client().database()
    expect((await client().request('POST', `/${db.name}/`, { body: { _id: 'x' } })).status).toBe(201)
    expect((await db.get('x')).status).toBe(200)
  })

  it('writes design and local documents too', async () => {
    const db = await client().database()
    expect((await db.post('', { _id: '_design/d' })).json).toMatchObject({ ok: true, id: '_design/d' })
    expect((await db.post('', { _id: '_local/l' })).json).toMatchObject({ ok: true, id: '_local/l', rev: '0-1' })
    expect((await db.get('_design/d')).status).toBe(200)
    expect((await db.get('_local/l')).status).toBe(200)
  })
})
