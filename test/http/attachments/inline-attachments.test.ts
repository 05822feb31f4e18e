/** Attachments inside the JSON of their document, in and out. */
import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import {
  attach,
  base64,
  type DocumentWithAttachments,
  digestOf,
  entries,
  inline,
  OCTETS,
} from '../../support/attachments.ts'
import { expectRefusal, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

describe('a document that is written with its attachments', () => {
  it('has the same revision as in CouchDB', async () => {
    const db = await client().database()
    const h = inline('hello')
    const w = inline('world')
    expect(await db.save('one', { _attachments: { 'h.bin': h } })).toBe('1-e4d1953e9109ff8917fd2229e22521c6')
    expect(await db.save('two', { _attachments: { 'h.bin': h, 'w.bin': w } })).toBe(
      '1-20a454f0544a335bcaf28e29f073572c',
    )
  })

  it('lists its attachments, and returns them', async () => {
    const db = await client().database()
    const png = randomBytes(100)
    const rev = await db.save('doc', { n: 1, _attachments: { a: inline('one'), 'b/c': inline(png, 'image/png') } })
    expect((await db.get('doc')).json).toEqual({
      _id: 'doc',
      _rev: rev,
      n: 1,
      _attachments: {
        a: { content_type: OCTETS, revpos: 1, digest: digestOf('one'), length: 3, stub: true },
        'b/c': { content_type: 'image/png', revpos: 1, digest: digestOf(png), length: 100, stub: true },
      },
    })
    expect((await db.get('doc/a')).text).toBe('one')
    const reply = await db.get('doc/b/c')
    expect([reply.headers['content-type'], reply.body.equals(png)]).toEqual(['image/png', true])
  })

  it('keeps them in the order in which they were listed', async () => {
    const db = await client().database()
    const entry = JSON.stringify(inline('x'))
    await db.put('doc', `{"_attachments":{"b":${entry},"2":${entry},"a":${entry},"1":${entry}},"z":1}`)
    const text = (await db.get('doc')).text
    const names = [...text.matchAll(/"([^"]+)":\{"content_type"/g)].map(([, name]) => name)
    expect(names).toEqual(['b', '2', 'a', '1'])
    expect(text).toMatch(/"z":1,"_attachments":\{/)
  })

  it('defaults to application/octet-stream', async () => {
    const db = await client().database()
    await db.save('doc', { _attachments: { a: { data: base64('x') } } })
    expect((await entries(db, 'doc')).a?.content_type).toBe(OCTETS)
  })

  it('ignores what the client declares about the content', async () => {
    const db = await client().database()
    const claims = { ...inline('content'), revpos: 9, digest: 'md5-AAAAAAAAAAAAAAAAAAAAAA==', length: 1000 }
    await db.save('doc', { _attachments: { a: claims } })
    expect((await entries(db, 'doc')).a).toEqual({
      content_type: OCTETS,
      revpos: 1,
      digest: digestOf('content'),
      length: 7,
      stub: true,
    })
  })

  it('may come by POST and in bulk', async () => {
    const db = await client().database()
    const _attachments = { a: inline('content') }
    const posted = await db.post('', { _id: 'posted', _attachments })
    expect(posted.status).toBe(201)
    const bulk = await db.post('_bulk_docs', {
      docs: [{ _id: 'bulk', _attachments }, { _id: 'without' }, { _id: 'second', _attachments }],
    })
    expect(bulk.as<{ rev: string }[]>().map(({ rev }) => rev)).toEqual([
      posted.rev,
      '1-967a00dff5e02add41819138abb3284d',
      posted.rev,
    ])
    for (const id of ['posted', 'bulk', 'second']) expect((await db.get(`${id}/a`)).text).toBe('content')
  })

  it('may have none, or an empty list of them', async () => {
    const db = await client().database()
    expect(await db.save('doc', { _attachments: {} })).toBe('1-967a00dff5e02add41819138abb3284d')
    expect((await db.get('doc')).text).not.toContain('_attachments')
    expect((await db.get('doc?attachments=true')).text).not.toContain('_attachments')
  })

  it('may have many, and large ones', async () => {
    const db = await client().database()
    const large = randomBytes(3_000_000)
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`name ${n} ü`, inline(`content ${n}`)]))
    await db.save('doc', { _attachments: { ...many, large: inline(large) } })
    const shown = await entries(db, 'doc')
    expect(Object.keys(shown)).toEqual([...Object.keys(many), 'large'])
    expect((await db.get('doc/large')).body.equals(large)).toBe(true)
    expect((await db.get(`doc/${encodeURIComponent('name 499 ü')}`)).text).toBe('content 499')
    const whole = await entries(db, 'doc?attachments=true')
    expect(whole.large?.data === base64(large)).toBe(true)
    expect(whole['name 0 ü']?.data).toBe(base64('content 0'))
  })

  it('may be a design document', async () => {
    const db = await client().database()
    await db.save('_design/d', { views: {}, _attachments: { 'index.html': inline('<p>', 'text/html') } })
    const reply = await db.get('_design/d/index.html')
    expect([reply.text, reply.headers['content-type']]).toEqual(['<p>', 'text/html'])
  })

  it('is never a local one', async () => {
    const db = await client().database()
    await db.put('_local/x', { n: 1, _attachments: { a: inline('x') } })
    expect((await db.get('_local/x')).text).not.toContain('_attachments')
  })

  it('may be a tombstone', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { a: inline('one') } })
    const kept = { _rev: first, _deleted: true, _attachments: { a: { stub: true }, b: inline('two') } }
    const reply = await db.put('doc', kept)
    expect(reply.status).toBe(200)
    expect((await db.get('doc/a')).status).toBe(404)
    expect(Object.keys(await entries(db, `doc?rev=${reply.rev}`))).toEqual(['a', 'b'])
    expect((await db.get(`doc/a?rev=${reply.rev}`)).text).toBe('one')
    expect((await db.get(`doc/b?rev=${reply.rev}`)).text).toBe('two')
  })

  it('loses them when it is deleted', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { a: inline('one') } })
    const tombstone = await db.remove('doc', first)
    expect((await db.get(`doc?rev=${tombstone}`)).json).toEqual({ _id: 'doc', _rev: tombstone, _deleted: true })
    expect((await db.get(`doc/a?rev=${tombstone}`)).status).toBe(404)
    expect((await db.get(`doc/a?rev=${first}`)).text).toBe('one')
  })
})

describe('content that cannot be read', () => {
  it.each([
    ['no base64', { data: '!!!!' }],
    ['with characters of another alphabet', { data: 'aGVs_bG8-' }],
    ['a number', { data: 5 }],
    ['null', { data: null }],
    ['an object', { data: {} }],
    ['not there', { content_type: 'text/plain' }],
    ['not there, as a false stub says', { stub: false }],
  ])('because it is %s, is refused', async (_, entry) => {
    const db = await client().database()
    await db.save('other', {})
    const before = await db.state()
    const document = { _attachments: { good: inline('x'), bad: entry } }
    const reason = 'Invalid attachment data for bad'
    expectRefusal(await db.put('doc', document), 400, 'bad_request', reason)
    expectRefusal(await db.post('', document), 400, 'bad_request', reason)
    const docs = [{ _id: 'first' }, document]
    expectRefusal(await db.post('_bulk_docs', { docs }), 400, 'bad_request', reason)
    expect(await db.state()).toEqual(before)
  })
})

describe('the names inside a document', () => {
  it('do not begin with an underscore', async () => {
    const db = await client().database()
    const reason = "Attachment name can't start with '_'"
    const _attachments = { _a: inline('x') }
    expectRefusal(await db.put('doc', { _attachments }), 400, 'bad_request', reason)
    expectRefusal(await db.post('_bulk_docs', { docs: [{ _id: 'x' }, { _attachments }] }), 400, 'bad_request', reason)
    expect(await db.info()).toMatchObject({ doc_count: 0 })
  })

  it('are not empty', async () => {
    const db = await client().database()
    const reply = await db.put('doc', { _attachments: { '': inline('x') } })
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([400, 'bad_request'])
  })

  it.each([
    'a/b',
    'ü ☃ 🐝',
    'say "hello"',
    'back\\slash',
    'a\r\nb',
    'tab\t',
    '%2F',
    '?#&',
    'constructor',
    '.',
    ' ',
    '\u0000',
  ])('may be %j', async (name) => {
    const db = await client().database()
    await db.save('doc', { _attachments: { [name]: inline('content') } })
    expect(Object.keys(await entries(db, 'doc'))).toEqual([name])
    expect((await db.get(`doc/${encodeURIComponent(name)}`)).text).toBe('content')
  })
})

describe('a document that is read with its attachments', () => {
  it('has their contents', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { n: 1, _attachments: { a: inline('one'), b: inline('') } })
    const reply = await db.get('doc?attachments=true', { Accept: 'application/json' })
    expect(reply.text).toBe(
      `{"_id":"doc","_rev":"${rev}","n":1,"_attachments":{` +
        `"a":{"content_type":"${OCTETS}","revpos":1,"digest":"${digestOf('one')}","data":"b25l"},` +
        `"b":{"content_type":"${OCTETS}","revpos":1,"digest":"${digestOf('')}","data":""}}}\n`,
    )
    expect(reply.headers['content-type']).toBe('application/json')
    expect(reply.headers.etag).toBe(`"${rev}"`)
  })

  it.each([undefined, '*/*', 'text/html', 'multipart/related;q=0'])('is JSON when Accept is %s', async (accept) => {
    const db = await client().database()
    await attach(db, 'doc/a', 'one')
    const reply = await db.get('doc?attachments=true', { Accept: accept })
    expect(reply.headers['content-type']).toBe('text/plain;charset=utf-8')
    expect(reply.as<DocumentWithAttachments>()._attachments.a?.data).toBe('b25l')
    expect(reply.headers['content-length']).toBe(String(reply.body.length))
  })

  it('may be one of its older revisions', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', 'one')
    const second = await attach(db, `doc/a?rev=${first}`, 'two')
    await attach(db, `doc/a?rev=${second}`, 'three')
    expect((await entries(db, `doc?rev=${second}&attachments=true`)).a).toMatchObject({
      revpos: 2,
      data: base64('two'),
    })
  })

  it('has those that are newer than what the client has', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', 'one')
    const second = await attach(db, `doc/b?rev=${first}`, 'two')
    const third = await attach(db, `doc/c?rev=${second}`, 'three')
    const withContent = async (list: unknown) => {
      const shown = await entries(db, `doc?atts_since=${encodeURIComponent(JSON.stringify(list))}`)
      for (const entry of Object.values(shown)) expect(entry.data === undefined).toBe(entry.stub === true)
      return Object.keys(shown).filter((name) => shown[name]?.data !== undefined)
    }
    expect(await withContent([third])).toEqual([])
    expect(await withContent([second])).toEqual(['c'])
    expect(await withContent([first])).toEqual(['c', 'b'])
    expect(await withContent([first, second])).toEqual(['c'])
    expect(await withContent(['1-abc'])).toEqual(['c', 'b', 'a'])
    expect(await withContent(['1-abc', first])).toEqual(['c', 'b'])
  })

  it('needs a list of revisions there', async () => {
    const db = await client().database()
    await attach(db, 'doc/a', 'one')
    for (const list of ['x', '5', '{}', '[5]', '["x"]', '']) {
      expect((await db.get(`doc?atts_since=${encodeURIComponent(list)}`)).status, list).toBe(400)
    }
  })

  it('may be each of several revisions', async () => {
    const db = await client().database()
    await db.replicate(
      { _id: 'doc', _rev: '1-a', _attachments: { x: inline('of a') } },
      { _id: 'doc', _rev: '1-b', _attachments: { x: inline('of b') } },
      { _id: 'doc', _rev: '1-c' },
    )
    const open = async (query: string) =>
      (await db.get(`doc?open_revs=all${query}`)).as<{ ok: DocumentWithAttachments }[]>().map(({ ok }) => ok)
    for (const document of await open('')) {
      expect(document._attachments?.x?.stub).toBe(document._rev === '1-c' ? undefined : true)
    }
    const contents = (await open('&attachments=true')).map(({ _rev, _attachments }) => [_rev, _attachments?.x?.data])
    expect(contents.sort()).toEqual([
      ['1-a', base64('of a')],
      ['1-b', base64('of b')],
      ['1-c', undefined],
    ])
  })

  it('may be a row of a listing', async () => {
    const db = await client().database()
    await db.save('a', { _attachments: { x: inline('one') } })
    await db.save('b', {})
    const rows = async (query: string) =>
      (await db.get(`_all_docs?include_docs=true${query}`)).as<{ rows: { doc: DocumentWithAttachments }[] }>().rows
    expect((await rows(''))[0]?.doc._attachments.x).toMatchObject({ stub: true, length: 3 })
    expect((await rows('&attachments=true'))[0]?.doc._attachments.x?.data).toBe(base64('one'))
    const posted = await db.post('_all_docs?include_docs=true&attachments=true', { keys: ['b', 'a'] })
    expect(posted.as<{ rows: { doc: DocumentWithAttachments }[] }>().rows[1]?.doc._attachments.x?.data).toBe(
      base64('one'),
    )
  })

  it('can be written back as it is', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { _attachments: { a: inline('one'), t: inline('text', 'text/plain') } })
    const read = (await db.get('doc?attachments=true&att_encoding_info=true&revs=true&meta=true')).text
    const second = (await db.put('doc', read)).rev
    expect(second.slice(0, 2)).toBe('2-')
    expect((await db.get('doc/t')).text).toBe('text')
    expect((await entries(db, 'doc')).a?.digest).toBe((await entries(db, `doc?rev=${rev}`)).a?.digest)
  })
})

describe('replicated revisions', () => {
  it('keep the generation that they say their attachments have', async () => {
    const db = await client().database()
    const ids = ['c', 'b', 'a']
    await db.replicate({
      _id: 'doc',
      _revisions: { start: 3, ids },
      _attachments: { old: { ...inline('one'), revpos: 1 }, recent: { ...inline('two'), revpos: 3 } },
    })
    const { old, recent } = await entries(db, 'doc')
    expect([old?.revpos, recent?.revpos]).toEqual([1, 3])
    expect((await db.get('doc/recent?rev=3-c')).text).toBe('two')
  })

  it('have revpos 0 when they declare none', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'doc', _rev: '2-a', _attachments: { x: inline('one') } })
    expect((await entries(db, 'doc')).x?.revpos).toBe(0)
    const reply = await db.put('doc2?new_edits=false', {
      _rev: '2-a',
      _attachments: { x: { ...inline('one'), revpos: 2 } },
    })
    expect(reply.status).toBe(201)
    expect((await entries(db, 'doc2')).x?.revpos).toBe(2)
  })

  it('have attachments on every branch', async () => {
    const db = await client().database()
    for (const rev of ['1-a', '1-b']) {
      await db.replicate({ _id: 'doc', _rev: rev, _attachments: { x: { ...inline(`of ${rev}`), revpos: 1 } } })
    }
    expect((await db.get('doc/x')).text).toBe('of 1-b')
    expect((await db.get('doc/x?rev=1-a')).text).toBe('of 1-a')
    await db.remove('doc', '1-b')
    expect((await db.get('doc/x')).text).toBe('of 1-a')
  })
})
