import { expect, it, onTestFinished, vi } from 'vitest'
import { Connection } from '../../../src/storage/postgres/connection.ts'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { HeldStates } from '../../../src/storage/snapshots/renewable-snapshot.ts'
import type { Snapshot, Store } from '../../../src/storage/store.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'

const NUMBER = Buffer.from('number')

async function newEngine(): Promise<PostgresEngine> {
  const engine = await PostgresEngine.open({ address: (await sharedPostgres()).address() })
  onTestFinished(() => engine.close())
  return engine
}

/** Two stores, whose number is 1. */
async function twoStores(): Promise<readonly [Store, Store]> {
  const engine = await newEngine()
  const stores = [await engine.create('index'), await engine.create('database')] as const
  for (const store of stores) await setNumber(store, 1)
  return stores
}

async function setNumber(store: Store, number: number): Promise<void> {
  await store.commit({ puts: [[NUMBER, Buffer.from(String(number))]] })
}

async function numberIn(snapshot: Snapshot): Promise<number> {
  return Number(await snapshot.get(NUMBER))
}

/** How many transactions have begun, and have ended. */
function transactions(): { readonly begun: number; readonly ended: number } {
  const begun = vi.spyOn(Connection.prototype, 'beginReading')
  const ended = vi.spyOn(Connection.prototype, 'leaveReading')
  onTestFinished(() => {
    begun.mockRestore()
    ended.mockRestore()
  })
  return {
    get begun() {
      return begun.mock.calls.length
    },
    get ended() {
      return ended.mock.calls.length
    },
  }
}

describeOnPostgres('the moment of a snapshot', () => {
  it('is shared with snapshots of other stores, in one transaction that the last one ends', async () => {
    const [index, database] = await twoStores()
    const seen = transactions()
    const first = index.snapshot()
    expect(await numberIn(first)).toBe(1)
    await setNumber(database, 2)
    const second = database.snapshot(first.moment)
    expect(await numberIn(second)).toBe(1)
    first.release()
    expect([seen.begun, seen.ended]).toEqual([1, 0])
    expect(await numberIn(second)).toBe(1)
    second.release()
    expect([seen.begun, seen.ended]).toEqual([1, 1])
  })

  it('is left by who never reads', async () => {
    const [index, database] = await twoStores()
    const seen = transactions()
    const first = index.snapshot()
    await first.version()
    const second = database.snapshot(first.moment)
    first.release()
    second.release()
    expect([seen.begun, seen.ended]).toEqual([1, 1])
  })

  it('does not keep commits waiting', async () => {
    const [index, database] = await twoStores()
    using first = index.snapshot()
    await first.version()
    using second = database.snapshot(first.moment)
    await setNumber(database, 2)
    expect(await numberIn(second)).toBe(1)
  })

  it('is not there before the first read, after the last, and for another engine', async () => {
    const [index, database] = await twoStores()
    const first = index.snapshot()
    expect(first.moment).toBeUndefined()
    await first.version()
    const { moment } = first
    const other = await (await newEngine()).create('database')
    await setNumber(other, 7)
    using elsewhere = other.snapshot(moment)
    expect(await numberIn(elsewhere)).toBe(7)
    first.release()
    expect(first.moment).toBeUndefined()
    await setNumber(database, 2)
    using late = database.snapshot(moment)
    expect(await numberIn(late)).toBe(2)
  })

  it('counts for a state that was released early, unless the newest is asked for', async () => {
    const [index, database] = await twoStores()
    using first = index.snapshot()
    await first.version()
    using documents = new HeldStates(database).snapshot(first)
    expect(await numberIn(documents)).toBe(1)
    await setNumber(database, 2)
    documents.releaseState()
    expect([await numberIn(documents), documents.renewals]).toEqual([1, 1])
    documents.renew()
    expect([await numberIn(documents), documents.renewals]).toEqual([2, 2])
  })
})
