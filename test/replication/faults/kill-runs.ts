/** A continuous replication of a document, through a network that fails, while either server is killed and started again. */
import { expect } from 'vitest'
import { Random } from '../../crash/random.ts'
import { ServerProcess } from '../../crash/server-process.ts'
import { until } from '../../support/until.ts'
import { expectSame } from '../whole-database.ts'
import { FaultProxy } from './fault-proxy.ts'
import { OPTIONS } from './fault-runs.ts'
import { RandomEdits } from './random-edits.ts'

export interface KillRun {
  readonly direction: 'push' | 'pull'
  /** How often a server is killed. */
  readonly kills: number
  readonly seed: number
  /** For the data of the two servers. */
  readonly folders: readonly [here: string, there: string]
}

const QUICK = { retry_delay_ms: '100', retry_delay_limit_ms: '500', max_replication_retry_count: 'infinity' }

export async function runWithKills({ direction, kills, seed, folders }: KillRun): Promise<void> {
  const random = new Random(seed)
  const hint = `${direction}, SETTLE_SEED=${seed}`
  const servers = [new ServerProcess(folders[0]), new ServerProcess(folders[1])]
  const urls = await Promise.all(servers.map((server) => urlOf(server)))
  const proxy = await FaultProxy.start(urls[1] ?? '', { random, chance: 0.05 })
  const [sourceAt, targetAt] = direction === 'push' ? [0, 1] : [1, 0]
  const source = () => `${urls[sourceAt]}source`
  const target = () => `${urls[targetAt]}target`
  try {
    for (const url of [source(), target()]) await send('PUT', url)
    for (const [key, value] of Object.entries(QUICK)) await send('PUT', `${urls[0]}_config/replicator/${key}`, value)
    const remote = direction === 'push' ? { target: `${proxy.url}target` } : { source: `${proxy.url}source` }
    const job = { source: 'source', target: 'target', ...remote, ...OPTIONS, continuous: true }
    await send('PUT', `${urls[0]}_replicator/job`, job)
    const writing = new RandomEdits(random, { edits: 40, documents: 60 })
    for (let kill = 0; kill < kills; kill++) {
      const docs = Array.from({ length: 300 }, (_, i) => ({ _id: `bulk-${kill}-${i}`, text: 'x'.repeat(200) }))
      await send('POST', `${source()}/_bulk_docs`, { docs })
      await writing.run(source())
      // Somewhere in the middle of what there is to do, now and then after it.
      const reached = random.below(300 * (kill + 1))
      await until(async () => (await countOf(target())) >= reached, 60_000)
      const victim = random.below(2)
      await servers[victim]?.kill()
      const server = new ServerProcess(folders[victim] ?? '')
      servers[victim] = server
      urls[victim] = await urlOf(server)
      if (victim === 1) proxy.upstream = urls[1] ?? ''
    }
    await until(async () => (await changesOf(source())) === (await changesOf(target())), 120_000)
    await expectSame(source(), target(), hint)
    const scheduled = await send('GET', `${urls[0]}_scheduler/docs/_replicator/job`)
    expect(scheduled, hint).toMatchObject({ state: expect.stringMatching(/running|crashing|pending/) })
  } finally {
    await proxy.close()
    await Promise.all(servers.map((server) => server.kill()))
  }
}

async function urlOf(server: ServerProcess): Promise<string> {
  const url = await server.url()
  if (url === undefined) throw new Error(`The server did not start: ${server.complaints}`)
  return url
}

async function countOf(url: string): Promise<number> {
  return ((await send('GET', url)) as { doc_count: number }).doc_count
}

/** Ids and leaves of all documents. */
async function changesOf(url: string): Promise<string> {
  const { results } = (await send('GET', `${url}/_changes?style=all_docs`)) as {
    results: { id: string; changes: { rev: string }[] }[]
  }
  const leaves = results.map(({ id, changes }) => `${id} ${changes.map(({ rev }) => rev).sort()}`)
  return leaves.sort().join('\n')
}

async function send(method: string, url: string, body?: unknown): Promise<unknown> {
  const headers = body === undefined ? {} : { 'Content-Type': 'application/json' }
  const reply = await fetch(url, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) })
  const text = await reply.text()
  expect(reply.status, `${method} ${url} ${text}`).toBeLessThan(300)
  return JSON.parse(text)
}
