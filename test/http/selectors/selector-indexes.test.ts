/** `_index`: selector indexes are made, listed and removed. */
import { describe, expect, it } from 'vitest'
import { expectRefusal, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

/** Whatever the reason. */
function expectError(reply: Reply, status: number, error: string): void {
  expect([reply.status, reply.as<{ error: string }>().error], reply.text).toEqual([status, error])
}

async function listed(db: TestDatabase, query = ''): Promise<{ total_rows: number; indexes: { name: string }[] }> {
  const reply = await db.get(`_index${query}`)
  expect(reply.status, reply.text).toBe(200)
  return reply.as()
}

describe('an index', () => {
  it('is a view of a design document', async () => {
    const db = await client().database()
    const made = await db.post('_index', {
      index: { fields: ['a', { b: 'asc' }], partial_filter_selector: { c: 1 } },
      ddoc: 'd',
      name: 'n',
      type: 'json',
    })
    expect(made.json).toEqual({ result: 'created', id: '_design/d', name: 'n' })
    expect((await db.get('_design/d')).json).toMatchObject({
      language: 'query',
      views: {
        n: {
          map: { fields: { a: 'asc', b: 'asc' }, partial_filter_selector: { c: { $eq: 1 } } },
          reduce: '_count',
          options: { def: { fields: ['a', { b: 'asc' }], partial_filter_selector: { c: 1 } } },
        },
      },
    })
    expect(await listed(db)).toEqual({
      total_rows: 2,
      indexes: [
        { ddoc: null, name: '_all_docs', type: 'special', def: { fields: [{ _id: 'asc' }] } },
        {
          ddoc: '_design/d',
          name: 'n',
          type: 'json',
          partitioned: false,
          def: { fields: [{ a: 'asc' }, { b: 'asc' }], partial_filter_selector: { c: { $eq: 1 } } },
        },
      ],
    })
  })

  it('is made once', async () => {
    const db = await client().database()
    const index = { fields: ['a'] }
    const first = (await db.post('_index', { index })).as<{ id: string; name: string }>()
    expect(first.id).toMatch(/^_design\/[0-9a-f]{40}$/)
    expect(first.name).toMatch(/^[0-9a-f]{40}$/)
    expect((await db.post('_index', { index })).json).toEqual({ ...first, result: 'exists' })
    expect((await db.post('_index', { index, ddoc: '_design/d', name: 'n' })).json).toMatchObject({ result: 'created' })
    expect((await db.post('_index', { index, ddoc: 'd', name: 'n' })).json).toMatchObject({ result: 'exists' })
    const other = { index: { fields: ['b'] }, ddoc: 'd', name: 'n' }
    expect((await db.post('_index', other)).json).toMatchObject({ result: 'created' })
    expect((await db.post('_index', { ...other, name: 'n2' })).json).toMatchObject({ result: 'created' })
    expect((await listed(db)).total_rows).toBe(4)
    expect((await listed(db, '?limit=1&skip=2')).indexes).toMatchObject([{ name: 'n' }])
  })

  it('holds the documents that have all fields and pass its filter', async () => {
    const db = await client().database()
    await db.post('_bulk_docs', {
      docs: [
        { _id: '1', a: 1, b: null, c: 1 },
        { _id: '2', a: 1, c: 1 },
        { _id: '3', a: 2, b: 2, c: 2 },
        { _id: '4', a: 0, b: 2, c: 1 },
      ],
    })
    const index = { fields: ['a', 'b'], partial_filter_selector: { c: 1 } }
    await db.post('_index', { index, ddoc: 'd', name: 'n' })
    const selector = { a: { $gte: 0 }, b: { $gte: null } }
    const ids = async (query: object) =>
      (await db.post('_find', query)).as<{ docs: { _id: string }[] }>().docs.map(({ _id }) => _id)
    expect(await ids({ selector })).toEqual(['1', '3', '4'])
    expect(await ids({ selector, use_index: 'd' })).toEqual(['4', '1'])
    expect((await db.get('_design/d/_view/n')).json).toMatchObject({
      total_rows: 2,
      rows: [
        { id: '4', key: [0, 2], value: null },
        { id: '1', key: [1, null], value: null },
      ],
    })
  })

  it('holds the same when it is built of more documents than one commit takes', async () => {
    const db = await client().database()
    const docs = Array.from({ length: 1100 }, (_, n) => ({ _id: `n${n}`, kind: 'abc'[n % 3], n: { x: n % 7 } }))
    await db.post('_bulk_docs', { docs })
    const content = { data: 'aGVsbG8=', content_type: 'text/plain' }
    await db.save(encodeURIComponent('with "quotes"'), { kind: 'a', n: { x: 1 }, _attachments: { t: content } })
    await db.save('empty', {})
    await db.saveAndRemove('gone', { kind: 'a', n: { x: 1 } })
    const conflicting = ['2-a', '2-b'].map((_rev) => ({ _id: 'conflict', _rev, kind: 'b', n: { x: _rev } }))
    await db.post('_bulk_docs', { docs: conflicting, new_edits: false })
    const filtered = { fields: ['_rev', 'n.x'], partial_filter_selector: { kind: { $ne: 'c' }, _id: { $gt: 'a' } } }
    await db.post('_index', { index: filtered, ddoc: 'd', name: 'filtered' })
    await db.post('_index', { index: { fields: ['_id', '_attachments.t.length'] }, ddoc: 'd', name: 'attached' })

    type Rows<T> = { rows: (T & { id: string })[] }
    const all = (await db.get('_all_docs?include_docs=true')).as<Rows<{ doc: (typeof docs)[0] & { _rev: string } }>>()
    const expected = all.rows.flatMap(({ id, doc }) =>
      'n' in doc && doc.kind !== 'c' && !id.startsWith('_') ? [{ id, key: [doc._rev, doc.n.x], value: null }] : [],
    )
    const found = (await db.get('_design/d/_view/filtered?reduce=false')).as<Rows<{ key: unknown; value: null }>>()
    const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1)
    expect(found.rows.toSorted(byId)).toEqual(expected.toSorted(byId))
    expect((await db.get('_design/d/_view/attached?reduce=false')).json).toMatchObject({
      total_rows: 1,
      rows: [{ id: 'with "quotes"', key: ['with "quotes"', 5], value: null }],
    })
  })

  it('may be written by hand', async () => {
    const db = await client().database()
    await db.save('x', { 10: 1, 9: 2 })
    const view = { map: { fields: { 10: 'asc', 9: 'asc' } }, options: { def: { fields: ['10', '9'] } } }
    await db.save('_design/d', {
      language: 'query',
      views: { n: view, broken: { map: { fields: { 'a..b': 'asc' } } }, f: { map: 'x' } },
    })
    expect((await listed(db)).indexes.slice(1)).toMatchObject([
      { name: 'n', def: { fields: [{ 10: 'asc' }, { 9: 'asc' }] } },
    ])
    const query = { selector: { 10: { $gt: 0 }, 9: { $gt: 0 } }, sort: ['10', '9'], fields: ['9', '_id'] }
    expect((await db.post('_find', query)).json).toMatchObject({ docs: [{ 9: 2, _id: 'x' }] })
  })

  it('is removed, and its design document with the last one', async () => {
    const db = await client().database()
    for (const name of ['n', 'm']) await db.post('_index', { index: { fields: [name] }, ddoc: 'd', name })
    expect((await db.request('DELETE', '_index/_design/d/json/n')).json).toEqual({ ok: true })
    expect((await db.get('_design/d')).status).toBe(200)
    expectRefusal(await db.request('DELETE', '_index/d/json/n'), 404, 'not_found', 'missing')
    expectError(await db.request('DELETE', '_index/d/text/m'), 404, 'not_found')
    expect((await db.request('DELETE', '_index/_design%2Fd/json/m')).status).toBe(200)
    expectRefusal(await db.get('_design/d'), 404, 'not_found', 'deleted')
    await db.save('_design/e', { language: 'query', other: 1 })
    await db.post('_index', { index: { fields: ['a'] }, ddoc: 'e', name: 'n' })
    expect((await db.request('DELETE', '_index/e/json/n')).status).toBe(200)
    expect((await db.get('_design/e')).json).toMatchObject({ other: 1 })
  })

  it('goes with others', async () => {
    const db = await client().database()
    for (const ddoc of ['a', 'b']) await db.post('_index', { index: { fields: ['x'] }, ddoc, name: 'n' })
    const reply = await db.post('_index/_bulk_delete', { docids: ['_design/a', 'b', 'nope'] })
    expect(reply.json).toEqual({
      success: [
        { id: '_design/a', ok: true },
        { id: '_design/b', ok: true },
      ],
      fail: [{ id: '_design/nope', error: 'not_found' }],
    })
    expect((await listed(db)).total_rows).toBe(1)
  })

  it('is refused', async () => {
    const db = await client().database()
    const refused = async (body: unknown, error: string, reason?: string, status = 400) => {
      const reply = await db.post('_index', body)
      if (reason === undefined) expectError(reply, status, error)
      else expectRefusal(reply, status, error, reason)
    }
    const index = { fields: ['a'] }
    await refused({}, 'missing_required_key', 'Missing required key: index')
    await refused({ index: 'x' }, 'invalid_index', 'JSON indexes must be an object, not: x')
    await refused({ index: {} }, 'missing_required_key', 'Missing required key: fields')
    await refused({ index: { fields: [] } }, 'invalid_index')
    await refused({ index: { fields: ['a', { b: 'desc' }] } }, 'unsupported_mixed_sort')
    await refused({ index: { fields: [1] } }, 'invalid_sort_field')
    await refused({ index: { fields: ['a'], partial_filter_selector: { a: { $x: 1 } } } }, 'invalid_operator')
    await refused({ index, type: 'text' }, 'required index service unavailable', 'text', 503)
    await refused({ index, type: 'nouveau' }, 'required index service unavailable', 'nouveau', 503)
    await refused({ index, type: 'odd' }, 'invalid_index', 'Invalid type for index: odd')
    await refused({ index, type: 1 }, 'invalid_string', 'Invalid string: 1')
    await refused({ index, name: '' }, 'invalid_empty_string', 'Index name or ddoc cannot be empty string')
    await refused({ index, ddoc: '' }, 'invalid_empty_string')
    await refused({ index, ddoc: '_design/' }, 'bad_request')
    await refused({ index, more: 1 }, 'invalid_key', 'Invalid key more for this request.')
    await db.save('_design/js', { views: {} })
    await db.save('_design/other', { language: 'javascript' })
    await refused(
      { index, ddoc: 'other' },
      'invalid_ddoc_lang',
      'Existing design doc has an invalid language: javascript',
    )
    expectRefusal(
      await db.get('_index?limit=0'),
      500,
      'invalid_list_index_params',
      'Index parameter ranges: limit > 1, skip > 0',
    )
    expectError(await db.request('DELETE', '_index'), 405, 'method_not_allowed')
    expectError(await db.get('_index/nope'), 404, 'not_found')
    expectError(await db.get('_index/_bulk_delete'), 405, 'method_not_allowed')
    expectError(
      await db.request('POST', '_index', { body: '{}', headers: { 'Content-Type': 'text/plain' } }),
      415,
      'bad_content_type',
    )
  })
})
