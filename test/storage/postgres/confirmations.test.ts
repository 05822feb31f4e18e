import { expect, it, onTestFinished } from 'vitest'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { PostgresServer } from '../../../src/storage/postgres/postgres-server.ts'
import { STATEMENTS } from '../../../src/storage/postgres/statements.ts'
import { EngineUnavailableError } from '../../../src/storage/storage-error.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'
import { PostgresProxy } from '../../support/postgres-proxy.ts'

interface Opened {
  readonly server: PostgresServer
  readonly engine: PostgresEngine
}

async function opened(address: string, confirmMs: number, leaseMs?: number): Promise<Opened> {
  const server = await PostgresServer.open({ address, confirmMs, ...(leaseMs !== undefined && { leaseMs }) })
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

/** Longer than any test. */
const FOREVER_MS = 3_600_000

/** Two servers, each of which reaches PostgreSQL through a proxy of its own. */
async function behindProxies(options: { readonly leaseMs?: number } = {}) {
  const postgres = await sharedPostgres()
  const { searchParams } = new URL(postgres.address())
  const behind = async () => {
    const proxy = await PostgresProxy.open(postgres.socket)
    const address = postgres.address(searchParams.get('schema') ?? undefined, proxy.folder)
    const { server, engine } = await opened(address, FOREVER_MS, options.leaseMs)
    // After the engine.
    onTestFinished(() => proxy.close())
    return { proxy, server, engine }
  }
  return { postgres, schema: searchParams.get('schema'), a: await behind(), b: await behind() }
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
    // It may have heard of the new store too.
    const before = calls
    expect(before).toBeGreaterThan(0)
    // It would be asked again if it was waited for.
    await store.sharing?.confirm()
    expect(calls).toBe(before)
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

  it('of a store that was dropped comes when the others have read which stores there are', async () => {
    const [a, b] = (await several(2)) as [Opened, Opened]
    await a.engine.create('x')
    await b.engine.open('x')
    const run = b.server.run.bind(b.server)
    let failures = 0
    b.server.run = (statement, parameters) => {
      if (statement !== STATEMENTS.list || ++failures > 2) return run(statement, parameters)
      return Promise.reject(new EngineUnavailableError('away'))
    }
    await a.engine.drop('x')
    expect(failures).toBeGreaterThan(2)
    expect(b.engine.has('x')).toBe(false)
  })

  it('is asked for on another connection, and again, while the server’s own connection for messages is broken', async () => {
    const { a, b } = await behindProxies()
    const store = await a.engine.create('x')
    let calls = 0
    const watched = await b.engine.open('x')
    watched.sharing?.watch(() => {
      calls++
    })
    for (let round = 1; round <= 3; round++) {
      await a.proxy.cutMessages()
      const before = calls
      await store.sharing?.confirm()
      expect(calls).toBeGreaterThan(before)
    }
  })

  it('is asked for again when a server could not hear the request', async () => {
    const { a, b } = await behindProxies()
    const store = await a.engine.create('x')
    let calls = 0
    const watched = await b.engine.open('x')
    watched.sharing?.watch(() => {
      calls++
    })
    await b.proxy.cutMessages()
    await store.sharing?.confirm()
    expect(calls).toBeGreaterThan(0)
  })

  it('does not wait for a server that ends meanwhile', async () => {
    const { a, b } = await behindProxies()
    const store = await a.engine.create('x')
    const watched = await b.engine.open('x')
    const asked = Promise.withResolvers<void>()
    watched.sharing?.watch(() => {
      asked.resolve()
      return new Promise(() => {})
    })
    const confirmed = store.sharing?.confirm()
    await asked.promise
    await b.engine.close()
    await confirmed
  })

  it('does not wait for a server that is cut off meanwhile for longer than it has no heartbeats', async () => {
    const { a, b } = await behindProxies({ leaseMs: 2000 })
    const store = await a.engine.create('x')
    const watched = await b.engine.open('x')
    const asked = Promise.withResolvers<void>()
    watched.sharing?.watch(() => {
      asked.resolve()
      return new Promise(() => {})
    })
    const confirmed = store.sharing?.confirm()
    await asked.promise
    b.proxy.stall(true)
    await confirmed
    expect(b.server.leases.hasLapsed).toBe(true)
    b.proxy.stall(false)
  })

  it('waits until the engine can be reached again', async () => {
    const { a, b } = await behindProxies()
    const store = await a.engine.create('x')
    let calls = 0
    const watched = await b.engine.open('x')
    watched.sharing?.watch(() => {
      calls++
    })
    a.proxy.stall(true)
    const confirmed = store.sharing?.confirm()
    await expect(a.server.run(STATEMENTS.number, [])).rejects.toThrow()
    a.proxy.stall(false)
    await confirmed
    expect(calls).toBeGreaterThan(0)
  })
})

describeOnPostgres('a commit of another server without a message', () => {
  it('is noticed with the next commit made here', async () => {
    const { postgres, schema, a } = await behindProxies()
    const store = await a.engine.create('x')
    let calls = 0
    store.sharing?.watch(() => {
      calls++
    })
    // As a server does that is killed right after it.
    postgres.query(`UPDATE "${schema}".stores SET version = version + 1`)
    await store.commit(PUT)
    expect(calls).toBe(1)
    await store.commit(PUT)
    expect(calls).toBe(1)
  })
})

describeOnPostgres('a server that other servers took for gone', () => {
  it('checks everything anew before it goes on', async () => {
    const { a, b } = await behindProxies({ leaseMs: 2000 })
    const store = await a.engine.create('x')
    const watched = await b.engine.open('x')
    let seen: string | undefined
    watched.sharing?.watch(async () => {
      using snapshot = watched.snapshot()
      seen = (await snapshot.get(Buffer.from('key')))?.toString()
    })
    expect(b.server.refreshed()).toBeUndefined()
    b.proxy.stall(true)
    await store.commit(PUT)
    await store.sharing?.confirm()
    // The other one does not wait for it any more, and it knows that.
    const refused = b.server.refreshed()
    await expect(refused).rejects.toThrow()
    expect(seen).toBeUndefined()
    b.proxy.stall(false)
    for (;;) {
      const refreshed = b.server.refreshed()
      if (!refreshed) break
      await refreshed.catch(() => {})
    }
    expect(seen).toBe('value')
  })
})
