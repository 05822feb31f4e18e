/** Bodies that are read by the scan thread mean what they mean when they are small. */
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { parseRevision } from '../../../src/document/ids.ts'
import { newRevision } from '../../../src/document/revisions/new-revision.ts'
import { scanDocument } from '../../../src/encoding/json/json-text.ts'
import { Client, expectRefusal, serverOfFile } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

const client = serverOfFile()

/** More than is read at once, in bytes. */
const LARGE = 200_000
const VERY_LARGE = 5_000_000

describe('a large document', () => {
  it('has the revision that a small one with the same content would have', async () => {
    const db = await client().database()
    // The same content: white space does not count.
    const small = { list: [1, 2.5, 'ü', null, true, { a: {} }], text: 'x'.repeat(1000) }
    const first = await db.request('PUT', 'small', { body: JSON.stringify(small) })
    const second = await db.request('PUT', 'large', { body: ' '.repeat(LARGE) + JSON.stringify(small) })
    expect(second.rev).toBe(first.rev)
  })

  it('has the right revision though it is hashed in slices, on any parent', async () => {
    const [db, other] = [await client().database(), await client().database()]
    const body = { text: 'x'.repeat(1_500_000) }
    const revs: string[] = []
    for (const each of [db, other]) {
      let rev = (await each.request('PUT', 'doc', { body })).rev
      rev = (await each.request('PUT', 'doc', { body: { ...body, _rev: rev } })).rev
      rev = (await each.request('PUT', 'doc', { body: { ...body, _rev: rev, _deleted: true } })).rev
      // On a tombstone no parent is named.
      revs.push((await each.request('PUT', 'doc', { body })).rev)
    }
    expect(revs[0]).toMatch(/^4-/)
    expect(revs[0]).toBe(revs[1])
    expectRefusal(await db.request('PUT', 'doc', { body }), 409, 'conflict', 'Document update conflict.')
  })

  it('keeps its special members, its attachments and the last of members that come twice', async () => {
    const db = await client().database()
    const text = `{"a":1,"pad":"${'x'.repeat(LARGE)}","a":2,"_attachments":{"f":{"data":"aGk=","content_type":"text/plain"}}}`
    expect((await db.request('PUT', 'doc', { body: text })).status).toBe(201)
    const stored = (await db.get('doc')).as<{ a: number; _attachments: { f: { length: number } } }>()
    expect([stored.a, stored._attachments.f.length]).toEqual([2, 2])
    expect((await db.get('doc/f')).text).toBe('hi')
  })

  it.each([
    ['{"a":', 400, 'bad_request', 'invalid_json'],
    ['["a",', 400, 'bad_request', 'Document must be a JSON object'],
    ['{"_strange":1,"a":', 500, 'doc_validation', 'Bad special document member: _strange'],
    ['{"_attachments":{"f":{"data":"?"}},"a":', 400, 'bad_request', 'Invalid attachment data for f'],
  ])('that begins with %s is refused as a small one', async (begin, status, error, reason) => {
    const db = await client().database()
    const end = reason === 'invalid_json' ? '' : begin.startsWith('[') ? ']' : '}'
    const body = `${begin}"${'x'.repeat(LARGE)}"${end}`
    expectRefusal(await db.request('PUT', 'doc', { body }), status, error, reason)
  })
})

describe('a document of some kilobytes', () => {
  const text = 'plain text '.repeat(500)
  const attachment = { _attachments: { f: { content_type: 'text/plain', data: 'aGk=' } } }
  const md5 = createHash('md5').update('hi').digest()

  /** As the pure function makes it from a term that was kept. */
  function revision(parent: string | undefined, content: object, { deleted = false, isAttached = false } = {}): string {
    const { term } = scanDocument(Buffer.from(JSON.stringify(content)))
    const attachments = isAttached ? [{ name: 'f', contentType: 'text/plain', md5 }] : []
    return newRevision(parent === undefined ? undefined : parseRevision(parent), { deleted, term, attachments })
  }

  it('has the right revision, wherever its parent is named', async () => {
    const db = await client().database()
    const put = async (path: string, body: object | string) => (await db.request('PUT', path, { body })).rev
    const first = await put('a', { _id: 'a', text })
    expect(first).toBe(revision(undefined, { text }))
    const second = await put('a', { _rev: first, text, n: 2 })
    expect(second).toBe(revision(first, { text, n: 2 }))
    // The parent is not in the document: the revision that was worked out before does not count.
    const third = await put(`a?rev=${second}`, { text, n: 3 })
    expect(third).toBe(revision(second, { text, n: 3 }))
    const fourth = await put('a', { _rev: third, _deleted: true, text })
    expect(fourth).toBe(revision(third, { text }, { deleted: true }))
    const fifth = await put('a', { text })
    expect(fifth).toBe(revision(fourth, { text }))
    const sixth = await put('a', `{"text":"x","_rev":"${fifth}","n":6,"text":${JSON.stringify(text)}}`)
    expect(sixth).toBe(revision(fifth, { text, n: 6 }))
    const seventh = await put('a', { ...attachment, _rev: sixth, text })
    expect(seventh).toBe(revision(sixth, { text }, { isAttached: true }))
    expect((await db.get('a')).json).toMatchObject({ text, _rev: seventh })
  })

  it.each([
    ['few', 20],
    ['so many that they are read by another thread', 1000],
  ])('has it among %s too', async (_, count) => {
    const db = await client().database()
    const docs = Array.from({ length: count }, (_, n) => ({ _id: `d${n}`, n, text }))
    const saved = (await db.post('_bulk_docs', { docs })).as<{ rev: string }[]>()
    expect(saved.map(({ rev }) => rev)).toEqual(docs.map(({ n }) => revision(undefined, { n, text })))
    const changed = docs.map((doc, i) => ({ ...doc, _rev: saved[i]!.rev, _deleted: i % 2 === 0 }))
    const again = (await db.post('_bulk_docs', { docs: changed })).as<{ rev: string }[]>()
    expect(again.map(({ rev }) => rev)).toEqual(
      docs.map(({ n }, i) => revision(saved[i]!.rev, { n, text }, { deleted: i % 2 === 0 })),
    )
    expect((await db.get('d1')).json).toEqual({ ...docs[1], _rev: again[1]!.rev })
  })
})

describe('a large _bulk_docs', () => {
  const documents = (count: number, pad: number) =>
    Array.from({ length: count }, (_, i) => ({ _id: `d${i}`, n: i, pad: 'x'.repeat(pad) }))

  it.each([
    ['small documents', documents(3000, 100)],
    ['more bytes than are read at once', documents(60, VERY_LARGE / 50)],
    ['large ones among small ones', [...documents(10, 10), { _id: 'large', pad: 'x'.repeat(VERY_LARGE / 10) }]],
  ])('of %s writes all of them, in order', async (_, docs) => {
    const db = await client().database()
    const reply = await db.post('_bulk_docs', { docs })
    expect(reply.status).toBe(201)
    expect(reply.as<{ id: string }[]>().map(({ id }) => id)).toEqual(docs.map(({ _id }) => _id))
    const last = docs.at(-1)!
    expect((await db.get(last._id)).as<{ pad: string }>().pad).toBe(last.pad)
    const rest = { new_edits: false, docs: docs.map((each) => ({ ...each, _rev: '3-a' })) }
    expect((await db.post('_bulk_docs', rest)).status).toBe(201)
    expect((await db.get(last._id)).rev).toBeUndefined()
  })

  it('takes the last of two lists', async () => {
    const db = await client().database()
    const pad = 'x'.repeat(LARGE)
    for (const length of [1, 30]) {
      const list = `[${Array.from({ length }, (_, i) => `{"_id":"a${i}","pad":"${pad}"}`).join()}]`
      await db.request('POST', '_bulk_docs', { body: `{"docs":${list},"docs":[{"_id":"b${length}"}]}` })
    }
    expect((await db.get('_all_docs')).as<{ rows: { id: string }[] }>().rows.map(({ id }) => id)).toEqual(['b1', 'b30'])
  })

  it.each([
    ['{"docs":{}, "pad":"', 400, '`docs` parameter must be an array.'],
    ['{"pad":"', 400, "Missing JSON list of 'docs'"],
    ['["', 400, 'Request body must be a JSON object'],
    ['{"docs":[],"new_edits":1,"pad":"', 400, '`new_edits` parameter must be a boolean.'],
  ])('%s is refused as a small one', async (begin, status, reason) => {
    const db = await client().database()
    for (const size of [LARGE, VERY_LARGE]) {
      const body = `${begin}${'x'.repeat(size)}"${begin.startsWith('[') ? ']' : '}'}`
      expectRefusal(await db.request('POST', '_bulk_docs', { body }), status, 'bad_request', reason)
    }
  })
})

describe('a large body of parameters', () => {
  it('is understood like a small one', async () => {
    const db = await client().database()
    await db.save('a', {})
    const keys = ['a', '__proto__', 'none', ...Array.from({ length: 20_000 }, (_, i) => `key ${i}`)]
    const body = JSON.stringify({ pad: { deep: ['x'] }, descending: false, keys, limit: 3 })
    const reply = await db.request('POST', '_all_docs', { body })
    expect(reply.as<{ rows: { key: string }[] }>().rows.map(({ key }) => key)).toEqual(keys.slice(0, 3))
    const again = await db.request('POST', '_all_docs', { body })
    const others = await db.request('POST', '_all_docs', { body: body.replace('"key 7"', '"key x"') })
    expect(again.headers.etag).toBe(reply.headers.etag)
    expect(others.headers.etag).not.toBe(reply.headers.etag)
  })

  it('may name any document', async () => {
    const db = await client().database()
    const ids = ['__proto__', 'constructor', ...Array.from({ length: 5000 }, (_, i) => `document ${i}`)]
    const asked = `{${ids.map((id) => `${JSON.stringify(id)}:["1-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]`).join()}}`
    const reply = await db.request('POST', '_revs_diff', { body: asked })
    expect(Object.keys(reply.as<object>())).toEqual(ids)
  })
})

describe('httpd/max_request_items', () => {
  it('bounds what one request may list', async () => {
    const { url } = await startService({ settings: { httpd: { max_request_items: '10' } } })
    const limited = new Client(url)
    const db = await limited.database()
    const list = (count: number) => Array.from({ length: count }, (_, i) => `d${i}`)
    const requests: [string, (count: number) => unknown][] = [
      ['_bulk_docs', (count) => ({ docs: list(count).map((id) => ({ _id: id })) })],
      ['_bulk_get', (count) => ({ docs: list(count).map((id) => ({ id })) })],
      ['_all_docs', (count) => ({ keys: list(count) })],
      ['_revs_diff', (count) => ({ a: list(count).map((each) => `1-${each}`) })],
      ['_missing_revs', (count) => Object.fromEntries(list(count).map((each) => [each, ['1-a']]))],
      ['_purge', (count) => Object.fromEntries(list(count).map((each) => [each, ['1-a']]))],
    ]
    const reason = 'The request has more than 10 items; send it in parts.'
    for (const [path, body] of requests) {
      expect((await db.post(path, body(10))).status, path).toBeLessThan(300)
      expectRefusal(await db.post(path, body(11)), 413, 'too_large', reason)
    }
    await limited.close()
  })
})
