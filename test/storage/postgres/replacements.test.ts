import { expect, it, onTestFinished, vi } from 'vitest'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { PostgresServer } from '../../../src/storage/postgres/postgres-server.ts'
import { STATEMENTS } from '../../../src/storage/postgres/statements.ts'
import { StoreGoneError } from '../../../src/storage/storage-error.ts'
import type { Store } from '../../../src/storage/store.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'

const key = Buffer.from('k')

/** Rows that nobody has, and nobody will remove. */
const LEFT_BEHIND =
  'SELECT count(*) FROM rows WHERE space NOT IN (SELECT space FROM stores UNION SELECT space FROM garbage)'

/** A store with a row, in two servers. */
async function sharedStore() {
  const postgres = await sharedPostgres()
  const address = postgres.address()
  const schema = new URL(address).searchParams.get('schema')
  const [one, other] = await Promise.all([open(address), open(address)])
  const store = await one.create('x', [[key, Buffer.from('before')]])
  const query = (sql: string) => postgres.query(`SET search_path TO "${schema}"; ${sql}`).replace('SET\n', '')
  return { stores: [store, await other.open('x')] as const, query }
}

async function open(address: string): Promise<PostgresEngine> {
  const engine = await PostgresEngine.open({ address })
  onTestFinished(() => engine.close())
  return engine
}

/** A row, and what happens before the replacement is taken. */
async function* rows(value: string, atTheEnd = async () => {}) {
  yield [[key, Buffer.from(value)] as const]
  await atTheEnd()
}

async function storedIn(store: Store): Promise<string | undefined> {
  using snapshot = store.snapshot()
  return (await snapshot.get(key))?.toString()
}

describeOnPostgres('a replacement', () => {
  it('takes the place of another one that came first, and nothing is left of that', async () => {
    const { stores, query } = await sharedStore()
    const [one, other] = stores
    await one.replace(rows('first', () => other.replace(rows('second'))))
    expect(await Promise.all(stores.map(storedIn))).toEqual(['first', 'first'])
    expect(query(LEFT_BEHIND)).toBe('0')
  })

  it('takes its place also where that one is noticed in the meantime', async () => {
    const { stores } = await sharedStore()
    const [one, other] = stores
    const { repeat } = PostgresServer.prototype
    // Asked where the rows are now, which a reader learns sooner.
    const asking = vi.spyOn(PostgresServer.prototype, 'repeat').mockImplementation(async function (
      this: PostgresServer,
      ...args
    ) {
      const found = await repeat.apply(this, args)
      if (args[0] === STATEMENTS.state) expect(await storedIn(one)).toBe('second')
      return found
    })
    onTestFinished(() => asking.mockRestore())
    await one.replace(rows('first', () => other.replace(rows('second'))))
    expect(asking.mock.calls.filter(([statement]) => statement === STATEMENTS.state)).toHaveLength(1)
    expect(await Promise.all(stores.map(storedIn))).toEqual(['first', 'first'])
  })

  it('leaves nothing behind where the store is gone', async () => {
    const { stores, query } = await sharedStore()
    const [one] = stores
    const drop = async () =>
      void query('DELETE FROM rows WHERE space IN (SELECT space FROM stores); DELETE FROM stores')
    await expect(one.replace(rows('late', drop))).rejects.toThrow(StoreGoneError)
    expect(query(LEFT_BEHIND)).toBe('0')
  })
})
