import { describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile } from '../../support/client.ts'

const client = serverOfFile()

const MEGABYTE = 1024 * 1024

describe('a name longer than any header', () => {
  it('of a document is written, read and listed; its address is left out', async () => {
    const database = await client().database()
    const id = 'i'.repeat(MEGABYTE)
    const written = await database.post('', { _id: id, a: 1 })
    expect([written.status, written.headers.location]).toEqual([201, undefined])
    expect((await database.get('_all_docs')).as<{ rows: { id: string }[] }>().rows.map((row) => row.id)).toEqual([id])
    const { rows } = (await database.post('_all_docs', { keys: [id] })).as<{ rows: { value: { rev: string } }[] }>()
    expect(rows[0]?.value.rev).toBe(written.rev)
    const removed = await database.post('_bulk_docs', { docs: [{ _id: id, _rev: written.rev, _deleted: true }] })
    expect(removed.as<{ ok: boolean }[]>()[0]?.ok).toBe(true)
    expect((await database.info()).doc_count).toBe(0)
  })

  it.each(['r'.repeat(MEGABYTE), 'r'.repeat(1001), 'line\nfeed', 'ü', '\u65e5'])(
    'of a revision is refused when it is written (%#)',
    async (hash) => {
      const database = await client().database()
      const document = { _id: 'a', _rev: `1-${hash}` }
      expectRefusal(
        await database.request('PUT', 'a?new_edits=false', { body: document }),
        400,
        'bad_request',
        'Invalid rev format',
      )
      expect((await database.post('_bulk_docs', { new_edits: false, docs: [document] })).status).toBe(400)
      const history = { _id: 'a', _revisions: { start: 2, ids: ['b', hash] } }
      expect((await database.post('_bulk_docs', { new_edits: false, docs: [history] })).status).toBe(400)
      expect((await database.get('a')).status).toBe(404)
    },
  )

  it.each(['r'.repeat(1000), 'x y', "!#'*", 'B', 'a"b'])('of a revision that fits one is kept (%#)', async (hash) => {
    const database = await client().database()
    await database.replicate({ _id: 'a', _rev: `1-${hash}` })
    const reply = await database.get('a')
    expect([reply.status, reply.headers.etag]).toEqual([200, `"1-${hash}"`])
  })

  it('of a content type is refused when it is written', async () => {
    const database = await client().database()
    const type = `text/${'x'.repeat(8000)}`
    const inline = { _attachments: { f: { data: '', content_type: type } } }
    const reason = 'Invalid content type of attachment f'
    expectRefusal(await database.request('PUT', 'a', { body: inline }), 400, 'bad_request', reason)
    const upload = await database.request('PUT', 'a/f', { body: 'x', headers: { 'Content-Type': type } })
    expectRefusal(upload, 400, 'bad_request', reason)
    expect((await database.get('a')).status).toBe(404)
  })
})

describe('JSON that is nested too deep', () => {
  const nested = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
  const objects = `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`

  it.each([
    ['PUT', 'document', nested],
    ['PUT', 'document', objects],
    ['PUT', 'document', `{"a":${nested}}`],
    ['POST', '', objects],
    ['PUT', '_local/document', objects],
    ['PUT', '_design/document', objects],
    ['POST', '_bulk_docs', `{"docs":[{"a":${nested}}]}`],
    ['POST', '_bulk_docs', `{"docs":${nested}}`],
    ['POST', '_all_docs', `{"keys":${nested}}`],
    ['POST', '_revs_diff', `{"a":${nested}}`],
    ['POST', '_missing_revs', `{"a":${nested}}`],
    ['POST', '_purge', `{"a":${nested}}`],
    ['POST', '_bulk_get', `{"docs":${nested}}`],
    ['PUT', '_security', `{"a":${nested}}`],
    ['PUT', '_revs_limit', nested],
  ])('%s %s is refused and changes nothing', async (method, path, body) => {
    const database = await client().database()
    await database.save('there', { a: 1 })
    const before = await database.state()
    const reply = await database.request(method, path, { body, headers: { Accept: 'application/json' } })
    expectRefusal(reply, 400, 'bad_request', 'invalid_json')
    expect(await database.state()).toEqual(before)
  })
})

describe('very many items', () => {
  it.each([
    ['members', `{${Array.from({ length: 50_000 }, (_, i) => `"k${i}":${i}`).join()}}`],
    ['members of one name', `{${'"k":0,'.repeat(50_000)}"k":1}`],
    ['members that look like numbers', `{${Array.from({ length: 50_000 }, (_, i) => `"${i}":1`).join()}}`],
    ['elements', `{"a":[${'0,'.repeat(200_000)}0]}`],
  ])('%s create a document like others', async (_, body) => {
    const database = await client().database()
    await database.save('a', body)
    const { _id, _rev, ...members } = (await database.get('a')).as<Record<string, unknown>>()
    expect(members).toEqual(JSON.parse(body))
  })

  it('keys, the same one too, have a row each', async () => {
    const database = await client().database()
    await database.save('a', {})
    const keys = Array.from({ length: 50_000 }, (_, i) => (i % 2 ? 'a' : `none-${i}`))
    const { rows } = (await database.post('_all_docs?include_docs=true', { keys })).as<{ rows: { id?: string }[] }>()
    expect(rows.map(({ id }, i) => id ?? keys[i])).toEqual(keys)
  })

  it('keys of one document with attachments have them each time', async () => {
    const database = await client().database()
    await database.save('a', { _attachments: { b: { data: 'YWJj' } } })
    const reply = await database.post('_all_docs?include_docs=true&attachments=true', { keys: ['a', 'a', 'none', 'a'] })
    const { rows } = reply.as<{ rows: { doc?: { _attachments: { b: { data: string } } } }[] }>()
    expect(rows.map(({ doc }) => doc?._attachments.b.data)).toEqual(['YWJj', 'YWJj', undefined, 'YWJj'])
  })

  it('ancestors of a revision are kept up to the limit', async () => {
    const database = await client().database()
    const ids = Array.from({ length: 50_000 }, (_, i) => i.toString(16).padStart(32, '0'))
    await database.replicate({ _id: 'a', _revisions: { start: ids.length, ids } })
    const { _revisions } = (await database.get('a?revs=true')).as<{ _revisions: { start: number; ids: string[] } }>()
    expect(_revisions).toEqual({ start: ids.length, ids: ids.slice(0, 1000) })
  })
})
