import { expect, it, onTestFinished } from 'vitest'
import { Client } from '../support/client.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres, TestPostgres } from '../support/postgres.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'
import { grows, LedgerWriter, ledgerProblems, startProcess, wrongRefusals } from './fault-rounds.ts'

describeOnPostgres('what was acknowledged', () => {
  it.each(['SIGINT', 'SIGQUIT'] as const)('outlasts a restart of PostgreSQL under load (%s)', async (signal) => {
    const postgres = await TestPostgres.start()
    onTestFinished(() => postgres.remove())
    const engine = postgres.address('faults')
    const service = await startService({ dir: await temporaryFolder(), engine })
    const client = new Client(service.url)
    onTestFinished(() => client.close())
    const db = await client.database()
    const writers = Array.from({ length: 6 }, (_, i) => new LedgerWriter(service.url, db.name, `w${i}`))
    const running = writers.map((writer) => writer.run())
    await grows(writers, 60)
    await postgres.halt(signal)
    await until(async () => (await db.get('_all_docs?limit=1')).status === 503)
    await postgres.resume()
    await grows(writers, 60)
    for (const writer of writers) writer.stop()
    await Promise.all(running)
    expect(await ledgerProblems(service.url, db.name, writers)).toEqual([])
    expect(wrongRefusals(writers)).toEqual([])
  })

  it('survives kill -9 of a server, and another one continues', async () => {
    const engine = (await sharedPostgres()).address()
    const first = await startProcess(engine)
    const second = await startService({ dir: await temporaryFolder(), engine })
    const client = new Client(second.url)
    onTestFinished(() => client.close())
    const db = await client.database()
    const writers = [first.url, first.url, second.url, second.url].map(
      (url, i) => new LedgerWriter(url, db.name, `w${i}`),
    )
    const running = writers.map((writer) => writer.run())
    await grows(writers.slice(0, 2), 20)
    first.child.kill('SIGKILL')
    await grows(writers.slice(2), 40)
    for (const writer of writers) writer.stop()
    await Promise.all(running)
    expect(await ledgerProblems(second.url, db.name, writers)).toEqual([])
  })
})
