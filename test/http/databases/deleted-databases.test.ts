/** What stays in the memory of a server of databases that are gone. Each kind of use leaves something in some cache. */
import { queryObjects } from 'node:v8'
import { expect, it } from 'vitest'
import { DatabaseEngine } from '../../../src/database/database-engine.ts'
import { ViewIndex } from '../../../src/views/view-index.ts'
import { Client } from '../../support/client.ts'
import { collectGarbage } from '../../support/collect-garbage.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { TEST_NODES } from '../../support/test-service.ts'

const DESIGN = {
  views: {
    n: { map: 'function (doc) { emit(doc.n, 1) }', reduce: '_count' },
    bad: { map: 'function (doc) { emit(doc.n, "a") }', reduce: '_sum' },
  },
  shows: { s: 'function (doc) { return "shown" }' },
  lists: { l: 'function () { while (getRow()) send("row") }' },
  updates: { u: 'function (doc) { return [null, "updated"] }' },
  filters: { f: 'function (doc) { return true }' },
  rewrites: [{ from: 'r', to: '_view/n' }],
  validate_doc_update: 'function (doc) { if (doc.bad) throw {forbidden: "bad"} }',
}

/** What belongs to one database. */
const KINDS = { DatabaseEngine, ViewIndex }

// Where requests go to other processes, this one has nothing to show.
it.skipIf(TEST_NODES > 1)('keeps nothing of a deleted database in memory', async () => {
  const service = await startService({ dir: await temporaryFolder(), inMemory: false })
  const client = new Client(service.url)
  // The first one starts what stays: system databases, processes, compiled code.
  await useAndDelete(client, 'first')
  const before = await counted()
  expect(before.DatabaseEngine).toBeGreaterThan(0)
  for (let round = 0; round < 3; round++) await useAndDelete(client, `database-${round}`)
  // The last ones may be held for a while, by a timer or by a request that is just ending.
  let now = await counted()
  for (let tries = 0; tries < 5 && !isNoMore(now, before); tries++) now = await counted()
  expect(isNoMore(now, before), JSON.stringify({ before, now })).toBe(true)
  client.close()
})

async function useAndDelete(client: Client, name: string): Promise<void> {
  const ask = async (method: string, path: string, body?: unknown) => {
    const reply = await client.request(method, `/${name}${path}`, body === undefined ? {} : { body })
    expect(reply.status, `${method} ${path} ${reply.text}`).toBeLessThan(300)
    return reply
  }
  await ask('PUT', '')
  await ask('PUT', '/_security', { members: { names: ['somebody'], roles: [] }, admins: { names: [], roles: [] } })
  await ask('PUT', '/_design/d', DESIGN)
  const docs = Array.from({ length: 30 }, (_, n) => ({ _id: `doc-${n}`, n }))
  await ask('POST', '/_bulk_docs', { docs })
  await ask('PUT', '/with-file', { _attachments: { a: { content_type: 'text/plain', data: 'YWJj' } } })
  for (let time = 0; time < 3; time++) {
    await ask('GET', '/_design/d/_view/n?startkey=5&endkey=7')
    await ask('GET', '/_design/d/_view/n?group=true')
    await ask('GET', '/_all_docs?startkey="doc-1"&include_docs=true')
  }
  await client.request('GET', `/${name}/_design/d/_view/bad`)
  await ask('GET', '/_design/d/_view/n?reduce=false')
  await ask('GET', '/_design/d/_show/s/doc-1')
  await ask('GET', '/_design/d/_list/l/n?reduce=false')
  await ask('POST', '/_design/d/_update/u', {})
  await ask('GET', '/_design/d/_rewrite/r')
  await ask('GET', '/_design/d/_info')
  await ask('POST', '/_temp_view', { map: 'function (doc) { emit(null) }' })
  await ask('POST', '/_index', { index: { fields: ['n'] } })
  await ask('POST', '/_find', { selector: { n: { $gt: 3 } } })
  await ask('GET', '/_changes?filter=d/f')
  await ask('GET', '/_changes?feed=longpoll&timeout=1&since=now')
  await ask('PUT', '/_local/l', { a: 1 })
  await ask('GET', '/with-file/a')
  await ask('POST', '/_revs_diff', { 'doc-1': ['9-a'] })
  await ask('POST', '/_compact', {})
  await ask('POST', '/_compact/d', {})
  await ask('POST', '/_view_cleanup', {})
  const replication = { source: name, target: `${name}-copy`, create_target: true }
  const replicated = await client.request('POST', '/_replicate', { body: replication })
  expect(replicated.status, replicated.text).toBe(200)
  await ask('DELETE', '')
  expect((await client.request('DELETE', `/${name}-copy`)).status).toBe(200)
}

/** A look through the whole memory of the process, which takes a while. */
async function counted(): Promise<Record<string, number>> {
  await collectGarbage()
  return Object.fromEntries(
    Object.entries(KINDS).map(([name, kind]) => [name, queryObjects(kind, { format: 'count' })]),
  )
}

function isNoMore(now: Readonly<Record<string, number>>, before: Readonly<Record<string, number>>): boolean {
  return Object.entries(now).every(([name, count]) => count <= before[name]!)
}
