/** `include_docs`: which document belongs to a row, and in which form. */
import { describe, expect, it } from 'vitest'
import { serverOfFile } from '../../support/client.ts'
import { answerOf, fill, json, putViews, query, type ViewAnswer } from '../../support/views.ts'

const client = serverOfFile()

function docsOf({ rows }: ViewAnswer): unknown[] {
  return rows.map(({ doc }) => doc)
}

describe('documents of rows', () => {
  it('are those that emitted them', async () => {
    const db = await client().database()
    const [rev] = await fill(db, [{ _id: 'a', x: 1.5, big: 1 }, { _id: 'b' }])
    await putViews(db, { map: { map: 'function (doc) { emit(doc._id, [1]) }' } })
    expect((await db.get('_design/d/_view/map?include_docs=true&limit=1')).text).toBe(
      '{"total_rows":2,"offset":0,"rows":[\r\n' +
        `{"id":"a","key":"a","value":[1],"doc":{"_id":"a","_rev":"${rev}","x":1.5,"big":1}}\r\n]}\n`,
    )
    expect(docsOf(await query(db, 'map', 'include_docs=true&descending=true'))).toMatchObject([
      { _id: 'b' },
      { _id: 'a' },
    ])
    expect(docsOf(await query(db, 'map', 'include_docs=false'))).toEqual([undefined, undefined])
  })

  it('are those that values name', async () => {
    const db = await client().database()
    const first = await db.save('target', { n: 1 })
    const second = await db.save('target', { _rev: first, n: 2 })
    await db.saveAndRemove('gone', {})
    await db.save('_local/notes', { n: 3 })
    const values: [value: unknown, doc: unknown][] = [
      [{ _id: 'target' }, { _id: 'target', _rev: second, n: 2 }],
      [
        { _id: 'target', _rev: first },
        { _id: 'target', _rev: first, n: 1 },
      ],
      [
        { _id: 'target', _rev: second },
        { _id: 'target', _rev: second, n: 2 },
      ],
      [{ _id: 'nosuch' }, null],
      [{ _id: 'gone' }, null],
      [{ _id: 'target', _rev: '7-00000000000000000000000000000000' }, null],
      [{ _id: 'target', _rev: 'nonsense' }, null],
      [{ _id: 5 }, null],
      [{ _id: '_local/notes' }, { _id: '_local/notes', _rev: '0-1', n: 3 }],
      [{ other: '"_id"' }, { _id: 'source' }],
      ['_id', { _id: 'source' }],
      [['_rev'], { _id: 'source' }],
      [{ x: { _id: 'target' } }, { _id: 'source' }],
      [null, { _id: 'source' }],
    ]
    await db.save('source', { values: values.map(([value]) => value) })
    const map = 'function (doc) { for (var i = 0; doc.values && i < doc.values.length; i++) emit(i, doc.values[i]) }'
    await putViews(db, { map: { map } })
    const { rows } = await query(db, 'map', 'include_docs=true')
    expect(rows.map(({ id }) => id)).toEqual(values.map(() => 'source'))
    for (const [i, [, doc]] of values.entries()) {
      if (doc === null) expect(rows[i]?.doc, JSON.stringify(values[i])).toBeNull()
      else expect(rows[i]?.doc, JSON.stringify(values[i])).toMatchObject(doc as object)
    }
  })

  it('are pinned to the revision that a value has', async () => {
    const db = await client().database()
    const first = await db.save('a', { n: 1 })
    await putViews(db, {
      whole: { map: 'function (doc) { emit(null, doc) }' },
      id: { map: 'function (doc) { emit() }' },
    })
    expect(docsOf(await query(db, 'whole', 'include_docs=true'))).toEqual([{ _id: 'a', _rev: first, n: 1 }])
    const second = await db.save('a', { _rev: first, n: 2 })
    expect(docsOf(await query(db, 'whole', 'include_docs=true&stale=ok'))).toEqual([{ _id: 'a', _rev: first, n: 1 }])
    expect(docsOf(await query(db, 'id', 'include_docs=true&stale=ok'))).toEqual([{ _id: 'a', _rev: second, n: 2 }])
    await db.compact()
    expect(docsOf(await query(db, 'whole', 'include_docs=true&stale=ok'))).toEqual([null])
    expect(docsOf(await query(db, 'whole', 'include_docs=true'))).toEqual([{ _id: 'a', _rev: second, n: 2 }])
    await db.remove('a', second)
    expect(docsOf(await query(db, 'id', 'include_docs=true&stale=ok'))).toEqual([null])
  })

  it('show conflicts on request', async () => {
    const db = await client().database()
    await db.replicate(
      { _id: 'a', _rev: '2-bb', _revisions: { start: 2, ids: ['bb', 'aa'] }, n: 1 },
      { _id: 'a', _rev: '2-cc', _revisions: { start: 2, ids: ['cc', 'aa'] }, n: 2 },
      { _id: 'b', _rev: '1-dd', _revisions: { start: 1, ids: ['dd'] } },
    )
    await putViews(db, {
      map: { map: 'function (doc) { emit(doc._id) }' },
      other: { map: 'function (doc) { emit(doc._id, { _rev: "2-bb" }) }' },
    })
    const [a, b] = docsOf(await query(db, 'map', 'include_docs=true&conflicts=true'))
    expect(a).toEqual({ _id: 'a', _rev: '2-cc', n: 2, _conflicts: ['2-bb'] })
    expect(b).toEqual({ _id: 'b', _rev: '1-dd' })
    expect(docsOf(await query(db, 'map', 'include_docs=true'))[0]).not.toHaveProperty('_conflicts')
    expect(docsOf(await query(db, 'other', 'include_docs=true&limit=1'))).toEqual([{ _id: 'a', _rev: '2-bb', n: 1 }])
  })

  it('have attachments as stubs, or with contents', async () => {
    const db = await client().database()
    const text = 'a bee sees a tree '.repeat(20)
    await db.save('a', {
      _attachments: {
        'note.txt': { content_type: 'text/plain', data: Buffer.from(text).toString('base64') },
        raw: { content_type: 'application/octet-stream', data: 'AAEC' },
      },
    })
    await db.save('b', {})
    await putViews(db, { map: { map: 'function (doc) { emit(doc._id) }' } })
    const attachments = async (parameters: string) => {
      const { rows } = await query(db, 'map', parameters)
      expect(rows.map(({ id }) => id)).toEqual(['a', 'b'])
      return rows[0]?.doc?._attachments as Record<string, Record<string, unknown>>
    }
    const stubs = await attachments('include_docs=true')
    expect(stubs.raw).toMatchObject({ stub: true, length: 3 })
    expect(stubs.raw).not.toHaveProperty('data')
    const contents = await attachments('include_docs=true&attachments=true')
    expect(contents.raw).toMatchObject({ data: 'AAEC' })
    expect(contents.raw).not.toHaveProperty('stub')
    expect(contents.raw).not.toHaveProperty('length')
    expect(Buffer.from(String(contents['note.txt']?.data), 'base64').toString()).toBe(text)
    const packed = await attachments('include_docs=true&att_encoding_info=true')
    expect(packed['note.txt']).toMatchObject({ stub: true, encoding: 'gzip', encoded_length: expect.any(Number) })
    expect(packed.raw).not.toHaveProperty('encoding')
    expect(await attachments('include_docs=false&attachments=true')).toBeUndefined()
  })

  it('come with keys, limits and ranges', async () => {
    const db = await client().database()
    await fill(
      db,
      Array.from({ length: 600 }, (_, n) => ({ _id: `d${String(n).padStart(3, '0')}`, n, pad: 'x'.repeat(2_000) })),
    )
    await putViews(db, { map: { map: 'function (doc) { emit(doc.n) }' } })
    const all = await query(db, 'map', 'include_docs=true')
    expect(all.rows.map(({ doc }) => doc?.n)).toEqual(Array.from({ length: 600 }, (_, n) => n))
    const some = await db.post('_design/d/_view/map?include_docs=true&skip=1', { keys: [300, 5, 1_000, 299] })
    expect(answerOf(some).rows.map(({ doc }) => doc?.n)).toEqual([5, 299])
    const range = await query(db, 'map', `include_docs=true&startkey=${json(590)}&limit=3`)
    expect(range.rows.map(({ doc }) => doc?.n)).toEqual([590, 591, 592])
  })

  it('of design documents come where those are mapped', async () => {
    const db = await client().database()
    const map = 'function (doc) { emit(doc._id, doc._local_seq) }'
    await putViews(db, { map: { map } }, { options: { include_design: true, local_seq: true } })
    await db.save('a', {})
    expect((await query(db, 'map', 'include_docs=true')).rows).toMatchObject([
      { id: '_design/d', value: 1, doc: { _id: '_design/d' } },
      { id: 'a', value: 2, doc: { _id: 'a' } },
    ])
  })
})
