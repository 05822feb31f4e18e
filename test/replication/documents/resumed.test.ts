/** Replications of documents resume where they were after the server was stopped or killed. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { createService } from '../../../src/service.ts'
import { ServerProcess } from '../../crash/server-process.ts'
import { Client } from '../../support/client.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { until } from '../../support/until.ts'

type Document = Record<string, unknown>

const read = async (client: Client, path: string) => (await client.request('GET', path)).as<Document>()

async function prepare(client: Client): Promise<void> {
  for (const name of ['source', 'target']) await client.request('PUT', `/${name}`)
  await client.request('PUT', '/source/before', { body: {} })
  const body = { source: 'source', target: 'target', continuous: true }
  await client.request('PUT', '/_replicator/job', { body })
  await arrives(client, 'before')
  await until(async () => (await read(client, '/_replicator/job'))._replication_state === 'triggered')
}

function arrives(client: Client, id: string): Promise<void> {
  return until(async () => (await client.request('GET', `/target/${id}`)).status === 200, 20_000)
}

describe('a replication of a document', () => {
  it('resumes after a restart, from its last checkpoint', async () => {
    const dir = await temporaryFolder()
    const settings = { replicator: { startup_jitter: '0' } }
    const first = await createService({ port: 0, dir, settings })
    const client = new Client(await first.listen())
    await prepare(client)
    client.close()
    await first.close()
    const second = await createService({ port: 0, dir, settings })
    onTestFinished(() => second.close())
    const again = new Client(await second.listen())
    await again.request('PUT', '/source/after', { body: {} })
    await arrives(again, 'after')
    const { jobs } = (await read(again, '/_scheduler/jobs')) as { jobs: Document[] }
    // What was there before it ended was not asked about again.
    expect(jobs).toMatchObject([{ info: { revisions_checked: 1, docs_written: 1 } }])
    again.close()
  })

  it('is triggered in one of two documents after a restart too', async () => {
    const dir = await temporaryFolder()
    const settings = { replicator: { startup_jitter: '0', retry_delay_ms: '50', retry_delay_limit_ms: '50' } }
    const first = await createService({ port: 0, dir, settings })
    const client = new Client(await first.listen())
    await prepare(client)
    const body = { source: 'source', target: 'target', continuous: true }
    await client.request('PUT', '/_replicator/second', { body })
    await until(async () => (await read(client, '/_replicator/second'))._replication_id !== undefined, 60_000)
    // It fails and begins again, so that its document was written after the other one.
    await client.request('DELETE', '/target')
    await until(async () => (await read(client, '/_replicator/job'))._replication_state === 'error', 60_000)
    await client.request('PUT', '/target')
    await until(async () => (await read(client, '/_replicator/job'))._replication_state === 'triggered', 60_000)
    client.close()
    await first.close()
    const second = await createService({ port: 0, dir, settings })
    onTestFinished(() => second.close())
    const again = new Client(await second.listen())
    const states = async () => {
      const both = [await read(again, '/_replicator/job'), await read(again, '/_replicator/second')]
      return both.map(({ _replication_state = 'none' }) => _replication_state).sort()
    }
    await until(async () => (await states()).join() === 'none,triggered', 60_000)
    const { jobs } = (await read(again, '/_scheduler/jobs')) as { jobs: Document[] }
    expect(jobs).toHaveLength(1)
    again.close()
  })

  it('resumes after a restart that was requested over HTTP', async () => {
    const dir = await temporaryFolder()
    const service = await createService({ port: 0, dir, settings: { replicator: { startup_jitter: '0' } } })
    onTestFinished(() => service.close())
    const client = new Client(await service.listen())
    await prepare(client)
    const request = { source: 'source', target: 'other', create_target: true, continuous: true }
    expect((await client.request('POST', '/_replicate', { body: request })).status).toBe(202)
    expect((await client.request('POST', '/_restart', { body: {} })).status).toBe(202)
    await until(async () => (await client.request('GET', '/_up').catch(() => undefined))?.status === 200, 20_000)
    await until(async () => {
      const { jobs } = (await read(client, '/_scheduler/jobs').catch(() => ({ jobs: [] }))) as { jobs: Document[] }
      // What a request asked for ends with the server.
      return jobs.map(({ doc_id }) => doc_id).join() === 'job'
    }, 20_000)
    await client.request('PUT', '/source/after', { body: {} })
    await arrives(client, 'after')
    client.close()
  })

  it('resumes after kill -9, wherever it was', async () => {
    const folder = await temporaryFolder()
    let server = new ServerProcess(folder)
    onTestFinished(() => server.kill())
    let client = new Client((await server.url()) ?? '')
    await prepare(client)
    for (let round = 0; round < 2; round++) {
      const docs = Array.from({ length: 2000 }, (_, i) => ({ _id: `${round}-${i}`, round }))
      await client.request('POST', '/source/_bulk_docs', { body: { docs } })
      await arrives(client, `${round}-${100 * round}`)
      client.close()
      await server.kill()
      server = new ServerProcess(folder)
      client = new Client((await server.url()) ?? '')
    }
    const count = async (name: string) => (await read(client, `/${name}`)).doc_count
    await until(async () => (await count('target')) === 4001, 30_000)
    expect(await count('source')).toBe(4001)
    client.close()
  })
})
