/** What is refused at upload because every reader would fail at it, and that nothing that was sent is lost silently. */
import { randomBytes } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  attach,
  base64,
  digestOf,
  entries,
  inline,
  md5,
  OCTETS,
  partsOfReply,
  RELATED,
  related,
} from '../../support/attachments.ts'
import { Client, expectRefusal, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { until } from '../../support/until.ts'

const client = serverOfFile()

const TEXT = 'a text that is packed, a text that is packed, a text that is packed'
const PACKED = gzipSync(TEXT)
const TRUNCATED = PACKED.subarray(0, -6)
const LARGE = gzipSync(randomBytes(3_000_000))
const SPOILED = Buffer.concat([LARGE.subarray(0, 2_000_000), randomBytes(10), LARGE.subarray(2_000_010)])
const NOT_GZIP = 'The content is not valid gzip.'

const BAD = [
  ['plain text', Buffer.from('hello')],
  ['nothing', Buffer.alloc(0)],
  ['truncated', TRUNCATED],
  ['spoiled in the middle', SPOILED],
  ['a head alone', PACKED.subarray(0, 10)],
] as const

function packedEntry(content: Buffer, more: object = {}): object {
  return { content_type: 'text/plain', follows: true, encoding: 'gzip', encoded_length: content.length, ...more }
}

async function expectUntouched(db: TestDatabase): Promise<void> {
  expect(await db.info()).toMatchObject({ doc_count: 0, update_seq: 0 })
  const listing = await db.get('_all_docs?include_docs=true&attachments=true')
  expect([listing.status, listing.as<{ rows: unknown[] }>().rows]).toEqual([200, []])
}

describe('content that is declared as gzip and is not', () => {
  it.each(BAD)('is refused when it is the body: %s', async (_, content) => {
    const db = await client().database()
    const headers = { 'Content-Type': 'text/plain', 'Content-Encoding': 'gzip' }
    expectRefusal(await db.put('doc/a', content, headers), 400, 'bad_request', NOT_GZIP)
    const chunked = await db.put('doc/a', content, { ...headers, 'Transfer-Encoding': 'chunked' })
    expectRefusal(chunked, 400, 'bad_request', NOT_GZIP)
    await expectUntouched(db)
  })

  it.each(BAD)('is refused when it follows a document, replicated or not: %s', async (_, content) => {
    const db = await client().database()
    const document = {
      _revisions: { start: 1, ids: ['a'] },
      _attachments: { a: packedEntry(content, { length: 5, digest: digestOf(content) }) },
    }
    for (const query of ['', '?new_edits=false']) {
      const reply = await db.put(`doc${query}`, related(document, [content]), RELATED)
      expectRefusal(reply, 400, 'bad_request', NOT_GZIP)
    }
    await expectUntouched(db)
  })

  it('is refused when it decompresses to another length than announced', async () => {
    const db = await client().database()
    const put = (length: number | undefined) =>
      db.put('doc', related({ _attachments: { a: packedEntry(PACKED, { length }) } }, [PACKED]), RELATED)
    const reply = await put(TEXT.length + 1)
    const reason = `Attachment a has ${TEXT.length} bytes instead of ${TEXT.length + 1}.`
    expectRefusal(reply, 400, 'bad_request', reason)
    await expectUntouched(db)
    // Peers that do not know it tell the packed one.
    expect((await put(PACKED.length)).status).toBe(201)
    expect((await db.get('doc/a')).text).toBe(TEXT)
  })

  it('may have anything in it when it comes inside a document: there it is plain content', async () => {
    const db = await client().database()
    await db.save('doc', { _attachments: { a: { ...inline('hello'), encoding: 'gzip', length: 99 } } })
    expect((await db.get('doc/a')).text).toBe('hello')
  })
})

describe('the digest of compressed content', () => {
  async function sent(): Promise<TestDatabase> {
    const db = await client().database()
    const entry = packedEntry(PACKED, { length: TEXT.length, digest: digestOf(PACKED) })
    const reply = await db.put('peer', related({ _attachments: { a: entry } }, [PACKED]), RELATED)
    expect(reply.status, reply.text).toBe(201)
    await db.put('own/a', PACKED, { 'Content-Type': 'text/plain', 'Content-Encoding': 'gzip' })
    return db
  }

  it.each(['peer', 'own'])('is that of the received bytes, wherever it is shown: %s', async (id) => {
    const db = await sent()
    expect((await entries(db, id)).a?.digest).toBe(digestOf(PACKED))
    expect((await entries(db, `${id}?attachments=true`)).a?.digest).toBe(digestOf(PACKED))
    const reply = await db.get(`${id}?attachments=true`, { Accept: 'multipart/related' })
    const boundary = /boundary="(.*)"/.exec(reply.headers['content-type'] ?? '')?.[1] ?? ''
    const [json, part] = partsOfReply(reply, boundary)
    expect(JSON.parse(json?.body.toString() ?? '')._attachments.a.digest).toBe(digestOf(part?.body ?? ''))
  })

  it.each(['peer', 'own'])('is in no head of a body that it does not match: %s', async (id) => {
    const db = await sent()
    for (const method of ['GET', 'HEAD']) {
      const packed = await db.request(method, `${id}/a`, { headers: { 'Accept-Encoding': 'gzip' } })
      expect([packed.headers['content-md5'], packed.headers.etag]).toEqual([md5(PACKED), `"${md5(PACKED)}"`])
      const plain = await db.request(method, `${id}/a`)
      expect([plain.status, plain.headers['content-md5']]).toEqual([200, undefined])
      expect(plain.headers.etag).toBe(`"${md5(PACKED)}"`)
    }
  })

  it('matches the body or its decompressed form, for all attachments in every form', async () => {
    const db = await sent()
    await attach(db, 'plain/a', TEXT)
    await attach(db, 'text/a', TEXT, 'text/plain')
    for (const id of ['peer', 'own', 'plain', 'text']) {
      for (const headers of [{}, { 'Accept-Encoding': 'gzip' }]) {
        const reply = await db.get(`${id}/a`, headers)
        const told = reply.headers['content-md5']
        if (told === undefined) continue
        const isPacked = reply.headers['content-encoding'] === 'gzip'
        expect([md5(reply.body), ...(isPacked ? [md5(gunzipSync(reply.body))] : [])], id).toContain(told)
      }
    }
  })

  it.each(['peer', 'own'])('does not prevent ranges of the decompressed content: %s', async (id) => {
    const db = await sent()
    const reply = await db.get(`${id}/a`, { Range: 'bytes=2-5' })
    expect([reply.status, reply.text]).toEqual([206, TEXT.slice(2, 6)])
    expect(reply.headers['content-range']).toBe(`bytes 2-5/${TEXT.length}`)
    expect((await db.get(`${id}/a`, { Range: `bytes=${TEXT.length}-` })).status).toBe(416)
    expect((await db.get(`${id}/a`)).headers['accept-ranges']).toBe('bytes')
  })
})

describe('parts of a document', () => {
  const follows = (content: string) => ({ follows: true, length: content.length })

  it.each([
    ['a name that no attachment has', { f: follows('one') }, [{ name: 'zz', content: 'one' }]],
    [
      'the same name twice',
      { f: follows('one'), g: follows('two') },
      [
        { name: 'g', content: 'two' },
        { name: 'g', content: 'one' },
      ],
    ],
    ['a name once and then none', { f: follows('one'), g: follows('two') }, [{ name: 'g', content: 'two' }, 'one']],
    [
      'no name, and then that of another',
      { f: follows('one'), g: follows('one') },
      ['one', { name: 'f', content: 'one' }],
    ],
  ])('are refused with %s', async (_, _attachments, contents) => {
    const db = await client().database()
    const reply = await db.put('doc', related({ _attachments }, contents), RELATED)
    expect([reply.status, reply.as<{ error: string }>().error], reply.text).toEqual([400, 'bad_request'])
    await expectUntouched(db)
  })

  it('are taken in any order by their names, and in order where the names fit it', async () => {
    const db = await client().database()
    const one = { name: 'f', content: 'one' }
    const two = { name: 'g', content: 'two!' }
    const document = { _attachments: { f: follows('one'), g: follows('two!') } }
    for (const [id, contents] of Object.entries({
      a: [two, one],
      b: [one, two],
      c: ['one', two],
      d: ['one', 'two!'],
    })) {
      expect((await db.put(id, related(document, contents), RELATED)).status, id).toBe(201)
      expect([(await db.get(`${id}/f`)).text, (await db.get(`${id}/g`)).text]).toEqual(['one', 'two!'])
    }
  })
})

describe('an attachment beside a stub that cannot be found', () => {
  it('is not lost where revisions make branches: all is refused', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { _attachments: { a: inline('old') } })
    const write = (members: object) =>
      db.post('_bulk_docs', {
        all_or_nothing: true,
        docs: [{ _id: 'doc', ...members, _attachments: { a: { stub: true }, b: inline('new') } }],
      })
    for (const members of [{}, { _rev: '1-abc' }, { _rev: '7-abc' }]) {
      expectRefusal(await write(members), 412, 'missing_stub', 'id:doc, name:a')
    }
    expect(Object.keys(await entries(db, 'doc'))).toEqual(['a'])
    expect((await write({ _rev: rev })).status).toBe(201)
    expect(Object.keys(await entries(db, 'doc'))).toEqual(['a', 'b'])
    // Of a revision that is no leaf any more, too.
    const branch = (await write({ _rev: rev, n: 2 })).as<{ rev: string }[]>()[0]?.rev
    expect(Object.keys(await entries(db, `doc?rev=${branch}`))).toEqual(['a', 'b'])
  })

  it('is never missing from a revision that was written while the document was deleted', async () => {
    const db = await client().database()
    for (let round = 0; round < 30; round++) {
      const id = `doc${round}`
      const rev = await db.save(id, { _attachments: { a: inline('old') } })
      const document = { _attachments: { a: { stub: true }, b: inline('new') } }
      const [, ...written] = await Promise.all([
        db.delete(`${id}?rev=${rev}`),
        db.put(id, document),
        db.put(id, document),
        db.post('_bulk_docs', { docs: [{ _id: id, ...document }] }),
      ])
      for (const reply of written) expect([201, 409, 412], reply.text).toContain(reply.status)
      const found = await db.get(id)
      if (found.status === 200) expect(Object.keys(await entries(db, id))).toEqual(['a', 'b'])
    }
  })
})

describe('batch=ok', () => {
  it('reports no conflicts of attachments, as it reports none of documents, and changes nothing then', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { a: inline('a') } })
    await db.save('doc', { _rev: first, _attachments: { a: { stub: true } } })
    const before = await db.state()
    const headers = { 'Content-Type': OCTETS }
    const accepted = [
      await db.put('doc/b?batch=ok', 'x', headers),
      await db.put(`doc/b?batch=ok&rev=${first}`, 'x', headers),
      await db.put('doc/b?batch=ok&rev=9-abc', 'x', headers),
      await db.put('none/b?batch=ok&rev=9-abc', 'x', headers),
      await db.delete('doc/a?batch=ok'),
      await db.delete(`doc/a?batch=ok&rev=${first}`),
    ]
    for (const reply of accepted) {
      expect([reply.status, reply.as<{ rev?: string }>().rev, reply.headers.etag]).toEqual([202, undefined, undefined])
    }
    await db.post('_ensure_full_commit', '')
    expect(await db.state()).toEqual(before)
    expect((await db.delete(`doc/nothing?batch=ok&rev=${await revision(db, 'doc')}`)).status).toBe(404)
    expect((await db.delete('none/a?batch=ok')).status).toBe(404)
  })

  it('keeps what was uploaded until it is written, whatever is compacted meanwhile', async () => {
    const db = await client().database()
    const content = randomBytes(3_000_000)
    expect((await db.put('doc/a?batch=ok', content, { 'Content-Type': OCTETS })).status).toBe(202)
    await db.compact()
    await until(async () => (await db.get('doc')).status === 200)
    expect((await db.get('doc/a')).body.equals(content)).toBe(true)
  })

  async function revision(db: TestDatabase, id: string): Promise<string> {
    return (await db.get(id)).as<{ _rev: string }>()._rev
  }
})

describe('service/max_attachment_size', () => {
  it('is a limit on every way to bring an attachment', async () => {
    const { url } = await startService({ settings: { service: { max_attachment_size: '1000' } } })
    const server = new Client(url)
    onTestFinished(() => server.close())
    const db = await server.database()
    const ways: Record<string, (id: string, content: Buffer) => Promise<Reply>> = {
      body: (id, content) => db.put(`${id}/a`, content, { 'Content-Type': OCTETS }),
      chunks: (id, content) => db.put(`${id}/a`, content, { 'Content-Type': OCTETS, 'Transfer-Encoding': 'chunked' }),
      inline: (id, content) => db.put(id, { _attachments: { a: inline(content) } }),
      bulk: (id, content) => db.post('_bulk_docs', { docs: [{ _id: id, _attachments: { a: inline(content) } }] }),
      parts: (id, content) => {
        const entry = { follows: true, length: content.length }
        return db.put(id, related({ _attachments: { a: entry } }, [content]), RELATED)
      },
      unpacked: (id, content) => {
        const packed = gzipSync(Buffer.alloc(content.length))
        return db.put(`${id}/a`, packed, { 'Content-Type': OCTETS, 'Content-Encoding': 'gzip' })
      },
    }
    for (const [id, upload] of Object.entries(ways)) {
      expectRefusal(await upload(id, randomBytes(1001)), 413, 'attachment_too_large', 'a')
      expect((await db.get(id)).status).toBe(404)
      expect((await upload(id, randomBytes(1000))).status, id).toBe(201)
    }
  })

  it('is infinity by default, and may be changed', async () => {
    const { url } = await startService()
    const server = new Client(url)
    onTestFinished(() => server.close())
    const setting = '/_config/service/max_attachment_size'
    expect((await server.request('GET', setting)).json).toBe('infinity')
    for (const body of ['0', '-1', 'much']) {
      expect((await server.request('PUT', setting, { body: JSON.stringify(body) })).status, body).toBe(400)
    }
    expect((await server.request('PUT', setting, { body: '"3"' })).status).toBe(200)
    const db = await server.database()
    expect((await db.put('doc/a', 'four', { 'Content-Type': OCTETS })).status).toBe(413)
    expect((await server.request('PUT', setting, { body: '"infinity"' })).status).toBe(200)
    expect((await db.put('doc/a', 'four', { 'Content-Type': OCTETS })).status).toBe(201)
  })
})

it.each(['aGVsbG8==', 'aGVsbG8=x', 'aGVsbG=', 'aGVs=bG8=', 'a===', 'aGVsbG8=='])(
  'Base64 with wrong padding is refused: %s',
  async (data) => {
    const db = await client().database()
    const reply = await db.put('doc', { _attachments: { a: { data } } })
    expectRefusal(reply, 400, 'bad_request', 'Invalid attachment data for a')
    expect((await db.put('doc', { _attachments: { a: { data: base64('hello') } } })).status).toBe(201)
  },
)
