import { describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile } from '../../support/client.ts'
import { EMPTY } from '../../support/first-revisions.ts'

const client = serverOfFile()

const CONFLICT = { error: 'conflict', reason: 'Document update conflict.' }

interface Entry {
  ok?: true
  id: string
  rev?: string
  error?: string
}

describe('POST _bulk_docs', () => {
  it('answers one entry for each document, in their order', async () => {
    const db = await client().database()
    const reply = await db.post('_bulk_docs', { docs: [{ _id: 'c' }, { _id: 'a', a: 1 }, { _id: 'b' }] })
    expect(reply.status).toBe(201)
    expect(reply.text).toBe(
      `[{"ok":true,"id":"c","rev":"${EMPTY}"},{"ok":true,"id":"a","rev":"1-23202479633c2b380f79507a776743d5"},` +
        `{"ok":true,"id":"b","rev":"${EMPTY}"}]\n`,
    )
    expect(reply.headers['cache-control']).toBe('must-revalidate')
    expect(await db.info()).toMatchObject({ doc_count: 3, update_seq: 3 })
  })

  it('answers an empty list with an empty one', async () => {
    const db = await client().database()
    const reply = await db.post('_bulk_docs', { docs: [] })
    expect([reply.status, reply.text]).toEqual([201, '[]\n'])
    expect((await db.info()).update_seq).toBe(0)
  })

  it('generates ids for documents that have none', async () => {
    const db = await client().database()
    const entries = (await db.post('_bulk_docs', { docs: [{ n: 1 }, { n: 2 }] })).as<Entry[]>()
    for (const [index, { id }] of entries.entries()) {
      expect(id).toMatch(/^[0-9a-f]{32}$/)
      expect((await db.get(id)).json).toMatchObject({ n: index + 1 })
    }
    expect(entries[0]?.id).not.toBe(entries[1]?.id)
  })

  it('updates and deletes', async () => {
    const db = await client().database()
    for (const id of ['a', 'b', 'c']) await db.save(id, {})
    const reply = await db.post('_bulk_docs', {
      docs: [
        { _id: 'a', _rev: EMPTY },
        { _id: 'b', _rev: EMPTY, _deleted: true },
        { _id: 'c', _rev: EMPTY, _deleted: true, why: 'x' },
      ],
    })
    expect(reply.json).toEqual([
      { ok: true, id: 'a', rev: '2-7051cbe5c8faecd085a3fa619e6e6337' },
      { ok: true, id: 'b', rev: '2-eec205a9d413992850a6e32678485900' },
      { ok: true, id: 'c', rev: '2-8d4647bfdeafccd591eb6d350279821d' },
    ])
    expectRefusal(await db.get('b'), 404, 'not_found', 'deleted')
    expect((await db.get('c?rev=2-8d4647bfdeafccd591eb6d350279821d')).json).toMatchObject({ why: 'x' })
    expect(await db.info()).toMatchObject({ doc_count: 1, doc_del_count: 2 })
  })

  it('writes the others when some are in conflict', async () => {
    const db = await client().database()
    await db.save('there', { n: 1 })
    const reply = await db.post('_bulk_docs', {
      docs: [
        { _id: 'new' },
        { _id: 'there', n: 2 },
        { _id: 'there', _rev: '1-abc', n: 2 },
        { _id: 'unknown', _rev: '1-abc' },
        { _id: 'last' },
      ],
    })
    expect(reply.status).toBe(201)
    expect(reply.text).toBe(
      `[{"ok":true,"id":"new","rev":"${EMPTY}"},` +
        '{"id":"there","error":"conflict","reason":"Document update conflict."},' +
        '{"id":"there","error":"conflict","reason":"Document update conflict."},' +
        '{"id":"unknown","error":"conflict","reason":"Document update conflict."},' +
        `{"ok":true,"id":"last","rev":"${EMPTY}"}]\n`,
    )
    expect((await db.get('there')).json).toMatchObject({ n: 1 })
    expect((await db.get('unknown')).status).toBe(404)
    expect(await db.info()).toMatchObject({ doc_count: 3, update_seq: 3 })
  })

  it('stores the first of two with one id, also when they are the same', async () => {
    const db = await client().database()
    for (const [id, second] of [
      ['other', { n: 2 }],
      ['same', { n: 1 }],
    ] as const) {
      const reply = await db.post('_bulk_docs', {
        docs: [
          { _id: id, n: 1 },
          { _id: id, ...second },
        ],
      })
      expect(reply.json).toEqual([
        { ok: true, id, rev: expect.stringMatching(/^1-/) },
        { id, ...CONFLICT },
      ])
      expect((await db.get(`${id}?conflicts=true`)).json).toEqual({ _id: id, _rev: expect.any(String), n: 1 })
    }
  })

  it('stores one of two with one parent', async () => {
    const db = await client().database()
    await db.save('doc', {})
    const docs = [
      { _id: 'doc', _rev: EMPTY, n: 1 },
      { _id: 'doc', _rev: EMPTY, n: 2 },
    ]
    const entries = (await db.post('_bulk_docs', { docs })).as<Entry[]>()
    expect(entries.map(({ ok }) => ok === true).sort()).toEqual([false, true])
    expect((await db.get('doc?open_revs=all')).as<unknown[]>()).toHaveLength(1)
    expect((await db.info()).update_seq).toBe(2)
  })

  it('recreates deleted documents', async () => {
    const db = await client().database()
    await db.saveAndRemove('doc', {})
    expect((await db.post('_bulk_docs', { docs: [{ _id: 'doc' }] })).json).toEqual([
      { ok: true, id: 'doc', rev: '3-5570e8bbb34412db757c2df4bfa1099b' },
    ])
  })

  it('writes design documents', async () => {
    const db = await client().database()
    expect((await db.post('_bulk_docs', { docs: [{ _id: '_design/x' }] })).json).toEqual([
      { ok: true, id: '_design/x', rev: EMPTY },
    ])
  })

  it('keeps bodies as they were sent', async () => {
    const db = await client().database()
    await db.post('_bulk_docs', '{"docs":[{"10":1,"_id":"doc","2":1.10,"a":12345678901234567890}]}')
    const { _rev } = (await db.get('doc')).as<{ _rev: string }>()
    expect((await db.get('doc')).text).toBe(`{"_id":"doc","_rev":"${_rev}","10":1,"2":1.10,"a":12345678901234567890}\n`)
  })

  it('accepts ids that no path could hold', async () => {
    const db = await client().database()
    const _id = `long/${'é'.repeat(20_000)}`
    await db.post('_bulk_docs', { docs: [{ _id }] })
    expect((await db.post('_all_docs', { keys: [_id] })).json).toMatchObject({ rows: [{ id: _id }] })
  })

  it('accepts many documents at once', async () => {
    const db = await client().database()
    const docs = Array.from({ length: 5_000 }, (_, n) => ({ _id: `doc-${n}`, n }))
    const entries = (await db.post('_bulk_docs', { docs })).as<Entry[]>()
    expect(entries.map(({ id }) => id)).toEqual(docs.map(({ _id }) => _id))
    expect(await db.info()).toMatchObject({ doc_count: 5_000, update_seq: 5_000 })
  })

  it('ignores members that it does not know', async () => {
    const db = await client().database()
    expect((await db.post('_bulk_docs', { docs: [{ _id: 'a' }], nosuch: 1 })).status).toBe(201)
  })
})

describe('_bulk_docs refuses', () => {
  it.each([
    ['a body without docs', '{}', "Missing JSON list of 'docs'"],
    ['docs that are no list', '{"docs":{}}', '`docs` parameter must be an array.'],
    ['docs that are text', '{"docs":"x"}', '`docs` parameter must be an array.'],
    ['a list for a body', '[]', 'Request body must be a JSON object'],
    ['text for a body', '"docs"', 'Request body must be a JSON object'],
    ['null for a body', 'null', 'Request body must be a JSON object'],
    ['an empty body', '', 'invalid_json'],
    ['a body that breaks off', '{"docs":[{"_id":"a"}', 'invalid_json'],
    ['an entry that is a number', '{"docs":[{"_id":"a"},5]}', 'Document must be a JSON object'],
    ['an entry that is a list', '{"docs":[[]]}', 'Document must be a JSON object'],
    ['an entry that is null', '{"docs":[{"_id":"a"},null]}', 'Document must be a JSON object'],
    ['an empty id', '{"docs":[{"_id":"a"},{"_id":""}]}', 'Document id must not be empty'],
    ['an id that is no text', '{"docs":[{"_id":"a"},{"_id":5}]}', 'Document id must be a string'],
    [
      'an id with an underscore',
      '{"docs":[{"_id":"a"},{"_id":"_x"}]}',
      'Only reserved document ids may start with underscore.',
    ],
    ['a revision that is none', '{"docs":[{"_id":"a"},{"_id":"b","_rev":"x"}]}', 'Invalid rev format'],
    [
      'new_edits that is no boolean',
      '{"docs":[{"_id":"a"}],"new_edits":1}',
      '`new_edits` parameter must be a boolean.',
    ],
    [
      'new_edits that is text',
      '{"docs":[{"_id":"a"}],"new_edits":"false"}',
      '`new_edits` parameter must be a boolean.',
    ],
    [
      'new_edits:false without a revision',
      '{"new_edits":false,"docs":[{"_id":"a","_rev":"1-a"},{"_id":"b"}]}',
      'When `new_edits: false`, the document needs `_rev` or `_revisions` specified',
    ],
    [
      'new_edits:false without an id',
      '{"new_edits":false,"docs":[{"_id":"a","_rev":"1-a"},{"_rev":"1-a"}]}',
      'Document id must not be empty',
    ],
  ])('%s, and stores nothing', async (_what, body, reason) => {
    const db = await client().database()
    expectRefusal(await db.post('_bulk_docs', body), 400, 'bad_request', reason)
    expect(await db.info()).toMatchObject({ doc_count: 0, update_seq: 0 })
  })

  it.each(['{"_id":"b","_odd":1}', '{"_id":"b","_deleted":1}'])(
    '%s among the documents, and stores nothing',
    async (doc) => {
      const db = await client().database()
      const name = doc.includes('_odd') ? '_odd' : '_deleted'
      const reply = await db.post('_bulk_docs', `{"docs":[{"_id":"a"},${doc}]}`)
      expectRefusal(reply, 500, 'doc_validation', `Bad special document member: ${name}`)
      expect((await db.info()).update_seq).toBe(0)
    },
  )

  it.each([undefined, 'text/plain', 'multipart/form-data'])('a body of type %s', async (type) => {
    const db = await client().database()
    const reply = await db.post('_bulk_docs', { docs: [{ _id: 'a' }] }, { 'Content-Type': type })
    expectRefusal(reply, 415, 'bad_content_type', 'Content-Type must be application/json')
    expect((await db.info()).update_seq).toBe(0)
  })
})

describe('new_edits:false', () => {
  it('stores revisions as they are', async () => {
    const db = await client().database()
    const reply = await db.post('_bulk_docs', {
      new_edits: false,
      docs: [
        { _id: 'a', _rev: '3-abc', n: 1 },
        { _id: 'b', _revisions: { start: 2, ids: ['y', 'x'] }, n: 2 },
        { _id: 'c', _rev: '1-dead', _deleted: true },
      ],
    })
    expect(reply.status).toBe(201)
    expect(reply.json).toEqual([
      { ok: true, id: 'a', rev: '3-abc' },
      { ok: true, id: 'b', rev: '2-y' },
      { ok: true, id: 'c', rev: '1-dead' },
    ])
    expect((await db.get('b?revs=true')).json).toMatchObject({ _rev: '2-y', _revisions: { start: 2, ids: ['y', 'x'] } })
    expectRefusal(await db.get('c'), 404, 'not_found', 'deleted')
  })

  it('creates branches instead of conflicts', async () => {
    const db = await client().database()
    await db.save('doc', {})
    const [low, high] = [`1-${'a'.repeat(32)}`, `1-${'b'.repeat(32)}`]
    const docs = [
      { _id: 'doc', _rev: low },
      { _id: 'doc', _rev: high },
    ]
    expect((await db.post('_bulk_docs', { new_edits: false, docs })).json).toEqual([
      { ok: true, id: 'doc', rev: low },
      { ok: true, id: 'doc', rev: high },
    ])
    expect((await db.get('doc?conflicts=true')).json).toEqual({ _id: 'doc', _rev: high, _conflicts: [low, EMPTY] })
  })

  it('succeeds for known revisions', async () => {
    const db = await client().database()
    await db.save('doc', {})
    const reply = await db.post('_bulk_docs', { new_edits: false, docs: [{ _id: 'doc', _rev: EMPTY, n: 1 }] })
    expect([reply.status, reply.json]).toEqual([201, [{ ok: true, id: 'doc', rev: EMPTY }]])
    expect((await db.info()).update_seq).toBe(1)
  })

  it('stores the same revision of one request once', async () => {
    const db = await client().database()
    const doc = { _id: 'doc', _rev: '1-aa' }
    await db.replicate(doc, doc)
    expect((await db.get('doc?open_revs=all')).as<unknown[]>()).toHaveLength(1)
    expect((await db.info()).update_seq).toBe(1)
  })

  it('ignores all_or_nothing', async () => {
    const db = await client().database()
    const docs = [{ _id: 'doc', _rev: '1-aa' }]
    expect((await db.post('_bulk_docs', { new_edits: false, all_or_nothing: true, docs })).status).toBe(201)
    expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: '1-aa' })
  })

  it('writes local documents as such', async () => {
    const db = await client().database()
    const reply = await db.post('_bulk_docs', { new_edits: false, docs: [{ _id: '_local/x', _rev: '0-1', n: 1 }] })
    expect(reply.status).toBe(201)
    expect((await db.get('_local/x')).json).toMatchObject({ _id: '_local/x', n: 1 })
    expect((await db.info()).update_seq).toBe(0)
  })

  it('refuses an invalid history', async () => {
    const db = await client().database()
    const bulk = (_revisions: unknown) =>
      db.post('_bulk_docs', {
        new_edits: false,
        docs: [
          { _id: 'ok', _rev: '1-a' },
          { _id: 'doc', _revisions },
        ],
      })
    const start = "_revisions.start isn't an integer."
    expectRefusal(await bulk({ start: 'x', ids: ['a'] }), 500, 'doc_validation', start)
    expectRefusal(await bulk({ start: 1, ids: {} }), 500, 'doc_validation', "_revisions.ids isn't a array.")
    expectRefusal(await bulk({ start: 1, ids: [null] }), 500, 'doc_validation', "RevId isn't a string")
    for (const revisions of [
      { start: 0, ids: ['a'] },
      { start: -1, ids: ['a'] },
      { start: 1, ids: ['b', 'a'] },
    ]) {
      const reply = await bulk(revisions)
      expect(reply.status, reply.text).toBeGreaterThanOrEqual(400)
    }
    expect((await db.info()).update_seq).toBe(0)
  })
})

describe('all_or_nothing', () => {
  it('writes all, in conflict or not', async () => {
    const db = await client().database()
    await db.save('doc', { a: 1 })
    const reply = await db.post('_bulk_docs', { all_or_nothing: true, docs: [{ _id: 'doc', b: 2 }, { _id: 'new' }] })
    expect(reply.status).toBe(201)
    expect(reply.json).toEqual([
      { ok: true, id: 'doc', rev: '1-d33fb05384fa65a8081da2046595de0f' },
      { ok: true, id: 'new', rev: EMPTY },
    ])
    expect((await db.get('doc?conflicts=true')).json).toEqual({
      _id: 'doc',
      _rev: '1-d33fb05384fa65a8081da2046595de0f',
      b: 2,
      _conflicts: ['1-23202479633c2b380f79507a776743d5'],
    })
  })

  it('branches off from a revision that is no longer a leaf', async () => {
    const db = await client().database()
    const first = await db.save('doc', { n: 1 })
    const second = await db.save('doc', { _rev: first, n: 2 })
    const docs = [{ _id: 'doc', _rev: first, n: 3 }]
    const [entry] = (await db.post('_bulk_docs', { all_or_nothing: true, docs })).as<Entry[]>()
    expect(entry).toEqual({ ok: true, id: 'doc', rev: expect.stringMatching(/^2-/) })
    const leaves = (await db.get('doc?open_revs=all&revs=true')).as<{ ok: { _rev: string; _revisions: unknown } }[]>()
    expect(leaves.map(({ ok }) => ok._rev).sort()).toEqual([second, entry?.rev ?? ''].sort())
    expect(leaves.find(({ ok }) => ok._rev === entry?.rev)?.ok._revisions).toEqual({
      start: 2,
      ids: [entry?.rev?.slice(2), first.slice(2)],
    })
  })

  it('continues from a leaf as usual', async () => {
    const db = await client().database()
    await db.save('doc', {})
    const docs = [{ _id: 'doc', _rev: EMPTY }]
    expect((await db.post('_bulk_docs', { all_or_nothing: true, docs })).json).toEqual([
      { ok: true, id: 'doc', rev: '2-7051cbe5c8faecd085a3fa619e6e6337' },
    ])
    expect((await db.get('doc?conflicts=true')).json).toEqual({
      _id: 'doc',
      _rev: '2-7051cbe5c8faecd085a3fa619e6e6337',
    })
  })

  it('refuses an invalid document before it writes any', async () => {
    const db = await client().database()
    const reply = await db.post('_bulk_docs', { all_or_nothing: true, docs: [{ _id: 'a' }, { _id: '_x' }] })
    expectRefusal(reply, 400, 'bad_request', 'Only reserved document ids may start with underscore.')
    expect((await db.info()).update_seq).toBe(0)
  })
})
