/** Many continuous replications on one server: while nothing changes they cost next to nothing. */
import { describe, expect, it } from 'vitest'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { until } from '../../support/until.ts'

const JOBS = 500

describe('many continuous replications', () => {
  it('cost little while nothing changes, and bring a change to everybody', async () => {
    const { url } = await startService({ settings: { replicator: { startup_jitter: '0' } } })
    const client = new Client(url)
    const source = await client.database()
    const targets = []
    for (let i = 0; i < JOBS; i++) targets.push(await client.database())
    const docs = targets.map(({ name }) => ({ _id: name, source: source.name, target: name, continuous: true }))
    await client.request('POST', '/_replicator/_bulk_docs', { body: { docs } })
    const states = async () => {
      const reply = await client.request('GET', '/_replicator/_all_docs?include_docs=true')
      return reply.as<{ rows: { doc: { _replication_state?: string } }[] }>().rows.map(({ doc }) => doc)
    }
    await until(async () => {
      return (await states()).filter(({ _replication_state }) => _replication_state === 'triggered').length === JOBS
    }, 40_000)
    expect((await client.request('GET', '/_active_tasks')).as<unknown[]>()).toHaveLength(JOBS)
    // What they take of the processor in a second, all of them together. The test itself waits meanwhile.
    const before = process.cpuUsage()
    await new Promise((resolve) => setTimeout(resolve, 1000))
    const { user, system } = process.cpuUsage(before)
    expect((user + system) / 1000).toBeLessThan(100)
    await source.save('news', {})
    for (const target of targets) await until(async () => (await target.get('news')).status === 200, 30_000)
    client.close()
  }, 120_000)
})
