import { expect, it, onTestFinished } from 'vitest'
import { PostgresServer } from '../../src/storage/postgres/postgres-server.ts'
import { indexStoreName } from '../../src/views/index-store-name.ts'
import { Client, expectRefusal, rawRequest, TestDatabase } from '../support/client.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres } from '../support/postgres.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

/** No function is ended for the time it takes. */
const settings = { service: { os_process_timeout: '600000' } }

/** Two servers on one engine, with the same database in each. */
async function servers() {
  const engine = (await sharedPostgres()).address()
  const start = async () => {
    const service = await startService({ dir: await temporaryFolder(), engine, settings })
    const client = new Client(service.url)
    onTestFinished(() => client.close())
    return client
  }
  const [first, second] = [await start(), await start()]
  const db = await first.database()
  return { engine, first, second, here: db, there: new TestDatabase(second, db.name) }
}

async function workOn(db: TestDatabase): Promise<{ compact_running: boolean; updater_running: boolean }> {
  const reply = await db.get('_design/d/_info')
  return reply.as<{ view_index: { compact_running: boolean; updater_running: boolean } }>().view_index
}

describeOnPostgres('what one of two servers is doing', () => {
  it('is known to the other one: compactions and updates of indexes', async () => {
    const { engine, here, there } = await servers()
    await here.save('_design/d', { views: { v: { map: 'function (doc) { emit(doc._id) }' } } })
    await there.get('_design/d/_view/v')
    const { signature } = (await here.get('_design/d/_info')).as<{ view_index: { signature: string } }>().view_index
    const index = indexStoreName(here.name, signature)
    // A third server, which takes as long as the test likes.
    const third = await PostgresServer.open({ address: engine })
    onTestFinished(() => third.close())
    for (const [name, shown] of [
      [`compaction of ${here.name}`, { database: true, compact_running: false, updater_running: false }],
      [`compaction of index ${index}`, { database: false, compact_running: true, updater_running: false }],
      [`index ${index}`, { database: false, compact_running: false, updater_running: true }],
    ] as const) {
      const lease = await third.leases.take(name)
      for (const db of [here, there]) {
        const { compact_running } = (await db.info()) as { compact_running: boolean }
        expect({ database: compact_running, ...(await workOn(db)) }).toMatchObject(shown)
      }
      await lease?.release()
    }
    for (const db of [here, there]) {
      expect((await db.info()).compact_running).toBe(false)
      expect(await workOn(db)).toMatchObject({ compact_running: false, updater_running: false })
    }
  })

  it('is over where the other one answers that a compaction is not running any more', async () => {
    const { here, there } = await servers()
    for (let round = 0; round < 5; round++) {
      const first = await here.save(`doc-${round}`, { n: 1 })
      await there.save(`doc-${round}`, { _rev: first, n: 2 })
      expect((await here.post('_compact', '')).status).toBe(202)
      await until(async () => !(await there.info()).compact_running)
      expect((await there.get(`doc-${round}?rev=${first}`)).status).toBe(404)
    }
  })

  it('is listed by the other one: active tasks, and jobs of the scheduler', async () => {
    const { first, second, here } = await servers()
    await here.save('a', {})
    await here.save('_design/d', { views: { v: { map: 'function (doc) { while (true); }' } } })
    const connection = await first.open()
    connection.write(rawRequest([`GET /${here.name}/_design/d/_view/v HTTP/1.1`, `Host: ${first.host}`]))
    const tasksOf = async (client: Client) =>
      (await client.request('GET', '/_active_tasks')).as<{ pid: string; type: string; database?: string }[]>()
    await until(async () => (await tasksOf(second)).length === 1)
    const [[own], [shown]] = [await tasksOf(first), await tasksOf(second)]
    expect(own).toMatchObject({ pid: expect.stringMatching(/^<0\./), type: 'indexer', database: here.name })
    expect(shown).toMatchObject({ pid: own!.pid.replace('<0.', '<1.'), type: 'indexer', database: here.name })

    const target = await first.database()
    const body = { source: here.name, target: target.name, continuous: true }
    const { _local_id: id } = (await first.request('POST', '/_replicate', { body })).as<{ _local_id: string }>()
    const jobs = (await second.request('GET', '/_scheduler/jobs')).as<{ total_rows: number; jobs: { id: string }[] }>()
    expect(jobs).toMatchObject({ total_rows: 1, jobs: [{ id, source: here.name, target: target.name }] })
    const job = await second.request('GET', `/_scheduler/jobs/${encodeURIComponent(id)}`)
    expect(job.as<object>()).toMatchObject({ id, doc_id: null })
    expect((await tasksOf(second)).map(({ type }) => type).sort()).toEqual(['indexer', 'replication'])
    connection.end()
    // By its description, and by its id.
    expect((await second.request('POST', '/_replicate', { body: { ...body, cancel: true } })).json).toEqual({
      ok: true,
      _local_id: id,
    })
    for (const client of [first, second]) {
      const again = await client.request('POST', '/_replicate', { body: { replication_id: id, cancel: true } })
      expect(again.status).toBe(404)
    }
    expect((await second.request('GET', '/_scheduler/jobs')).as<object>()).toMatchObject({ total_rows: 0, jobs: [] })
  })

  it('is no longer listed when that server has ended', async () => {
    const { engine, second } = await servers()
    const third = await PostgresServer.open({ address: engine })
    third.others.reportWith(() => '{"tasks":[{"pid":"<0.7.0>","type":"indexer"}]}')
    const tasks = async () => (await second.request('GET', '/_active_tasks')).as<object[]>()
    expect(await tasks()).toMatchObject([{ type: 'indexer' }])
    await third.close()
    expect(await tasks()).toEqual([])
  })

  it('is shown without what a server does not report in time, and that server is waited for in everything else', async () => {
    const { engine, second, here, there } = await servers()
    const third = await PostgresServer.open({ address: engine })
    onTestFinished(() => third.close())
    third.others.handle = () => new Promise(() => {})
    const confirmed = Promise.withResolvers<void>()
    third.onCatalog(() => confirmed.promise)
    expect((await second.request('GET', '/_active_tasks')).as<object[]>()).toEqual([])
    let isDeleted = false
    const deleting = there.client.request('DELETE', `/${here.name}`).then(() => {
      isDeleted = true
    })
    await until(async () =>
      (await second.request('GET', '/_all_dbs')).as<string[]>().every((each) => each !== here.name),
    )
    expect(isDeleted).toBe(false)
    confirmed.resolve()
    await deleting
  })

  it('is not said to be missing while a server that may do it does not answer', async () => {
    const { engine, second } = await servers()
    const third = await PostgresServer.open({ address: engine })
    onTestFinished(() => third.close())
    third.others.handle = () => new Promise(() => {})
    for (const reply of [
      await second.request('GET', '/_scheduler/jobs/unknown'),
      await second.request('POST', '/_replicate', { body: { replication_id: 'unknown', cancel: true } }),
    ]) {
      expectRefusal(
        reply,
        503,
        'service_unavailable',
        'Another server, which may run the replication, does not answer.',
      )
    }
    third.others.handle = async () => {}
    expect((await second.request('GET', '/_scheduler/jobs/unknown')).status).toBe(404)
  })

  it('is cancelled in all servers that do it', async () => {
    const { first, second, here } = await servers()
    const target = await first.database()
    const body = { source: here.name, target: target.name, continuous: true }
    for (const client of [first, second]) await client.request('POST', '/_replicate', { body })
    const jobs = async () => (await first.request('GET', '/_scheduler/jobs')).as<{ total_rows: number }>().total_rows
    expect(await jobs()).toBe(2)
    expect((await second.request('POST', '/_replicate', { body: { ...body, cancel: true } })).status).toBe(200)
    expect(await jobs()).toBe(0)
  })

  it('is cancelled if it is a build whose design document was changed in the other one', async () => {
    const { first, here, there } = await servers()
    await here.save('a', {})
    const rev = await here.save('_design/d', { views: { v: { map: 'function (doc) { while (true); }' } } })
    const connection = await first.open()
    connection.write(rawRequest([`GET /${here.name}/_design/d/_view/v HTTP/1.1`, `Host: ${first.host}`]))
    await until(async () => (await workOn(there)).updater_running)
    connection.end()
    await there.save('_design/d', { _rev: rev, views: { v: { map: 'function (doc) { emit(doc._id) }' } } })
    await until(async () => (await first.request('GET', '/_active_tasks')).as<unknown[]>().length === 0)
  })

  it('is done before the reply where a write says batch=ok', async () => {
    const { here, there } = await servers()
    for (let n = 0; n < 5; n++) {
      expect((await here.put(`doc-${n}?batch=ok`, {})).text).toBe(`{"ok":true,"id":"doc-${n}"}\n`)
      expect((await there.get(`doc-${n}`)).status).toBe(200)
    }
    // A conflict is not reported.
    expect((await here.put('doc-0?batch=ok', {})).status).toBe(202)
  })
})
