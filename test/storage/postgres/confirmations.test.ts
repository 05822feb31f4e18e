import { expect, it, onTestFinished } from 'vitest'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { PostgresServer } from '../../../src/storage/postgres/postgres-server.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'

interface Opened {
  readonly server: PostgresServer
  readonly engine: PostgresEngine
}

async function opened(address: string, confirmMs: number): Promise<Opened> {
  const server = await PostgresServer.open({ address, confirmMs })
  const engine = await PostgresEngine.on(server, 'databases', { ownsServer: true, confirmsDrops: true })
  onTestFinished(() => engine.close())
  return { server, engine }
}

/** Longer than a busy machine holds up a process. */
const LONG_MS = 60_000

async function several(count: number, confirmMs = LONG_MS): Promise<Opened[]> {
  const address = (await sharedPostgres()).address()
  return Promise.all(Array.from({ length: count }, () => opened(address, confirmMs)))
}

const PUT = { puts: [[Buffer.from('key'), Buffer.from('value')]] } as const

describeOnPostgres('a commit that other servers confirm', () => {
  it('was processed by every one of them, however long that takes', async () => {
    const [a, b, c] = (await several(3)) as [Opened, Opened, Opened]
    const store = await a.engine.create('x')
    const { promise: gate, resolve: open } = Promise.withResolvers<void>()
    const processed: string[] = []
    for (const [name, { engine }] of Object.entries({ b, c })) {
      const watched = await engine.open('x')
      watched.sharing?.watch(async () => {
        if (name === 'c') await gate
        using snapshot = watched.snapshot()
        processed.push(`${name} ${await snapshot.get(Buffer.from('key'))}`)
      })
    }
    await store.commit(PUT)
    let isConfirmed = false
    const confirmed = store.sharing?.confirm().then(() => {
      isConfirmed = true
    })
    await expect.poll(() => processed).toContain('b value')
    expect(isConfirmed).toBe(false)
    open()
    await confirmed
    expect(processed).toContain('c value')
  })

  it('is held up only once by a server that does not answer', async () => {
    const [a, b] = (await several(2, 50)) as [Opened, Opened]
    const store = await a.engine.create('x')
    const watched = await b.engine.open('x')
    const { promise: never, resolve } = Promise.withResolvers<void>()
    onTestFinished(() => resolve())
    let calls = 0
    watched.sharing?.watch(() => {
      calls++
      return never
    })
    await store.sharing?.confirm()
    expect(calls).toBe(1)
    // It would be asked again if it was waited for.
    await store.sharing?.confirm()
    expect(calls).toBe(1)
  })

  it('counts where stores are dropped: no server knows one of the name any more', async () => {
    const [a, b, c] = (await several(3)) as [Opened, Opened, Opened]
    for (let round = 0; round < 5; round++) {
      await a.engine.create('x')
      for (const { engine } of [b, c]) await engine.open('x')
      await a.engine.drop('x')
      expect([b.engine.has('x'), c.engine.has('x')]).toEqual([false, false])
    }
  })
})
