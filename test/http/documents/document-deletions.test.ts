import { describe, expect, it } from 'vitest'
import { expectConflict, expectRefusal, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

describe('DELETE of a document', () => {
  it('leaves a tombstone without a body', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { a: 1 })
    const reply = await db.delete(`doc?rev=${rev}`)
    expect(reply.status).toBe(200)
    expect(reply.text).toBe('{"ok":true,"id":"doc","rev":"2-b4e3122af5f2ab3ae9bbd74527a6aa04"}\n')
    expect(reply.headers.etag).toBe('"2-b4e3122af5f2ab3ae9bbd74527a6aa04"')
    expect(reply.headers.location).toBeUndefined()
    expectRefusal(await db.get('doc'), 404, 'not_found', 'deleted')
    expect(await db.info()).toMatchObject({ doc_count: 0, doc_del_count: 1, update_seq: 2 })
  })

  it('takes the revision from If-Match too', async () => {
    const db = await client().database()
    const rev = await db.save('doc', {})
    expect((await db.delete('doc', { 'If-Match': `"${rev}"` })).status).toBe(200)
  })

  it('ignores a body', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { a: 1 })
    const reply = await db.request('DELETE', `doc?rev=${rev}`, { body: { _rev: '1-x', why: 'x' } })
    expect(reply.rev).toBe('2-b4e3122af5f2ab3ae9bbd74527a6aa04')
  })

  it('needs the current revision', async () => {
    const db = await client().database()
    const first = await db.save('doc', { n: 1 })
    const second = await db.save('doc', { _rev: first, n: 2 })
    expectConflict(await db.delete('doc'))
    expectConflict(await db.delete(`doc?rev=${first}`))
    expectConflict(await db.delete('doc?rev=2-abc'))
    expectConflict(await db.delete('doc', { 'If-Match': first }))
    expectRefusal(await db.delete('doc?rev=abc'), 400, 'bad_request', 'Invalid rev format')
    const etag = 'Document rev and etag have different values'
    expectRefusal(await db.delete(`doc?rev=${second}`, { 'If-Match': first }), 400, 'bad_request', etag)
    expect((await db.get('doc')).json).toMatchObject({ _rev: second })
  })

  it('answers 404 for a missing document, whatever the revision', async () => {
    const db = await client().database()
    for (const query of ['', '?rev=1-abc', '?rev=abc']) {
      expectRefusal(await db.delete(`nosuch${query}`), 404, 'not_found', 'missing')
    }
  })

  it('does not delete twice', async () => {
    const db = await client().database()
    const { live, tombstone } = await db.saveAndRemove('doc', {})
    for (const query of ['', `?rev=${live}`, `?rev=${tombstone}`]) {
      expectRefusal(await db.delete(`doc${query}`), 404, 'not_found', 'deleted')
    }
    expect((await db.info()).update_seq).toBe(2)
  })

  it('of a losing branch leaves the document alive', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'doc', _rev: '1-aa', n: 'low' }, { _id: 'doc', _rev: '1-bb', n: 'high' })
    expect((await db.delete('doc?rev=1-aa')).status).toBe(200)
    expect((await db.get('doc?conflicts=true')).text).toBe('{"_id":"doc","_rev":"1-bb","n":"high"}\n')
  })

  it('of the winner makes the next branch win', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'doc', _rev: '1-aa', n: 'low' }, { _id: 'doc', _rev: '1-bb', n: 'high' })
    const tombstone = await db.remove('doc', '1-bb')
    expect((await db.get('doc?conflicts=true&deleted_conflicts=true')).json).toEqual({
      _id: 'doc',
      _rev: '1-aa',
      n: 'low',
      _deleted_conflicts: [tombstone],
    })
  })
})

describe('a write with _deleted', () => {
  it('makes a tombstone that keeps its members: 200 and no Location', async () => {
    const db = await client().database()
    const rev = await db.save('doc', {})
    const reply = await db.put('doc', { _rev: rev, _deleted: true, why: 'x' })
    expect(reply.status).toBe(200)
    expect(reply.text).toBe('{"ok":true,"id":"doc","rev":"2-8d4647bfdeafccd591eb6d350279821d"}\n')
    expect(reply.headers.etag).toBe('"2-8d4647bfdeafccd591eb6d350279821d"')
    expect(reply.headers.location).toBeUndefined()
    expectRefusal(await db.get('doc'), 404, 'not_found', 'deleted')
    expect((await db.get(`doc?rev=${reply.rev}`)).json).toEqual({
      _id: 'doc',
      _rev: reply.rev,
      why: 'x',
      _deleted: true,
    })
  })

  it('of an unknown document makes a tombstone of the first generation', async () => {
    const db = await client().database()
    const reply = await db.put('doc', { _deleted: true })
    expect([reply.status, reply.rev.slice(0, 2)]).toEqual([200, '1-'])
    expectRefusal(await db.get('doc'), 404, 'not_found', 'deleted')
    expect(await db.info()).toMatchObject({ doc_count: 0, doc_del_count: 1 })
  })

  it('needs the current revision of a live one', async () => {
    const db = await client().database()
    await db.save('doc', {})
    expectConflict(await db.put('doc', { _deleted: true }))
    expectConflict(await db.put('doc', { _deleted: true, _rev: '1-abc' }))
  })

  it('does not delete twice without a revision', async () => {
    const db = await client().database()
    await db.saveAndRemove('doc', {})
    expectConflict(await db.put('doc', { _deleted: true }))
    expect((await db.info()).update_seq).toBe(2)
  })
})

describe('re-creation', () => {
  it('continues from the tombstone: generations never decrease', async () => {
    const db = await client().database()
    for (const generation of [1, 3, 5]) {
      const rev = await db.save('doc', { n: generation })
      expect(rev).toMatch(new RegExp(`^${generation}-`))
      expect(await db.info()).toMatchObject({ doc_count: 1, doc_del_count: 0 })
      expect(await db.remove('doc', rev)).toMatch(new RegExp(`^${generation + 1}-`))
      expect(await db.info()).toMatchObject({ doc_count: 0, doc_del_count: 1 })
    }
  })

  it('leaves no tombstone among the leaves', async () => {
    const db = await client().database()
    await db.saveAndRemove('doc', { n: 1 })
    const rev = await db.save('doc', { n: 2 })
    expect((await db.get('doc?open_revs=all')).json).toEqual([{ ok: { _id: 'doc', _rev: rev, n: 2 } }])
    expect((await db.get('doc?deleted_conflicts=true')).json).not.toHaveProperty('_deleted_conflicts')
    expect((await db.get('doc?revs=true')).json).toMatchObject({ _revisions: { start: 3 } })
  })

  it('with the first body again gives another revision', async () => {
    const db = await client().database()
    await db.saveAndRemove('doc', {})
    expect(await db.save('doc', {})).toBe('3-5570e8bbb34412db757c2df4bfa1099b')
  })

  it('may name the tombstone, in body, query or If-Match', async () => {
    const db = await client().database()
    const ways = {
      body: (rev: string) => db.put('body', { _rev: rev }),
      query: (rev: string) => db.put(`query?rev=${rev}`, {}),
      header: (rev: string) => db.put('header', {}, { 'If-Match': rev }),
    }
    for (const [id, write] of Object.entries(ways)) {
      const { tombstone } = await db.saveAndRemove(id, {})
      expect((await write(tombstone)).rev).toBe('3-5570e8bbb34412db757c2df4bfa1099b')
    }
  })

  it('may not name an older revision', async () => {
    const db = await client().database()
    const { live } = await db.saveAndRemove('doc', {})
    expectConflict(await db.put('doc', { _rev: live }))
    expectConflict(await db.put('doc', { _rev: '2-abc' }))
    expectRefusal(await db.get('doc'), 404, 'not_found', 'deleted')
  })
})
