/** Attachments that are stored compressed, those that come compressed, and the digests that guard them. */
import { randomBytes } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { attach, BEES, base64, digestOf, entries, inline, md5, OCTETS } from '../../support/attachments.ts'
import { Client, expectRefusal, rawRequest, serverOfFile } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

const client = serverOfFile()

const TEXT = 'It is a truth universally acknowledged. '.repeat(50)
const TEXT_TYPE = { 'Content-Type': 'text/plain' }

describe('text', () => {
  it('is stored compressed, and reports its encoding when requested', async () => {
    const db = await client().database()
    await attach(db, 'doc/a.txt', TEXT, 'text/plain')
    const [entry] = Object.values(await entries(db, 'doc?att_encoding_info=true'))
    const encodedLength = entry?.encoded_length ?? 0
    expect(encodedLength).toBeGreaterThan(0)
    expect(encodedLength).toBeLessThan(TEXT.length / 2)
    const reply = await db.get('doc?att_encoding_info=true')
    expect(reply.text).toContain(
      `{"content_type":"text/plain","revpos":1,"digest":"${digestOf(TEXT)}","length":2000,"stub":true,` +
        `"encoding":"gzip","encoded_length":${encodedLength}}`,
    )
    expect((await entries(db, 'doc'))['a.txt']).toEqual({
      content_type: 'text/plain',
      revpos: 1,
      digest: digestOf(TEXT),
      length: TEXT.length,
      stub: true,
    })
  })

  it('has the digest of what was uploaded', async () => {
    const db = await client().database()
    await attach(db, 'doc/a', BEES, 'text/plain')
    expect((await entries(db, 'doc')).a).toMatchObject({ digest: 'md5-FHZ6tfe6jlpVG7mKj85cUA==', length: 35 })
    const reply = await db.get('doc/a')
    expect(reply.headers.etag).toBe('"FHZ6tfe6jlpVG7mKj85cUA=="')
  })

  it('has the same revision as any other server of the family that does not compress it', async () => {
    const db = await client().database()
    const plain = await startService({ settings: { attachments: { compression_level: '0' } } })
    const other = new Client(plain.url)
    const otherDb = await other.database()
    const rev = await attach(db, 'doc/a', TEXT, 'text/plain')
    expect(await attach(otherDb, 'doc/a', TEXT, 'text/plain')).toBe(rev)
    other.close()
  })

  it('is stored compressed even when that makes it larger', async () => {
    const db = await client().database()
    await attach(db, 'doc/empty', '', 'text/plain')
    const [entry] = Object.values(await entries(db, 'doc?att_encoding_info=true'))
    expect(entry).toMatchObject({ length: 0, encoding: 'gzip', digest: digestOf('') })
    expect(entry?.encoded_length).toBeGreaterThan(0)
    const reply = await db.get('doc/empty')
    expect([reply.status, reply.body.length]).toEqual([200, 0])
    expect(gunzipSync((await db.get('doc/empty', { 'Accept-Encoding': 'gzip' })).body).length).toBe(0)
  })

  it('is compressed whichever way it comes', async () => {
    const db = await client().database()
    await db.save('doc', { _attachments: { a: inline(TEXT, 'text/plain'), b: inline(TEXT) } })
    const { a, b } = await entries(db, 'doc?att_encoding_info=true')
    expect(a).toMatchObject({ length: TEXT.length, digest: digestOf(TEXT), encoding: 'gzip' })
    expect(b).toMatchObject({ length: TEXT.length, digest: digestOf(TEXT) })
    expect(b?.encoding).toBeUndefined()
  })

  it('is inlined uncompressed', async () => {
    const db = await client().database()
    await attach(db, 'doc/a', TEXT, 'text/plain')
    const { a } = await entries(db, 'doc?attachments=true')
    expect(a).toEqual({ content_type: 'text/plain', revpos: 1, digest: digestOf(TEXT), data: base64(TEXT) })
    const informed = (await db.get('doc?attachments=true&att_encoding_info=true')).text
    expect(informed).toMatch(/"data":"[^"]+","encoding":"gzip","encoded_length":\d+\}/)
  })

  it('shows its encoding in a listing too', async () => {
    const db = await client().database()
    await attach(db, 'doc/a', TEXT, 'text/plain')
    const listing = async (query: string) => (await db.get(`_all_docs?include_docs=true${query}`)).text
    expect(await listing('')).not.toContain('encoding')
    expect(await listing('&att_encoding_info=true')).toMatch(/"stub":true,"encoding":"gzip","encoded_length":\d+\}/)
    expect(await listing('&attachments=true')).toContain(`"data":"${base64(TEXT)}"`)
  })
})

describe('what is compressed', () => {
  async function isCompressed(server: Client, type: string): Promise<boolean> {
    const db = await server.database()
    await attach(db, 'doc/a', TEXT, type)
    expect((await db.get('doc/a')).text).toBe(TEXT)
    return (await entries(db, 'doc?att_encoding_info=true')).a?.encoding === 'gzip'
  }

  it.each([
    ['text/plain', true],
    ['text/html; charset=utf-8', true],
    ['TEXT/CSS', true],
    ['application/json', true],
    ['application/javascript', true],
    ['application/xml', true],
    ['application/json; odd=1', true],
    ['application/jsonx', false],
    ['application/octet-stream', false],
    ['image/svg+xml', false],
    ['xtext/plain', false],
    ['text', false],
  ])('of the type %s: %s', async (type, expected) => {
    expect(await isCompressed(client(), type)).toBe(expected)
  })

  it('is a matter of configuration', async () => {
    const settings = { compressible_types: 'image/*, Application/X-Tar' }
    const service = await startService({ settings: { attachments: settings } })
    const server = new Client(service.url)
    expect(await isCompressed(server, 'image/png')).toBe(true)
    expect(await isCompressed(server, 'application/x-tar')).toBe(true)
    expect(await isCompressed(server, 'text/plain')).toBe(false)
    server.close()
  })

  it('is nothing at level 0', async () => {
    const service = await startService({ settings: { attachments: { compression_level: '0' } } })
    const server = new Client(service.url)
    expect(await isCompressed(server, 'text/plain')).toBe(false)
    server.close()
  })
})

describe('what the client accepts', () => {
  it.each([
    undefined,
    'identity',
    'deflate',
    'gzip;q=0',
    'gzip; q=0.0, identity',
    'br;q=1.0, identity;q=0.5',
    'x-odd',
    '',
  ])('is not gzip: %s', async (accepted) => {
    const db = await client().database()
    await attach(db, 'doc/a', TEXT, 'text/plain')
    const reply = await db.get('doc/a', { 'Accept-Encoding': accepted })
    expect([reply.status, reply.text]).toEqual([200, TEXT])
    expect(reply.headers['content-encoding']).toBeUndefined()
    expect(reply.headers['content-length']).toBe(String(TEXT.length))
    expect(reply.headers['content-md5'] ?? md5(TEXT)).toBe(md5(TEXT))
  })

  it.each(['gzip', 'GZIP', 'gzip, deflate', 'deflate, gzip;q=0.5', 'gzip;q=1.0, identity; q=0', 'br, gzip'])(
    'is gzip: %s',
    async (accepted) => {
      const db = await client().database()
      await attach(db, 'doc/a', TEXT, 'text/plain')
      const reply = await db.get('doc/a', { 'Accept-Encoding': accepted })
      expect(reply.status).toBe(200)
      expect(reply.headers['content-encoding']).toBe('gzip')
      expect(gunzipSync(reply.body).toString()).toBe(TEXT)
      const { a } = await entries(db, 'doc?att_encoding_info=true')
      expect(reply.headers['content-length']).toBe(String(a?.encoded_length))
      expect(reply.body.length).toBe(a?.encoded_length)
      expect(reply.headers.etag).toBe(`"${md5(TEXT)}"`)
      expect(reply.headers['content-md5']).toBe(md5(TEXT))
      expect(reply.headers['content-type']).toBe('text/plain')
      const head = await db.head('doc/a', { 'Accept-Encoding': accepted })
      expect(head.headers).toMatchObject({
        'content-encoding': 'gzip',
        'content-length': reply.headers['content-length'],
      })
    },
  )

  it.each(['*', 'identity;q=0.5, gzip;q=0.4', '*;q=0.5'])('may be either: %s', async (accepted) => {
    const db = await client().database()
    await attach(db, 'doc/a', TEXT, 'text/plain')
    const reply = await db.get('doc/a', { 'Accept-Encoding': accepted })
    expect(reply.status).toBe(200)
    const content = reply.headers['content-encoding'] === 'gzip' ? gunzipSync(reply.body) : reply.body
    expect(content.toString()).toBe(TEXT)
  })

  it('has no effect on what is not compressed', async () => {
    const db = await client().database()
    await attach(db, 'doc/a', TEXT)
    const reply = await db.get('doc/a', { 'Accept-Encoding': 'gzip' })
    expect(reply.text).toBe(TEXT)
    expect(reply.headers['content-encoding']).toBeUndefined()
    expect(reply.headers['content-md5']).toBe(md5(TEXT))
  })

  it.each(['gzip;q=0, identity;q=0', 'identity;q=0', '*;q=0', 'deflate, identity;q=0'])(
    'may be nothing that can be had: %s',
    async (accepted) => {
      const db = await client().database()
      const rev = await attach(db, 'doc/packed', TEXT, 'text/plain')
      await attach(db, `doc/plain?rev=${rev}`, TEXT)
      const refused = await db.get('doc/plain', { 'Accept-Encoding': accepted })
      expectRefusal(refused, 406, 'not_acceptable', 'unsupported encoding')
      if (accepted.startsWith('identity')) return
      expect((await db.get('doc/packed', { 'Accept-Encoding': accepted })).status).toBe(406)
    },
  )

  it.each(['gzip;q=abc', 'gzip;q=2', 'gzip;q='])('may be unreadable: %s', async (accepted) => {
    const db = await client().database()
    await attach(db, 'doc/a', TEXT, 'text/plain')
    expectRefusal(await db.get('doc/a', { 'Accept-Encoding': accepted }), 400, 'bad_request', '')
  })
})

describe('content that comes compressed', () => {
  const PACKED = gzipSync(TEXT)

  it.each(['text/plain', OCTETS])('is stored as it comes: %s', async (type) => {
    const db = await client().database()
    const upload = await db.put('doc/a', PACKED, { 'Content-Type': type, 'Content-Encoding': 'gzip' })
    expect(upload.status, upload.text).toBe(201)
    expect((await entries(db, 'doc?att_encoding_info=true')).a).toEqual({
      content_type: type,
      revpos: 1,
      digest: digestOf(PACKED),
      length: PACKED.length,
      stub: true,
      encoding: 'gzip',
      encoded_length: PACKED.length,
    })
    const packed = await db.get('doc/a', { 'Accept-Encoding': 'gzip' })
    expect(packed.body.equals(PACKED)).toBe(true)
    expect(packed.headers).toMatchObject({
      'content-encoding': 'gzip',
      'content-md5': md5(PACKED),
      'content-length': String(PACKED.length),
      etag: `"${md5(PACKED)}"`,
    })
  })

  it('is decompressed for clients that do not accept it', async () => {
    const db = await client().database()
    await db.put('doc/a', PACKED, { ...TEXT_TYPE, 'Content-Encoding': 'gzip' })
    const reply = await db.get('doc/a')
    expect([reply.status, reply.text]).toEqual([200, TEXT])
    expect(reply.headers['content-encoding']).toBeUndefined()
    expect(reply.headers['content-length']).toBeUndefined()
    expect(reply.headers['transfer-encoding']).toBe('chunked')
    expect(reply.headers.etag).toBe(`"${md5(PACKED)}"`)
    expect((await entries(db, 'doc?attachments=true')).a?.data).toBe(base64(TEXT))
  })

  it('may say that it is not compressed', async () => {
    const db = await client().database()
    await db.put('doc/a', TEXT, { ...TEXT_TYPE, 'Content-Encoding': 'identity' })
    expect((await entries(db, 'doc')).a).toMatchObject({ length: TEXT.length, digest: digestOf(TEXT) })
  })

  it.each(['deflate', 'br', 'x-odd', 'gzip, gzip'])('in another way is refused: %s', async (encoding) => {
    const db = await client().database()
    const reply = await db.put('doc/a', PACKED, { ...TEXT_TYPE, 'Content-Encoding': encoding })
    expectRefusal(reply, 415, 'bad_content_type', 'Only gzip and identity content-encodings are supported')
    expect((await db.get('doc')).status).toBe(404)
  })
})

describe('Content-MD5', () => {
  const CORRUPT = 'Possible message corruption.'

  it.each([
    ['as it is', OCTETS],
    ['compressed', 'text/plain'],
  ])('is verified for content that is stored %s', async (_, type) => {
    const db = await client().database()
    const good = await db.put('doc/a', TEXT, { 'Content-Type': type, 'Content-MD5': md5(TEXT) })
    expect(good.status, good.text).toBe(201)
    for (const wrong of [md5('other'), 'x', Buffer.from(md5(TEXT), 'base64').toString('hex')]) {
      const reply = await db.put(`doc/a?rev=${good.rev}`, TEXT, { 'Content-Type': type, 'Content-MD5': wrong })
      expectRefusal(reply, 400, 'content_md5_mismatch', CORRUPT)
    }
    expect((await db.get('doc')).as<{ _rev: string }>()._rev).toBe(good.rev)
    expect(await db.info()).toMatchObject({ update_seq: 1 })
  })

  it('is that of the body as it comes', async () => {
    const db = await client().database()
    const packed = gzipSync(TEXT)
    const headers = { ...TEXT_TYPE, 'Content-Encoding': 'gzip' }
    expectRefusal(
      await db.put('doc/a', packed, { ...headers, 'Content-MD5': md5(TEXT) }),
      400,
      'content_md5_mismatch',
      CORRUPT,
    )
    expect((await db.put('doc/a', packed, { ...headers, 'Content-MD5': md5(packed) })).status).toBe(201)
  })

  it('is verified for a large body too', async () => {
    const db = await client().database()
    const content = randomBytes(3_000_000)
    const headers = { 'Content-Type': OCTETS, 'Content-MD5': md5('other') }
    expectRefusal(await db.put('doc/a', content, headers), 400, 'content_md5_mismatch', CORRUPT)
    expect((await db.get('doc')).status).toBe(404)
    expect((await db.put('doc/a', content, { ...headers, 'Content-MD5': md5(content) })).status).toBe(201)
  })

  async function upload(db: { name: string }, announced: string | undefined, trailers: string[]): Promise<string> {
    const announcement = announced === undefined ? [] : [`Trailer: ${announced}`]
    return client().exchange(
      rawRequest(
        [
          `PUT /${db.name}/doc/a HTTP/1.1`,
          'Host: x',
          `Content-Type: ${OCTETS}`,
          'Transfer-Encoding: chunked',
          'Connection: close',
          ...announcement,
        ],
        `5\r\nhello\r\n6\r\n world\r\n0\r\n${trailers.map((line) => `${line}\r\n`).join('')}\r\n`,
      ),
    )
  }

  it.each(['Content-MD5', 'content-md5', 'X-Odd, Content-Md5'])('may be a trailer: %s', async (announced) => {
    const db = await client().database()
    const wrong = await upload(db, announced, [`Content-MD5: ${md5('other')}`])
    expect(wrong).toMatch(/^HTTP\/1\.1 400 /)
    expect(wrong).toContain('{"error":"content_md5_mismatch","reason":"Possible message corruption."}')
    expect((await db.get('doc')).status).toBe(404)
    expect(await upload(db, announced, [`content-md5: ${md5('hello world')}`])).toMatch(/^HTTP\/1\.1 201 /)
    expect((await db.get('doc/a')).text).toBe('hello world')
  })

  it('may be announced as a trailer and missing', async () => {
    const db = await client().database()
    expect(await upload(db, 'Content-MD5', [])).toMatch(/^HTTP\/1\.1 201 /)
    expect((await db.get('doc/a')).text).toBe('hello world')
  })
})
