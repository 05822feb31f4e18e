import { setTimeout as pause } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { Client } from '../support/client.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { TestPostgres } from '../support/postgres.ts'
import { PostgresProxy } from '../support/postgres-proxy.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { grows, LedgerWriter, ledgerProblems, startProcess, wrongRefusals } from './fault-rounds.ts'
import { ownWork, type Work } from './own-work.ts'

const QUICK_LEASES = { SETTLE_SERVICE__ENGINE_LEASE: '2000' }

async function postgres(): Promise<TestPostgres> {
  const started = await TestPostgres.start()
  onTestFinished(() => started.remove())
  return started
}

async function emptyDatabase(url: string) {
  const client = new Client(url)
  onTestFinished(() => client.close())
  return await client.database()
}

async function stop(writers: readonly LedgerWriter[], running: readonly Promise<void>[]): Promise<void> {
  for (const writer of writers) writer.stop()
  await Promise.all(running)
}

describeOnPostgres('what was acknowledged, at length', () => {
  it('survives twenty kills of three servers under load', async () => {
    const engine = (await postgres()).address('kills')
    const servers = await Promise.all(Array.from({ length: 3 }, () => startProcess(engine, QUICK_LEASES)))
    const db = await emptyDatabase(servers[0]!.url)
    const everybody: LedgerWriter[] = []
    for (let round = 0; round < 20; round++) {
      const writers = servers.flatMap(({ url }, i) =>
        Array.from({ length: 2 }, (_, n) => new LedgerWriter(url, db.name, `r${round}-${i}-${n}`)),
      )
      everybody.push(...writers)
      const running = writers.map((writer) => writer.run())
      const victim = round % 3
      await grows(writers.slice(2 * victim, 2 * victim + 2), 10)
      servers[victim]!.child.kill('SIGKILL')
      await grows(
        writers.filter((_, i) => Math.floor(i / 2) !== victim),
        20,
      )
      await stop(writers, running)
      servers[victim] = await startProcess(engine, QUICK_LEASES)
    }
    expect(await ledgerProblems(servers[0]!.url, db.name, everybody)).toEqual([])
    expect(wrongRefusals(everybody)).toEqual([])
  })

  it('survives a failover to a streaming standby', async () => {
    const primary = await postgres()
    const proxy = await PostgresProxy.open(primary.socket)
    onTestFinished(() => proxy.close())
    const engine = primary.address('failover', proxy.folder)
    const services = await Promise.all(
      Array.from({ length: 2 }, async () => startService({ dir: await temporaryFolder(), engine })),
    )
    const db = await emptyDatabase(services[0]!.url)
    const standby = await TestPostgres.standbyOf(primary)
    onTestFinished(() => standby.remove())
    const writers = Array.from({ length: 6 }, (_, i) => new LedgerWriter(services[i % 2]!.url, db.name, `w${i}`))
    const running = writers.map((writer) => writer.run())
    await grows(writers, 60)
    await primary.halt('SIGQUIT')
    await until(async () => (await db.get('_all_docs?limit=1')).status === 503)
    proxy.redirect(standby.socket)
    standby.promote()
    await grows(writers, 120)
    await stop(writers, running)
    for (const { url } of services) expect(await ledgerProblems(url, db.name, writers)).toEqual([])
    expect(wrongRefusals(writers)).toEqual([])
  })

  it('survives a server that is cut off again and again, while others take over its work', async () => {
    const engine = await postgres()
    const proxy = await PostgresProxy.open(engine.socket)
    onTestFinished(() => proxy.close())
    const settings = { service: { engine_lease: '2000' } }
    const cutOff = await startService({
      dir: await temporaryFolder(),
      engine: engine.address('cut', proxy.folder),
      settings,
    })
    const db = await emptyDatabase(cutOff.url)
    const target = await db.client.database()
    const replication = { source: db.name, target: target.name, continuous: true }
    // It alone is there: it has the lease.
    expect((await db.client.request('PUT', '/_replicator/r', { body: replication })).status).toBe(201)
    const other = await startService({ dir: await temporaryFolder(), engine: engine.address('cut'), settings })
    const writers = [cutOff.url, other.url].flatMap((url, i) =>
      Array.from({ length: 2 }, (_, n) => new LedgerWriter(url, db.name, `w${i}-${n}`)),
    )
    const running = writers.map((writer) => writer.run())
    const jobsOf = async (url: string) => {
      const client = new Client(url)
      const reply = await client.request('GET', '/_scheduler/jobs').finally(() => client.close())
      return reply.status === 200 ? ownWork(reply.as<{ jobs: Work[] }>().jobs).length : 0
    }
    for (let round = 0; round < 3; round++) {
      await grows(writers.slice(0, 2), 10)
      proxy.freeze()
      // Its clients are told within seconds, not after the timeout of a statement.
      const refused = () => writers.slice(0, 2).reduce((sum, { refusals }) => sum + (refusals.get(503) ?? 0), 0)
      const before = refused()
      await until(() => refused() > before)
      await grows(writers.slice(2), 20)
      if (round === 0) await until(async () => (await jobsOf(other.url)) === 1)
      await pause(500)
      proxy.thaw()
    }
    await grows(writers.slice(0, 2), 10)
    await stop(writers, running)
    expect(await ledgerProblems(other.url, db.name, writers)).toEqual([])
    expect(wrongRefusals(writers)).toEqual([])
    // The server that has lost the lease stops its job as soon as it knows.
    await until(async () => (await jobsOf(cutOff.url)) + (await jobsOf(other.url)) === 1)
    const { doc_count } = await db.info()
    await until(async () => (await target.info()).doc_count === doc_count)
  })
})
