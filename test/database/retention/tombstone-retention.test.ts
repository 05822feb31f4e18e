import { describe, expect, it } from 'vitest'
import type { Database } from '../../../src/database/database.ts'
import { purgeTombstones } from '../../../src/database/retention/tombstone-retention.ts'
import { memoryDatabase, put, written } from '../test-database.ts'

const DAY_MS = 86_400_000
const BEGIN_MS = 1_700_000_000_000
const signal = new AbortController().signal

async function save(database: Database, id: string, parent?: string): Promise<string> {
  const [rev = ''] = await written(database.write([put(id, {}, { parent })]))
  return rev
}

async function remove(database: Database, id: string): Promise<void> {
  const parent = await save(database, id)
  await written(database.write([{ ...put(id, {}, { parent }), deleted: true }]))
}

const local = (database: Database, id: string, log: object) =>
  database.write([{ kind: 'local', id, parent: 'any', deleted: false, body: Buffer.from(JSON.stringify(log)) }])

const pass = (database: Database, days: number, intervalDays = 100) =>
  purgeTombstones(database, {
    retentionMs: 10 * DAY_MS,
    nowMs: BEGIN_MS + days * DAY_MS,
    intervalMs: intervalDays * DAY_MS,
    signal,
  })

/** A check every hour. */
async function checkedHourly(database: Database, fromDays: number, untilDays: number): Promise<number> {
  let purged = 0
  for (let hour = fromDays * 24; hour <= untilDays * 24; hour++) {
    purged += (await pass(database, hour / 24, 1 / 24)).purged
  }
  return purged
}

const deletedCount = async (database: Database) => (await database.information()).deletedCount

describe('a retention of tombstones', () => {
  it('purges what was deleted longer ago than that, counted from when it was set', async () => {
    const { database } = await memoryDatabase()
    await save(database, 'kept')
    await remove(database, 'first')
    expect((await pass(database, 0)).purged).toBe(0)
    await remove(database, 'second')
    expect((await pass(database, 5)).purged).toBe(0)
    expect((await pass(database, 9.9)).purged).toBe(0)
    expect((await pass(database, 10)).purged).toBe(1)
    expect(await deletedCount(database)).toBe(1)
    expect((await pass(database, 14.9)).purged).toBe(0)
    expect((await pass(database, 15)).purged).toBe(1)
    expect(await database.information()).toMatchObject({ deletedCount: 0, documentCount: 1 })
    using view = database.view()
    expect(await view.record('first')).toBeUndefined()
    expect(await view.record('kept')).toBeDefined()
  })

  it('keeps a document that was re-created, and removes all leaves of a deleted one', async () => {
    const { database } = await memoryDatabase()
    await remove(database, 'again')
    for (const leaf of ['b', 'c']) {
      await database.write([
        {
          kind: 'replicated',
          id: 'torn',
          path: { start: 2, hashes: [leaf, 'a'] },
          deleted: true,
          body: Buffer.from('{}'),
        },
      ])
    }
    await pass(database, 0)
    await save(database, 'again')
    expect((await pass(database, 30)).purged).toBe(1)
    using view = database.view()
    expect((await view.record('again'))?.deleted).toBe(false)
    expect(await view.record('torn')).toBeUndefined()
  })

  it.each([
    ['CouchDB', (sequence: number) => ({ session_id: 'x', source_last_seq: sequence, history: [] })],
    ['dialect 3', (sequence: number) => ({ session_id: 'x', source_last_seq: `${sequence}-abc`, history: [] })],
    ['PouchDB', (sequence: number) => ({ last_seq: sequence, replicator: 'pouchdb', history: [] })],
  ])('waits for a replication that has not seen the deletion, with a log of %s', async (_, logAt) => {
    const { database } = await memoryDatabase()
    await remove(database, 'seen')
    await remove(database, 'unseen')
    await local(database, '_local/replica', logAt(2))
    await local(database, '_local/other', { some: 'thing' })
    await pass(database, 0)
    const held = await pass(database, 20)
    expect(held).toEqual({ purged: 1, heldBy: [{ id: '_local/replica', sequence: 2 }] })
    expect((await pass(database, 21)).purged).toBe(0)
    await local(database, '_local/replica', logAt(4))
    expect((await pass(database, 22)).purged).toBe(1)
    expect(await deletedCount(database)).toBe(0)
  })

  it('continues over several purges, and keeps few marks', async () => {
    const { database } = await memoryDatabase()
    const ids = Array.from({ length: 1200 }, (_, i) => `id-${i}`)
    const revisions = await written(database.write(ids.map((id) => put(id, {}))))
    await database.write(ids.map((id, i) => ({ ...put(id, {}, { parent: revisions[i] }), deleted: true })))
    for (let day = 0; day < 10; day++) {
      await save(database, `day-${day}`)
      await pass(database, day)
    }
    expect((await database.latestState()).tombstones?.marks.length).toBeLessThanOrEqual(12)
    expect((await pass(database, 11)).purged).toBe(1200)
    expect(await deletedCount(database)).toBe(0)
    expect((await database.information()).documentCount).toBe(10)
  })

  it('does not wait for an import to here, whose log has sequences of another server', async () => {
    const { database } = await memoryDatabase()
    await remove(database, 'gone')
    await local(database, '_local/import-0123', { session_id: 'x', source_last_seq: 1, history: [] })
    await pass(database, 0)
    expect(await pass(database, 20)).toEqual({ purged: 1, heldBy: [] })
  })

  it.each([
    ['ahead', 4000],
    ['back', -4000],
  ])('purges nothing early when the clock jumps %s and is corrected', async (_, days) => {
    const { database } = await memoryDatabase()
    await remove(database, 'first')
    expect(await checkedHourly(database, 0, 5)).toBe(0)
    await remove(database, 'second')
    // For an hour, and after a restart with the wrong clock for another one.
    expect(await checkedHourly(database, days, days + 1 / 24)).toBe(0)
    expect(await checkedHourly(database, 5 + 2 / 24, 7)).toBe(0)
    expect(await checkedHourly(database, days, days + 1 / 24)).toBe(0)
    // Each jump may count for a day.
    expect(await checkedHourly(database, 7, 7.9)).toBe(0)
    expect(await checkedHourly(database, 8, 10.1)).toBe(1)
    expect(await checkedHourly(database, 10.2, 12.9)).toBe(0)
    expect(await checkedHourly(database, 13, 16.5)).toBe(1)
    expect(await deletedCount(database)).toBe(0)
  })

  it('counts at most a part of the retention for a server that was stopped', async () => {
    const { database } = await memoryDatabase()
    await remove(database, 'gone')
    await checkedHourly(database, 0, 1)
    expect(await checkedHourly(database, 400, 407)).toBe(0)
    expect(await checkedHourly(database, 407, 409)).toBe(1)
  })

  it('keeps the ages where clocks of servers differ a little', async () => {
    const { database } = await memoryDatabase()
    await remove(database, 'gone')
    for (let hour = 0; hour < 239; hour++) {
      expect((await pass(database, (hour + (hour % 2) / 2) / 24, 1 / 24)).purged).toBe(0)
    }
    expect((await pass(database, 10, 1 / 24)).purged).toBe(1)
  })

  it('costs no commit where nothing changes', async () => {
    const { database } = await memoryDatabase()
    await save(database, 'a')
    await pass(database, 0)
    const before = (await database.latestState()).tombstones
    await pass(database, 0.9)
    expect((await database.latestState()).tombstones).toBe(before)
  })
})
