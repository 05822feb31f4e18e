/** Attachments that come from a form of a web page. */
import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { attach, entries, inline, multipart, OCTETS, type SentPart } from '../../support/attachments.ts'
import { expectConflict, expectRefusal, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

function field(name: string, value: string): SentPart {
  return { headers: [`Content-Disposition: form-data; name="${name}"`], body: value }
}

function file(filename: string, content: string | Buffer, type = OCTETS): SentPart {
  const disposition = `Content-Disposition: form-data; name="_attachments"; filename="${filename}"`
  return { headers: [disposition, `Content-Type: ${type}`], body: content }
}

function submit(
  db: TestDatabase,
  path: string,
  parts: SentPart[],
  headers: Record<string, string> = {},
): Promise<Reply> {
  return db.post(path, multipart('----formBoundary', parts), {
    'Content-Type': 'multipart/form-data; boundary=----formBoundary',
    Referer: `${db.url}/_design/app/index.html`,
    ...headers,
  })
}

describe('a form', () => {
  it('adds files to a document', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { n: 1, _attachments: { old: inline('old'), same: inline('same') } })
    const picture = randomBytes(100_000)
    const reply = await submit(db, 'doc', [field('_rev', rev), file('picture.png', picture, 'image/png')])
    expect(reply.status, reply.text).toBe(201)
    expect(reply.json).toEqual({ ok: true, id: 'doc', rev: reply.rev })
    expect(reply.rev.slice(0, 2)).toBe('2-')
    expect((await db.get('doc')).json).toMatchObject({ _rev: reply.rev, n: 1 })
    const shown = await entries(db, 'doc')
    expect(Object.keys(shown)).toEqual(['picture.png', 'old', 'same'])
    expect(shown['picture.png']).toMatchObject({ content_type: 'image/png', revpos: 2, length: 100_000 })
    expect(shown.old?.revpos).toBe(1)
    expect((await db.get('doc/picture.png')).body.equals(picture)).toBe(true)
  })

  it('is refused when it has neither a revision nor a document', async () => {
    const db = await client().database()
    expectRefusal(await submit(db, 'doc', [file('a', 'a')]), 400, 'bad_request', 'The form has neither _rev nor _doc.')
    expect((await db.get('doc')).status).toBe(404)
  })

  it('replaces a file of the same name, which then comes first', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { _attachments: { a: inline('a'), b: inline('old') } })
    await submit(db, 'doc', [field('_rev', rev), file('b', 'new')])
    expect(Object.keys(await entries(db, 'doc'))).toEqual(['b', 'a'])
    expect((await db.get('doc/b')).text).toBe('new')
  })

  it('may bring several files, with the revision before or after them', async () => {
    const db = await client().database()
    const rev = await db.save('doc', {})
    const first = await submit(db, 'doc', [field('_rev', rev), file('a', 'one'), file('b', 'two', 'text/plain')])
    expect(first.status, first.text).toBe(201)
    expect(Object.keys(await entries(db, 'doc')).sort()).toEqual(['a', 'b'])
    expect((await db.get('doc/b')).text).toBe('two')
    const second = await submit(db, 'doc', [file('c', 'three'), field('_rev', first.rev)])
    expect(second.status, second.text).toBe(201)
    expect(Object.keys(await entries(db, 'doc')).sort()).toEqual(['a', 'b', 'c'])
  })

  it('may bring the document', async () => {
    const db = await client().database()
    const reply = await submit(db, 'doc', [field('_doc', '{"n":1}'), file('a', 'one')])
    expect(reply.status, reply.text).toBe(201)
    expect(reply.rev.slice(0, 2)).toBe('1-')
    expect((await db.get('doc')).json).toMatchObject({ _id: 'doc', n: 1 })
    expect((await db.get('doc/a')).text).toBe('one')
    const update = JSON.stringify({ _rev: reply.rev, n: 2, _attachments: { a: { stub: true } } })
    const second = await submit(db, 'doc', [field('_doc', update), file('b', 'two')])
    expect(second.status, second.text).toBe(201)
    expect((await db.get('doc')).json).toMatchObject({ n: 2 })
    expect(Object.keys(await entries(db, 'doc'))).toEqual(['b', 'a'])
  })

  it('may bring the document alone', async () => {
    const db = await client().database()
    const reply = await submit(db, 'doc', [field('_doc', '{"n":1}')])
    expect(reply.status, reply.text).toBe(201)
    expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: reply.rev, n: 1 })
  })

  it('takes names as browsers write them', async () => {
    const db = await client().database()
    const rev = await db.save('doc', {})
    const reply = await submit(db, 'doc', [
      field('_rev', rev),
      file('ü ☃.txt', 'one', 'text/plain'),
      file('a;b', 'two'),
    ])
    expect(reply.status, reply.text).toBe(201)
    expect(Object.keys(await entries(db, 'doc')).sort()).toEqual(['a;b', 'ü ☃.txt'].sort())
  })

  it('is a conflict without the latest revision', async () => {
    const db = await client().database()
    const first = await attach(db, 'doc/a', 'one')
    const second = await attach(db, `doc/a?rev=${first}`, 'two')
    expectConflict(await submit(db, 'doc', [field('_rev', first), file('a', 'three')]))
    expectConflict(await submit(db, 'doc', [field('_doc', '{}'), file('a', 'three')]))
    expect((await db.get('doc')).json).toMatchObject({ _rev: second })
  })

  it('must come from a page of this server', async () => {
    const db = await client().database()
    const parts = [field('_doc', '{}'), file('a', 'one')]
    const without = await db.post('doc', multipart('b', parts), { 'Content-Type': 'multipart/form-data; boundary=b' })
    expectRefusal(without, 400, 'bad_request', 'Referer header required.')
    const other = await submit(db, 'doc', parts, { Referer: 'http://example.org/page' })
    expectRefusal(other, 400, 'bad_request', 'Referer header must match host.')
    const trick = await submit(db, 'doc', parts, { Referer: `http://example.org/http://${client().host}/` })
    expectRefusal(trick, 400, 'bad_request', 'Referer header must match host.')
    expect((await db.get('doc')).status).toBe(404)
  })

  it.each<[string, SentPart[]]>([
    ['a document that is no JSON', [field('_doc', '{'), file('a', 'one')]],
    ['a document that is no object', [field('_doc', '[]'), file('a', 'one')]],
    ['a revision that is none', [field('_rev', 'x'), file('a', 'one')]],
    ['a name that begins with an underscore', [field('_doc', '{}'), file('_a', 'one')]],
    ['an empty name', [field('_doc', '{}'), file('', 'one')]],
  ])('is refused with %s', async (what, parts) => {
    const db = await client().database()
    const reply = await submit(db, 'doc', parts)
    // A field of files into which nothing was put has no name and no content, and that is no fault.
    if (what === 'an empty name') expect([201, 400], reply.text).toContain(reply.status)
    else expect([reply.status, reply.as<{ error: string }>().error], reply.text).toEqual([400, 'bad_request'])
  })

  it('is refused when it is truncated or not a form', async () => {
    const db = await client().database()
    const headers = { 'Content-Type': 'multipart/form-data; boundary=b', Referer: `${db.url}/` }
    const whole = multipart('b', [field('_doc', '{}'), file('a', 'one')])
    expect((await db.post('doc', whole.subarray(0, -6), headers)).status).toBe(400)
    expect((await db.post('doc', '{}', { ...headers, 'Content-Type': 'application/json' })).status).toBeLessThan(500)
    const unbounded = await db.post('doc', whole, { ...headers, 'Content-Type': 'multipart/form-data' })
    expect([400, 415], unbounded.text).toContain(unbounded.status)
    expect((await db.get('doc')).status).toBe(404)
  })
})
