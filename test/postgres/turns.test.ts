import pg from 'pg'
import { expect, it, onTestFinished } from 'vitest'
import { PostgresEngine } from '../../src/storage/postgres/postgres-engine.ts'
import type { Store } from '../../src/storage/store.ts'
import { Client, TestDatabase } from '../support/client.ts'
import { FeedClient } from '../support/feed.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres, TestPostgres } from '../support/postgres.ts'
import { type Cut, PostgresProxy } from '../support/postgres-proxy.ts'
import { scrape } from '../support/prometheus.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { startProcess } from './fault-rounds.ts'

const LEASE_MS = 4000
const key = Buffer.from('k')

async function open(address: string, leaseMs = LEASE_MS): Promise<PostgresEngine> {
  const engine = await PostgresEngine.open({ address, leaseMs })
  onTestFinished(() => engine.close())
  return engine
}

/** One store in two engines; the connections of the second one go through a proxy. */
async function twoEngines() {
  const postgres = await sharedPostgres()
  const proxy = await PostgresProxy.open(postgres.socket)
  onTestFinished(() => proxy.close())
  const direct = postgres.address()
  const schema = new URL(direct).searchParams.get('schema') ?? ''
  const first = await (await open(direct)).create('a')
  const second = await (await open(postgres.address(schema, proxy.folder))).open('a')
  return { first, second, proxy }
}

function turnOf(store: Store) {
  const turn = store.sharing?.turn?.()
  if (!turn) throw new Error('The store has no turns.')
  onTestFinished(() => turn.release())
  return turn
}

function put(value: string, expected: number) {
  return { puts: [[key, Buffer.from(value)] as const], expected }
}

async function valueIn(store: Store): Promise<string | undefined> {
  using snapshot = store.snapshot()
  return (await snapshot.get(key))?.toString()
}

describeOnPostgres('a turn', () => {
  it('waits for the one before it, and shows what that one committed', async () => {
    const { first, second } = await twoEngines()
    const one = turnOf(first)
    expect(await one.snapshot.version()).toBe(0)
    const other = turnOf(second)
    const seen = Promise.all([other.snapshot.version(), other.snapshot.get(key)])
    expect(await one.commit(put('1', 0))).toEqual({ outcome: 'committed', version: 1 })
    one.release()
    expect(await seen).toEqual([1, Buffer.from('1')])
    // A commit without a turn comes after it, and so is refused.
    const optimistic = first.commit(put('optimistic', 1))
    expect(await other.commit(put('2', 1))).toEqual({ outcome: 'committed', version: 2 })
    other.release()
    expect(await optimistic).toEqual({ outcome: 'stale', version: 2 })
    expect(await valueIn(first)).toBe('2')
  })

  it('that commits nothing lets the next one have its own', async () => {
    const { first, second } = await twoEngines()
    const one = turnOf(first)
    await one.snapshot.version()
    const other = turnOf(second)
    const version = other.snapshot.version()
    one.release()
    expect(await version).toBe(0)
    expect((await other.commit({ ...put('1', 0), clears: [{}] })).outcome).toBe('committed')
  })

  it.each<[Cut, 'committed' | 'stale']>([
    ['after', 'committed'],
    ['before', 'stale'],
    ['late', 'stale'],
  ])('whose connection is lost is looked up: cut %s its commit reached the server', async (cut, outcome) => {
    const { first, second, proxy } = await twoEngines()
    const turn = turnOf(second)
    await turn.snapshot.version()
    proxy.cutNext(cut)
    expect((await turn.commit(put('1', 0))).outcome).toBe(outcome)
    turn.release()
    proxy.deliverLate()
    expect(await valueIn(first)).toBe(outcome === 'committed' ? '1' : undefined)
  })

  it('is taken away from a server whose connections stall, and its commit is refused', async () => {
    const { first, second, proxy } = await twoEngines()
    const lost = turnOf(second)
    await lost.snapshot.version()
    proxy.freeze()
    const late = lost.commit(put('late', 0))
    const beganMs = performance.now()
    const turn = turnOf(first)
    expect(await turn.snapshot.version()).toBe(0)
    expect(performance.now() - beganMs).toBeLessThan(LEASE_MS)
    expect((await turn.commit(put('1', 0))).outcome).toBe('committed')
    turn.release()
    proxy.thaw()
    expect(await late).toEqual({ outcome: 'stale', version: 1 })
    expect(await valueIn(first)).toBe('1')
  })
})

describeOnPostgres('two servers that write to one database', () => {
  it('take turns: few commits are refused, nothing is lost, and feeds miss nothing', async () => {
    const engine = (await sharedPostgres()).address()
    const start = async () => {
      const service = await startService({ dir: await temporaryFolder(), engine })
      const client = new Client(service.url)
      onTestFinished(() => client.close())
      return client
    }
    const clients = [await start(), await start()]
    const db = await clients[0]!.database()
    const both = clients.map((client) => new TestDatabase(client, db.name))
    await both[1]!.get()
    const feeds = await Promise.all(
      clients.map((client) => FeedClient.open(client, `/${db.name}/_changes?feed=continuous&timeout=60000`)),
    )
    const ids = Array.from({ length: 12 }, (_, writer) => Array.from({ length: 20 }, (_, i) => `${writer}-${i}`))
    await Promise.all(
      ids.map(async (own, writer) => {
        for (const id of own) {
          const reply = await both[writer % 2]!.put(id, { id })
          expect(reply.status, reply.text).toBe(201)
        }
      }),
    )
    const scrapes = await Promise.all(clients.map(scrape))
    const sum = (name: string) => scrapes.reduce((total, each) => total + each.value(name), 0)
    // The first ones, until both know that they are not alone.
    expect(sum('settle_commit_conflicts_total')).toBeLessThan(sum('couchdb_commits_total') / 10)
    const rows = (await both[0]!.get('_all_docs')).as<{ rows: { id: string }[] }>().rows
    expect(rows.map(({ id }) => id)).toEqual(ids.flat().sort())
    for (const feed of feeds) {
      await until(() => feed.changes.length >= rows.length)
      expect(feed.changes.map(({ seq }) => seq)).toEqual(rows.map((_, i) => i + 1))
    }
  })

  it('go on within the time of a lease when one of them is stopped in its turn', async () => {
    const postgres = await TestPostgres.start()
    onTestFinished(() => postgres.remove())
    const engine = postgres.address('turns')
    const variables = { SETTLE_SERVICE__ENGINE_LEASE: String(LEASE_MS) }
    const started = [await startProcess(engine, variables), await startProcess(engine, variables)] as const
    const [{ url }, { url: otherUrl, child }] = started
    const [client, otherClient] = [new Client(url), new Client(otherUrl)]
    onTestFinished(() => {
      for (const each of [client, otherClient]) each.close()
    })
    const db = await client.database()
    const other = new TestDatabase(otherClient, db.name)
    // It has met the first one, and takes turns.
    await other.save('0', {})
    await db.save('1', {})
    await other.save('2', {})
    const locker = new pg.Client({ host: postgres.folder, user: 'settle', database: 'postgres' })
    await locker.connect()
    onTestFinished(() => locker.end())
    await locker.query('BEGIN; SELECT id FROM turns.stores FOR UPDATE')
    const stopped = other.put('stopped', {})
    const waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FOR UPDATE'"
    await until(() => postgres.query(waiting) === '1')
    child.kill('SIGSTOP')
    await locker.query('ROLLBACK')
    const beganMs = performance.now()
    expect((await db.put('3', {})).status).toBe(201)
    expect(performance.now() - beganMs).toBeLessThan(LEASE_MS)
    child.kill('SIGCONT')
    const reply = await stopped
    expect([201, 503]).toContain(reply.status)
    await until(async () => (await other.put('4', {})).status !== 503)
    const ids = (await db.get('_all_docs')).as<{ rows: { id: string }[] }>().rows.map(({ id }) => id)
    expect(ids).toEqual(['0', '1', '2', '3', '4', ...(reply.status === 201 ? ['stopped'] : [])])
  })
})
