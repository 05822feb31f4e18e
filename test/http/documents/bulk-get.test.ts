/** Many revisions in one request, as JSON or as multipart. */
import { describe, expect, it } from 'vitest'
import {
  attach,
  base64,
  boundaryOfReply,
  type DocumentWithAttachments,
  digestOf,
  inline,
  OCTETS,
  partsOfReply,
} from '../../support/attachments.ts'
import { expectRefusal, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { EMPTY } from '../../support/first-revisions.ts'

const client = serverOfFile()

const JSON_ACCEPTED = { Accept: 'application/json' }
const NEVER = '7-00000000000000000000000000000000'
interface Item {
  ok?: DocumentWithAttachments & { _revisions?: unknown; _deleted?: true; n?: number }
  error?: { id: string | null; rev: string | null; error: string; reason: string }
}

interface Result {
  id: string
  docs: Item[]
}

async function results(db: TestDatabase, docs: unknown[], query = ''): Promise<Result[]> {
  const reply = await db.post(`_bulk_get${query}`, { docs }, JSON_ACCEPTED)
  expect(reply.status, reply.text).toBe(200)
  return reply.as<{ results: Result[] }>().results
}

function mixedParts(reply: Reply) {
  return partsOfReply(reply, boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/mixed'))
}

describe('_bulk_get as JSON', () => {
  it('returns the requested revisions, in their order', async () => {
    const db = await client().database()
    const a = await db.save('a', { n: 1 })
    const b = await db.save('b', { n: 2 })
    const docs = [
      { id: 'b', rev: b },
      { id: 'a', rev: a },
      { id: 'b', rev: b },
    ]
    const reply = await db.post('_bulk_get', { docs }, JSON_ACCEPTED)
    expect([reply.status, reply.headers['content-type']]).toEqual([200, 'application/json'])
    expect(reply.json).toEqual({
      results: [
        { id: 'b', docs: [{ ok: { _id: 'b', _rev: b, n: 2 } }] },
        { id: 'a', docs: [{ ok: { _id: 'a', _rev: a, n: 1 } }] },
        { id: 'b', docs: [{ ok: { _id: 'b', _rev: b, n: 2 } }] },
      ],
    })
  })

  it.each(['application/json', 'application/json;q=0.9, multipart/mixed', 'multipart/mixed, application/json'])(
    'comes when Accept is %s',
    async (accept) => {
      const db = await client().database()
      const reply = await db.post('_bulk_get', { docs: [] }, { Accept: accept })
      expect([reply.status, reply.json]).toEqual([200, { results: [] }])
    },
  )

  it('returns all leaves of a document whose revision is not named', async () => {
    const db = await client().database()
    await db.replicate(
      { _id: 'doc', _rev: '1-a' },
      { _id: 'doc', _rev: '1-b' },
      { _id: 'doc', _rev: '1-c', _deleted: true },
    )
    const [result] = await results(db, [{ id: 'doc' }])
    expect(result?.docs.map(({ ok }) => ok?._rev).sort()).toEqual(['1-a', '1-b', '1-c'])
    expect(result?.docs.find(({ ok }) => ok?._rev === '1-c')?.ok?._deleted).toBe(true)
  })

  it('returns older revisions, and the latest ones when requested', async () => {
    const db = await client().database()
    const first = await db.save('doc', { n: 1 })
    const second = await db.save('doc', { _rev: first, n: 2 })
    const docs = [{ id: 'doc', rev: first }]
    expect((await results(db, docs))[0]?.docs).toMatchObject([{ ok: { _rev: first, n: 1 } }])
    expect((await results(db, docs, '?latest=true'))[0]?.docs).toMatchObject([{ ok: { _rev: second, n: 2 } }])
    const [result] = await results(db, [{ id: 'doc', rev: second }], '?revs=true')
    expect(result?.docs[0]?.ok?._revisions).toEqual({ start: 2, ids: [second.slice(2), first.slice(2)] })
  })

  it('reports the error of each entry', async () => {
    const db = await client().database()
    const rev = await db.save('doc', {})
    const docs = [
      { id: 'doc', rev: NEVER },
      { id: 'unknown' },
      { id: 'unknown', rev: NEVER },
      { id: 'doc', rev: 'x' },
      { rev },
      5,
      { id: 'doc', rev },
    ]
    const error = (id: string | null, of: string | null, name: string, reason: string) => [
      { error: { id, rev: of, error: name, reason } },
    ]
    const answered = await results(db, docs)
    expect(answered.map(({ docs: items }) => items).slice(0, 5)).toEqual([
      error('doc', NEVER, 'not_found', 'missing'),
      error('unknown', 'undefined', 'not_found', 'missing'),
      error('unknown', NEVER, 'not_found', 'missing'),
      error('doc', 'x', 'bad_request', 'Invalid rev format'),
      error(null, null, 'bad_request', 'document id missed'),
    ])
    expect(answered[5]?.docs[0]?.error).toMatchObject({
      error: 'bad_request',
      reason: 'document must be a JSON object',
    })
    expect(answered[6]).toEqual({ id: 'doc', docs: [{ ok: { _id: 'doc', _rev: rev } }] })
  })

  it('refuses invalid ids, each in its own entry', async () => {
    const db = await client().database()
    const answered = await results(db, [{ id: '' }, { id: 5 }, { id: '_odd' }])
    expect(answered).toHaveLength(3)
    for (const { docs } of answered) expect(docs[0]?.error?.reason).toEqual(expect.any(String))
  })

  it('returns deleted revisions', async () => {
    const db = await client().database()
    const { tombstone } = await db.saveAndRemove('doc', { n: 1 })
    const [result] = await results(db, [{ id: 'doc', rev: tombstone }])
    expect(result?.docs[0]?.ok).toEqual({ _id: 'doc', _rev: tombstone, _deleted: true })
  })

  it('lists attachments, with their contents when requested', async () => {
    const db = await client().database()
    const first = await db.save('doc', { _attachments: { a: inline('text', 'text/plain') } })
    const second = await attach(db, `doc/b?rev=${first}`, 'two')
    const read = async (entry: object, query = '') =>
      (await results(db, [{ id: 'doc', rev: second, ...entry }], query))[0]?.docs[0]?.ok?._attachments
    expect(await read({})).toMatchObject({ a: { stub: true, length: 4 }, b: { stub: true, length: 3 } })
    const whole = await read({}, '?attachments=true')
    expect(whole?.a).toEqual({
      content_type: 'text/plain',
      revpos: 1,
      digest: digestOf('text'),
      data: base64('text'),
    })
    expect(whole?.b).toMatchObject({ data: base64('two') })
    const newer = await read({ atts_since: [first] })
    expect([newer?.a?.stub, newer?.b?.data]).toEqual([true, base64('two')])
    expect((await read({}, '?att_encoding_info=true'))?.a).toMatchObject({ encoding: 'gzip' })
  })

  it('returns contents of many documents, of any size and encoding', async () => {
    const db = await client().database()
    const stored: [id: string, ...contents: [name: string, type: string, bytes: Buffer][]][] = [
      ['none'],
      ['small', ['a', OCTETS, Buffer.alloc(1, 1)]],
      ['empty', ['a', OCTETS, Buffer.alloc(0)], ['b', OCTETS, Buffer.from('two')]],
      ['packed', ['a', OCTETS, Buffer.from('one')], ['b', 'text/plain', Buffer.from('text '.repeat(500))]],
      ['one chunk', ['a', OCTETS, Buffer.alloc(200_000, 2)]],
      ['two chunks', ['a', OCTETS, Buffer.alloc(300_000, 3)]],
      ...Array.from({ length: 20 }, (_, n): [string, [string, string, Buffer]] => [
        `number ${n}`,
        ['ü"', OCTETS, Buffer.alloc(50_000 + n, n)],
      ]),
    ]
    const documents = stored.map(([_id, ...contents]) => {
      const attachments = contents.map(([name, content_type, bytes]) => [
        name,
        { content_type, data: bytes.toString('base64') },
      ])
      return { _id, ...(contents.length > 0 && { _attachments: Object.fromEntries(attachments) }) }
    })
    const written = await db.post('_bulk_docs', { docs: documents })
    const revisions = written.as<{ id: string; rev: string }[]>().map(({ id, rev }) => ({ id, rev }))
    const asked = [...revisions, { id: 'never', rev: NEVER }]
    const answered = await results(db, asked, '?attachments=true&revs=true')
    expect(answered.pop()?.docs[0]?.error).toMatchObject({ id: 'never', rev: NEVER, error: 'not_found' })
    const got = answered.map(({ id, docs }) => [
      id,
      ...Object.entries(docs[0]?.ok?._attachments ?? {}).map(([name, { content_type, data = '' }]) => [
        name,
        content_type,
        Buffer.from(data, 'base64'),
      ]),
    ])
    expect(got).toEqual(stored)
  })

  it('returns what replicators ask for', async () => {
    const db = await client().database()
    const ids = Array.from({ length: 200 }, (_, n) => `doc ${n}`)
    const written = await db.post('_bulk_docs', { docs: ids.map((_id, n) => ({ _id, n })) })
    const docs = written.as<{ id: string; rev: string }[]>().map(({ id, rev }) => ({ id, rev }))
    const answered = await results(db, docs, '?revs=true&latest=true')
    expect(answered.map(({ id, docs: [item] }) => [id, item?.ok?.n])).toEqual(ids.map((id, n) => [id, n]))
  })
})

describe('_bulk_get as multipart', () => {
  async function filled(): Promise<{ db: TestDatabase; plain: string; rich: string }> {
    const db = await client().database()
    const plain = await db.save('plain', { n: 1 })
    const rich = await db.save('rich%20%C3%BC', { _attachments: { a: inline('one') } })
    return { db, plain, rich }
  }

  it('is this, byte for byte', async () => {
    const { db, plain, rich } = await filled()
    const docs = [
      { id: 'plain', rev: plain },
      { id: 'rich ü', rev: rich },
      { id: 'unknown', rev: NEVER },
    ]
    const reply = await db.post('_bulk_get', { docs }, { Accept: 'multipart/mixed' })
    expect(reply.status).toBe(200)
    expect(reply.headers['transfer-encoding']).toBe('chunked')
    const boundary = boundaryOfReply(reply.headers['content-type'] ?? '', 'multipart/mixed')
    expect(reply.headers['content-type']).toBe(`multipart/mixed; boundary="${boundary}"`)
    const [, inner = ''] = /Content-Type: multipart\/related; boundary=([0-9a-f]{32})\r\n/.exec(reply.text) ?? []
    expect(reply.text).toBe(
      `\r\n--${boundary}\r\nContent-Type: application/json\r\n\r\n{"_id":"plain","_rev":"${plain}","n":1}` +
        `\r\n--${boundary}\r\nX-Doc-Id: rich ü\r\nX-Rev-Id: ${rich}` +
        `\r\nContent-Type: multipart/related; boundary=${inner}\r\n\r\n` +
        `--${inner}\r\nContent-Type: application/json\r\n\r\n{"_id":"rich ü","_rev":"${rich}","_attachments":{"a":{` +
        `"content_type":"${OCTETS}","revpos":1,"digest":"${digestOf('one')}","length":3,"follows":true}}}` +
        `\r\n--${inner}\r\nContent-Disposition: attachment; filename="a"\r\nContent-Type: ${OCTETS}` +
        `\r\nContent-Length: 3\r\n\r\none\r\n--${inner}--` +
        `\r\n--${boundary}\r\nContent-Type: application/json; error="true"\r\n\r\n` +
        `{"id":"unknown","rev":"${NEVER}","error":"not_found","reason":"missing","status":404}` +
        `\r\n--${boundary}--\r\n`,
    )
  })

  it.each([
    [undefined, 'multipart/mixed'],
    ['*/*', 'multipart/mixed'],
    ['multipart/*', 'multipart/mixed'],
    ['multipart/mixed', 'multipart/mixed'],
    ['multipart/mixed, multipart/related', 'multipart/mixed'],
    ['multipart/related', 'multipart/related'],
    ['text/html', 'multipart/mixed'],
    ['application/json;q=0, */*', 'multipart/mixed'],
  ])('comes, when Accept is %s, as %s', async (accept, type) => {
    const { db, plain } = await filled()
    const reply = await db.post('_bulk_get', { docs: [{ id: 'plain', rev: plain }] }, { Accept: accept })
    const boundary = boundaryOfReply(reply.headers['content-type'] ?? '', type)
    expect(partsOfReply(reply, boundary)).toHaveLength(1)
  })

  it('has a part for each leaf of a document whose revision is not named', async () => {
    const db = await client().database()
    await db.replicate({ _id: 'doc', _rev: '1-a' }, { _id: 'doc', _rev: '1-b' })
    const reply = await db.post('_bulk_get', { docs: [{ id: 'doc' }] })
    expect(
      mixedParts(reply)
        .map(({ body }) => JSON.parse(body.toString())._rev)
        .sort(),
    ).toEqual(['1-a', '1-b'])
  })

  it('has only the contents that the client does not have yet', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', 'one')
    const second = await attach(db, `doc/b?rev=${first}`, 'two')
    const [part] = mixedParts(await db.post('_bulk_get', { docs: [{ id: 'doc', rev: second, atts_since: [first] }] }))
    const inner = boundaryOfReply(part?.headers['content-type'] ?? '', 'multipart/related')
    const [document, ...contents] = partsOfReply({ body: part?.body ?? Buffer.alloc(0) }, inner)
    expect(JSON.parse(document?.body.toString() ?? '')._attachments).toMatchObject({
      a: { stub: true },
      b: { follows: true },
    })
    expect(contents.map(({ body }) => body.toString())).toEqual(['two'])
    const [none] = mixedParts(await db.post('_bulk_get', { docs: [{ id: 'doc', rev: second, atts_since: [second] }] }))
    expect(none?.headers['content-type']).toBe('application/json')
  })

  it('reports the error of each entry', async () => {
    const { db } = await filled()
    const docs = [{ id: 'plain', rev: 'x' }, { id: 'unknown' }, { rev: EMPTY }]
    const parts = mixedParts(await db.post('_bulk_get', { docs }))
    for (const { headers } of parts) expect(headers['content-type']).toBe('application/json; error="true"')
    expect(parts.map(({ body }) => JSON.parse(body.toString()))).toEqual([
      { id: 'plain', rev: 'x', error: 'bad_request', reason: 'Invalid rev format', status: 400 },
      { id: 'unknown', rev: 'undefined', error: 'not_found', reason: 'missing', status: 404 },
      { id: null, rev: null, error: 'bad_request', reason: 'document id missed', status: 400 },
    ])
  })

  it('is empty when nothing is requested', async () => {
    const db = await client().database()
    const reply = await db.post('_bulk_get', { docs: [] })
    expect([reply.status, reply.body.length]).toEqual([200, 0])
  })
})

describe('a request that _bulk_get refuses', () => {
  it('has no list of documents', async () => {
    const db = await client().database()
    expectRefusal(await db.post('_bulk_get', {}), 400, 'bad_request', "Missing JSON list of 'docs'.")
    expectRefusal(await db.post('_bulk_get', []), 400, 'bad_request', 'Request body must be a JSON object')
    expectRefusal(await db.post('_bulk_get', '{'), 400, 'bad_request', 'invalid_json')
    expect((await db.post('_bulk_get', { docs: {} })).status).toBe(400)
    expect((await db.post('_bulk_get', { docs: 'x' })).status).toBe(400)
  })

  it.each(['rev=1-a', 'open_revs=all', 'atts_since=%5B%5D', 'new_edits=false', 'w=1'])('has %s', async (query) => {
    const db = await client().database()
    const [key] = query.split('=')
    const reply = await db.post(`_bulk_get?${query}`, { docs: [] })
    expectRefusal(reply, 400, 'bad_request', `"${key}" query parameter is not acceptable`)
  })

  it('does not have the Content-Type of JSON', async () => {
    const db = await client().database()
    const reply = await db.post('_bulk_get', '{"docs":[]}', { 'Content-Type': 'text/plain' })
    expectRefusal(reply, 415, 'bad_content_type', 'Content-Type must be application/json')
  })

  it('is not a POST', async () => {
    const db = await client().database()
    const reply = await db.get('_bulk_get')
    expect([reply.status, reply.headers.allow]).toEqual([405, 'POST'])
  })
})
