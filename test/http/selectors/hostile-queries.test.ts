/** Queries by selector that ask for too much, and indexes in places where they do not belong. */
import { describe, expect, it } from 'vitest'
import { serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

async function errorOf(db: TestDatabase, query: object): Promise<string> {
  const reply = await db.post('_find', query)
  return `${reply.status} ${reply.as<{ error: string }>().error}`
}

describe('a query', () => {
  it('is refused where it has too many conditions, expressions or fields', async () => {
    const db = await client().database()
    const conditions = Array.from({ length: 2501 }, (_, n) => ({ n }))
    expect(await errorOf(db, { selector: { $or: conditions } })).toBe('400 invalid_selector')
    const patterns = Array.from({ length: 101 }, (_, n) => ({ a: { $regex: `x${n}` } }))
    expect(await errorOf(db, { selector: { $or: patterns } })).toBe('400 invalid_selector')
    const fields = Array.from({ length: 5001 }, (_, n) => `f${n}`)
    expect(await errorOf(db, { selector: {}, fields })).toBe('400 invalid_fields')
    const reply = await db.post('_find', { selector: { $or: conditions.slice(1) } })
    expect(reply.status).toBe(200)
  })

  it('is refused where one document takes too long', async () => {
    const db = await client().database()
    await db.request('PUT', '/long', { body: { a: 'a'.repeat(1_000_000) } })
    expect(await errorOf(db, { selector: { a: { $regex: '(?=a*b)a' } } })).toBe('400 invalid_selector')
    const many = Array.from({ length: 100 }, (_, n) => ({ a: { $regex: `a.${n}` } }))
    expect(await errorOf(db, { selector: { $or: many } })).toBe('400 invalid_selector')
    expect((await db.post('_find', { selector: { a: { $regex: '(a|aa)*b' } } })).json).toMatchObject({ docs: [] })
  })

  it('is refused where it passes over a long array, or into deep objects, again and again', async () => {
    const db = await client().database()
    const levels = 300
    const deep = `${'{"a":'.repeat(levels)}"${'x'.repeat(1_000_000)}"${'}'.repeat(levels)}`
    await db.request('PUT', '/large', {
      body: { list: Array.from({ length: 200_000 }, () => 1), deep: JSON.parse(deep) },
    })
    const selector = { list: { $elemMatch: { $gte: 1 } }, deep: { $exists: true } }
    expect((await db.post('_find', { selector, fields: ['_id'] })).json).toMatchObject({ docs: [{ _id: 'large' }] })
    const sizes = Array.from({ length: 1000 }, (_, n) => ({ list: { $not: { $size: 200_001 + n } } }))
    expect(await errorOf(db, { selector: { $and: sizes } })).toBe('400 invalid_selector')
    const fields = Array.from({ length: levels }, (_, n) => `deep.${'a.'.repeat(n)}b`)
    const missing = fields.map((field) => ({ [field]: 1 }))
    expect(await errorOf(db, { selector: { $or: missing } })).toBe('400 invalid_selector')
    expect(await errorOf(db, { selector: {}, fields })).toBe('400 invalid_selector')
  })

  it('gives large documents in their order, from an index and without one', async () => {
    const db = await client().database()
    const filler = 'x'.repeat(300_000)
    const numbers = Array.from({ length: 12 }, (_, n) => n)
    for (const n of numbers) await db.request('PUT', `/d${String(n).padStart(2, '0')}`, { body: { n, filler } })
    await db.post('_index', { index: { fields: ['n'] } })
    const found = async (query: object): Promise<number[]> => {
      const reply = await db.post('_find', { limit: 100, ...query })
      expect(reply.status).toBe(200)
      return reply.as<{ docs: { n: number }[] }>().docs.map(({ n }) => n)
    }
    const downwards = numbers.toReversed()
    expect(await found({ selector: { n: { $gte: 0 } } })).toEqual(numbers)
    expect(await found({ selector: { n: { $gte: 0 } }, sort: [{ n: 'desc' }] })).toEqual(downwards)
    expect(await found({ selector: { _id: { $gt: '' } }, sort: ['_id'] })).toEqual(numbers)
    expect(await found({ selector: { _id: { $gt: '' } }, sort: [{ _id: 'desc' }] })).toEqual(downwards)
    expect(await found({ selector: { _id: { $gt: '' } }, sort: [{ _id: 'desc' }], skip: 5, limit: 4 })).toEqual(
      downwards.slice(5, 9),
    )
  })
})

describe('a document that is matched in a thread', () => {
  it('is found by what it holds and what lies beside it, whole or in part, as in a feed', async () => {
    const db = await client().database()
    const filler = 'x'.repeat(300_000)
    const plain = (await db.request('PUT', '/plain', { body: { n: 1, filler } })).as<{ rev: string }>().rev
    const _attachments = { a: { content_type: 'text/plain', data: 'YQ==' } }
    const attached = (await db.request('PUT', '/attached', { body: { n: 2, filler, _attachments } })).as<{
      rev: string
    }>()
    const docs = async (query: object) => (await db.post('_find', query)).as<{ docs: object[] }>().docs
    const fields = ['_id', '_rev', 'n']
    expect(await docs({ selector: { _id: 'plain', n: 1 }, fields })).toEqual([{ _id: 'plain', _rev: plain, n: 1 }])
    expect(await docs({ selector: { _rev: plain } })).toEqual([{ _id: 'plain', _rev: plain, n: 1, filler }])
    expect(await docs({ selector: { n: 2 }, fields })).toEqual([{ _id: 'attached', _rev: attached.rev, n: 2 }])
    expect(
      await docs({ selector: { '_attachments.a.content_type': 'text/plain', filler: { $type: 'string' } } }),
    ).toMatchObject([{ n: 2 }])
    expect(await docs({ selector: { n: 3 } })).toEqual([])
    const feed = await db.post('_changes?filter=_selector', {
      selector: { n: { $gt: 1 }, filler: { $type: 'string' } },
    })
    expect(feed.json).toMatchObject({ results: [{ id: 'attached' }] })
  })
})

describe('a query of many large documents', () => {
  const filler = 'x'.repeat(300_000)
  const query = { selector: { n: { $gte: 0 }, filler: { $regex: 'x$' } }, fields: ['n'], limit: 100 }

  async function withLarge(count: number): Promise<TestDatabase> {
    const db = await client().database()
    for (let n = 0; n < count; n++) await db.request('PUT', `/d${String(n).padStart(2, '0')}`, { body: { n, filler } })
    return db
  }

  it('continues across updates and a compaction, and finds each document once', async () => {
    const db = await withLarge(12)
    const reads = Array.from({ length: 6 }, () => db.post('_find', query))
    await db.request('POST', '/_compact', { headers: { 'Content-Type': 'application/json' } })
    for (let n = 12; n < 18; n++) await db.request('PUT', `/d${n}`, { body: { n, filler } })
    for (const reply of await Promise.all(reads)) {
      expect(reply.status).toBe(200)
      const found = reply.as<{ docs: { n: number }[] }>().docs.map(({ n }) => n)
      expect(found.slice(0, 12)).toEqual(Array.from({ length: 12 }, (_, n) => n))
      expect(new Set(found).size).toBe(found.length)
    }
  })

  it('ends when its database is deleted, and others get the threads', async () => {
    const db = await withLarge(12)
    const other = await withLarge(1)
    const reads = Array.from({ length: 12 }, () => db.post('_find', query))
    expect((await db.request('DELETE', '')).status).toBe(200)
    for (const { status } of await Promise.all(reads)) expect([200, 404]).toContain(status)
    expect((await other.post('_find', query)).json).toMatchObject({ docs: [{ n: 0 }] })
  })

  it('stops when its client disconnects, and others get the threads', async () => {
    const db = await withLarge(12)
    const gone = Array.from({ length: 20 }, () =>
      fetch(`${db.url}/_find`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify(query),
        signal: AbortSignal.timeout(20),
      }).catch(() => undefined),
    )
    await Promise.all(gone)
    expect((await db.request('PUT', '/large', { body: { filler } })).status).toBe(201)
    const reply = await db.post('_find', query)
    expect(reply.as<{ docs: unknown[] }>().docs).toHaveLength(12)
  })
})

describe('an index', () => {
  it('is not put into a design document whose functions are JavaScript', async () => {
    const db = await client().database()
    const views = { all: { map: 'function (doc) { emit(doc._id) }' } }
    await db.request('PUT', '/_design/app', { body: { views } })
    const reply = await db.post('_index', { index: { fields: ['a'] }, ddoc: 'app', name: 'n' })
    expect([reply.status, reply.json]).toEqual([
      400,
      { error: 'invalid_ddoc_lang', reason: 'Existing design doc has an invalid language: javascript' },
    ])
    expect((await db.request('GET', '/_design/app/_view/all')).status).toBe(200)
  })

  it('is removed with others even where one of them is changed at the same time', async () => {
    const db = await client().database()
    const names = Array.from({ length: 8 }, (_, i) => `i${i}`)
    for (let round = 0; round < 5; round++) {
      for (const name of names) await db.post('_index', { index: { fields: [name] }, ddoc: name, name: 'n' })
      const replies = await Promise.all([1, 2, 3].map(() => db.post('_index/_bulk_delete', { docids: names })))
      expect(replies.map(({ status }) => status)).toEqual([200, 200, 200])
      expect((await db.request('GET', '/_index')).json).toMatchObject({ total_rows: 1 })
    }
  })

  it('leaves a document out that its filter takes too long on, and has the others', async () => {
    const db = await client().database()
    await db.request('PUT', '/long', { body: { a: 'a'.repeat(1_000_000) } })
    await db.request('PUT', '/short', { body: { a: 'ab' } })
    const index = { fields: ['a'], partial_filter_selector: { a: { $regex: '(?=a*b)a' } } }
    await db.post('_index', { index, ddoc: 'partial', name: 'n' })
    const query = { selector: { a: { $exists: true } }, use_index: 'partial', fields: ['_id'] }
    expect((await db.post('_find', query)).json).toMatchObject({ docs: [{ _id: 'short' }] })
  })

  it('may be of fields with the names of what every object has', async () => {
    const db = await client().database()
    for (const field of ['__proto__', 'constructor', 'toString']) {
      const made = await db.post('_index', { index: { fields: [field] }, ddoc: 'odd', name: field })
      expect(made.json).toMatchObject({ result: 'created' })
    }
    const { indexes } = (await db.request('GET', '/_index')).as<{ indexes: { def: { fields: object[] } }[] }>()
    expect(indexes.map(({ def }) => JSON.stringify(def.fields)).sort()).toEqual([
      '[{"__proto__":"asc"}]',
      '[{"_id":"asc"}]',
      '[{"constructor":"asc"}]',
      '[{"toString":"asc"}]',
    ])
  })
})
