import { expect, it, onTestFinished } from 'vitest'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { PostgresServer } from '../../../src/storage/postgres/postgres-server.ts'
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
})
