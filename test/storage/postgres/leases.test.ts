import { expect, it, onTestFinished } from 'vitest'
import type { WorkLease } from '../../../src/storage/leases/work-leases.ts'
import { PostgresEngine } from '../../../src/storage/postgres/postgres-engine.ts'
import { LeaseLostError } from '../../../src/storage/storage-error.ts'
import type { Store } from '../../../src/storage/store.ts'
import { describeOnPostgres } from '../../support/on-postgres.ts'
import { sharedPostgres } from '../../support/postgres.ts'
import { PostgresProxy } from '../../support/postgres-proxy.ts'
import { until } from '../../support/until.ts'

const key = Buffer.from('k')
/** Longer than a busy machine holds up a process. */
const leaseMs = 3000

/** Two servers on one set of tables, the first one through a proxy. */
async function twoServers() {
  const postgres = await sharedPostgres()
  const proxy = await PostgresProxy.open(postgres.socket)
  onTestFinished(() => proxy.close())
  const direct = postgres.address()
  const schema = new URL(direct).searchParams.get('schema') ?? ''
  const a = await open(postgres.address(schema, proxy.folder))
  const b = await open(direct)
  const store = await a.create('a')
  return { proxy, a, b, stores: [store, await b.open('a')] as const }
}

async function open(address: string): Promise<PostgresEngine> {
  const engine = await PostgresEngine.open({ address, leaseMs })
  onTestFinished(() => engine.close())
  return engine
}

async function taken(engine: PostgresEngine): Promise<WorkLease> {
  let lease: WorkLease | undefined
  await until(async () => {
    lease = await engine.leases.take('work').catch(() => undefined)
    return lease !== undefined
  })
  if (!lease) throw new Error('There is no lease.')
  return lease
}

async function storedIn(store: Store): Promise<string | undefined> {
  using snapshot = store.snapshot()
  return (await snapshot.get(key))?.toString()
}

async function* rows(value: string) {
  yield [[key, Buffer.from(value)] as const]
}

describeOnPostgres('a lease', () => {
  it('is held by one, however many ask at the same time', async () => {
    const { a, b } = await twoServers()
    const asked = await Promise.all([a, b, a, b].map((engine) => engine.leases.take('work')))
    const [lease, ...others] = asked.filter((each) => each !== undefined)
    expect(others).toEqual([])
    expect(await Promise.all([a, b].map((engine) => engine.leases.take('work')))).toEqual([undefined, undefined])
    expect(lease?.signal.aborted).toBe(false)
    await lease?.release()
    const next = await b.leases.take('work')
    expect(next?.proof.fence).toBeGreaterThan(lease?.proof.fence ?? 0)
  })

  it('passes to another server at once when its server ends', async () => {
    const { a, b } = await twoServers()
    const before = await taken(a)
    await a.close()
    expect(before.signal.aborted).toBe(true)
    expect(await b.leases.take('work')).toBeDefined()
  })

  it('is lost by a server that is cut off, and none of its writes under it is applied', async () => {
    const { proxy, a, b, stores } = await twoServers()
    const [mine, others] = stores
    const old = await taken(a)
    await mine.commit({ puts: [[key, Buffer.from('held')]], lease: old.proof })
    expect(await storedIn(others)).toBe('held')
    proxy.freeze()
    // It reaches the server when that has given the lease to somebody else.
    const late = mine.commit({ puts: [[key, Buffer.from('late')]], lease: old.proof }).catch((error: unknown) => error)
    const next = await taken(b)
    await others.commit({ puts: [[key, Buffer.from('next')]], lease: next.proof })
    // Nobody has to tell it: it could not send a heartbeat for too long.
    await until(() => old.signal.aborted)
    proxy.thaw()
    expect(await late).toBeInstanceOf(Error)
    await until(async () => (await storedIn(mine).catch(() => undefined)) === 'next')
    const again = mine.commit({ puts: [[key, Buffer.from('again')]], lease: old.proof })
    await expect(again).rejects.toThrow(LeaseLostError)
    await expect(mine.replace(rows('replaced'), old.proof)).rejects.toThrow(LeaseLostError)
    expect(await storedIn(others)).toBe('next')
    await others.replace(rows('replaced'), next.proof)
    expect(await storedIn(mine)).toBe('replaced')
  })

  it('does not change hands between the check of a commit and its end', async () => {
    const { a, b, stores } = await twoServers()
    const [mine] = stores
    for (let round = 0; round < 10; round++) {
      const lease = await taken(a)
      const committing = mine.commit({ puts: [[key, Buffer.from(`mine ${round}`)]], lease: lease.proof }).then(
        () => 'committed',
        () => 'refused',
      )
      await lease.release()
      const next = await taken(b)
      const seen = await storedIn(mine)
      const outcome = await committing
      // Whatever became of it, it became of it before the next holder began.
      expect(outcome === 'committed' ? seen === `mine ${round}` : seen !== `mine ${round}`).toBe(true)
      await next.release()
    }
  })

  it.each(['after', 'before'] as const)('holds for a commit whose connection is lost %s its end', async (cut) => {
    const { proxy, a, stores } = await twoServers()
    const [mine, others] = stores
    const lease = await taken(a)
    proxy.cutNext(cut)
    const { outcome } = await mine.commit({ puts: [[key, Buffer.from('x')]], expected: 0, lease: lease.proof })
    expect([outcome, proxy.cuts, await storedIn(others)]).toEqual(['committed', 1, 'x'])
  })
})
