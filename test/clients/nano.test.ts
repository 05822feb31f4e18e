/** What people do with nano: documents, attachments and bulk requests, by the client as it is. */
import { randomBytes } from 'node:crypto'
import nano, { type DocumentInsertResponse, type DocumentScope } from 'nano'
import { describe, expect, it } from 'vitest'
import { startService } from '../support/service.ts'

interface Body {
  n?: number
  name?: string
}

async function database(): Promise<DocumentScope<Body>> {
  const { url } = await startService()
  const server = nano(url.replace(/\/$/, ''))
  await server.db.create('things')
  return server.use<Body>('things')
}

/** For attachments nano names no type that it accepts, so it gets plain text, and hands it on as it is. */
function written(reply: DocumentInsertResponse | string): DocumentInsertResponse {
  return typeof reply === 'string' ? (JSON.parse(reply) as DocumentInsertResponse) : reply
}

describe('nano', () => {
  it('makes, lists and removes databases', async () => {
    const { url } = await startService()
    const server = nano(url.replace(/\/$/, ''))
    expect(await server.db.create('a/b')).toMatchObject({ ok: true })
    expect((await server.db.get('a/b')).doc_count).toBe(0)
    await expect(server.db.create('a/b')).rejects.toMatchObject({ statusCode: 412, error: 'file_exists' })
    expect(await server.db.destroy('a/b')).toEqual({ ok: true })
    await expect(server.db.get('a/b')).rejects.toMatchObject({ statusCode: 404, error: 'not_found' })
  })

  it('writes, reads, updates and removes documents', async () => {
    const db = await database()
    const first = await db.insert({ n: 1 }, 'a document/with a slash')
    expect(await db.get('a document/with a slash')).toEqual({ _id: first.id, _rev: first.rev, n: 1 })
    const second = await db.insert({ _rev: first.rev, n: 2 }, first.id)
    expect(second.rev).toMatch(/^2-/)
    await expect(db.insert({ n: 3 }, first.id)).rejects.toMatchObject({ statusCode: 409, error: 'conflict' })
    expect((await db.head(first.id)).etag).toBe(`"${second.rev}"`)
    await db.destroy(first.id, second.rev)
    await expect(db.get(first.id)).rejects.toMatchObject({ statusCode: 404, reason: 'deleted' })
    const posted = await db.insert({ name: 'without a name' })
    expect(posted.id).toMatch(/^[0-9a-f]{32}$/)
  })

  it('copies, lists and fetches documents', async () => {
    const db = await database()
    const stored = await db.bulk({
      docs: [
        { _id: 'a', n: 1 },
        { _id: 'b', n: 2 },
        { _id: 'c', n: 3 },
      ],
    })
    expect(stored).toMatchObject([
      { id: 'a', ok: true },
      { id: 'b', ok: true },
      { id: 'c', ok: true },
    ])
    const listing = await db.list({ include_docs: true, startkey: 'b' })
    expect(listing.rows.map(({ doc }) => doc?.n)).toEqual([2, 3])
    expect(listing).toMatchObject({ total_rows: 3, offset: 1 })
    const fetched = await db.fetch({ keys: ['c', 'none', 'a'] })
    expect(fetched.rows).toMatchObject([{ id: 'c', doc: { n: 3 } }, { key: 'none', error: 'not_found' }, { id: 'a' }])
    const revisions = await db.fetchRevs({ keys: ['a'] })
    expect(revisions.rows).toMatchObject([{ id: 'a', value: { rev: expect.stringMatching(/^1-/) } }])
  })

  it('keeps attachments of every kind', async () => {
    const db = await database()
    const picture = randomBytes(300_000)
    const first = written(await db.attachment.insert('doc', 'picture.png', picture, 'image/png'))
    const second = written(
      await db.attachment.insert('doc', 'notes/ü ☃.txt', 'some text', 'text/plain', { rev: first.rev }),
    )
    expect((await db.attachment.get('doc', 'picture.png')).equals(picture)).toBe(true)
    expect(String(await db.attachment.get('doc', 'notes/ü ☃.txt'))).toBe('some text')
    const document = await db.get('doc')
    expect(document).toMatchObject({
      _rev: second.rev,
      _attachments: { 'picture.png': { stub: true, length: 300_000 }, 'notes/ü ☃.txt': { length: 9 } },
    })
    const third = written(await db.attachment.destroy('doc', 'picture.png', { rev: second.rev }))
    expect(third.rev).toMatch(/^3-/)
    await expect(db.attachment.get('doc', 'picture.png')).rejects.toMatchObject({ statusCode: 404 })
  })

  it('streams attachments', async () => {
    const db = await database()
    const content = randomBytes(2_000_000)
    await db.attachment.insert('doc', 'large', content, 'application/octet-stream')
    const chunks: Buffer[] = []
    for await (const chunk of await db.attachment.getAsStream('doc', 'large')) chunks.push(Buffer.from(chunk))
    expect(Buffer.concat(chunks).equals(content)).toBe(true)
  })

  it('writes and reads a document and its attachments at once', async () => {
    const db = await database()
    const picture = randomBytes(1_000)
    const reply = await db.multipart.insert(
      { n: 1 },
      [
        { name: 'text ☃', data: 'some text ü', content_type: 'text/plain' },
        { name: 'picture.png', data: picture, content_type: 'image/png' },
      ],
      'doc',
    )
    expect(written(reply)).toMatchObject({ ok: true, id: 'doc' })
    expect((await db.attachment.get('doc', 'picture.png')).equals(picture)).toBe(true)
    expect(String(await db.attachment.get('doc', 'text ☃'))).toBe('some text ü')
    const whole = String(await db.multipart.get('doc'))
    expect(whole).toContain('"n":1')
    expect(whole).toContain('filename="picture.png"')
  })

  it('sees what it has not the revision for', async () => {
    const db = await database()
    const first = written(await db.attachment.insert('doc', 'a', 'one', 'text/plain'))
    await expect(db.attachment.insert('doc', 'a', 'two', 'text/plain')).rejects.toMatchObject({ statusCode: 409 })
    await expect(
      db.multipart.insert({ n: 2 }, [{ name: 'a', data: 'x', content_type: 'text/plain' }], 'doc'),
    ).rejects.toMatchObject({ statusCode: 409 })
    expect((await db.get('doc'))._rev).toBe(first.rev)
  })
})
