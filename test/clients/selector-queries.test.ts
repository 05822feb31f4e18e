/** Selector queries as clients of the family send them: pouchdb-find over HTTP, held against its own local one, and nano. */
import { createRequire } from 'node:module'
import nano from 'nano'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

interface FindingPouch {
  bulkDocs(documents: object[]): Promise<object[]>
  createIndex(request: object): Promise<{ result: string; id: string; name: string }>
  getIndexes(): Promise<{ total_rows: number; indexes: { ddoc: string | null; name: string; type: string }[] }>
  deleteIndex(index: object): Promise<object>
  find(request: object): Promise<{ docs: Record<string, unknown>[]; warning?: string; bookmark?: string }>
  explain(request: object): Promise<{ index: { name: string }; dbname: string }>
  close(): Promise<void>
}

interface FindingPouchConstructor {
  new (name: string, options?: object): FindingPouch
  plugin(plugin: unknown): FindingPouchConstructor
}

const require = createRequire(import.meta.url)
const Pouch: FindingPouchConstructor = require('pouchdb')
const PouchDB = Pouch.plugin(require('pouchdb-find'))

const DOCUMENTS = Array.from({ length: 60 }, (_, i) => ({
  _id: `d${String(i).padStart(3, '0')}`,
  name: ['Mario', 'Luigi', 'Peach', 'Yoshi'][i % 4],
  rank: i % 10,
  series: i % 3 === 0 ? ['kart', 'party'] : ['kart'],
  nested: { level: i % 5 },
  ...(i % 2 === 0 && { debut: 1980 + i }),
}))

const QUERIES: readonly object[] = [
  { selector: { rank: { $gte: 3, $lt: 6 } }, sort: ['rank'] },
  { selector: { rank: { $gte: 3, $lt: 6 } }, sort: [{ rank: 'desc' }] },
  { selector: { name: 'Mario', rank: { $gt: 2 } }, fields: ['_id', 'rank'] },
  { selector: { 'nested.level': { $in: [1, 2] } }, sort: ['nested.level'] },
  { selector: { series: { $elemMatch: { $eq: 'party' } }, rank: { $exists: true } } },
  { selector: { debut: { $exists: false } }, fields: ['_id'] },
  { selector: { $or: [{ name: 'Peach' }, { rank: 9 }] }, fields: ['_id'] },
  { selector: { _id: { $gt: 'd050' } }, fields: ['_id', 'name'] },
  { selector: { name: { $regex: '^(M|L)' } }, fields: ['_id'] },
  { selector: { debut: { $mod: [10, 4] } }, fields: ['_id', 'debut'] },
  { selector: { series: { $size: 2 }, $nor: [{ name: 'Mario' }] }, fields: ['_id'] },
]

async function filled(name: string, options?: object): Promise<FindingPouch> {
  const db = new PouchDB(name, options)
  onTestFinished(() => db.close())
  await db.bulkDocs(DOCUMENTS)
  for (const fields of [['rank'], ['name', 'rank'], ['nested.level']]) await db.createIndex({ index: { fields } })
  return db
}

function withoutRevisions(documents: readonly Record<string, unknown>[]): string[] {
  return documents.map(({ _rev, ...members }) => JSON.stringify(Object.entries(members).toSorted()))
}

describe('pouchdb-find', () => {
  it('finds the same here as in a database of its own', async () => {
    const { url } = await startService()
    const remote = await filled(`${url}games`)
    const local = await filled(`${await temporaryFolder()}/games`)
    for (const query of QUERIES) {
      const expected = withoutRevisions((await local.find({ limit: 100, ...query })).docs)
      const found = withoutRevisions((await remote.find({ limit: 100, ...query })).docs)
      const isSorted = 'sort' in query
      expect(isSorted ? found : found.toSorted(), JSON.stringify(query)).toEqual(
        isSorted ? expected : expected.toSorted(),
      )
    }
  })

  it('makes, lists, explains and removes indexes', async () => {
    const { url } = await startService()
    const db = await filled(`${url}games`)
    const made = await db.createIndex({ index: { fields: ['debut'], ddoc: 'debuts', name: 'by-debut' } })
    expect(made).toEqual({ result: 'created', id: '_design/debuts', name: 'by-debut' })
    expect((await db.createIndex({ index: { fields: ['debut'], ddoc: 'debuts', name: 'by-debut' } })).result).toBe(
      'exists',
    )
    const { indexes } = await db.getIndexes()
    expect(indexes).toHaveLength(5)
    expect(indexes[0]).toMatchObject({ ddoc: null, name: '_all_docs', type: 'special' })
    expect((await db.explain({ selector: { debut: { $gt: 0 } } })).index.name).toBe('by-debut')
    const index = indexes.find(({ name }) => name === 'by-debut')
    expect(await db.deleteIndex(index ?? {})).toMatchObject({ ok: true })
    expect((await db.getIndexes()).total_rows).toBe(4)
    await expect(db.find({ selector: { debut: { $gt: 0 } }, sort: ['debut'] })).rejects.toMatchObject({
      status: 400,
      error: 'no_usable_index',
    })
  })
})

describe('nano', () => {
  it('makes an index, and finds by pages', async () => {
    const { url } = await startService()
    const server = nano(url)
    await server.db.create('games')
    const db = server.use('games')
    await db.bulk({ docs: DOCUMENTS })
    expect(await db.createIndex({ index: { fields: ['rank'] }, name: 'by-rank' })).toMatchObject({ result: 'created' })
    const selector = { rank: { $gte: 5 } }
    const first = await db.find({ selector, limit: 20, sort: ['rank'] })
    const second = await db.find({
      selector,
      limit: 20,
      sort: ['rank'],
      ...(first.bookmark && { bookmark: first.bookmark }),
    })
    expect([...first.docs, ...second.docs].map(({ _id }) => _id)).toEqual(
      [5, 6, 7, 8, 9].flatMap((rank) => DOCUMENTS.filter((each) => each.rank === rank).map(({ _id }) => _id)),
    )
  })
})
