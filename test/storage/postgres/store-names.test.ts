import { expect, it, onTestFinished } from 'vitest'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { PostgresServer } from '../../../src/storage/postgres/postgres-server.ts'
import { STATEMENTS, type Statement } from '../../../src/storage/postgres/statements.ts'
import { StoreMissingError } from '../../../src/storage/storage-error.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'

async function opened(address: string) {
  const server = await PostgresServer.open({ address })
  const engine = await PostgresEngine.on(server, 'databases', { ownsServer: true, confirmsDrops: true })
  onTestFinished(() => engine.close())
  const changes: string[] = []
  engine.onChangedElsewhere((change, name) => changes.push(`${change} ${name}`))
  return { server, engine, changes }
}

/** Counts these statements, and holds back what the next one of them has read until it is released. */
function held(server: PostgresServer, held: Statement) {
  const [read, released] = Array.from({ length: 2 }, () => Promise.withResolvers<void>())
  const run = server.run.bind(server)
  const seen = { count: 0, read: read!.promise, release: () => released!.resolve() }
  server.run = async (statement, parameters) => {
    const rows = await run(statement, parameters)
    if (statement !== held || ++seen.count > 1) return rows
    read!.resolve()
    await released!.promise
    return rows
  }
  return seen
}

const NAMES = Array.from({ length: 30 }, (_, n) => `store-${n}`)

describeOnPostgres('the names of stores that several servers have', () => {
  it('are looked up once, however many are opened at the same time', async () => {
    const address = (await sharedPostgres()).address()
    const a = await opened(address)
    for (const name of NAMES) await a.engine.create(name)
    const b = await opened(address)
    const finds = held(b.server, STATEMENTS.find)
    finds.release()
    await Promise.all(NAMES.map((name) => b.engine.open(name)))
    expect(finds.count).toBe(NAMES.length)
  })

  it('are listed once, whatever is opened, created and dropped here meanwhile', async () => {
    const address = (await sharedPostgres()).address()
    const a = await opened(address)
    for (const name of ['opened', 'dropped', 'again']) await a.engine.create(name)
    const b = await opened(address)
    const lists = held(b.server, STATEMENTS.list)
    const listing = b.engine.list()
    await lists.read
    await b.engine.open('opened')
    await b.engine.drop('dropped')
    await b.engine.drop('again')
    await b.engine.create('created')
    await b.engine.create('again')
    lists.release()
    expect(await listing).toEqual(['again', 'dropped', 'opened'])
    expect(b.engine.knownNames.sort()).toEqual(['again', 'created', 'opened'])
    expect(lists.count).toBe(1)
    expect(await b.engine.list()).toEqual(['again', 'created', 'opened'])
    expect(b.changes).toEqual([])
  })

  it('are looked up again if the list that shows that a store is gone is read meanwhile', async () => {
    const address = (await sharedPostgres()).address()
    const a = await opened(address)
    await a.engine.create('x')
    const b = await opened(address)
    const finds = held(b.server, STATEMENTS.find)
    const opening = b.engine.open('x')
    await finds.read
    await a.engine.drop('x')
    finds.release()
    await expect(opening).rejects.toThrow(StoreMissingError)
    expect(b.engine.has('x')).toBe(false)
    expect(b.changes).toEqual(['dropped x'])
  })
})
