import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { Client } from '../../support/client.ts'
import { scrape } from '../../support/prometheus.ts'
import { startService } from '../../support/service.ts'
import { until } from '../../support/until.ts'

async function server(): Promise<Client> {
  return new Client((await startService({})).url)
}

describe('GET /_node/_local/_prometheus', () => {
  it('counts requests under the names of release 3, and their durations by method', async () => {
    const client = await server()
    const before = await scrape(client)
    for (let i = 0; i < 3; i++) await client.request('GET', '/nosuch')
    await client.request('PUT', '/db')
    const after = await scrape(client)
    const grown = (name: string, labels = {}) => after.value(name, labels) - before.value(name, labels)
    expect(grown('couchdb_httpd_requests_total')).toBe(5)
    expect(grown('couchdb_httpd_request_methods', { method: 'GET' })).toBe(4)
    expect(grown('couchdb_httpd_status_codes', { code: '404' })).toBe(3)
    expect(grown('settle_request_duration_seconds_count', { method: 'GET' })).toBe(4)
    expect(grown('settle_request_duration_seconds_count', { method: 'PUT' })).toBe(1)
    expect(grown('couchdb_request_time_seconds_count')).toBe(5)
    expect(after.value('couchdb_request_time_seconds', { quantile: '0.5' })).toBeGreaterThan(0)
    expect(after.value('settle_requests_in_progress')).toBe(1)
    expect(after.value('settle_connections')).toBeGreaterThan(0)
    expect(grown('couchdb_couch_log_requests_total', { level: 'info' })).toBeGreaterThanOrEqual(4)
  })

  it('counts replies of every status, and what is refused before it is a request', async () => {
    const client = await server()
    await client.request('PUT', '/db')
    await client.request('PUT', '/db/doc', { body: {} })
    await client.request('PUT', '/_config/httpd/max_http_request_size', { body: '"1000"' })
    const before = await scrape(client)
    const counted = (code: string) =>
      [...before.samples].some(({ name, labels }) => name === 'settle_replies_total' && labels.code === code)
    expect(['503', '413', '415'].map(counted)).toEqual([true, false, false])
    expect((await client.request('POST', '/db', { body: { text: 'x'.repeat(2000) } })).status).toBe(413)
    const headers = { 'content-type': 'text/plain' }
    expect((await client.request('POST', '/db/_purge', { headers, body: '{}' })).status).toBe(415)
    for (const text of [
      'GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n',
      'BREW / HTTP/1.1\r\nHost: x\r\n\r\n',
    ]) {
      const socket = connect(Number(client.url.port), client.url.hostname)
      socket.end(text)
      await once(socket.resume(), 'close')
    }
    const after = await scrape(client)
    const value = (code: string) => after.value('settle_replies_total', { code })
    expect(['413', '415', '400', '405'].map(value)).toEqual([1, 1, 1, 1])
  })

  it('has cumulative buckets for every histogram', async () => {
    const client = await server()
    await client.request('PUT', '/db')
    await client.request('PUT', '/db/a', { body: {} })
    const { families, samples, value } = await scrape(client)
    const histograms = [...families].filter(([, type]) => type === 'histogram').map(([name]) => name)
    expect(histograms.length).toBeGreaterThan(3)
    for (const name of histograms) {
      const labelSets = samples.filter((sample) => sample.name === `${name}_count`).map(({ labels }) => labels)
      for (const labels of labelSets) {
        const buckets = samples.filter(
          (sample) =>
            sample.name === `${name}_bucket` &&
            Object.entries(labels).every(([label, text]) => sample.labels[label] === text),
        )
        const bounds = buckets.map((bucket) => Number(bucket.labels.le?.replace('+Inf', 'Infinity')))
        expect(bounds).toEqual(bounds.toSorted((a, b) => a - b))
        expect(bounds.at(-1)).toBe(Number.POSITIVE_INFINITY)
        const counts = buckets.map((bucket) => bucket.value)
        expect(counts).toEqual(counts.toSorted((a, b) => a - b))
        expect(counts.at(-1)).toBe(value(`${name}_count`, labels))
      }
    }
  })

  it('counts commits, the documents in them and the time until they are on disk', async () => {
    const client = await server()
    await client.request('PUT', '/db')
    const before = await scrape(client)
    await client.request('PUT', '/db/a', { body: {} })
    await client.request('POST', '/db/_bulk_docs', { body: { docs: [{ _id: 'b' }, { _id: 'c' }] } })
    await client.request('PUT', '/db/a', { body: {} })
    const after = await scrape(client)
    const grown = (name: string) => after.value(name) - before.value(name)
    expect(grown('couchdb_commits_total')).toBe(2)
    expect(grown('couchdb_document_writes_total')).toBe(3)
    expect(grown('settle_commit_duration_seconds_count')).toBe(2)
    expect(grown('settle_flush_duration_seconds_count')).toBe(2)
    expect(grown('settle_flush_duration_seconds_sum')).toBeLessThanOrEqual(grown('settle_commit_duration_seconds_sum'))
    expect(after.value('settle_write_queue_requests')).toBe(0)
    expect(after.value('settle_write_queue_bytes')).toBe(0)
    expect(after.value('settle_commit_failures_total')).toBe(0)
  })

  it('counts the feeds that are open', async () => {
    const client = await server()
    await client.request('PUT', '/db')
    const feeds = async (feed: string) => (await scrape(client)).value('settle_feeds', { feed })
    const listening = new AbortController()
    const listen = (path: string) => fetch(new URL(path, client.url), { signal: listening.signal })
    const open = await Promise.all([
      listen('/db/_changes?feed=continuous&heartbeat=1000'),
      listen('/db/_changes?feed=eventsource&heartbeat=1000'),
      listen('/_db_updates?feed=continuous'),
    ])
    expect(open.map(({ status }) => status)).toEqual([200, 200, 200])
    expect(await feeds('continuous')).toBe(2)
    expect(await feeds('eventsource')).toBe(1)
    expect(await feeds('longpoll')).toBe(0)
    listening.abort()
    await until(async () => (await feeds('continuous')) === 0)
  })

  it('reports how far indexes are behind, and the processes of functions', async () => {
    const client = await server()
    await client.request('PUT', '/db')
    await client.request('PUT', '/db/_design/d', {
      body: { views: { v: { map: 'function(doc) { emit(doc._id) }' } }, shows: { s: 'function() { return "x" }' } },
    })
    const view = (query = '') => client.request('GET', `/db/_design/d/_view/v${query}`)
    expect((await view()).status).toBe(200)
    expect((await scrape(client)).value('settle_index_lag_changes')).toBe(0)
    for (let i = 0; i < 4; i++) await client.request('POST', '/db', { body: {} })
    const behind = await scrape(client)
    expect(behind.value('settle_indexes_open')).toBe(1)
    expect(behind.value('settle_index_lag_changes')).toBe(4)
    expect(behind.value('settle_index_lag_changes_max')).toBe(4)
    expect((await view()).status).toBe(200)
    const reached = await scrape(client)
    expect(reached.value('settle_index_lag_changes')).toBe(0)
    expect(reached.value('settle_index_processes')).toBeGreaterThan(0)
    expect(reached.value('settle_task_duration_seconds_count', { type: 'indexer' })).toBeGreaterThan(0)
    expect((await client.request('GET', '/db/_design/d/_show/s')).text).toBe('x')
    const shown = await scrape(client)
    const processes = ['busy', 'idle', 'starting'].map((state) => shown.value('settle_sandbox_processes', { state }))
    expect(processes.reduce((sum, count) => sum + count)).toBeGreaterThan(0)
    expect(shown.value('settle_sandbox_starts_total')).toBeGreaterThan(0)
  })

  it('counts compactions and replications', async () => {
    const client = await server()
    for (const name of ['source', 'target']) await client.request('PUT', `/${name}`)
    for (let i = 0; i < 5; i++) await client.request('POST', '/source', { body: {} })
    await client.request('POST', '/source/_compact', { body: {} })
    const done = (type: string) => async () =>
      (await scrape(client)).value('settle_task_duration_seconds_count', { type }) === 1
    await until(done('database_compaction'))
    const body = { source: `${client.url}source`, target: `${client.url}target` }
    expect((await client.request('POST', '/_replicate', { body })).status).toBe(200)
    await until(done('replication'))
    const { value } = await scrape(client)
    expect(value('settle_replication_docs_read_total')).toBe(5)
    expect(value('settle_replication_docs_written_total')).toBe(5)
    expect(value('settle_replication_doc_write_failures_total')).toBe(0)
    expect(value('couchdb_couch_replicator_jobs_total')).toBe(0)
    expect(value('settle_tasks_running', { type: 'replication' })).toBe(0)
    expect(value('settle_disk_free_bytes')).toBeGreaterThan(0)
  })

  it('continues after a restart', async () => {
    const client = await server()
    await client.request('PUT', '/db')
    const restart = await client.request('POST', '/_restart', { headers: { 'Content-Type': 'application/json' } })
    expect(restart.status).toBe(202)
    const log = () => client.request('GET', '/_log?bytes=100000').catch(() => undefined)
    await until(async () => (await log())?.text.match(/listens/g)?.length === 2)
    const before = await scrape(client)
    await client.request('PUT', '/db/a', { body: {} })
    const { value } = await scrape(client)
    expect(value('couchdb_document_writes_total') - before.value('couchdb_document_writes_total')).toBe(1)
    expect(value('settle_write_queue_requests')).toBe(0)
    expect(value('settle_requests_in_progress')).toBe(1)
  })
})
