import { describe, expect, it } from 'vitest'
import type { Database } from '../../src/database/database.ts'
import type { DatabaseView } from '../../src/database/database-view.ts'
import { openDocument, openRevision } from '../../src/database/reading/open-document.ts'
import type { MemoryEngine } from '../../src/storage/memory/memory-engine.ts'
import { memoryDatabase, put, remove, replicated, written } from './test-database.ts'

/** Each costs the way to another machine where the store lies there. */
describe('the round trips to the store', () => {
  it('are two for a document, whatever is asked of its history', async () => {
    const { database, engine } = await example()
    const options = {
      revisions: true,
      revisionsInfo: true,
      conflicts: true,
      deletedConflicts: true,
      localSequence: true,
    }
    expect(await reading(engine, database, (view) => openDocument(view, 'document 7'))).toBe(2)
    expect(await reading(engine, database, (view) => openDocument(view, 'long'))).toBe(2)
    expect(await reading(engine, database, (view) => openDocument(view, 'document 7', options))).toBe(2)
    // Where the tree lies apart it is asked for together with the body.
    expect(await reading(engine, database, (view) => openDocument(view, 'long', options))).toBeLessThanOrEqual(3)
    expect(await reading(engine, database, (view) => openRevision(view, 'document 7', revisionOf7))).toBe(2)
  })

  it('are one for a document that is not there', async () => {
    const { database, engine } = await example()
    expect(await reading(engine, database, (view) => openDocument(view, 'nobody').catch(() => {}))).toBe(1)
  })

  it.each([
    ['a new document', () => [put('new', {})], 7],
    ['an update', () => [put('document 7', { new: true }, { parent: revisionOf7 })], 4],
    ['a deletion', () => [remove('document 7', revisionOf7)], 7],
    ['a thousand new documents', () => Array.from({ length: 1000 }, (_, i) => put(`new ${i}`, {})), 20],
  ])('are few for %s', async (_, edits, most) => {
    const { database, engine } = await example()
    const before = engine.roundTrips.count
    await written(database.write(edits()))
    expect(engine.roundTrips.count - before).toBeLessThanOrEqual(most)
  })

  it('do not grow with the writers that write at once', async () => {
    const { database, engine } = await example()
    const before = engine.roundTrips.count
    await Promise.all(Array.from({ length: 100 }, (_, i) => written(database.write([put(`new ${i}`, {})]))))
    expect(engine.roundTrips.count - before).toBeLessThanOrEqual(20)
  })
})

let revisionOf7: Parameters<typeof openRevision>[2]

async function example(): Promise<{ database: Database; engine: MemoryEngine }> {
  const { database, engine } = await memoryDatabase()
  const revisions = await written(
    database.write(Array.from({ length: 2000 }, (_, i) => put(`document ${i}`, { text: 'x'.repeat(100) }))),
  )
  revisionOf7 = revisions[7]!
  const hashes = Array.from({ length: 50 }, (_, i) => i.toString(16).padStart(32, '0'))
  await written(database.write([replicated('long', { start: 50, hashes }, {})]))
  return { database, engine }
}

async function reading(
  engine: MemoryEngine,
  database: Database,
  read: (view: DatabaseView) => Promise<unknown>,
): Promise<number> {
  using view = database.view()
  const before = engine.roundTrips.count
  await read(view)
  return engine.roundTrips.count - before
}
