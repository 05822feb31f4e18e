import { describe, expect, it } from 'vitest'
import { expectConflict, expectRefusal, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

describe('PUT of a new document', () => {
  it('answers with id and revision, and where it is', async () => {
    const db = await client().database()
    const reply = await db.put('doc', { a: 1 })
    expect(reply.status).toBe(201)
    expect(reply.text).toBe('{"ok":true,"id":"doc","rev":"1-23202479633c2b380f79507a776743d5"}\n')
    expect(reply.headers.etag).toBe('"1-23202479633c2b380f79507a776743d5"')
    expect(reply.headers.location).toBe(`${db.url}/doc`)
    expect(reply.headers['cache-control']).toBe('must-revalidate')
    expect(reply.headers['content-length']).toBe(String(reply.body.length))
  })

  it('needs no Content-Type', async () => {
    const db = await client().database()
    expect((await db.put('a', {}, { 'Content-Type': undefined })).status).toBe(201)
    expect((await db.put('b', {}, { 'Content-Type': 'text/plain' })).status).toBe(201)
  })

  it('accepts any X-Service-Full-Commit', async () => {
    const db = await client().database()
    for (const [index, value] of ['true', 'false', 'maybe'].entries()) {
      expect((await db.put(`n${index}`, {}, { 'X-Service-Full-Commit': value })).status).toBe(201)
      expect((await db.put(`c${index}`, {}, { 'X-Couch-Full-Commit': value })).status).toBe(201)
    }
  })

  it.each([
    ['a/b', 'a%2Fb'],
    ['a b', 'a%20b'],
    ['a b', 'a+b'],
    ['a+b', 'a%2Bb'],
    ['é', '%C3%A9'],
    ['日本語', '%E6%97%A5%E6%9C%AC%E8%AA%9E'],
    ['😀', '%F0%9F%98%80'],
    ['100%', '100%25'],
    ['50%zz', '50%zz'],
    ['a?b#c', 'a%3Fb%23c'],
    ['"quoted\\"', '%22quoted%5C%22'],
    ['tab\tnew\nline', 'tab%09new%0Aline'],
    ['nul\u0000', 'nul%00'],
    ['.', '%2E'],
    ['..', '%2E%2E'],
    ['UPPER', 'UPPER'],
    ['a:b@c', 'a:b@c'],
    ['e\u0301', 'e%CC%81'],
    ['x'.repeat(2000), 'x'.repeat(2000)],
  ])('reads the id %j from the path %s', async (id, path) => {
    const db = await client().database()
    const reply = await db.put(path, { n: 1 })
    expect(reply.status).toBe(201)
    expect(reply.as<{ id: string }>().id).toBe(id)
    const found = await db.get(path)
    expect(found.json).toEqual({ _id: id, _rev: reply.rev, n: 1 })
    // What the reply names is a path that a client can follow.
    const location = reply.headers.location ?? ''
    expect(location).toMatch(/^[\x21-\x7e]+$/)
    expect((await client().request('GET', location.slice(`http://${client().host}`.length))).text).toBe(found.text)
    expect((await db.get('_all_docs')).json).toMatchObject({ rows: [{ id, key: id }] })
  })

  it('distinguishes ids that look alike', async () => {
    const db = await client().database()
    await db.save('%C3%A9', { n: 'composed' })
    await db.save('e%CC%81', { n: 'decomposed' })
    await db.save('E', { n: 'upper' })
    await db.save('e', { n: 'lower' })
    expect((await db.info()).doc_count).toBe(4)
    expect((await db.get('%C3%A9')).json).toMatchObject({ n: 'composed' })
    expect((await db.get('e')).json).toMatchObject({ n: 'lower' })
  })

  it('uses the id of the path, whatever the body says', async () => {
    const db = await client().database()
    expect((await db.put('real', { _id: 'other', n: 1 })).json).toMatchObject({ id: 'real' })
    expect((await db.get('real')).json).toMatchObject({ _id: 'real', n: 1 })
    expect((await db.get('other')).status).toBe(404)
  })

  it.each([
    ['', 'Document id must not be empty'],
    [5, 'Document id must be a string'],
    [null, 'Document id must be a string'],
    ['_odd', 'Only reserved document ids may start with underscore.'],
  ])('refuses the id %j in the body all the same', async (_id, reason) => {
    const db = await client().database()
    expectRefusal(await db.put('real', { _id }), 400, 'bad_request', reason)
    expect((await db.info()).update_seq).toBe(0)
  })

  it('refuses ids that begin with an underscore', async () => {
    const db = await client().database()
    for (const id of ['_odd', '_', '_x%2Fy', '_designer', '_localized']) {
      const reason = 'Only reserved document ids may start with underscore.'
      expectRefusal(await db.put(id, {}), 400, 'bad_request', reason)
    }
    expect((await db.info()).update_seq).toBe(0)
  })

  it('refuses an id that is not UTF-8', async () => {
    const db = await client().database()
    for (const id of ['%FF', 'a%C3', '%ED%A0%80', '%C0%80']) {
      expectRefusal(await db.put(id, {}), 400, 'bad_request', 'Document id must be valid UTF-8')
    }
    expect((await db.info()).update_seq).toBe(0)
  })

  it('refuses the bare prefix of design documents in a body', async () => {
    const db = await client().database()
    for (const _id of ['_design/', '_local/']) {
      const reply = await db.post('', { _id })
      expect([reply.status, reply.as<{ error: string }>().error]).toEqual([400, 'bad_request'])
    }
  })

  it.each(['[]', '"text"', '1', 'null', 'true', '[{}]'])('refuses %s for a document', async (body) => {
    const db = await client().database()
    expectRefusal(await db.put('doc', body), 400, 'bad_request', 'Document must be a JSON object')
    expect((await db.get('doc')).status).toBe(404)
  })

  it('refuses a revision for a missing document', async () => {
    const db = await client().database()
    expectConflict(await db.put('doc', { _rev: '1-967a00dff5e02add41819138abb3284d' }))
    expectConflict(await db.put('doc?rev=1-967a00dff5e02add41819138abb3284d', {}))
    expectConflict(await db.put('doc', {}, { 'If-Match': '1-967a00dff5e02add41819138abb3284d' }))
    expectConflict(await db.put('_design/d', { _rev: '3-abc' }))
    expect((await db.info()).update_seq).toBe(0)
  })
})

describe('PUT of an existing document', () => {
  it('needs the current revision, in the body, the query or If-Match', async () => {
    const db = await client().database()
    let rev = await db.save('doc', { n: 0 })
    const ways: ((rev: string, n: number) => Promise<{ status: number; rev: string }>)[] = [
      (current, n) => db.put('doc', { _rev: current, n }),
      (current, n) => db.put(`doc?rev=${current}`, { n }),
      (current, n) => db.put('doc', { n }, { 'If-Match': `"${current}"` }),
      (current, n) => db.put('doc', { n }, { 'If-Match': current }),
      (current, n) => db.put(`doc?rev=${current}`, { _rev: current, n }, { 'If-Match': `"${current}"` }),
      (current, n) => {
        const [start, id] = current.split('-')
        return db.put('doc', { _revisions: { start: Number(start), ids: [id] }, n })
      },
    ]
    for (const [index, write] of ways.entries()) {
      const reply = await write(rev, index + 1)
      expect(reply.status).toBe(201)
      expect(reply.rev).toMatch(new RegExp(`^${index + 2}-[0-9a-f]{32}$`))
      rev = reply.rev
      expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: rev, n: index + 1 })
    }
    expect(await db.info()).toMatchObject({ doc_count: 1, update_seq: ways.length + 1 })
  })

  it('accepts a revision with upper-case digits', async () => {
    const db = await client().database()
    const rev = await db.save('doc', {})
    const reply = await db.put('doc', { _rev: rev.toUpperCase() })
    expect([reply.status, reply.rev]).toEqual([201, '2-7051cbe5c8faecd085a3fa619e6e6337'])
  })

  it('is refused without a revision, with an old one, or with an unknown one', async () => {
    const db = await client().database()
    const first = await db.save('doc', { n: 1 })
    const second = await db.save('doc', { _rev: first, n: 2 })
    expectConflict(await db.put('doc', { n: 3 }))
    expectConflict(await db.put('doc', { _rev: first, n: 3 }))
    expectConflict(await db.put(`doc?rev=${first}`, { n: 3 }))
    expectConflict(await db.put('doc', { n: 3 }, { 'If-Match': first }))
    expectConflict(await db.put('doc', { _rev: '2-00000000000000000000000000000000', n: 3 }))
    expectConflict(await db.put('doc', { _rev: `1-${second.slice(2)}`, n: 3 }))
    expectConflict(await db.put('doc', { _rev: '3-abc', n: 3 }))
    expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: second, n: 2 })
    expect((await db.info()).update_seq).toBe(2)
  })

  it('is refused when it names two revisions', async () => {
    const db = await client().database()
    const rev = await db.save('doc', {})
    const other = '1-00000000000000000000000000000000'
    const query = 'Document rev from request body and query string have different values'
    const etag = 'Document rev and etag have different values'
    expectRefusal(await db.put(`doc?rev=${other}`, { _rev: rev }), 400, 'bad_request', query)
    expectRefusal(await db.put('doc', { _rev: rev }, { 'If-Match': other }), 400, 'bad_request', etag)
    expectRefusal(await db.put(`doc?rev=${rev}`, {}, { 'If-Match': `"${other}"` }), 400, 'bad_request', etag)
    expect((await db.info()).update_seq).toBe(1)
  })

  it.each(['abc', '', '1', 'x-abc', '-abc', '1.5-abc', ' 1-abc', `1-${'g'.repeat(32)}`])(
    'refuses %j for a revision',
    async (rev) => {
      const db = await client().database()
      await db.save('doc', {})
      expectRefusal(await db.put('doc', { _rev: rev }), 400, 'bad_request', 'Invalid rev format')
      expect((await db.info()).update_seq).toBe(1)
    },
  )

  it.each([null, 5, {}, ['1-a'], true])('refuses %j for a revision', async (rev) => {
    const db = await client().database()
    expectRefusal(await db.put('doc', { _rev: rev }), 400, 'bad_request', 'Invalid rev format')
  })

  it('refuses such revisions in query and If-Match too', async () => {
    const db = await client().database()
    await db.save('doc', {})
    expectRefusal(await db.put('doc?rev=abc', {}), 400, 'bad_request', 'Invalid rev format')
    expectRefusal(await db.put('doc', {}, { 'If-Match': 'abc' }), 400, 'bad_request', 'Invalid rev format')
  })

  it('extends a losing branch', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'doc', _rev: '1-aa', n: 'low' }, { _id: 'doc', _rev: '1-bb', n: 'high' })
    const reply = await db.put('doc', { _rev: '1-aa', n: 'next' })
    expect(reply.status).toBe(201)
    expect((await db.get('doc?conflicts=true')).json).toEqual({
      _id: 'doc',
      _rev: reply.rev,
      n: 'next',
      _conflicts: ['1-bb'],
    })
  })

  it('lets one of many concurrent writers succeed', async () => {
    const db = await client().database()
    const rev = await db.save('doc', {})
    const replies = await Promise.all(Array.from({ length: 20 }, (_, n) => db.put('doc', { _rev: rev, n })))
    expect(replies.map(({ status }) => status).sort()).toEqual([201, ...Array(19).fill(409)])
    expect((await db.info()).update_seq).toBe(2)
  })
})

describe('new_edits=false', () => {
  it('stores the revision that the document has', async () => {
    const db = await client().database()
    const reply = await db.put('doc?new_edits=false', { _rev: '3-abc', n: 1 })
    expect([reply.status, reply.text]).toEqual([201, '{"ok":true,"id":"doc","rev":"3-abc"}\n'])
    expect((await db.get('doc?revs=true')).json).toEqual({
      _id: 'doc',
      _rev: '3-abc',
      n: 1,
      _revisions: { start: 3, ids: ['abc'] },
    })
  })

  it('stores the history that the document has', async () => {
    const db = await client().database()
    const body = { n: 1, _revisions: { start: 3, ids: ['c', 'b', 'a'] } }
    expect((await db.put('doc?new_edits=false', body)).rev).toBe('3-c')
    expect((await db.get('doc?revs=true')).json).toMatchObject({ _rev: '3-c', _revisions: body._revisions })
  })

  it('creates a branch when the revision does not follow the current one', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { n: 1 })
    const other = `1-${'0'.repeat(32)}`
    await db.put('doc?new_edits=false', { _rev: other, n: 2 })
    expect((await db.get('doc?conflicts=true')).json).toEqual({ _id: 'doc', _rev: rev, n: 1, _conflicts: [other] })
  })

  it('succeeds for a known revision and changes nothing', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { n: 1 })
    const reply = await db.put('doc?new_edits=false', { _rev: rev, n: 2 })
    expect([reply.status, reply.rev]).toEqual([201, rev])
    expect((await db.get('doc')).json).toMatchObject({ n: 1 })
    expect((await db.info()).update_seq).toBe(1)
  })

  it('needs a revision', async () => {
    const db = await client().database()
    const reason = 'When `new_edits: false`, the document needs `_rev` or `_revisions` specified'
    expectRefusal(await db.put('doc?new_edits=false', { n: 1 }), 400, 'bad_request', reason)
    expect((await db.info()).update_seq).toBe(0)
  })

  it('takes the revision from the query or If-Match where the body has none', async () => {
    const db = await client().database()
    expect((await db.put('a?new_edits=false&rev=3-abc', { n: 1 })).rev).toBe('3-abc')
    expect((await db.put('b?new_edits=false', { n: 1 }, { 'If-Match': '"3-abd"' })).rev).toBe('3-abd')
    const history = { start: 3, ids: ['c', 'b'] }
    await db.put('c?new_edits=false&rev=3-c', { _revisions: history })
    expect((await db.get('c?revs=true')).as<{ _revisions: unknown }>()._revisions).toEqual(history)
  })

  it('refuses revisions that disagree', async () => {
    const db = await client().database()
    const inQuery = 'Document rev from request body and query string have different values'
    expectRefusal(await db.put('a?new_edits=false&rev=3-abc', { _rev: '3-abd' }), 400, 'bad_request', inQuery)
    const matched = await db.put('a?new_edits=false', { _rev: '3-abd' }, { 'If-Match': '"3-abc"' })
    expectRefusal(matched, 400, 'bad_request', 'Document rev and etag have different values')
    expect((await db.get('a')).status).toBe(404)
  })

  it('normalizes hashes to lower case', async () => {
    const db = await client().database()
    const hash = 'ABCDEF0123456789ABCDEF0123456789'
    expect((await db.put('doc?new_edits=false', { _rev: `1-${hash}` })).rev).toBe(`1-${hash.toLowerCase()}`)
    expect((await db.put('other?new_edits=false', { _rev: '1-ABC' })).rev).toBe('1-ABC')
  })
})

describe('POST to a document', () => {
  it('is the upload of a form, which needs a Referer', async () => {
    const db = await client().database()
    await db.save('doc', {})
    expectRefusal(await db.post('doc', {}), 400, 'bad_request', 'Referer header required.')
    expect((await db.info()).update_seq).toBe(1)
  })
})
