/** What people do with PouchDB on a database of this server, by the client as it is. */
import { randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

/** What the tests use of PouchDB, which comes without types. */
interface Pouch {
  put(document: object, options?: object): Promise<Written>
  post(document: object): Promise<Written>
  get(id: string, options?: object): Promise<PouchDocument>
  remove(id: string, rev: string): Promise<Written>
  allDocs(options?: object): Promise<{ total_rows: number; rows: { id: string; doc?: PouchDocument }[] }>
  bulkDocs(documents: object[], options?: object): Promise<(Written & { status?: number; name?: string })[]>
  bulkGet(options: object): Promise<{ results: { id: string; docs: { ok?: PouchDocument; error?: object }[] }[] }>
  putAttachment(id: string, name: string, rev: string | Buffer, content?: unknown, type?: string): Promise<Written>
  getAttachment(id: string, name: string, options?: object): Promise<Buffer>
  removeAttachment(id: string, name: string, rev: string): Promise<Written>
  revsDiff(revisions: object): Promise<Record<string, { missing: string[] }>>
  info(): Promise<{ db_name: string; doc_count: number }>
  close(): Promise<void>
  destroy(): Promise<{ ok: boolean }>
}

interface Written {
  ok: boolean
  id: string
  rev: string
}

interface PouchDocument {
  _id: string
  _rev: string
  n?: number
  _conflicts?: string[]
  _attachments?: Record<string, { content_type: string; digest: string; stub?: true; length?: number; data?: unknown }>
}

type PouchConstructor = new (name: string, options?: object) => Pouch

// Its module for imports names no file that Node finds.
const PouchDB: PouchConstructor = createRequire(import.meta.url)('pouchdb')

async function remote(): Promise<Pouch> {
  const { url } = await startService()
  const db = new PouchDB(`${url}things`)
  // One that was destroyed cannot be closed.
  onTestFinished(() => db.close().catch(() => undefined))
  return db
}

async function local(): Promise<Pouch> {
  const db = new PouchDB(join(await temporaryFolder(), 'local'))
  onTestFinished(() => db.close())
  return db
}

describe('PouchDB, on a database of the server,', () => {
  it('makes it, writes, reads, updates and removes documents', async () => {
    const db = await remote()
    expect(await db.info()).toMatchObject({ db_name: 'things', doc_count: 0 })
    const first = await db.put({ _id: 'doc/with slash', n: 1 })
    expect(await db.get('doc/with slash')).toEqual({ _id: 'doc/with slash', _rev: first.rev, n: 1 })
    const second = await db.put({ _id: first.id, _rev: first.rev, n: 2 })
    await expect(db.put({ _id: first.id, n: 3 })).rejects.toMatchObject({ status: 409, name: 'conflict' })
    await db.remove(first.id, second.rev)
    await expect(db.get(first.id)).rejects.toMatchObject({ status: 404, reason: 'deleted' })
    expect((await db.post({ n: 4 })).id).not.toBe('')
    expect((await db.allDocs({ include_docs: true })).rows.map(({ doc }) => doc?.n)).toEqual([4])
  })

  it('keeps attachments inside documents', async () => {
    const db = await remote()
    const picture = randomBytes(50_000)
    await db.put({
      _id: 'doc',
      n: 1,
      _attachments: {
        'picture.png': { content_type: 'image/png', data: picture },
        'text.txt': { content_type: 'text/plain', data: Buffer.from('some text').toString('base64') },
      },
    })
    const stubs = await db.get('doc')
    expect(stubs._attachments?.['picture.png']).toMatchObject({ stub: true, length: 50_000 })
    const whole = await db.get('doc', { attachments: true })
    expect(whole._attachments?.['text.txt']?.data).toBe(Buffer.from('some text').toString('base64'))
    const binary = await db.get('doc', { attachments: true, binary: true })
    expect(picture.equals(binary._attachments?.['picture.png']?.data as Buffer)).toBe(true)
    const second = await db.put({ ...stubs, n: 2 })
    expect((await db.getAttachment('doc', 'picture.png', { rev: second.rev })).equals(picture)).toBe(true)
  })

  it('puts, gets and removes single attachments', async () => {
    const db = await remote()
    const content = randomBytes(100_000)
    const first = await db.putAttachment('doc', 'a/ü.bin', content, 'application/octet-stream')
    const second = await db.putAttachment('doc', 'text', first.rev, Buffer.from('some text'), 'text/plain')
    expect((await db.getAttachment('doc', 'a/ü.bin')).equals(content)).toBe(true)
    expect((await db.getAttachment('doc', 'text')).toString()).toBe('some text')
    const third = await db.removeAttachment('doc', 'text', second.rev)
    await expect(db.getAttachment('doc', 'text')).rejects.toMatchObject({ status: 404 })
    expect((await db.getAttachment('doc', 'text', { rev: second.rev })).toString()).toBe('some text')
    expect(Object.keys((await db.get('doc', { rev: third.rev }))._attachments ?? {})).toEqual(['a/ü.bin'])
    await expect(db.putAttachment('doc', 'late', first.rev, Buffer.from('x'), 'text/plain')).rejects.toMatchObject({
      status: 409,
    })
  })

  it('gets an error for a stub without content', async () => {
    const db = await remote()
    const _attachments = { a: { stub: true, digest: 'md5-AAAAAAAAAAAAAAAAAAAAAA==', content_type: 'a/b', revpos: 1 } }
    await expect(db.put({ _id: 'doc', _attachments })).rejects.toMatchObject({ status: 412 })
  })

  it('fetches many revisions at once, with their attachments', async () => {
    const db = await remote()
    const first = await db.putAttachment('doc', 'a', Buffer.from('one'), 'text/plain')
    const other = await db.put({ _id: 'other', n: 1 })
    const docs = [
      { id: 'doc', rev: first.rev },
      { id: 'other', rev: other.rev },
      { id: 'none', rev: '1-abc' },
    ]
    const { results } = await db.bulkGet({ docs, revs: true, attachments: true })
    expect(results[0]?.docs[0]?.ok?._attachments?.a?.data).toBe(Buffer.from('one').toString('base64'))
    expect(results[1]?.docs[0]?.ok?.n).toBe(1)
    expect(results[2]?.docs[0]?.error).toMatchObject({ error: 'not_found' })
  })

  it('makes and sees conflicts', async () => {
    const db = await remote()
    const docs = [
      { _id: 'doc', _rev: '1-a', n: 1 },
      { _id: 'doc', _rev: '1-b', n: 2 },
    ]
    await db.bulkDocs(docs, { new_edits: false })
    expect(await db.get('doc', { conflicts: true })).toMatchObject({ n: 2, _conflicts: ['1-a'] })
    expect(await db.revsDiff({ doc: ['1-a', '1-c'] })).toMatchObject({ doc: { missing: ['1-c'] } })
  })

  it('removes it', async () => {
    const db = await remote()
    await db.put({ _id: 'doc' })
    expect(await db.destroy()).toMatchObject({ ok: true })
  })
})

describe('PouchDB, with a database of its own beside it,', () => {
  it('hands documents and attachments over, both ways', async () => {
    const here = await local()
    const there = await remote()
    const picture = randomBytes(20_000)
    const first = await here.put({
      _id: 'doc',
      n: 1,
      _attachments: {
        'picture.png': { content_type: 'image/png', data: picture },
        text: { content_type: 'text/plain', data: Buffer.from('some text') },
      },
    })
    const sent = await here.get('doc', { revs: true, attachments: true })
    await there.bulkDocs([sent], { new_edits: false })
    expect((await there.get('doc'))._rev).toBe(first.rev)
    expect((await there.getAttachment('doc', 'picture.png')).equals(picture)).toBe(true)
    expect((await there.getAttachment('doc', 'text')).toString()).toBe('some text')
    const digests = ({ _attachments = {} }: PouchDocument) => Object.values(_attachments).map(({ digest }) => digest)
    expect(digests(await there.get('doc'))).toEqual(digests(await here.get('doc')))

    const second = await there.putAttachment('doc', 'new', first.rev, Buffer.from('from the server'), 'text/plain')
    const back = await there.get('doc', { revs: true, attachments: true })
    await here.bulkDocs([back], { new_edits: false })
    expect((await here.get('doc'))._rev).toBe(second.rev)
    expect((await here.getAttachment('doc', 'new')).toString()).toBe('from the server')
  })
})
