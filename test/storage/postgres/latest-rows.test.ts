import { expect, it, onTestFinished, vi } from 'vitest'
import { Connection } from '../../../src/storage/postgres/connection.ts'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { RowCache } from '../../../src/storage/postgres/row-cache.ts'
import { StoreGoneError } from '../../../src/storage/storage-error.ts'
import type { LatestRows, Store } from '../../../src/storage/store.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'

const key = (number: number) => Buffer.from(`key ${number}`)
const value = (text: string | number) => Buffer.from(`value ${text}`)

async function servers(): Promise<[PostgresEngine, PostgresEngine]> {
  const address = (await sharedPostgres()).address()
  const one = await PostgresEngine.open({ address })
  const other = await PostgresEngine.open({ address })
  onTestFinished(async () => {
    await one.close()
    await other.close()
  })
  return [one, other]
}

function latestOf({ latest }: Store): LatestRows {
  if (!latest) throw new Error('The store has no latest rows.')
  return latest
}

/** The names of the statements that are sent until the test ends. */
function statements(): string[] {
  const names: string[] = []
  const { run, script } = Connection.prototype
  const running = vi.spyOn(Connection.prototype, 'run').mockImplementation(function (this: Connection, ...args) {
    names.push(args[0].name)
    return run.apply(this, args)
  })
  const scripts = vi.spyOn(Connection.prototype, 'script').mockImplementation(function (this: Connection, text) {
    names.push(text)
    return script.call(this, text)
  })
  onTestFinished(() => {
    running.mockRestore()
    scripts.mockRestore()
  })
  return names
}

describeOnPostgres('rows of the newest state', () => {
  it('are those that another server was told are committed', async () => {
    const [one, other] = await servers()
    const written = await one.create('x')
    const read = latestOf(await other.open('x'))
    for (let round = 0; round < 50; round++) {
      await written.commit({ puts: [[key(1), value(round)]] })
      expect(await read.get(key(1))).toEqual(value(round))
    }
    expect(await read.get(key(2))).toBeUndefined()
  })

  it('are newer than a snapshot that was released a moment before, on whatever connection', async () => {
    const address = (await sharedPostgres()).address()
    const engine = await PostgresEngine.open({ address, readConnections: 1 })
    onTestFinished(() => engine.close())
    const store = await engine.create('x')
    for (let round = 0; round < 50; round++) {
      const snapshot = store.snapshot()
      await snapshot.get(key(1))
      await store.commit({ puts: [[key(1), value(round)]] })
      snapshot.release()
      expect(await latestOf(store).get(key(1))).toEqual(value(round))
    }
  })

  it('are found after another server has replaced all rows', async () => {
    const [one, other] = await servers()
    const written = await one.create('x')
    await written.commit({ puts: [[key(1), value('old')]] })
    const read = latestOf(await other.open('x'))
    expect(await read.get(key(1))).toEqual(value('old'))
    await written.replace(
      (async function* () {
        yield [[key(2), value('new')] as const]
      })(),
    )
    expect(await Promise.all([read.get(key(1)), read.get(key(2))])).toEqual([undefined, value('new')])
  })

  it('are refused when another server has dropped the store', async () => {
    const [one, other] = await servers()
    const written = await one.create('x')
    await written.commit({ puts: [[key(1), value(1)]] })
    const read = latestOf(await other.open('x'))
    await one.drop('x')
    await expect(read.get(key(1))).rejects.toThrow(StoreGoneError)
  })

  it('take few statements when many are read at once, and no transaction', async () => {
    const [one] = await servers()
    const store = await one.create('x')
    const long = Buffer.alloc(3000, 'k')
    const numbers = Array.from({ length: 1200 }, (_, i) => i)
    await store.commit({ puts: [...numbers.map((i) => [key(i), value(i)] as const), [long, value('long')]] })
    const names = statements()
    const rows = await Promise.all([...numbers.map((i) => latestOf(store).get(key(i))), latestOf(store).get(long)])
    expect(rows).toEqual([...numbers.map(value), value('long')])
    expect(names.filter((name) => name === 'read')).toHaveLength(3)
    expect(names.filter((name) => name.startsWith('BEGIN'))).toEqual([])
  })

  it('all come when their values are more than one statement brings', async () => {
    const [one] = await servers()
    const store = await one.create('x')
    const large = Array.from({ length: 7 }, (_, i) => Buffer.alloc(1_500_000, i))
    for (const [i, content] of large.entries()) await store.commit({ puts: [[key(i), content]] })
    const rows = await Promise.all(large.map((_, i) => latestOf(store).get(key(i))))
    expect(rows.map((row, i) => row?.equals(large[i]!))).toEqual(large.map(() => true))
  })

  it('are not read again where they never change', async () => {
    const [one] = await servers()
    const store = await one.create('x')
    await store.commit({ puts: [[key(1), value(1)]] })
    expect(await latestOf(store).getFixed(key(1))).toEqual(value(1))
    const names = statements()
    expect(await latestOf(store).getFixed(key(1))).toEqual(value(1))
    expect(names.filter((name) => name === 'read')).toEqual([])
    expect(await latestOf(store).getFixed(key(2))).toBeUndefined()
  })
})

it('a cache of rows keeps those that were used last, within its limit', () => {
  const cache = new RowCache(64_000)
  for (let i = 0; i < 1000; i++) {
    cache.put(1, key(i), Buffer.alloc(900))
    expect(cache.get(1, key(0))).toBeDefined()
    expect(cache.bytes).toBeLessThanOrEqual(64_000)
  }
  expect(cache.get(1, key(500))).toBeUndefined()
  expect(cache.get(1, key(999))).toBeDefined()
  expect(cache.get(2, key(999))).toBeUndefined()
  const large = Buffer.alloc(2000)
  expect(cache.put(1, key(2000), large)).toBe(large)
  expect(cache.get(1, key(2000))).toBeUndefined()
})
