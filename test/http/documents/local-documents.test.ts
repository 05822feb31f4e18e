import { describe, expect, it } from 'vitest'
import { expectConflict, expectRefusal, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

describe('a local document', () => {
  it('counts its revisions from 0-1', async () => {
    const db = await client().database()
    const first = await db.put('_local/x', { n: 1 })
    expect([first.status, first.text]).toEqual([201, '{"ok":true,"id":"_local/x","rev":"0-1"}\n'])
    expect(first.headers.etag).toBe('"0-1"')
    const second = await db.put('_local/x', { _rev: '0-1', n: 2 })
    expect([second.status, second.text]).toEqual([201, '{"ok":true,"id":"_local/x","rev":"0-2"}\n'])
    expect((await db.put('_local/x?rev=0-2', { n: 3 })).rev).toBe('0-3')
    expect((await db.put('_local/x', { n: 4 }, { 'If-Match': '"0-3"' })).rev).toBe('0-4')
    const reply = await db.get('_local/x')
    expect([reply.status, reply.text]).toEqual([200, '{"_id":"_local/x","_rev":"0-4","n":4}\n'])
    expect(reply.headers.etag).toBe('"0-4"')
  })

  it('has a Location that leads to it', async () => {
    const db = await client().database()
    const { location } = (await db.put('_local/x', {})).headers
    expect(location).toMatch(/\/_local(\/|%2F)x$/)
    expect((await client().request('GET', new URL(location ?? '').pathname)).status).toBe(200)
  })

  it.each([{ start: 0, ids: ['1'] }, { start: 1, ids: [] }, { start: 3, ids: ['c', 'b', 'a'] }, 5, null])(
    'takes back what a client was told of its history, %j, and does not keep it',
    async (_revisions) => {
      const db = await client().database()
      expect((await db.put('_local/x', { n: 1 })).status).toBe(201)
      const reply = await db.put('_local/x', { _id: '_local/x', _rev: '0-1', _revisions, n: 2 })
      expect([reply.status, reply.text]).toEqual([201, '{"ok":true,"id":"_local/x","rev":"0-2"}\n'])
      expect((await db.put('_local/x', { _id: 'x', _revisions, _rev: '0-2', n: 3 })).rev).toBe('0-3')
      expect((await db.post('', { _revisions, _id: '_local/y', n: 4 })).rev).toBe('0-1')
      const docs = [{ _revisions, _id: '_local/y', _rev: '0-1', n: 5 }]
      expect((await db.post('_bulk_docs', { docs })).json).toEqual([{ ok: true, id: '_local/y', rev: '0-2' }])
      expect((await db.get('_local/x')).text).toBe('{"_id":"_local/x","_rev":"0-3","n":3}\n')
      expect((await db.get('_local/y')).text).toBe('{"_id":"_local/y","_rev":"0-2","n":5}\n')
      expect((await db.put('x', { _id: '_local/x', _revisions: { start: 0, ids: ['1'] } })).status).toBe(500)
    },
  )

  it('may be created with the revision 0-0', async () => {
    const db = await client().database()
    expect((await db.put('_local/x', { _rev: '0-0' })).rev).toBe('0-1')
  })

  it('needs its current revision', async () => {
    const db = await client().database()
    expectConflict(await db.put('_local/x', { _rev: '0-1' }))
    await db.save('_local/x', {})
    await db.save('_local/x', { _rev: '0-1', kept: true })
    expectConflict(await db.put('_local/x', {}))
    expectConflict(await db.put('_local/x', { _rev: '0-1' }))
    expectConflict(await db.put('_local/x', { _rev: '0-3' }))
    expectConflict(await db.delete('_local/x'))
    expectConflict(await db.delete('_local/x?rev=0-1'))
    expect((await db.get('_local/x')).json).toEqual({ _id: '_local/x', _rev: '0-2', kept: true })
  })

  it('lets one of many concurrent writers succeed', async () => {
    const db = await client().database()
    await db.save('_local/x', {})
    const replies = await Promise.all(Array.from({ length: 10 }, (_, n) => db.put('_local/x', { _rev: '0-1', n })))
    expect(replies.map(({ status }) => status).sort()).toEqual([201, ...Array(9).fill(409)])
    expect((await db.get('_local/x')).json).toMatchObject({ _rev: '0-2' })
  })

  it('is gone without a trace when it is deleted', async () => {
    const db = await client().database()
    await db.save('_local/x', {})
    await db.save('_local/x', { _rev: '0-1' })
    const reply = await db.delete('_local/x?rev=0-2')
    expect([reply.status, reply.text]).toEqual([200, '{"ok":true,"id":"_local/x","rev":"0-0"}\n'])
    expectRefusal(await db.get('_local/x'), 404, 'not_found', 'missing')
    expectRefusal(await db.delete('_local/x?rev=0-2'), 404, 'not_found', 'missing')
    expect((await db.put('_local/x', {})).rev).toBe('0-1')
  })

  it('may be deleted with If-Match', async () => {
    const db = await client().database()
    await db.save('_local/x', {})
    expect((await db.delete('_local/x', { 'If-Match': '"0-1"' })).status).toBe(200)
  })

  it('that was never written is missing', async () => {
    const db = await client().database()
    expectRefusal(await db.get('_local/nosuch'), 404, 'not_found', 'missing')
    expectRefusal(await db.delete('_local/nosuch?rev=0-1'), 404, 'not_found', 'missing')
    const head = await db.head('_local/nosuch')
    expect([head.status, head.text]).toEqual([404, ''])
  })

  it('answers 304 and HEAD as others do', async () => {
    const db = await client().database()
    await db.save('_local/x', { a: 1 })
    const reply = await db.get('_local/x', { 'If-None-Match': '"0-1"' })
    expect([reply.status, reply.text, reply.headers.etag]).toEqual([304, '', '"0-1"'])
    const head = await db.head('_local/x')
    expect([head.status, head.text, head.headers.etag]).toEqual([200, '', '"0-1"'])
    expect(head.headers['content-length']).toBe(String((await db.get('_local/x')).body.length))
  })

  it('keeps its body as it was sent', async () => {
    const db = await client().database()
    const members = '"10":1,"2":12345678901234567890,"a":1.10,"z":{"é":[]}'
    await db.save('_local/x', `{${members}}`)
    expect((await db.get('_local/x')).text).toBe(`{"_id":"_local/x","_rev":"0-1",${members}}\n`)
  })

  it('has no history', async () => {
    const db = await client().database()
    await db.save('_local/x', { a: 1 })
    const plain = (await db.get('_local/x')).text
    for (const flag of ['revs_info', 'conflicts', 'deleted_conflicts', 'meta', 'attachments']) {
      const reply = await db.get(`_local/x?${flag}=true`)
      expect([reply.status, reply.text]).toEqual([200, plain])
    }
  })

  it.each([
    ['_local/a%2Fb', '_local/a/b'],
    ['_local%2Fx', '_local/x'],
    ['_local%2fx', '_local/x'],
    ['_local/%C3%A9', '_local/é'],
    ['_local/a+b', '_local/a b'],
    ['_local/_x', '_local/_x'],
  ])('at %s is %s', async (path, id) => {
    const db = await client().database()
    expect((await db.put(path, {})).json).toEqual({ ok: true, id, rev: '0-1' })
    expect((await db.get(path)).json).toEqual({ _id: id, _rev: '0-1' })
  })

  it('uses the id of the path, whatever the body says', async () => {
    const db = await client().database()
    await db.save('_local/x', { _id: '_local/other' })
    expect((await db.get('_local/x')).json).toMatchObject({ _id: '_local/x' })
    expect((await db.get('_local/other')).status).toBe(404)
  })

  it('is not among the documents', async () => {
    const db = await client().database()
    await db.save('doc', {})
    const before = await db.state()
    await db.save('_local/x', {})
    await db.save('_local/x', { _rev: '0-1' })
    await db.delete('_local/x?rev=0-2')
    await db.save('_local/y', {})
    expect(await db.state()).toEqual(before)
    expect((await db.post('_all_docs', { keys: ['_local/y'] })).json).toMatchObject({
      rows: [{ key: '_local/y', error: 'not_found' }],
    })
  })

  it('is independent of the document of the same name', async () => {
    const db = await client().database()
    await db.save('x', { n: 'document' })
    await db.save('_local/x', { n: 'local' })
    expect((await db.get('x')).json).toMatchObject({ n: 'document' })
    expect((await db.get('_local/x')).json).toMatchObject({ n: 'local' })
  })

  it('survives compaction', async () => {
    const db = await client().database()
    await db.save('_local/x', { kept: true })
    await db.compact()
    expect((await db.get('_local/x')).json).toEqual({ _id: '_local/x', _rev: '0-1', kept: true })
  })
})

describe('COPY with local documents', () => {
  it('creates a document from a local one', async () => {
    const db = await client().database()
    await db.save('_local/x', { a: 1 })
    const reply = await db.copy('_local/x', 'doc')
    expect([reply.status, reply.json]).toEqual([
      201,
      { ok: true, id: 'doc', rev: '1-23202479633c2b380f79507a776743d5' },
    ])
    expect((await db.get('doc')).json).toMatchObject({ a: 1 })
  })

  it('creates a local document from another', async () => {
    const db = await client().database()
    await db.save('doc', { a: 1 })
    expect((await db.copy('doc', '_local/x')).json).toEqual({ ok: true, id: '_local/x', rev: '0-1' })
    expectConflict(await db.copy('doc', '_local/x'))
    expect((await db.copy('doc', '_local/x?rev=0-1')).rev).toBe('0-2')
    expect((await db.copy('_local/x', '_local/y')).json).toEqual({ ok: true, id: '_local/y', rev: '0-1' })
    expect((await db.get('_local/y')).json).toEqual({ _id: '_local/y', _rev: '0-1', a: 1 })
  })

  it('needs a source', async () => {
    const db = await client().database()
    expectRefusal(await db.copy('_local/nosuch', 'doc'), 404, 'not_found', 'missing')
  })
})

describe('local documents in bulk', () => {
  it('are written as local documents', async () => {
    const db = await client().database()
    const first = await db.post('_bulk_docs', { docs: [{ _id: '_local/x', n: 1 }, { _id: 'doc' }] })
    expect(first.json).toEqual([
      { ok: true, id: '_local/x', rev: '0-1' },
      { ok: true, id: 'doc', rev: '1-967a00dff5e02add41819138abb3284d' },
    ])
    const second = await db.post('_bulk_docs', {
      docs: [
        { _id: '_local/x', n: 2 },
        { _id: '_local/x', _rev: '0-1', n: 3 },
      ],
    })
    expect(second.json).toEqual([
      { id: '_local/x', error: 'conflict', reason: 'Document update conflict.' },
      { ok: true, id: '_local/x', rev: '0-2' },
    ])
    expect((await db.get('_local/x')).json).toEqual({ _id: '_local/x', _rev: '0-2', n: 3 })
    expect(await db.info()).toMatchObject({ doc_count: 1, update_seq: 1 })
  })

  it('are deleted as local documents', async () => {
    const db = await client().database()
    await db.save('_local/x', {})
    await db.post('_bulk_docs', { docs: [{ _id: '_local/x', _rev: '0-1', _deleted: true }] })
    expectRefusal(await db.get('_local/x'), 404, 'not_found', 'missing')
  })
})

describe('a path below a local document', () => {
  it.each(['GET', 'PUT', 'DELETE', 'HEAD', 'COPY', 'POST'])('does not allow %s', async (method) => {
    const db = await client().database()
    for (const path of ['_local', '_local/', '_local%2F', '_local%2f']) {
      const reply = await db.request(method, path, method === 'PUT' || method === 'POST' ? { body: {} } : {})
      if (method === 'HEAD') expect(reply.status).toBe(400)
      else expectRefusal(reply, 400, 'bad_request', 'Invalid _local document id.')
    }
  })

  it('is one of an attachment, and answers 404', async () => {
    const db = await client().database()
    await db.save('_local/x', {})
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const reply = await db.request(method, '_local/x/y', method === 'PUT' ? { body: 'text' } : {})
      expectRefusal(reply, 400, 'bad_request', '_local documents do not accept attachments.')
    }
  })

  it('refuses bodies and members as others do', async () => {
    const db = await client().database()
    expectRefusal(await db.put('_local/x', '{'), 400, 'bad_request', 'invalid_json')
    expectRefusal(await db.put('_local/x', '[]'), 400, 'bad_request', 'Document must be a JSON object')
    expectRefusal(await db.put('_local/x', { _odd: 1 }), 500, 'doc_validation', 'Bad special document member: _odd')
    expectRefusal(await db.put('_local/x', { _rev: 'x' }), 400, 'bad_request', 'Invalid rev format')
    expectRefusal(await db.get('_local/x'), 404, 'not_found', 'missing')
  })
})
