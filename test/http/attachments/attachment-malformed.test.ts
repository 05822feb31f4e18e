/** Whatever a client sends as an attachment, it gets a reply that says what is wrong, and the data stays as it was. */
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { attach, entries, inline, md5, multipart, OCTETS, RELATED, related } from '../../support/attachments.ts'
import { type RequestOptions, rawRequest, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

const OCTET_TYPE = { 'Content-Type': OCTETS }
const FIRST = '1-e4d1953e9109ff8917fd2229e22521c6'

async function filled(): Promise<TestDatabase> {
  const db = await client().database()
  expect(await attach(db, 'doc/h.bin', 'hello')).toBe(FIRST)
  await db.saveAndRemove('gone', {})
  return db
}

async function everything(db: TestDatabase): Promise<unknown> {
  const paths = ['doc?open_revs=all&attachments=true&revs=true', 'gone?open_revs=all', 'new?open_revs=all']
  const others = await Promise.all(paths.map(async (path) => (await db.get(path)).text))
  return { state: await db.state(), others }
}

function json(_attachments: unknown, members: object = {}): RequestOptions {
  return { body: { ...members, _attachments } }
}

function parts(document: unknown, ...contents: (string | Buffer)[]): RequestOptions {
  return { body: related(document, contents), headers: RELATED }
}

const content = (headers: Record<string, string> = {}): RequestOptions => ({
  body: 'content',
  headers: { ...OCTET_TYPE, ...headers },
})

type Case = [method: string, path: string, options: RequestOptions, statuses: number[], error: string | undefined]

const requests: Case[] = [
  // One at a time.
  ['PUT', 'doc/a', content(), [409], 'conflict'],
  ['PUT', 'doc/a?rev=x', content(), [400], 'bad_request'],
  ['PUT', 'doc/a?rev=2-x', content(), [409], 'conflict'],
  ['PUT', 'doc/a', content({ 'If-Match': 'x' }), [400], 'bad_request'],
  ['PUT', `doc/a?rev=${FIRST}`, content({ 'If-Match': '1-x' }), [400], 'bad_request'],
  ['PUT', `doc/_a?rev=${FIRST}`, content(), [400], 'bad_request'],
  ['PUT', `doc/%FF%FE?rev=${FIRST}`, content(), [400], 'bad_request'],
  ['PUT', `doc/a?rev=${FIRST}`, content({ 'Content-Encoding': 'br' }), [415], 'bad_content_type'],
  ['PUT', `doc/a?rev=${FIRST}`, content({ 'Content-MD5': md5('other') }), [400], 'content_md5_mismatch'],
  ['PUT', '_new/a', content(), [400], 'bad_request'],
  ['PUT', '_local/x/a', content(), [400], 'bad_request'],
  ['DELETE', 'doc/h.bin', {}, [409], 'conflict'],
  ['DELETE', `doc/other?rev=${FIRST}`, {}, [404], 'not_found'],
  ['DELETE', 'new/a?rev=1-x', {}, [404], 'not_found'],
  ['DELETE', 'gone/a?rev=1-x', {}, [404, 409], undefined],
  ['GET', 'doc/a', {}, [404], 'not_found'],
  ['GET', 'doc/h.bin?rev=x', {}, [400], 'bad_request'],
  ['GET', 'doc/h.bin', { headers: { 'Accept-Encoding': 'gzip;q=x' } }, [400], 'bad_request'],
  ['GET', 'doc/h.bin', { headers: { Range: 'bytes=9-12' } }, [416], 'requested_range_not_satisfiable'],
  // Inside a document.
  ['PUT', 'new', json(5), [500], 'doc_validation'],
  ['PUT', 'new', json([]), [500], 'doc_validation'],
  ['PUT', 'new', json('x'), [500], 'doc_validation'],
  ['PUT', 'new', json(null), [500], 'doc_validation'],
  ['PUT', 'new', json({ a: 5 }), [400, 500], undefined],
  ['PUT', 'new', json({ a: null }), [400, 500], undefined],
  ['PUT', 'new', json({ a: [] }), [400, 500], undefined],
  ['PUT', 'new', json({ a: {} }), [400], 'bad_request'],
  ['PUT', 'new', json({ a: { data: '*' } }), [400], 'bad_request'],
  ['PUT', 'new', json({ a: { data: 'x', content_type: 5 } }), [400, 500], undefined],
  ['PUT', 'new', json({ a: { stub: true } }), [412], 'missing_stub'],
  ['PUT', 'new', json({ a: { stub: true, revpos: 'x' } }), [400, 412, 500], undefined],
  ['PUT', 'new', json({ a: { follows: true, length: 3 } }), [400], 'bad_request'],
  ['PUT', 'new', json({ _a: inline('x') }), [400], 'bad_request'],
  ['PUT', 'doc', json({ 'h.bin': { stub: true } }), [409, 412], undefined],
  ['PUT', 'doc', json({ 'h.bin': { stub: true, revpos: 2 } }, { _rev: FIRST }), [412], 'missing_stub'],
  ['PUT', 'doc', json({ a: inline('x') }, { _rev: '1-x' }), [409], 'conflict'],
  ['POST', '', json({ a: { data: '*' } }, { _id: 'new' }), [400], 'bad_request'],
  ['POST', '_bulk_docs', { body: { docs: [{ _id: 'new' }, { _attachments: { a: {} } }] } }, [400], 'bad_request'],
  ['POST', '_bulk_docs', { body: { docs: [{ _id: 'new' }, { _attachments: 5 }] } }, [500], 'doc_validation'],
  // In parts.
  ['PUT', 'new', parts({ _attachments: { a: { follows: true, length: 3 } } }), [400], 'bad_request'],
  ['PUT', 'new', parts({ _attachments: { a: { follows: true, length: 3 } } }, 'four'), [400], 'bad_request'],
  ['PUT', 'new', parts({ _attachments: { a: { follows: true, length: -1 } } }, 'one'), [400], 'bad_request'],
  ['PUT', 'new', parts({ _attachments: { _a: { follows: true, length: 3 } } }, 'one'), [400], 'bad_request'],
  ['PUT', 'new', parts({ _odd: 1 }), [500], 'doc_validation'],
  ['PUT', 'new', parts({ _rev: '1-x' }), [409], 'conflict'],
  ['PUT', 'new', parts('nonsense'), [400], 'bad_request'],
  ['PUT', 'new', { body: '', headers: RELATED }, [400], 'bad_request'],
  ['PUT', 'new', { body: '{}', headers: RELATED }, [400], 'bad_request'],
  ['PUT', 'new', { body: '--abc123\r\nnonsense\r\n\r\n{}\r\n--abc123--', headers: RELATED }, [400], 'bad_request'],
  [
    'PUT',
    'new',
    { body: `--abc123\r\nA: ${'x'.repeat(20_000)}\r\n\r\n{}\r\n--abc123--`, headers: RELATED },
    [400],
    'bad_request',
  ],
  [
    'PUT',
    'new',
    { body: related({}, []), headers: { 'Content-Type': 'multipart/form-data; boundary=abc123' } },
    [400],
    'bad_request',
  ],
  [
    'PUT',
    'new',
    parts({ _attachments: { a: { follows: true, length: 7, encoding: 'br', encoded_length: 3 } } }, 'one'),
    [400, 415],
    undefined,
  ],
  // Others.
  ['GET', 'doc?atts_since=x', {}, [400], 'bad_request'],
  ['GET', 'doc?open_revs=x', { headers: { Accept: 'multipart/mixed' } }, [400], 'bad_request'],
  ['POST', '_bulk_get', { body: { docs: 5 } }, [400], 'bad_request'],
  ['POST', 'doc', { body: '{}' }, [400], 'bad_request'],
]

describe('a request that cannot be done', () => {
  it.each(requests)('%#: %s %s', async (method, path, options, statuses, error) => {
    const db = await filled()
    const before = await everything(db)
    const reply = await db.request(method, path, options)
    expect(statuses, reply.text).toContain(reply.status)
    const said = reply.as<{ error: string; reason: string }>()
    expect(Object.keys(said)).toEqual(['error', 'reason'])
    if (error !== undefined) expect(said.error).toBe(error)
    else expect(said.error).not.toBe('unknown_error')
    expect(await everything(db)).toEqual(before)
  })
})

describe('an incomplete body', () => {
  it('leaves nothing behind', async () => {
    const db = await filled()
    const before = await everything(db)
    for (const [path, type, body] of [
      ['new/a', OCTETS, randomBytes(200_000)],
      ['new/t', 'text/plain', randomBytes(200_000)],
      ['new', RELATED['Content-Type'], related({ _attachments: { a: { follows: true, length: 9 } } }, ['one'])],
    ] as const) {
      const connection = await client().open()
      const lines = [`PUT /${db.name}/${path} HTTP/1.1`, 'Host: x', `Content-Type: ${type}`, 'Content-Length: 999999']
      connection.write(rawRequest(lines, body))
      // Another request, so that the server has had its turn with the first one.
      await db.get('doc')
      connection.end()
    }
    await db.get('doc')
    expect(await everything(db)).toEqual(before)
    expect(await attach(db, 'new/a', 'after all')).toMatch(/^1-/)
  })

  it('is refused when its chunks are malformed', async () => {
    const db = await filled()
    const before = await everything(db)
    const lines = [`PUT /${db.name}/new/a HTTP/1.1`, 'Host: x', `Content-Type: ${OCTETS}`, 'Transfer-Encoding: chunked']
    const answer = await client().exchange(rawRequest(lines, '5\r\nhello\r\nnonsense\r\n'))
    expect(answer === '' || answer.startsWith('HTTP/1.1 400'), answer).toBe(true)
    expect(await everything(db)).toEqual(before)
  })
})

describe('content that is not what it says', () => {
  it.each(['text/plain\r\nX-Odd: y', 'text/plain\n', 'ü/☃', '', '\u0000', 'no type at all', 'x'.repeat(10_000)])(
    'may have the type %j and still be read',
    async (type) => {
      const db = await filled()
      const written = await db.put('new', { _attachments: { a: inline('content', type) } })
      if (written.status !== 201) {
        expect(written.status, written.text).toBe(400)
        return
      }
      const reply = await db.get('new/a')
      expect([reply.status, reply.text]).toEqual([200, 'content'])
      expect(reply.headers['x-odd']).toBeUndefined()
      expect((await db.get('new?attachments=true', { Accept: 'multipart/related' })).status).toBe(200)
      expect((await db.get('new/a', { Range: 'bytes=0-1,3-4' })).status).toBe(206)
    },
  )
})

describe('an invalid revpos', () => {
  it.each(['x', -1, 1.5, null, 1e300])('%j is refused or ignored', async (revpos) => {
    const db = await filled()
    const document = { _rev: '2-a', _attachments: { a: { ...inline('x'), revpos } } }
    const written = await db.put('new?new_edits=false', document)
    if (written.status !== 201) {
      expect([400, 500], written.text).toContain(written.status)
      return
    }
    const shown = (await entries(db, 'new')).a?.revpos ?? -1
    expect(Number.isSafeInteger(shown) && shown >= 0, String(shown)).toBe(true)
  })
})

describe('any multipart body', () => {
  it('gets a reply and does no harm', async () => {
    const db = await filled()
    const piece = fc.constantFrom(
      '--abc123',
      '--abc123--',
      '\r\n',
      '\r\n\r\n',
      'Content-Type: application/json',
      '{"_attachments":{"a":{"follows":true,"length":3}}}',
      '{}',
      'abc',
      ':',
      '\u0000',
      'Content-Disposition: attachment; filename="a"',
    )
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 16 }), async (pieces) => {
        const reply = await db.put('any?rev=1-never', pieces.join(''), RELATED)
        expect([400, 409, 415], reply.text).toContain(reply.status)
      }),
      { numRuns: 200 },
    )
    expect((await db.get('doc/h.bin')).text).toBe('hello')
    expect((await db.info()).doc_count).toBe(1)
  })

  it('may have no more parts than the limit', async () => {
    const db = await filled()
    const body = multipart('abc123', [
      { headers: ['Content-Type: application/json'], body: '{}' },
      ...Array.from({ length: 10_001 }, () => ({ body: '' })),
    ])
    const reply = await db.put('new', body, RELATED)
    expect([reply.status, reply.as<{ error: string }>().error]).toEqual([400, 'bad_request'])
  })
})
