import { expect, it, onTestFinished, vi } from 'vitest'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { PostgresServer } from '../../../src/storage/postgres/postgres-server.ts'
import { STATEMENTS } from '../../../src/storage/postgres/statements.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'

async function opened(address: string) {
  const server = await PostgresServer.open({ address })
  const engine = await PostgresEngine.on(server, 'databases', { ownsServer: true })
  onTestFinished(() => engine.close())
  const changes: string[] = []
  engine.onChangedElsewhere((change, name) => changes.push(`${change} ${name}`))
  return { server, engine, changes }
}

async function two() {
  const address = (await sharedPostgres()).address()
  return { a: await opened(address), b: await opened(address) }
}

const PUT = { puts: [[Buffer.from('key'), Buffer.from('value')]] } as const

/** Those of this server are lost. */
async function withoutSignals({ server }: { server: PostgresServer }, work: () => Promise<unknown>): Promise<void> {
  const { announce } = server.signals
  server.signals.announce = () => {}
  await work()
  server.signals.announce = announce
}

describeOnPostgres('a commit to a store that another server does not have open', () => {
  it('is noticed there, once', async () => {
    const { a, b } = await two()
    const store = await a.engine.create('x')
    await until(() => b.changes.length === 1)
    await store.commit(PUT)
    await until(() => b.changes.length === 2)
    await b.engine.list()
    await store.commit(PUT)
    await until(() => b.changes.length === 3)
    expect(b.changes).toEqual(['created x', 'updated x', 'updated x'])
    expect(a.changes).toEqual([])
  })

  it('is noticed after a time without signals', async () => {
    const { a, b } = await two()
    const store = await a.engine.create('x')
    await until(() => b.changes.length === 1)
    // It connects again by itself.
    b.server.signals.cut()
    await store.commit(PUT)
    await until(() => b.changes.includes('updated x'))
  })

  it('is left to those who watch the store, where it is open', async () => {
    const { a, b } = await two()
    const store = await a.engine.create('x')
    const watched = await b.engine.open('x')
    const noticed = new Promise<void>((resolve) => watched.sharing?.watch(resolve))
    await store.commit(PUT)
    await noticed
    await b.engine.list()
    expect(b.changes).toEqual(['created x'])
  })

  it('is noticed where the store was opened and nobody watches it', async () => {
    const { a, b } = await two()
    const store = await a.engine.create('x')
    await b.engine.open('x')
    await store.commit(PUT)
    await until(() => b.changes.includes('updated x'))
  })

  it('is noticed where the store is opened before the signal comes', async () => {
    const { a, b } = await two()
    const store = await a.engine.create('x')
    await until(() => b.changes.length === 1)
    await withoutSignals(a, () => store.commit(PUT))
    await b.engine.open('x')
    expect(b.changes).toEqual(['created x', 'updated x'])
    await b.engine.open('x')
    await b.engine.list()
    expect(b.changes).toHaveLength(2)
  })

  it('is noticed if its signal comes while the list that has the new store is being read', async () => {
    const { a, b } = await two()
    const [read, released, heard] = Array.from({ length: 3 }, () => Promise.withResolvers<void>())
    const run = b.server.run.bind(b.server)
    b.server.run = async (statement, parameters) => {
      const rows = await run(statement, parameters)
      if (statement === STATEMENTS.list && rows.length > 0) {
        read!.resolve()
        await released!.promise
      }
      return rows
    }
    const store = await a.engine.create('x')
    await read!.promise
    b.server.onCommit(() => heard!.resolve())
    await store.commit(PUT)
    await heard!.promise
    released!.resolve()
    await until(() => b.changes.length > 0)
    expect(b.changes).toEqual(['created x', 'updated x'])
  })

  it('is noticed if the connection of the server that made it was lost before it sent the signal', async () => {
    const { a, b } = await two()
    const store = await a.engine.create('x')
    await until(() => b.changes.length === 1)
    await withoutSignals(a, () => store.commit(PUT))
    a.server.signals.cut()
    await until(() => b.changes.includes('updated x'))
  })

  it('is noticed if the server that made it ended before it sent the signal', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    const { a, b } = await two()
    const store = await a.engine.create('x')
    await until(() => b.changes.length === 1)
    await withoutSignals(a, () => store.commit(PUT))
    vi.advanceTimersByTime(30_000)
    await until(() => b.changes.includes('updated x'))
  })
})
