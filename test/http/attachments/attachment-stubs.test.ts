/** Attachments that stay where they are: named by a stub, shared by revisions, copied, and gone when nothing needs them. */
import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { attach, type DocumentWithAttachments, digestOf, entries, inline, OCTETS } from '../../support/attachments.ts'
import { expectRefusal, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

const STUB = { stub: true }

function expectMissingStub(reply: Reply, id: string, name: string): void {
  expectRefusal(reply, 412, 'missing_stub', `id:${id}, name:${name}`)
}

describe('a stub', () => {
  it('keeps the attachment of the parent', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { a: inline('one', 'image/png'), b: inline('two') } })
    const second = await db.save('doc', { _rev: first, n: 2, _attachments: { a: STUB, b: inline('new') } })
    expect(await entries(db, 'doc')).toEqual({
      a: { content_type: 'image/png', revpos: 1, digest: digestOf('one'), length: 3, stub: true },
      b: { content_type: OCTETS, revpos: 2, digest: digestOf('new'), length: 3, stub: true },
    })
    const third = await db.save('doc', { _rev: second, _attachments: { a: STUB, c: inline('three') } })
    expect((await entries(db, 'doc')).a?.revpos).toBe(1)
    expect((await entries(db, 'doc')).c?.revpos).toBe(3)
    for (const rev of [first, second, third]) expect((await db.get(`doc/a?rev=${rev}`)).text).toBe('one')
  })

  it('may be what the server gave', async () => {
    const db = await client().database()
    await db.save('doc', { n: 1, _attachments: { a: inline('one'), t: inline('text', 'text/plain') } })
    const read = (await db.get('doc?att_encoding_info=true')).as<DocumentWithAttachments>()
    await db.save('doc', { ...read, n: 2 })
    const shown = await entries(db, 'doc?att_encoding_info=true')
    expect(shown).toEqual(read._attachments)
    expect((await db.get('doc/t')).text).toBe('text')
  })

  it('has its place in the order', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { a: inline('1'), b: inline('2') } })
    await db.save('doc', { _rev: first, _attachments: { b: STUB, c: inline('3'), a: STUB } })
    expect(Object.keys(await entries(db, 'doc'))).toEqual(['b', 'c', 'a'])
  })

  it('gives the revision that the content would give', async () => {
    const db = await client().database()
    const [one, other] = [await db.save('one', {}), await db.save('other', {})]
    const second = await db.save('one', { _rev: one, _attachments: { a: inline('x', 'text/plain') } })
    expect(await db.save('other', { _rev: other, _attachments: { a: inline('x', 'text/plain') } })).toBe(second)
    const third = await db.save('one', { _rev: second, n: 3, _attachments: { a: STUB } })
    const whole = { a: inline('x', 'text/plain') }
    expect(await db.save('other', { _rev: second, n: 3, _attachments: whole })).toBe(third)
  })

  it('depends on nothing but its name and revpos', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { a: inline('one', 'image/png') } })
    const odd = { stub: true, content_type: 'text/html', digest: digestOf('other'), length: 99, revpos: 1 }
    await db.save('doc', { _rev: first, _attachments: { a: odd } })
    expect((await entries(db, 'doc')).a).toEqual({
      content_type: 'image/png',
      revpos: 1,
      digest: digestOf('one'),
      length: 3,
      stub: true,
    })
  })

  it('is refused when the parent has no such attachment', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { _attachments: { a: inline('one') } })
    const before = await db.state()
    expectMissingStub(await db.put('doc', { _rev: rev, _attachments: { a: STUB, b: STUB } }), 'doc', 'b')
    expectMissingStub(await db.put('new', { _attachments: { a: STUB } }), 'new', 'a')
    expect(await db.state()).toEqual(before)
  })

  it('is refused when its generation is another', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { a: inline('one') } })
    const second = await db.save('doc', { _rev: first, _attachments: { a: STUB } })
    const stub = (revpos: number) => ({ _rev: second, _attachments: { a: { stub: true, revpos } } })
    expectMissingStub(await db.put('doc', stub(2)), 'doc', 'a')
    expectMissingStub(await db.put('doc', stub(0)), 'doc', 'a')
    expect((await db.put('doc', stub(1))).status).toBe(201)
  })

  it('is refused with the whole request', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { _attachments: { a: inline('one') } })
    const before = await db.state()
    const docs = [
      { _id: 'first', _attachments: { x: inline('1') } },
      { _id: 'doc', _rev: rev, _attachments: { b: STUB } },
    ]
    expectMissingStub(await db.post('_bulk_docs', { docs }), 'doc', 'b')
    expectMissingStub(await db.post('_bulk_docs', { docs, all_or_nothing: true }), 'doc', 'b')
    expect(await db.state()).toEqual(before)
    const good = { docs: [docs[0], { _id: 'doc', _rev: rev, _attachments: { a: STUB } }] }
    expect((await db.post('_bulk_docs', good)).json).toMatchObject([{ ok: true }, { ok: true }])
  })

  it('means what the parent had, not what the document has now', async () => {
    const db = await client().database()
    await db.replicate(
      { _id: 'doc', _rev: '1-a', _attachments: { x: { ...inline('of a'), revpos: 1 } } },
      { _id: 'doc', _rev: '1-b', _attachments: { x: { ...inline('of b'), revpos: 1 } } },
    )
    const onLoser = await db.save('doc', { _rev: '1-a', _attachments: { x: STUB } })
    expect((await db.get(`doc/x?rev=${onLoser}`)).text).toBe('of a')
    expect((await db.get('doc/x?rev=1-b')).text).toBe('of b')
    const onOther = await db.save('doc', { _rev: '1-b', _attachments: { x: STUB } })
    expect((await db.get(`doc/x?rev=${onOther}`)).text).toBe('of b')
  })

  it('finds nothing on a tombstone that lost all', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { a: inline('one') } })
    await db.remove('doc', first)
    expect((await db.put('doc', { _attachments: { a: STUB } })).status).toBe(412)
    await db.save('doc', {})
    expect((await db.get('doc')).text).not.toContain('_attachments')
  })
})

describe('a document that is written without its attachments', () => {
  it('loses those that it does not list', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { a: inline('one'), b: inline('two') } })
    const second = await db.save('doc', { _rev: first, _attachments: { b: STUB } })
    expect(Object.keys(await entries(db, 'doc'))).toEqual(['b'])
    await db.save('doc', { _rev: second, n: 3 })
    expect((await db.get('doc')).text).not.toContain('_attachments')
    expect((await db.get('doc/b')).status).toBe(404)
    expect((await db.get(`doc/a?rev=${first}`)).text).toBe('one')
    expect((await db.get(`doc/b?rev=${second}`)).text).toBe('two')
  })
})

describe('a replicated stub', () => {
  it('is what the nearest ancestor has', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { a: inline('one') } })
    const id = first.slice(2)
    await db.replicate({
      _id: 'doc',
      _revisions: { start: 3, ids: ['c', 'b', id] },
      _attachments: { a: { stub: true, revpos: 1 }, n: { ...inline('new'), revpos: 3 } },
    })
    expect((await entries(db, 'doc?rev=3-c')).a).toMatchObject({ revpos: 1, digest: digestOf('one') })
    expect((await db.get('doc/a?rev=3-c')).text).toBe('one')
    expect((await db.get('doc/n?rev=3-c')).text).toBe('new')
  })

  it('is refused when nothing is known of its ancestors', async () => {
    const db = await client().database()
    const document = { _revisions: { start: 2, ids: ['b', 'a'] }, _attachments: { a: { stub: true, revpos: 1 } } }
    const reason = 'Previous revision missing for document doc'
    expectRefusal(await db.put('doc?new_edits=false', document), 412, 'missing_stub', reason)
    const docs = [
      { _id: 'other', _rev: '1-x' },
      { _id: 'doc', ...document },
    ]
    expectRefusal(await db.post('_bulk_docs', { new_edits: false, docs }), 412, 'missing_stub', reason)
    expect(await db.info()).toMatchObject({ doc_count: 0, update_seq: 0 })
  })

  it('is refused when the ancestor has no such attachment', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { a: inline('one') } })
    const _revisions = { start: 2, ids: ['b', first.slice(2)] }
    const reply = await db.put('doc?new_edits=false', { _revisions, _attachments: { x: STUB } })
    expectMissingStub(reply, 'doc', 'x')
  })

  it('of a revision that is known already changes nothing', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { a: inline('one') } })
    const document = (await db.get('doc?revs=true')).text
    const before = await db.state()
    const reply = await db.put('doc?new_edits=false', document)
    expect([201, 412], reply.text).toContain(reply.status)
    expect(await db.state()).toEqual(before)
    expect((await db.get(`doc/a?rev=${first}`)).text).toBe('one')
  })
})

describe('a copy', () => {
  async function source(): Promise<{ db: TestDatabase; first: string; second: string }> {
    const db = await client().database()
    const first = await db.save('source', { n: 1, _attachments: { a: inline('one', 'text/plain') } })
    const second = await attach(db, `source/b?rev=${first}`, 'two', 'image/png')
    return { db, first, second }
  }

  it('has the same attachments', async () => {
    const { db } = await source()
    expect((await db.copy('source', 'target')).status).toBe(201)
    expect(await entries(db, 'target?att_encoding_info=true')).toEqual(
      await entries(db, 'source?att_encoding_info=true'),
    )
    expect((await entries(db, 'target')).b?.revpos).toBe(2)
    expect((await db.get('target/a')).text).toBe('one')
    expect((await db.get('target/b')).text).toBe('two')
  })

  it('has those of the revision that is copied', async () => {
    const { db, first } = await source()
    await db.copy(`source?rev=${first}`, 'target')
    expect(Object.keys(await entries(db, 'target'))).toEqual(['a'])
  })

  it('replaces those of its target', async () => {
    const { db } = await source()
    const target = await db.save('target', { _attachments: { a: inline('old'), x: inline('x') } })
    await db.copy('source', `target?rev=${target}`)
    expect(Object.keys(await entries(db, 'target')).sort()).toEqual(['a', 'b'])
    expect((await db.get('target/a')).text).toBe('one')
    expect((await db.get(`target/a?rev=${target}`)).text).toBe('old')
  })

  it('may be a design document', async () => {
    const { db } = await source()
    await db.copy('source', '_design/d')
    expect((await db.get('_design/d/a')).text).toBe('one')
  })

  it('does not depend on its source any more', async () => {
    const { db, second } = await source()
    await db.copy('source', 'target')
    await db.copy('target', 'third')
    const tombstone = await db.remove('source', second)
    await db.compact()
    await db.post('_purge', { source: [tombstone] })
    await db.compact()
    expect((await db.get('source')).status).toBe(404)
    for (const id of ['target', 'third']) {
      expect((await db.get(`${id}/a`)).text).toBe('one')
      expect((await db.get(`${id}/b`)).text).toBe('two')
    }
  })
})

describe('attachments after a compaction', () => {
  it('are there for every leaf, and gone with the bodies of inner revisions', async () => {
    const db = await client().database()
    const content = randomBytes(200_000)
    const first = await db.save('doc', { _attachments: { keep: inline(content), old: inline('old') } })
    const second = await db.save('doc', { _rev: first, _attachments: { keep: STUB, changed: inline('second') } })
    const third = await db.save('doc', { _rev: second, _attachments: { keep: STUB, changed: inline('third') } })
    await db.replicate({ _id: 'doc', _rev: '1-a', _attachments: { branch: inline('of a branch') } })
    const gone = await db.save('gone', { _attachments: { a: inline('one') } })
    const tombstone = (await db.put('gone', { _rev: gone, _deleted: true, _attachments: { a: STUB } })).rev
    for (let round = 0; round < 2; round++) {
      await db.compact()
      expect((await db.get('doc/keep')).body.equals(content)).toBe(true)
      expect((await db.get('doc/changed')).text).toBe('third')
      expect((await db.get('doc/branch?rev=1-a')).text).toBe('of a branch')
      expect((await db.get(`gone/a?rev=${tombstone}`)).text).toBe('one')
      for (const path of [`doc/old?rev=${first}`, `doc/keep?rev=${second}`, `gone/a?rev=${gone}`]) {
        expectRefusal(await db.get(path), 404, 'not_found', 'missing')
      }
    }
    const fourth = await db.save('doc', { _rev: third, _attachments: { keep: STUB, changed: STUB } })
    expect((await entries(db, 'doc')).keep).toMatchObject({ revpos: 1, digest: digestOf(content) })
    expect((await db.get(`doc/keep?rev=${fourth}`)).body.equals(content)).toBe(true)
  })

  it('take no space when nothing refers to them', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', randomBytes(2_000_000))
    await db.compact()
    const full = (await db.info()).data_size
    await db.remove('doc', first)
    await db.compact()
    expect((await db.info()).data_size).toBeLessThan(full - 1_000_000)
  })

  it('are still there for a reader that began before', async () => {
    const db = await client().database()
    const content = randomBytes(5_000_000)
    const first = await attach(db, 'doc/a', content)
    const reading = db.get('doc/a')
    await db.remove('doc', first)
    await db.compact()
    const reply = await reading
    if (reply.status === 200) expect(reply.body.equals(content)).toBe(true)
    else expect(reply.status).toBe(404)
  })
})

describe('attachments after a purge', () => {
  it('are gone with the document', async () => {
    const db = await client().database()
    const rev = await attach(db, 'doc/a', 'one')
    await db.post('_purge', { doc: [rev] })
    expect((await db.get('doc/a')).status).toBe(404)
    expect((await db.get(`doc/a?rev=${rev}`)).status).toBe(404)
    expect((await db.put('doc', { _attachments: { a: STUB } })).status).toBe(412)
    expect(await attach(db, 'doc/a', 'again')).toMatch(/^1-/)
    expect((await db.get('doc/a')).text).toBe('again')
  })

  it('stay on the branches that stay', async () => {
    const db = await client().database()
    await db.replicate(
      { _id: 'doc', _rev: '1-a', _attachments: { x: inline('of a') } },
      { _id: 'doc', _rev: '1-b', _attachments: { x: inline('of b') } },
    )
    await db.post('_purge', { doc: ['1-b'] })
    expect((await db.get('doc/x')).text).toBe('of a')
  })
})

describe('attachments of databases', () => {
  it('do not come back with a database of the same name', async () => {
    const db = await client().database()
    await attach(db, 'doc/a', 'one')
    await db.request('DELETE')
    await db.request('PUT')
    expect((await db.get('doc/a')).status).toBe(404)
    expect(await attach(db, 'doc/a', 'two')).toMatch(/^1-/)
    expect((await db.get('doc/a')).text).toBe('two')
  })
})
