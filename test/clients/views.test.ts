/** What people do with views, by the clients as they are. */
import { createRequire } from 'node:module'
import nano from 'nano'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startService } from '../support/service.ts'

const DESIGN = {
  _id: '_design/people',
  views: {
    byName: { map: 'function (doc) { if (doc.name) emit(doc.name, doc.age) }' },
    ages: { map: 'function (doc) { if (doc.name) emit([doc.city, doc.name], doc.age) }', reduce: '_stats' },
    cities: { map: 'function (doc) { if (doc.name) emit(doc.city, null) }', reduce: '_count' },
    friends: { map: 'function (doc) { if (doc.friend) emit(doc.name, { _id: doc.friend }) }' },
  },
}

const PEOPLE = [
  { _id: 'a', name: 'Ada', age: 36, city: 'London' },
  { _id: 'b', name: 'bob', age: 20, city: 'Bern', friend: 'a' },
  { _id: 'c', name: 'Cem', age: 50, city: 'London', friend: 'b' },
]

describe('nano', () => {
  interface Person {
    name: string
    age: number
    city: string
  }

  async function people() {
    const { url } = await startService()
    const server = nano(url.replace(/\/$/, ''))
    await server.db.create('people')
    const db = server.use<Person>('people')
    await db.bulk({ docs: [...PEOPLE, DESIGN] })
    return db
  }

  it('queries views', async () => {
    const db = await people()
    const all = await db.view<number>('people', 'byName')
    expect(all).toMatchObject({ total_rows: 3, offset: 0 })
    expect(all.rows.map(({ key }) => key)).toEqual(['Ada', 'bob', 'Cem'])
    const some = await db.view('people', 'byName', { startkey: 'b', endkey: 'c\ufff0', include_docs: true })
    expect(some.rows.map(({ doc }) => doc?.city)).toEqual(['Bern', 'London'])
    const keys = await db.view('people', 'byName', { keys: ['Cem', 'Ada'], limit: 1 })
    expect(keys.rows.map(({ id }) => id)).toEqual(['c'])
    const linked = await db.view('people', 'friends', { include_docs: true, descending: true })
    expect(linked.rows.map(({ id, doc }) => [id, doc?.name])).toEqual([
      ['c', 'bob'],
      ['b', 'Ada'],
    ])
  })

  it('reduces and groups', async () => {
    const db = await people()
    expect((await db.view('people', 'ages')).rows).toMatchObject([
      { key: null, value: { sum: 106, count: 3, max: 50 } },
    ])
    expect((await db.view('people', 'ages', { group_level: 1 })).rows).toMatchObject([
      { key: ['Bern'], value: { sum: 20 } },
      { key: ['London'], value: { sum: 86 } },
    ])
    expect((await db.view('people', 'cities', { group: true, keys: ['London'] })).rows).toEqual([
      { key: 'London', value: 2 },
    ])
    expect((await db.view('people', 'cities', { reduce: false, key: 'Bern' })).rows).toHaveLength(1)
  })

  it('reads a view as a stream, and gets an error for a missing one', async () => {
    const db = await people()
    let text = ''
    for await (const chunk of db.viewAsStream('people', 'byName', { limit: 2 })) text += chunk
    expect(JSON.parse(text).rows).toHaveLength(2)
    await expect(db.view('people', 'nosuch')).rejects.toMatchObject({ statusCode: 404, reason: 'missing_named_view' })
  })
})

/** What the tests use of PouchDB, which comes without types. */
interface Pouch {
  bulkDocs(documents: object[]): Promise<object[]>
  query(view: unknown, options?: object): Promise<{ total_rows?: number; offset?: number; rows: PouchRow[] }>
  viewCleanup(): Promise<object>
  close(): Promise<void>
}

interface PouchRow {
  id?: string
  key: unknown
  value: unknown
  doc?: { name: string }
}

// Its module for imports names no file that Node finds.
const PouchDB: new (name: string) => Pouch = createRequire(import.meta.url)('pouchdb')

describe('PouchDB', () => {
  async function people(): Promise<Pouch> {
    const { url } = await startService()
    const db = new PouchDB(`${url}people`)
    onTestFinished(() => db.close())
    await db.bulkDocs([...PEOPLE, DESIGN])
    return db
  }

  it('queries views', async () => {
    const db = await people()
    const all = await db.query('people/byName')
    expect(all).toMatchObject({ total_rows: 3, offset: 0 })
    expect(all.rows.map(({ key }) => key)).toEqual(['Ada', 'bob', 'Cem'])
    const down = await db.query('people/byName', { descending: true, skip: 1, limit: 1, include_docs: true })
    expect(down.rows.map(({ doc }) => doc?.name)).toEqual(['bob'])
    const keys = await db.query('people/byName', { keys: ['Cem', 'nobody', 'Ada'] })
    expect(keys.rows.map(({ id }) => id)).toEqual(['c', 'a'])
    const stale = await db.query('people/byName', {
      stale: 'update_after',
      startkey: 'B',
      inclusive_end: false,
      endkey: 'Cem',
    })
    expect(stale.rows.map(({ id }) => id)).toEqual(['b'])
    expect(await db.viewCleanup()).toMatchObject({ ok: true })
  })

  it('reduces and groups', async () => {
    const db = await people()
    expect((await db.query('people/ages', { group_level: 1 })).rows).toMatchObject([
      { key: ['Bern'], value: { sum: 20 } },
      { key: ['London'], value: { sum: 86, count: 2 } },
    ])
    expect((await db.query('people/cities', { group: true })).rows).toEqual([
      { key: 'Bern', value: 1 },
      { key: 'London', value: 2 },
    ])
    expect((await db.query('people/ages', { reduce: false })).rows).toHaveLength(3)
  })

  it('sends functions that no design document has', async () => {
    const db = await people()
    const byAge = { map: 'function (doc) { if (doc.age) emit(doc.age, 1) }', reduce: '_sum' }
    expect((await db.query(byAge, { startkey: 30 })).rows).toEqual([{ key: null, value: 2 }])
    expect((await db.query(byAge, { reduce: false, keys: [50, 20] })).rows.map(({ id }) => id)).toEqual(['c', 'b'])
  })
})
