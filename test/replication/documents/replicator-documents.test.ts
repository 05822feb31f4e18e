/** Documents of the replicator database as jobs: what they do, what is written into them, and what stops them. */
import { describe, expect, it } from 'vitest'
import type { ServiceOptions } from '../../../src/service.ts'
import { Client, type Reply, type TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { until } from '../../support/until.ts'

type Document = Record<string, unknown>

const QUICK = { retry_delay_ms: '20', retry_delay_limit_ms: '40', startup_jitter: '0', checkpoint_interval: '50' }

/** A server with two databases, and its replicator database. */
class Replicating {
  readonly client: Client
  readonly source: TestDatabase
  readonly target: TestDatabase

  static async start(options: ServiceOptions = {}): Promise<Replicating> {
    const { url } = await startService({ settings: { replicator: QUICK }, ...options })
    const client = new Client(url)
    return new Replicating(client, await client.database(), await client.database())
  }

  constructor(client: Client, source: TestDatabase, target: TestDatabase) {
    this.client = client
    this.source = source
    this.target = target
  }

  save(id: string, document: Document = {}): Promise<Reply> {
    const body = { source: this.source.name, target: this.target.name, ...document }
    return this.client.request('PUT', `/_replicator/${id}`, { body })
  }

  async read(id: string): Promise<Document> {
    return (await this.client.request('GET', `/_replicator/${id}`)).as<Document>()
  }

  remove(id: string, rev: unknown): Promise<Reply> {
    return this.client.request('DELETE', `/_replicator/${id}?rev=${rev}`)
  }

  /** The document once it has this state. */
  async reaches(id: string, state: string): Promise<Document> {
    let document: Document = {}
    await until(async () => {
      document = await this.read(id)
      return document._replication_state === state
    }, 15_000)
    return document
  }

  async scheduled(id: string): Promise<Document> {
    return (await this.client.request('GET', `/_scheduler/docs/_replicator/${id}`)).as<Document>()
  }

  async jobs(): Promise<Document[]> {
    return (await this.client.request('GET', '/_scheduler/jobs')).as<{ jobs: Document[] }>().jobs
  }

  async arrives(id: string, target = this.target): Promise<void> {
    await until(async () => (await target.get(id)).status === 200, 15_000)
  }
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$/

describe('a document of the replicator database', () => {
  it('is replicated once, and says what came of it', async () => {
    const server = await Replicating.start()
    await server.source.save('a', { n: 1 })
    await server.source.save('b', { n: 2 })
    await server.save('job', { _replication_id: 'mine' })
    const document = await server.reaches('job', 'completed')
    expect(document).toMatchObject({
      _replication_id: expect.stringMatching(/^[0-9a-f]{32}$/),
      _replication_state_time: expect.stringMatching(TIME),
      _replication_stats: {
        revisions_checked: 2,
        missing_revisions_found: 2,
        docs_read: 2,
        docs_written: 2,
        doc_write_failures: 0,
        checkpointed_source_seq: 2,
      },
      owner: null,
    })
    expect(document).not.toHaveProperty('_replication_state_reason')
    expect((await server.target.get('b')).json).toMatchObject({ n: 2 })
    expect(await server.jobs()).toEqual([])
    expect(await server.scheduled('job')).toMatchObject({
      database: '_replicator',
      doc_id: 'job',
      state: 'completed',
      info: { docs_written: 2 },
      error_count: 0,
      source: server.source.name,
      target: server.target.name,
    })
  })

  it('is run again when the members of the server are removed from it', async () => {
    const server = await Replicating.start()
    await server.save('job')
    const { _rev, source, target } = await server.reaches('job', 'completed')
    await server.source.save('later', {})
    await server.save('job', { _rev, source, target })
    await server.arrives('later')
    expect(await server.reaches('job', 'completed')).toMatchObject({ _replication_stats: { docs_written: 1 } })
  })

  it('follows its source while it is continuous, cannot be edited, and ends when it is deleted', async () => {
    const server = await Replicating.start()
    await server.save('job', { continuous: true })
    const { _rev, _replication_id } = await server.reaches('job', 'triggered')
    await server.source.save('a', {})
    await server.arrives('a')
    const edit = await server.save('job', { _rev, continuous: true, note: 'x' })
    expect([edit.status, edit.text]).toEqual([403, expect.stringContaining('Only the replicator can edit')])
    expect(await server.jobs()).toMatchObject([
      {
        id: `${_replication_id}+continuous`,
        database: '_replicator',
        doc_id: 'job',
        user: null,
        pid: expect.stringMatching(/^</),
        source: server.source.name,
        target: server.target.name,
        start_time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
        info: { docs_written: 1 },
        history: [{ type: 'started' }, { type: 'added' }],
      },
    ])
    expect(await server.scheduled('job')).toMatchObject({ state: 'running', id: `${_replication_id}+continuous` })
    expect((await server.client.request('GET', '/_active_tasks')).json).toMatchObject([
      { type: 'replication', doc_id: 'job', continuous: true, replication_id: `${_replication_id}+continuous` },
    ])
    expect((await server.remove('job', _rev)).status).toBe(200)
    await until(async () => (await server.jobs()).length === 0)
    expect((await server.client.request('GET', '/_active_tasks')).json).toEqual([])
    await server.source.save('after', {})
    // What another replication brings after it shows that the deleted one did not.
    await server.save('next', { doc_ids: ['none'] })
    await server.reaches('next', 'completed')
    expect((await server.target.get('after')).status).toBe(404)
  })

  it('is in the error state while its database is missing, and continues when it exists', async () => {
    const server = await Replicating.start()
    await server.save('job', { source: 'missing' })
    expect(await server.reaches('job', 'error')).toMatchObject({
      _replication_state_reason: 'db_not_found: could not open missing',
      _replication_id: expect.any(String),
      _replication_state_time: expect.stringMatching(TIME),
    })
    expect(await server.scheduled('job')).toMatchObject({
      state: expect.stringMatching(/^(crashing|running)$/),
      error_count: expect.any(Number),
    })
    await server.client.request('PUT', '/missing')
    const document = await server.reaches('job', 'completed')
    expect(document).not.toHaveProperty('_replication_state_reason')
  })

  it('waits for another server that cannot be reached, and discloses no password', async () => {
    const server = await Replicating.start()
    const other = await startService()
    await fetch(`${other.url}things`, { method: 'PUT' })
    await fetch(`${other.url}things/a`, { method: 'PUT', body: '{}' })
    const { host } = new URL(other.url)
    await other.close()
    const source = `http://mia:secret@${host}/things`
    await server.save('job', { source, retries_per_request: 0 })
    const document = await server.reaches('job', 'error')
    expect(document.source).toBe(source)
    const shown = [document._replication_state_reason, await server.scheduled('job'), await server.jobs()]
    expect(JSON.stringify(shown)).not.toContain('secret')
    expect(await server.scheduled('job')).toMatchObject({ source: `http://mia:*****@${host}/things` })
  })

  it('is given up after so many failures, until it is changed', async () => {
    const settings = { replicator: { ...QUICK, max_replication_retry_count: '2' } }
    const server = await Replicating.start({ settings })
    await server.save('job', { source: 'missing' })
    await until(async () => (await server.scheduled('job')).state === 'failed')
    expect(await server.scheduled('job')).toMatchObject({
      info: { error: 'db_not_found: could not open missing' },
      error_count: 3,
    })
    expect(await server.jobs()).toEqual([])
    const { _rev, ...document } = await server.read('job')
    await server.save('job', { ...document, _rev, source: server.source.name })
    await server.reaches('job', 'completed')
  })

  it('reports its error, and is not tried again', async () => {
    const server = await Replicating.start()
    await server.save('job', { filter: 'no-such-form' })
    const document = await server.reaches('job', 'error')
    expect(document._replication_state_reason).toContain('Invalid filter. Must match `ddocname/filtername`.')
    expect(document).not.toHaveProperty('_replication_id')
    expect(await server.scheduled('job')).toMatchObject({ state: 'failed', id: null })
  })

  it('that is a duplicate is reported as such, and runs when the first is deleted', async () => {
    const server = await Replicating.start()
    await server.save('first', { continuous: true })
    const first = await server.reaches('first', 'triggered')
    await server.save('second', { continuous: true })
    await until(async () => '_replication_id' in (await server.read('second')))
    const second = await server.read('second')
    expect(second._replication_id).toBe(first._replication_id)
    expect(second).not.toHaveProperty('_replication_state')
    expect(await server.scheduled('second')).toMatchObject({
      state: 'failed',
      info: { error: expect.stringContaining('was triggered by the document "first" before') },
    })
    await server.remove('first', first._rev)
    await server.reaches('second', 'triggered')
  })

  it('keeps its attachments and its digits', async () => {
    const server = await Replicating.start()
    const text = `{"source":"${server.source.name}","target":"${server.target.name}","n":12345678901234567890.10,
      "_attachments":{"a.txt":{"content_type":"text/plain","data":"YWJj"}}}`
    await server.client.request('PUT', '/_replicator/job', { body: text })
    await server.reaches('job', 'completed')
    expect((await server.client.request('GET', '/_replicator/job/a.txt')).text).toBe('abc')
    expect((await server.client.request('GET', '/_replicator/job')).text).toContain('"n":12345678901234567890.10')
  })

  it('runs with the rights that it names', async () => {
    const settings = { admins: { root: 'top' }, replicator: QUICK }
    const { url } = await startService({ settings })
    const client = new Client(url)
    const Authorization = `Basic ${btoa('root:top')}`
    const send = (method: string, path: string, body?: unknown) =>
      client.request(method, path, { headers: { Authorization }, body })
    for (const name of ['secret', 'target']) await send('PUT', `/${name}`)
    await send('PUT', '/secret/_security', { members: { names: ['mia'], roles: [] } })
    await send('PUT', '/secret/a', {})
    const read = async (id: string) => (await send('GET', `/_replicator/${id}`)).as<Document>()
    const reaches = (id: string, state: string) => until(async () => (await read(id))._replication_state === state)
    await send('PUT', '/_replicator/nobody', { source: 'secret', target: 'target' })
    await reaches('nobody', 'error')
    expect(await read('nobody')).toMatchObject({
      _replication_state_reason: 'unauthorized: unauthorized to access or create database secret',
      owner: 'root',
    })
    await send('PUT', '/_replicator/mias', {
      source: 'secret',
      target: 'target',
      user_ctx: { name: 'mia', roles: [] },
    })
    await reaches('mias', 'completed')
    expect((await client.request('GET', '/_scheduler/jobs')).status).toBe(401)
    expect((await client.request('GET', '/_scheduler/docs')).status).toBe(401)
  })

  it('ends when it is purged', async () => {
    const server = await Replicating.start()
    await server.save('job', { continuous: true })
    const { _rev } = await server.reaches('job', 'triggered')
    await server.client.request('POST', '/_replicator/_purge', { body: { job: [_rev] } })
    await until(async () => (await server.jobs()).length === 0)
  })

  it('ends in an error when a request cancels its replication', async () => {
    const server = await Replicating.start()
    await server.save('job', { continuous: true })
    const { _replication_id } = await server.reaches('job', 'triggered')
    const cancel = { cancel: true, replication_id: `${_replication_id}+continuous` }
    const reply = await server.client.request('POST', '/_replicate', { body: cancel })
    expect([reply.status, reply.json]).toEqual([200, { ok: true, _local_id: `${_replication_id}+continuous` }])
    expect(await server.reaches('job', 'error')).toMatchObject({
      _replication_state_reason: 'cancelled: The replication was cancelled.',
    })
    expect(await server.jobs()).toEqual([])
  })

  it('does not let an equal request wait for the next attempt', async () => {
    const server = await Replicating.start({
      settings: { replicator: { ...QUICK, retry_delay_ms: '600000', retry_delay_limit_ms: '600000' } },
    })
    await server.source.request('DELETE')
    // In open mode everybody is this user.
    await server.save('failing', { user_ctx: { name: null, roles: ['_admin'] } })
    await server.reaches('failing', 'error')
    const body = { source: server.source.name, target: server.target.name }
    const refused = await server.client.request('POST', '/_replicate', { body })
    expect(refused.json).toMatchObject({ error: 'db_not_found' })
    await server.source.request('PUT')
    const reply = await server.client.request('POST', '/_replicate', { body })
    expect(reply.json).toMatchObject({ ok: true })
    await server.reaches('failing', 'completed')
  })

  it('shares its replication with an equal request', async () => {
    const server = await Replicating.start()
    // In open mode everybody is this user.
    await server.save('job', { continuous: true, user_ctx: { name: null, roles: ['_admin'] } })
    await server.reaches('job', 'triggered')
    const { source, target } = server
    const body = { source: source.name, target: target.name, continuous: true }
    expect((await server.client.request('POST', '/_replicate', { body })).status).toBe(202)
    expect(await server.jobs()).toHaveLength(1)
  })
})

describe('the replicator database', () => {
  it('ends all its jobs when it is deleted, or is another one', async () => {
    const server = await Replicating.start()
    await server.save('job', { continuous: true })
    await server.reaches('job', 'triggered')
    expect((await server.client.request('DELETE', '/_replicator')).status).toBe(200)
    await until(async () => (await server.jobs()).length === 0)
    await server.save('again', { continuous: true })
    await server.reaches('again', 'triggered')

    const body = { source: server.source.name, target: server.target.name, doc_ids: ['x'], continuous: true }
    await server.client.request('PUT', '/jobs')
    await server.client.request('PUT', '/jobs/other', { body })
    await server.client.request('PUT', '/_config/replicator/db', { body: '"jobs"' })
    await until(async () => (await server.jobs()).map(({ doc_id }) => doc_id).join() === 'other')
    expect((await server.client.request('GET', '/_scheduler/docs/jobs/other')).json).toMatchObject({
      database: 'jobs',
      state: 'running',
    })
    await server.client.request('PUT', '/_config/replicator/db', { body: '"_replicator"' })
    await until(async () => (await server.jobs()).map(({ doc_id }) => doc_id).join() === 'again')
  })

  it('lists its documents with their states', async () => {
    const server = await Replicating.start()
    await server.save('one', { continuous: true })
    await server.save('two', { doc_ids: ['x'] })
    await server.reaches('one', 'triggered')
    await server.reaches('two', 'completed')
    const docs = async (query = '') => {
      const reply = await server.client.request('GET', `/_scheduler/docs${query}`)
      const { docs, ...rest } = reply.as<{ docs: Document[] }>()
      return { ...rest, docs: docs.map(({ doc_id, state }) => `${doc_id} ${state}`) }
    }
    expect(await docs()).toEqual({ total_rows: 2, offset: 0, docs: ['one running', 'two completed'] })
    expect(await docs('?limit=1&skip=1')).toEqual({ total_rows: 2, offset: 1, docs: ['two completed'] })
    expect(await docs('?states=completed,failed')).toEqual({ total_rows: 1, offset: 0, docs: ['two completed'] })
    expect(await docs('/_replicator')).toMatchObject({ total_rows: 2 })
    const statusOf = async (path: string, method = 'GET') => (await server.client.request(method, path)).status
    expect(await statusOf('/_scheduler/docs?states=strange')).toBe(400)
    expect(await statusOf('/_scheduler/docs/other')).toBe(404)
    expect(await statusOf('/_scheduler/docs/_replicator/none')).toBe(404)
    expect(await statusOf('/_scheduler/jobs/none')).toBe(404)
    expect(await statusOf('/_scheduler')).toBe(404)
    expect(await statusOf('/_scheduler/jobs', 'DELETE')).toBe(405)
    const [job] = await server.jobs()
    expect(await statusOf(`/_scheduler/jobs/${encodeURIComponent(String(job?.id))}`)).toBe(200)
  })

  it('lets as many jobs run as the settings say, in turns', async () => {
    const settings = { replicator: { ...QUICK, max_jobs: '2', interval: '100', max_churn: '1' } }
    const server = await Replicating.start({ settings })
    const names = ['1', '2', '3', '4']
    const targets = await Promise.all(names.map(() => server.client.database()))
    for (const [i, name] of names.entries()) {
      await server.save(name, { continuous: true, target: targets[i]?.name })
    }
    for (let round = 0; round < 3; round++) {
      await server.source.save(`doc-${round}`, {})
      for (const target of targets) await server.arrives(`doc-${round}`, target)
      const states = (await server.jobs()).filter(({ pid }) => pid !== null)
      expect(states.length).toBeLessThanOrEqual(2)
    }
  })
})
