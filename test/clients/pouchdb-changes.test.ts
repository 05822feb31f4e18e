/** How PouchDB follows a database of this server, by the client as it is. */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

/** What the tests use of PouchDB, which comes without types. */
interface Pouch {
  put(document: object): Promise<{ rev: string }>
  remove(id: string, rev: string): Promise<unknown>
  bulkDocs(documents: object[]): Promise<unknown>
  get(id: string): Promise<{ n: number }>
  changes(options: object): Following & Promise<{ results: Heard[]; last_seq: number }>
  replicate: { from(source: Pouch, options?: object): Following & Promise<{ ok: boolean; docs_written: number }> }
  close(): Promise<void>
}

interface Following {
  on(event: 'change', listener: (heard: Heard) => void): this
  on(event: 'complete' | 'error', listener: (value: unknown) => void): this
  cancel(): void
}

interface Heard {
  id: string
  seq: number
  deleted?: true
  doc?: { _id: string; n?: number }
}

const PouchDB: new (name: string) => Pouch = createRequire(import.meta.url)('pouchdb')

async function remote(): Promise<Pouch> {
  const { url } = await startService()
  const db = new PouchDB(`${url}things`)
  onTestFinished(() => db.close())
  return db
}

/** What a live feed has sent so far. */
function follow(db: Pouch, options: object): { heard: Heard[]; ids(): string[]; end(): Promise<unknown> } {
  const heard: Heard[] = []
  const feed = db.changes({ live: true, ...options }).on('change', (change) => heard.push(change))
  const ended = new Promise((resolve, reject) => {
    feed.on('complete', resolve)
    feed.on('error', reject)
  })
  const end = () => {
    feed.cancel()
    return ended
  }
  onTestFinished(() => feed.cancel())
  return { heard, ids: () => heard.map(({ id }) => id), end }
}

describe('PouchDB', () => {
  it('reads the changes that are there', async () => {
    const db = await remote()
    await db.bulkDocs([{ _id: 'a' }, { _id: 'b' }, { _id: 'c' }])
    const { results, last_seq } = await db.changes({ since: 1, include_docs: true })
    expect([results.map(({ id }) => id), last_seq]).toEqual([['b', 'c'], 3])
    expect(results[0]?.doc).toMatchObject({ _id: 'b' })
    const newest = await db.changes({ descending: true, limit: 1 })
    expect(newest.results.map(({ id }) => id)).toEqual(['c'])
    const many = Array.from({ length: 120 }, (_, i) => ({ _id: `many-${i}` }))
    await db.bulkDocs(many)
    const batched = await db.changes({ since: 3, batch_size: 25 })
    expect(batched.results.map(({ id }) => id)).toEqual(many.map(({ _id }) => _id))
  })

  it('follows live what is written and removed', async () => {
    const db = await remote()
    await db.put({ _id: 'before' })
    const { heard, ids, end } = follow(db, { since: 'now', include_docs: true })
    // The feed begins in its own time; what is written before it has begun is before it.
    await until(async () => {
      await db.put({ _id: `probe-${Math.random()}` })
      return heard.length > 0
    })
    const { rev } = await db.put({ _id: 'a', n: 1 })
    await until(async () => ids().includes('a'))
    await db.remove('a', rev)
    await until(async () => heard.some(({ id, deleted }) => id === 'a' && deleted === true))
    expect(heard.find(({ id }) => id === 'a')?.doc).toMatchObject({ _id: 'a', n: 1 })
    expect(ids()).not.toContain('before')
    expect(new Set(heard.map(({ seq }) => seq)).size).toBe(heard.length)
    await end()
  })

  it('follows live from the start, in order, more than fit one answer', async () => {
    const db = await remote()
    await db.bulkDocs(Array.from({ length: 60 }, (_, i) => ({ _id: `doc-${i}` })))
    const { ids, end } = follow(db, { since: 0 })
    await until(async () => ids().length === 60)
    await db.put({ _id: 'last' })
    await until(async () => ids().length === 61)
    expect(ids()).toEqual([...Array.from({ length: 60 }, (_, i) => `doc-${i}`), 'last'])
    await end()
  })

  it('leaves filtering by ids, by functions and by views to the server', async () => {
    const db = await remote()
    await db.put({
      _id: '_design/d',
      filters: { odd: 'function(doc, req) { return doc.n % Number(req.query.by) === 1 }' },
      views: { small: { map: 'function(doc) { if (doc.n < 3) emit(doc.n) }' } },
    })
    await db.bulkDocs(Array.from({ length: 6 }, (_, i) => ({ _id: `${i}`, n: i })))
    const idsOf = async (options: object) => (await db.changes(options)).results.map(({ id }) => id)
    expect(await idsOf({ doc_ids: ['1', '4'] })).toEqual(['1', '4'])
    expect(await idsOf({ filter: 'd/odd', query_params: { by: 2 } })).toEqual(['1', '3', '5'])
    expect(await idsOf({ filter: '_view', view: 'd/small' })).toEqual(['0', '1', '2'])
    const live = follow(db, { since: 0, doc_ids: ['1', 'later'] })
    await until(async () => live.ids().length === 1)
    await db.bulkDocs([{ _id: 'other' }, { _id: 'later' }])
    await until(async () => live.ids().length === 2)
    expect(live.ids()).toEqual(['1', 'later'])
    await live.end()
  })

  it('replicates from the server, once and as it goes', async () => {
    const there = await remote()
    await there.bulkDocs(Array.from({ length: 150 }, (_, i) => ({ _id: `doc-${i}`, n: i })))
    const here = new PouchDB(join(await temporaryFolder(), 'local'))
    onTestFinished(() => here.close())
    expect(await here.replicate.from(there)).toMatchObject({ ok: true, docs_written: 150 })
    const live = here.replicate.from(there, { live: true })
    const ended = new Promise((resolve) => live.on('complete', resolve))
    await there.put({ _id: 'later', n: 7 })
    await until(async () => (await here.get('later').catch(() => undefined))?.n === 7)
    live.cancel()
    await ended
  })
})
