/** Documents and their attachments in one multipart body, written, read, and read as several revisions. */
import { randomBytes } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import {
  attach,
  base64,
  boundaryOfReply,
  type DocumentWithAttachments,
  digestOf,
  entries,
  inline,
  multipart,
  OCTETS,
  partsOfReply,
  RELATED,
  related,
} from '../../support/attachments.ts'
import { expectConflict, expectRefusal, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

const ACCEPT_RELATED = { Accept: 'multipart/related' }
const ACCEPT_MIXED = { Accept: 'multipart/mixed' }
const TEXT = 'It is a truth universally acknowledged. '.repeat(50)

function follows(content: string | Buffer, contentType = OCTETS): Record<string, unknown> {
  return { follows: true, content_type: contentType, length: Buffer.byteLength(content) }
}

function relatedParts(reply: Reply) {
  return partsOfReply(reply, boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/related'))
}

describe('a document that is read as multipart/related', () => {
  it('is its JSON and its attachments, byte for byte', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { n: 1, _attachments: { 'a.bin': inline('one'), b: inline('', 'image/png') } })
    const reply = await db.get('doc?attachments=true', ACCEPT_RELATED)
    expect(reply.status).toBe(200)
    expect(reply.headers.etag).toBe(`"${rev}"`)
    expect(reply.headers['content-length']).toBe(String(reply.body.length))
    const boundary = boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/related')
    expect(reply.headers['content-type']).toBe(`multipart/related; boundary="${boundary}"`)
    expect(reply.text).toBe(
      `--${boundary}\r\nContent-Type: application/json\r\n\r\n` +
        `{"_id":"doc","_rev":"${rev}","n":1,"_attachments":{` +
        `"a.bin":{"content_type":"${OCTETS}","revpos":1,"digest":"${digestOf('one')}","length":3,"follows":true},` +
        `"b":{"content_type":"image/png","revpos":1,"digest":"${digestOf('')}","length":0,"follows":true}}}` +
        `\r\n--${boundary}\r\nContent-Disposition: attachment; filename="a.bin"\r\nContent-Type: ${OCTETS}` +
        `\r\nContent-Length: 3\r\n\r\none\r\n--${boundary}` +
        '\r\nContent-Disposition: attachment; filename="b"\r\nContent-Type: image/png' +
        `\r\nContent-Length: 0\r\n\r\n\r\n--${boundary}--`,
    )
  })

  it('has compressed contents as they are stored', async () => {
    const db = await client().database()
    await attach(db, 'doc/a', TEXT, 'text/plain')
    const [document, content] = relatedParts(await db.get('doc?attachments=true', ACCEPT_RELATED))
    const stored = content?.body ?? Buffer.alloc(0)
    expect(gunzipSync(stored).toString()).toBe(TEXT)
    expect(content?.headers).toEqual({
      'content-disposition': 'attachment; filename="a"',
      'content-type': 'text/plain',
      'content-length': String(stored.length),
      'content-encoding': 'gzip',
    })
    expect(document?.body.toString()).toContain(
      `"length":2000,"follows":true,"encoding":"gzip","encoded_length":${stored.length}}`,
    )
  })

  it.each([
    'multipart/related',
    'multipart/*',
    'Multipart/Related',
    'application/json;q=0.5, multipart/related',
    'multipart/related;q=0.1, */*',
  ])('is sent when Accept is %s', async (accept) => {
    const db = await client().database()
    await attach(db, 'doc/a', 'one')
    const reply = await db.get('doc?attachments=true', { Accept: accept })
    expect(reply.headers['content-type']).toMatch(/^multipart\/related; boundary=/)
    expect(relatedParts(reply)).toHaveLength(2)
  })

  it.each([undefined, '*/*', 'application/json', 'multipart/related;q=0', 'multipart/mixed', 'xmultipart/related'])(
    'is not so when Accept is %s',
    async (accept) => {
      const db = await client().database()
      await attach(db, 'doc/a', 'one')
      const reply = await db.get('doc?attachments=true', { Accept: accept })
      expect(reply.as<DocumentWithAttachments>()._attachments.a?.data).toBe(base64('one'))
    },
  )

  it('is plain JSON when it has no attachments, or their contents were not asked for', async () => {
    const db = await client().database()
    await db.save('none', { n: 1 })
    await attach(db, 'doc/a', 'one')
    expect((await db.get('none?attachments=true', ACCEPT_RELATED)).json).toMatchObject({ _id: 'none', n: 1 })
    expect((await db.get('doc', ACCEPT_RELATED)).json).toMatchObject({ _attachments: { a: { stub: true } } })
  })

  it('has a head of its own', async () => {
    const db = await client().database()
    await attach(db, 'doc/a', 'one')
    const { headers } = await db.get('doc?attachments=true', ACCEPT_RELATED)
    const reply = await db.head('doc?attachments=true', ACCEPT_RELATED)
    expect([reply.status, reply.body.length]).toEqual([200, 0])
    expect(reply.headers['content-length']).toBe(headers['content-length'])
    expect(reply.headers['content-type']).toMatch(/^multipart\/related; boundary="[0-9a-f]{32}"$/)
  })

  it('is not repeated for a client that has it', async () => {
    const db = await client().database()
    const rev = await attach(db, 'doc/a', 'one')
    const reply = await db.get('doc?attachments=true', { ...ACCEPT_RELATED, 'If-None-Match': `"${rev}"` })
    expect([reply.status, reply.body.length]).toEqual([304, 0])
  })

  it('may be an older revision, with its history', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', 'one')
    const second = await attach(db, `doc/a?rev=${first}`, 'two')
    await attach(db, `doc/a?rev=${second}`, 'three')
    const reply = await db.get(`doc?rev=${second}&revs=true&attachments=true`, ACCEPT_RELATED)
    const [document, content] = relatedParts(reply)
    expect(document?.body.toString()).toMatch(/"_revisions":\{"start":2,[^}]+\},"_attachments":\{"a":\{/)
    expect(content?.body.toString()).toBe('two')
  })

  it('has only what is newer than what the client has', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', 'one')
    const second = await attach(db, `doc/b?rev=${first}`, 'two')
    const since = (rev: string) => `doc?atts_since=${encodeURIComponent(JSON.stringify([rev]))}`
    const parts = relatedParts(await db.get(since(first), ACCEPT_RELATED))
    expect(parts.map(({ headers }) => headers['content-disposition'])).toEqual([undefined, 'attachment; filename="b"'])
    expect(JSON.parse(parts[0]?.body.toString() ?? '')).toMatchObject({
      _attachments: { a: { stub: true, length: 3 }, b: { follows: true, length: 3 } },
    })
    const nothing = await db.get(since(second), ACCEPT_RELATED)
    expect(nothing.headers['content-type']).toBe('application/json')
    expect(nothing.text).toMatch(/\}$/)
    expect(nothing.json).toMatchObject({ _attachments: { a: { stub: true }, b: { stub: true } } })
  })

  it('has large contents, and content that looks like a boundary', async () => {
    const db = await client().database()
    const large = randomBytes(5_000_000)
    const tricky = Buffer.from('\r\n--\r\n--abc123\r\n\r\n--abc123--\r\n')
    await db.save('doc', { _attachments: { large: inline(large), tricky: inline(tricky) } })
    const reply = await db.get('doc?attachments=true', ACCEPT_RELATED)
    expect(reply.headers['content-length']).toBe(String(reply.body.length))
    const [, first, second] = relatedParts(reply)
    expect(first?.body.equals(large)).toBe(true)
    expect(second?.body.equals(tricky)).toBe(true)
  })

  it('can be written to another server as it is', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { _attachments: { t: inline(TEXT, 'text/plain'), b: inline('bin') } })
    const reply = await db.get('doc?attachments=true&revs=true', ACCEPT_RELATED)
    const other = await client().database()
    const type = { 'Content-Type': reply.headers['content-type'] }
    const written = await other.put('doc?new_edits=false', reply.body, type)
    expect([written.status, written.text]).toEqual([201, `{"ok":true,"id":"doc","rev":"${rev}"}\n`])
    expect((await other.get('doc/t')).text).toBe(TEXT)
    expect((await other.get('doc/b')).text).toBe('bin')
    expect((await entries(other, 'doc')).t?.length).toBe(TEXT.length)
  })

  it('says every name so that it can be read back', async () => {
    const db = await client().database()
    const names = ['ü ☃', 'say "hello"', 'back\\slash', 'a\r\nX-Odd: y', 'a;b=c', "it's", '%22', 'tab\t', '\\"', 'a/b']
    const rev = await db.save('doc', {
      _attachments: Object.fromEntries(names.map((name) => [name, inline(`content of ${name}`)])),
    })
    const reply = await db.get('doc?attachments=true&revs=true', ACCEPT_RELATED)
    const parts = relatedParts(reply)
    expect(parts).toHaveLength(names.length + 1)
    for (const { headers } of parts.slice(1)) {
      expect(Object.keys(headers)).toEqual(['content-disposition', 'content-type', 'content-length'])
    }
    const other = await client().database()
    const written = await other.put('doc?new_edits=false', reply.body, {
      'Content-Type': reply.headers['content-type'],
    })
    expect([written.status, written.rev]).toEqual([201, rev])
    for (const name of names) {
      expect((await other.get(`doc/${encodeURIComponent(name)}`)).text).toBe(`content of ${name}`)
    }
  })
})

describe('a document that is written as multipart/related', () => {
  it('has the attachments that follow it', async () => {
    const db = await client().database()
    const document = { n: 1, _attachments: { a: follows('hello'), b: follows('world', 'image/png') } }
    const reply = await db.put('doc', related(document, ['hello', 'world']), RELATED)
    expect(reply.status, reply.text).toBe(201)
    expect(reply.headers.etag).toBe(`"${reply.rev}"`)
    expect(reply.headers.location).toBe(`${db.url}/doc`)
    expect(await entries(db, 'doc')).toEqual({
      a: { content_type: OCTETS, revpos: 1, digest: digestOf('hello'), length: 5, stub: true },
      b: { content_type: 'image/png', revpos: 1, digest: digestOf('world'), length: 5, stub: true },
    })
    expect((await db.get('doc/a')).text).toBe('hello')
    expect((await db.get('doc/b')).text).toBe('world')
  })

  it('has the revision that it would have with its attachments inside', async () => {
    const db = await client().database()
    const document = { _attachments: { 'h.bin': follows('hello'), 'w.bin': follows('world') } }
    const reply = await db.put('doc', related(document, ['hello', 'world']), RELATED)
    expect(reply.rev).toBe('1-20a454f0544a335bcaf28e29f073572c')
    const text = { _attachments: { t: follows(TEXT, 'text/plain') } }
    const twin = await db.save('twin', { _attachments: { t: inline(TEXT, 'text/plain') } })
    expect((await db.put('text', related(text, [TEXT]), RELATED)).rev).toBe(twin)
  })

  it.each([
    ['without quotes', 'multipart/related; boundary=abc123'],
    ['in quotes', 'multipart/related; boundary="abc123"'],
    ['after other parameters', 'multipart/related; type="application/json"; boundary="abc123"'],
    ['without a blank', 'multipart/related;boundary=abc123'],
    ['in capitals', 'Multipart/Related; Boundary="abc123"'],
  ])('may name its boundary %s', async (_, type) => {
    const db = await client().database()
    const body = related({ _attachments: { a: follows('hello') } }, ['hello'])
    expect((await db.put('doc', body, { 'Content-Type': type })).status).toBe(201)
    expect((await db.get('doc/a')).text).toBe('hello')
  })

  it('may come between other text', async () => {
    const db = await client().database()
    const body = related({ _attachments: { a: follows('hello') } }, ['hello'])
    const surrounded = Buffer.concat([Buffer.from('preamble\r\n'), body, Buffer.from('\r\nepilogue\r\n--abc123--')])
    expect((await db.put('doc', surrounded, RELATED)).status).toBe(201)
    expect((await db.get('doc/a')).text).toBe('hello')
    const spaced = Buffer.concat([Buffer.from('\r\n'), body, Buffer.from('\r\n')])
    expect((await db.put('doc2', spaced, RELATED)).status).toBe(201)
  })

  it('may have nothing to follow', async () => {
    const db = await client().database()
    const reply = await db.put('doc', related({ n: 1 }, []), RELATED)
    expect(reply.status, reply.text).toBe(201)
    expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: reply.rev, n: 1 })
  })

  it('takes contents by their order', async () => {
    const db = await client().database()
    const body = '{"_attachments":{"2":{"follows":true,"length":3},"1":{"follows":true,"length":5}}}'
    await db.put('doc', related(body, ['two', 'one..']), RELATED)
    expect((await db.get('doc/2')).text).toBe('two')
    expect((await db.get('doc/1')).text).toBe('one..')
  })

  it('takes contents by their names when all have one', async () => {
    const db = await client().database()
    const document = { _attachments: { a: follows('one'), 'say "b"': follows('second') } }
    const contents = [
      { name: 'say \\"b\\"', content: 'second' },
      { name: 'a', content: 'one' },
    ]
    const reply = await db.put('doc', related(document, contents), RELATED)
    expect(reply.status, reply.text).toBe(201)
    expect((await db.get('doc/a')).text).toBe('one')
    expect((await db.get(`doc/${encodeURIComponent('say "b"')}`)).text).toBe('second')
    expect(Object.keys(await entries(db, 'doc'))).toEqual(['a', 'say "b"'])
  })

  it('takes contents by their order when their names cannot be parsed', async () => {
    const db = await client().database()
    const document = { _attachments: { a: follows('one'), 'say "b"': follows('two'), c: follows('three') } }
    const contents = [
      { name: 'a', content: 'one' },
      { name: 'say "b"', content: 'two' },
      { name: 'c', content: 'three' },
    ]
    const reply = await db.put('doc', related(document, contents), RELATED)
    expect(reply.status, reply.text).toBe(201)
    expect((await db.get(`doc/${encodeURIComponent('say "b"')}`)).text).toBe('two')
    expect((await db.get('doc/c')).text).toBe('three')
  })

  it('may keep some, bring some inside, and have some follow', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { kept: inline('kept'), dropped: inline('dropped') } })
    const document = {
      _rev: first,
      _attachments: {
        first: follows('one'),
        kept: { stub: true },
        inside: inline('inside'),
        second: follows('two'),
      },
    }
    const reply = await db.put('doc', related(document, ['one', 'two']), RELATED)
    expect(reply.status, reply.text).toBe(201)
    const shown = await entries(db, 'doc?attachments=true')
    expect(Object.entries(shown).map(([name, { revpos, data }]) => [name, revpos, data])).toEqual([
      ['first', 2, base64('one')],
      ['kept', 1, base64('kept')],
      ['inside', 2, base64('inside')],
      ['second', 2, base64('two')],
    ])
  })

  it('may bring contents that are compressed', async () => {
    const db = await client().database()
    const packed = gzipSync(TEXT)
    const entry = {
      ...follows(TEXT, 'text/plain'),
      encoding: 'gzip',
      encoded_length: packed.length,
      digest: digestOf(packed),
    }
    const reply = await db.put('doc', related({ _attachments: { a: entry } }, [packed]), RELATED)
    expect(reply.status, reply.text).toBe(201)
    expect((await entries(db, 'doc?att_encoding_info=true')).a).toMatchObject({
      length: TEXT.length,
      encoding: 'gzip',
      encoded_length: packed.length,
    })
    expect((await db.get('doc/a')).text).toBe(TEXT)
    expect((await db.get('doc/a', { 'Accept-Encoding': 'gzip' })).body.equals(packed)).toBe(true)
  })

  it('may be one of another server, with its history', async () => {
    const db = await client().database()
    const document = {
      _revisions: { start: 3, ids: ['c', 'b', 'a'] },
      _attachments: { x: { ...follows('hello'), revpos: 2 } },
    }
    const reply = await db.put('doc?new_edits=false', related(document, ['hello']), RELATED)
    expect([reply.status, reply.rev]).toEqual([201, '3-c'])
    expect((await entries(db, 'doc')).x?.revpos).toBe(2)
    expect((await db.get('doc/x')).text).toBe('hello')
    const again = await db.put('doc?new_edits=false', related(document, ['hello']), RELATED)
    expect(again.status).toBe(201)
    expect(await db.info()).toMatchObject({ update_seq: 1 })
  })

  it('may be a design document, and may come in chunks', async () => {
    const db = await client().database()
    const content = randomBytes(1_000_000)
    const body = related({ _attachments: { a: follows(content) } }, [content])
    const reply = await db.put('_design/d', body, { ...RELATED, 'Transfer-Encoding': 'chunked' })
    expect(reply.status, reply.text).toBe(201)
    expect((await db.get('_design/d/a')).body.equals(content)).toBe(true)
  })

  it('may bring content that looks like a boundary', async () => {
    const db = await client().database()
    const content = '\r\n--abc12\r\n--abc1234\r\n\r\n--\r\n--abc123x--\r\n'
    const reply = await db.put('doc', related({ _attachments: { a: follows(content) } }, [content]), RELATED)
    expect(reply.status, reply.text).toBe(201)
    expect((await db.get('doc/a')).text).toBe(content)
  })

  it('that cannot be stored is read to its end, so that the connection can be used again', async () => {
    const db = await client().database()
    const rev = await db.save('doc', {})
    await db.save('doc', { _rev: rev })
    const content = randomBytes(4_000_000)
    const body = (document: object) => related({ ...document, _attachments: { a: follows(content) } }, [content])
    expectConflict(await db.put('doc', body({}), RELATED))
    expectConflict(await db.put('doc', body({ _rev: rev }), RELATED))
    const refused = await db.put('doc', body({ _odd: 1 }), RELATED)
    expect(refused.as<{ error: string }>().error).toBe('doc_validation')
    const missing = related({ _attachments: { a: follows(content), s: { stub: true } } }, [content])
    expect((await db.put('new', missing, RELATED)).status).toBe(412)
    expect(await db.info()).toMatchObject({ doc_count: 1, update_seq: 2 })
  })

  it.each([
    ['a content is missing', related({ _attachments: { a: follows('one'), b: follows('two') } }, ['one'])],
    ['all contents are missing', related({ _attachments: { a: follows('one') } }, [])],
    ['a content is too short', related({ _attachments: { a: { follows: true, length: 4 } } }, ['one'])],
    ['a content is too long', related({ _attachments: { a: { follows: true, length: 2 } } }, ['one'])],
    ['it has no parts', Buffer.from('--abc123--')],
    ['it has no boundary', Buffer.from('{}')],
    ['it is empty', Buffer.alloc(0)],
    ['its first part is no JSON', related('{', [])],
    ['its first part is no object', related('[]', [])],
    ['the end is missing', related({ _attachments: { a: follows('one') } }, ['one']).subarray(0, -2)],
    ['it stops within a content', related({ _attachments: { a: follows('one') } }, ['one']).subarray(0, -14)],
    ['it stops within the document', related({ n: 1 }, []).subarray(0, 40)],
  ])('is refused when %s', async (_, body) => {
    const db = await client().database()
    const reply = await db.put('doc', body, RELATED)
    expect([reply.status, reply.as<{ error: string }>().error], reply.text).toEqual([400, 'bad_request'])
    expect(await db.info()).toMatchObject({ doc_count: 0, update_seq: 0 })
  })

  it('is refused when its first part does not say that it is JSON', async () => {
    const db = await client().database()
    for (const headers of [[], ['Content-Type: text/plain']]) {
      const reply = await db.put('doc', multipart('abc123', [{ headers, body: '{}' }]), RELATED)
      expect([400, 415], reply.text).toContain(reply.status)
    }
    expect(await db.info()).toMatchObject({ doc_count: 0 })
  })

  it('is refused when it names no boundary', async () => {
    const db = await client().database()
    for (const type of ['multipart/related', 'multipart/related; boundary=', 'multipart/related; x=y']) {
      const reply = await db.put('doc', related({}, []), { 'Content-Type': type })
      expect([reply.status, reply.as<{ error: string }>().error]).toEqual([400, 'bad_request'])
    }
  })

  it('is refused when a content is not what its digest says', async () => {
    const db = await client().database()
    const entry = (digest: string) => ({ _attachments: { a: { ...follows('hello'), digest } } })
    const wrong = await db.put('doc', related(entry(digestOf('other')), ['hello']), RELATED)
    expectRefusal(wrong, 400, 'content_md5_mismatch', 'Possible message corruption.')
    expect((await db.get('doc')).status).toBe(404)
    expect((await db.put('doc', related(entry(digestOf('hello')), ['hello']), RELATED)).status).toBe(201)
  })
})

describe('revisions that are read as multipart/mixed', () => {
  async function forked(): Promise<TestDatabase> {
    const db = await client().database()
    await db.replicate(
      { _id: 'doc', _rev: '1-a', n: 1 },
      { _id: 'doc', _rev: '1-b', _attachments: { x: { ...inline('one'), revpos: 1 } } },
    )
    return db
  }

  function withContent(inner: string): string {
    return (
      `--${inner}\r\nContent-Type: application/json\r\n\r\n{"_id":"doc","_rev":"1-b","_attachments":{"x":{` +
      `"content_type":"${OCTETS}","revpos":1,"digest":"${digestOf('one')}","length":3,"follows":true}}}\r\n--${inner}` +
      `\r\nContent-Disposition: attachment; filename="x"\r\nContent-Type: ${OCTETS}\r\nContent-Length: 3\r\n\r\none` +
      `\r\n--${inner}--`
    )
  }

  function innerBoundary(text: string): string {
    const [, inner = ''] = /Content-Type: multipart\/related; boundary="([0-9a-f]{32})"/.exec(text) ?? []
    expect(inner).not.toBe('')
    return inner
  }

  it('are those that were asked for, then those that are missing, byte for byte', async () => {
    const db = await forked()
    const reply = await db.get('doc?open_revs=["1-a","1-c","1-b"]'.replaceAll('"', '%22'), ACCEPT_MIXED)
    expect(reply.status).toBe(200)
    expect(reply.headers.etag).toBeUndefined()
    expect(reply.headers['transfer-encoding']).toBe('chunked')
    const outer = boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/mixed')
    expect(reply.headers['content-type']).toBe(`multipart/mixed; boundary="${outer}"`)
    const inner = innerBoundary(reply.text)
    const parts = [
      '\r\nContent-Type: application/json\r\n\r\n{"_id":"doc","_rev":"1-a","n":1}',
      `\r\nContent-Type: multipart/related; boundary="${inner}"\r\n\r\n${withContent(inner)}`,
      '\r\nContent-Type: application/json; error="true"\r\n\r\n{"missing":"1-c"}',
    ]
    const asWritten = (list: string[]) => `--${outer}${list.map((part) => `${part}\r\n--${outer}`).join('')}--`
    const [a = '', b = '', missing = ''] = parts
    expect([asWritten([a, b, missing]), asWritten([b, a, missing])]).toContain(reply.text)
  })

  it('are all leaves, deleted ones too', async () => {
    const db = await forked()
    const tombstone = await db.remove('doc', '1-a')
    const reply = await db.get('doc?open_revs=all', ACCEPT_MIXED)
    const outer = boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/mixed')
    const parts = partsOfReply(reply, outer)
    expect(parts).toHaveLength(2)
    const plain = parts.find(({ headers }) => headers['content-type'] === 'application/json')
    expect(JSON.parse(plain?.body.toString() ?? '')).toEqual({ _id: 'doc', _rev: tombstone, _deleted: true })
    const nested = parts.find((part) => part !== plain)
    expect(nested?.body.toString()).toBe(withContent(innerBoundary(reply.text)))
  })

  it('are empty for an unknown document', async () => {
    const db = await client().database()
    const all = await db.get('doc?open_revs=all', ACCEPT_MIXED)
    const outer = boundaryOfReply(all.headers['content-type'] ?? '', 'multipart/mixed')
    expect([all.status, all.text]).toEqual([200, `--${outer}--`])
    const some = await db.get('doc?open_revs=%5B%221-a%22%5D', ACCEPT_MIXED)
    const boundary = boundaryOfReply(some.headers['content-type'] ?? '', 'multipart/mixed')
    expect(some.text).toBe(
      `--${boundary}\r\nContent-Type: application/json; error="true"\r\n\r\n{"missing":"1-a"}\r\n--${boundary}--`,
    )
  })

  it('have their histories, and only the attachments that are newer than what the client has', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', TEXT, 'text/plain')
    const second = await attach(db, `doc/b?rev=${first}`, 'two')
    const read = async (since: string) => {
      const query = `doc?revs=true&open_revs=["${second}"]&atts_since=["${since}"]`.replaceAll('"', '%22')
      const reply = await db.get(query, ACCEPT_MIXED)
      return partsOfReply(reply, boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/mixed'))
    }
    const [newer] = await read(first)
    const inner = boundaryOfReply(newer?.headers['content-type'] ?? '', 'multipart/related')
    const [document, content, ...others] = partsOfReply({ body: newer?.body ?? Buffer.alloc(0) }, inner)
    expect(others).toEqual([])
    expect(content?.body.toString()).toBe('two')
    const { _attachments, _revisions } = JSON.parse(document?.body.toString() ?? '') as DocumentWithAttachments & {
      _revisions: unknown
    }
    expect(_revisions).toEqual({ start: 2, ids: [second.slice(2), first.slice(2)] })
    expect(_attachments.a).toMatchObject({ stub: true, length: TEXT.length, encoding: 'gzip' })
    expect(_attachments.b).toMatchObject({ follows: true })
    const [nothing] = await read(second)
    expect(nothing?.headers).toEqual({ 'content-type': 'application/json' })
    expect(JSON.parse(nothing?.body.toString() ?? '')).toMatchObject({
      _attachments: { a: { stub: true }, b: { stub: true } },
    })
  })

  it('are the latest where that is asked for', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', 'one')
    const second = await attach(db, `doc/a?rev=${first}`, 'two')
    const reply = await db.get(`doc?latest=true&open_revs=["${first}"]`.replaceAll('"', '%22'), ACCEPT_MIXED)
    const [part] = partsOfReply(reply, boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/mixed'))
    expect(part?.body.toString()).toContain(`"_rev":"${second}"`)
    expect(part?.body.toString()).toContain('\r\n\r\ntwo\r\n')
  })

  it.each([undefined, '*/*', 'application/json', 'multipart/mixed;q=0', 'multipart/related'])(
    'are JSON when Accept is %s',
    async (accept) => {
      const db = await forked()
      const reply = await db.get('doc?open_revs=all', { Accept: accept })
      expect(reply.as<{ ok: { _rev: string } }[]>().map(({ ok }) => ok._rev)).toEqual(
        expect.arrayContaining(['1-a', '1-b']),
      )
    },
  )

  it.each(['multipart/mixed', 'multipart/*', 'application/json;q=0.2, multipart/mixed'])(
    'are multipart when Accept is %s',
    async (accept) => {
      const db = await forked()
      const reply = await db.get('doc?open_revs=all', { Accept: accept })
      expect(reply.headers['content-type']).toMatch(/^multipart\/mixed; boundary="[0-9a-f]{32}"$/)
    },
  )

  it('bring every revision to another server, as replication does', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { t: inline(TEXT, 'text/plain'), b: inline('bin') } })
    const second = await attach(db, `doc/c?rev=${first}`, randomBytes(100_000), 'image/png')
    await db.replicate({ _id: 'doc', _rev: '1-z', _attachments: { z: { ...inline('of z'), revpos: 1 } } })
    const reply = await db.get('doc?open_revs=all&revs=true', ACCEPT_MIXED)
    const parts = partsOfReply(reply, boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/mixed'))
    expect(parts).toHaveLength(2)
    const other = await client().database()
    for (const { headers, body } of parts) {
      const written = await other.put('doc?new_edits=false', body, { 'Content-Type': headers['content-type'] })
      expect(written.status, written.text).toBe(201)
    }
    for (const rev of [second, '1-z']) {
      const here = (await db.get(`doc?rev=${rev}&revs=true&attachments=true`)).as<DocumentWithAttachments>()
      const there = (await other.get(`doc?rev=${rev}&revs=true&attachments=true`)).as<DocumentWithAttachments>()
      for (const [name, { data, content_type, revpos }] of Object.entries(here._attachments)) {
        expect(there._attachments[name]).toMatchObject({ data, content_type, revpos })
      }
      expect(Object.keys(there._attachments)).toEqual(Object.keys(here._attachments))
    }
  })
})
