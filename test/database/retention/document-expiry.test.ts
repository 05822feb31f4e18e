import { describe, expect, it } from 'vitest'
import { checkDatabase } from '../../../src/check/database-check.ts'
import type { Database } from '../../../src/database/database.ts'
import { expireDocuments, expiryIn, forgetExpiry } from '../../../src/database/retention/document-expiry.ts'
import { memoryDatabase, put, written } from '../test-database.ts'

const signal = new AbortController().signal
const expire = (database: Database, seconds: number, field = 'until') =>
  expireDocuments(database, { field, nowMs: seconds * 1000, signal })

async function save(database: Database, id: string, body: object, parent?: string): Promise<string> {
  const [rev = ''] = await written(database.write([put(id, body, { parent })]))
  return rev
}

async function isLive(database: Database, id: string): Promise<boolean> {
  using view = database.view()
  return (await view.record(id))?.deleted === false
}

describe('the time of a document', () => {
  it.each([
    ['{"until":100}', 100_000],
    ['{"until":100.5}', 100_500],
    ['{"until":"1970-01-02"}', 86_400_000],
    ['{"until":"1970-01-01T00:01Z"}', 60_000],
    ['{"until":"1970-01-01T01:00:00.5+01:00"}', 500],
    ['{"\\u0075ntil":100}', 100_000],
    ['{"until":"soon"}', undefined],
    ['{"until":"1970-01-01T00:01"}', undefined],
    ['{"until":-1}', undefined],
    ['{"until":1e300}', undefined],
    ['{"until":null}', undefined],
    ['{"until":[1]}', undefined],
    ['{"other":{"until":1}}', undefined],
    ['{}', undefined],
  ])('of %s is %s', (text, expected) => {
    expect(expiryIn(Buffer.from(text), 'until')).toBe(expected)
  })
})

describe('documents that expire', () => {
  it('are searched for without delaying writers for long', async () => {
    const { database } = await memoryDatabase()
    const long = { until: 10, texts: Array.from({ length: 20_000 }, (_, i) => `text ${i}`) }
    for (let i = 0; i < 30; i++) await save(database, `doc-${i}`, long)
    const expiring = expire(database, 5)
    let isDone = false
    void expiring.finally(() => {
      isDone = true
    })
    let writes = 0
    for (; !isDone; writes++) await save(database, `more-${writes}`, {})
    await expiring
    // All 30 of them together would be one wait.
    expect(writes).toBeGreaterThan(3)
    expect((await expire(database, 11)).expired).toBe(30)
  })

  it('are deleted when their time is over, by the time that they have then', async () => {
    const { database } = await memoryDatabase()
    await save(database, 'early', { until: 10 })
    const rev = await save(database, 'moved', { until: 10 })
    await save(database, 'late', { until: 100 })
    await save(database, 'never', {})
    await save(database, '_design/d', { until: 1 })
    expect(await expire(database, 9)).toEqual({ expired: 0 })
    await save(database, 'moved', { until: 50 }, rev)
    expect(await expire(database, 10)).toEqual({ expired: 1 })
    expect(await isLive(database, 'early')).toBe(false)
    expect(await isLive(database, 'moved')).toBe(true)
    expect(await expire(database, 60)).toEqual({ expired: 1 })
    expect(await expire(database, 1000)).toEqual({ expired: 1 })
    expect(await database.information()).toMatchObject({ documentCount: 2, deletedCount: 3 })
    expect(await isLive(database, '_design/d')).toBe(true)
  })

  it('expire one branch after the other', async () => {
    const { database } = await memoryDatabase()
    for (const leaf of ['b', 'c']) {
      const body = Buffer.from('{"until":10}')
      await database.write([
        { kind: 'replicated', id: 'torn', path: { start: 2, hashes: [leaf, 'a'] }, deleted: false, body },
      ])
    }
    expect(await expire(database, 20)).toEqual({ expired: 1 })
    expect(await isLive(database, 'torn')).toBe(true)
    expect(await expire(database, 20)).toEqual({ expired: 1 })
    expect(await isLive(database, 'torn')).toBe(false)
  })

  it('may be many', async () => {
    const { database } = await memoryDatabase()
    await written(database.write(Array.from({ length: 1000 }, (_, i) => put(`id-${i}`, { until: i }))))
    expect(await expire(database, 499)).toEqual({ expired: 500 })
    expect((await database.information()).documentCount).toBe(500)
  })

  it('wait in rows that a check of the database knows', async () => {
    const { database, store } = await memoryDatabase()
    await save(database, 'a', { until: 10 })
    await expire(database, 1)
    database.compact()
    await database.compacted()
    expect((await database.latestState()).compactedTo).toBeDefined()
    using snapshot = store.snapshot()
    expect((await snapshot.page({ from: Buffer.from('mx'), to: Buffer.from('my') })).length).toBe(1)
    const faults: unknown[] = []
    await checkDatabase(snapshot, { fault: (fault) => void faults.push(fault), progress: () => {} })
    expect(faults).toEqual([])
  })

  it('expire by another member when that is chosen, and not at all when it is off', async () => {
    const { database } = await memoryDatabase()
    await save(database, 'a', { until: 10, gone: 100 })
    await save(database, 'b', { gone: 10 })
    await expire(database, 1)
    expect(await expire(database, 20, 'gone')).toEqual({ expired: 1 })
    expect(await isLive(database, 'a')).toBe(true)
    await forgetExpiry(database)
    expect((await database.latestState()).expiry).toBeUndefined()
    using view = database.view()
    const rows = await view.snapshot.page({ from: Buffer.from('mx'), to: Buffer.from('my') })
    expect(rows.length).toBe(0)
  })
})
