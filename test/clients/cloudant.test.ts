/** IBM's SDK for Cloudant, as it is: sessions, documents, attachments, views, and its follower of changes. */
import { ChangesFollower, CloudantV1, CouchdbSessionAuthenticator } from '@ibm-cloud/cloudant'
import { describe, expect, it } from 'vitest'
import { startService } from '../support/service.ts'

async function start(): Promise<CloudantV1> {
  const { url } = await startService({ dialect: '3', settings: { admins: { root: 'top' } } })
  const serviceUrl = url.replace(/\/$/, '')
  const authenticator = new CouchdbSessionAuthenticator({ username: 'root', password: 'top' })
  const client = new CloudantV1({ authenticator, serviceUrl })
  // Sets where the session is, too.
  client.setServiceUrl(serviceUrl)
  await client.putDatabase({ db: 'db' })
  return client
}

describe("Cloudant's SDK", () => {
  it('signs in by a session, and asks about the server', async () => {
    const client = await start()
    expect((await client.getSessionInformation()).result).toMatchObject({
      userCtx: { name: 'root', roles: ['_admin'] },
    })
    expect((await client.getServerInformation()).result).toMatchObject({ couchdb: 'Welcome' })
    expect((await client.getUpInformation()).result).toMatchObject({ status: 'ok' })
    expect((await client.getAllDbs()).result).toContain('db')
    expect((await client.getUuids({ count: 2 })).result.uuids).toHaveLength(2)
    expect((await client.getMembershipInformation()).result.allNodes).toHaveLength(1)
    expect((await client.postDbsInfo({ keys: ['db'] })).result).toMatchObject([{ key: 'db', info: { docCount: 0 } }])
  })

  it('writes, reads and lists documents', async () => {
    const client = await start()
    const { result: posted } = await client.postDocument({ db: 'db', document: { _id: 'a', n: 1 } })
    const { result: put } = await client.putDocument({
      db: 'db',
      docId: 'a',
      document: { _rev: posted.rev ?? '', n: 2 },
    })
    expect((await client.getDocument({ db: 'db', docId: 'a' })).result).toEqual({ _id: 'a', _rev: put.rev, n: 2 })
    await expect(client.putDocument({ db: 'db', docId: 'a', document: { n: 3 } })).rejects.toMatchObject({ code: 409 })
    const bulk = await client.postBulkDocs({ db: 'db', bulkDocs: { docs: [{ _id: 'b' }, { _id: 'c' }] } })
    expect(bulk.result).toMatchObject([
      { ok: true, id: 'b' },
      { ok: true, id: 'c' },
    ])
    const bulkGet = await client.postBulkGet({ db: 'db', docs: [{ id: 'a' }, { id: 'nosuch' }] })
    expect(bulkGet.result.results).toMatchObject([
      { id: 'a', docs: [{ ok: { n: 2 } }] },
      { id: 'nosuch', docs: [{ error: { error: 'not_found' } }] },
    ])
    const { result: all } = await client.postAllDocs({ db: 'db', includeDocs: true, limit: 1 })
    expect(all).toMatchObject({ totalRows: 3, rows: [{ id: 'a', doc: { n: 2 } }] })
    const { result: queries } = await client.postAllDocsQueries({ db: 'db', queries: [{ keys: ['b'] }, { limit: 2 }] })
    expect(queries.results.map(({ rows }) => rows.length)).toEqual([1, 2])
    const { result: diff } = await client.postRevsDiff({ db: 'db', documentRevisions: { a: ['7-abc'] } })
    expect(diff).toMatchObject({ a: { missing: ['7-abc'] } })
  })

  it('stores and fetches attachments', async () => {
    const client = await start()
    const file = { db: 'db', docId: 'a', attachmentName: 'f.txt' }
    await client.putAttachment({ ...file, attachment: Buffer.from('hello'), contentType: 'text/plain' })
    const pieces: Buffer[] = []
    for await (const piece of (await client.getAttachment(file)).result) pieces.push(Buffer.from(piece))
    expect(Buffer.concat(pieces).toString()).toBe('hello')
  })

  it('queries views, several at once too', async () => {
    const client = await start()
    await client.postBulkDocs({ db: 'db', bulkDocs: { docs: [1, 2, 3].map((n) => ({ _id: `${n}`, n })) } })
    const designDocument = { views: { n: { map: 'function (doc) { emit(doc.n, 1) }', reduce: '_sum' } } }
    await client.putDesignDocument({ db: 'db', ddoc: 'by', designDocument })
    const view = { db: 'db', ddoc: 'by', view: 'n' }
    expect((await client.postView(view)).result.rows).toEqual([{ key: null, value: 3 }])
    const { result } = await client.postViewQueries({ ...view, queries: [{ key: 2, reduce: false }, { limit: 1 }] })
    expect(result.results.map(({ rows }) => rows.length)).toEqual([1, 1])
    const { result: information } = await client.getDesignDocumentInformation({ db: 'db', ddoc: 'by' })
    expect(information).toMatchObject({ name: 'by', viewIndex: { language: 'javascript' } })
  })

  it('works with partitions', async () => {
    const client = await start()
    const db = 'parts'
    await client.putDatabase({ db, partitioned: true })
    expect((await client.getDatabaseInformation({ db })).result.props).toMatchObject({ partitioned: true })
    const docs = Array.from({ length: 6 }, (_, n) => ({ _id: `${n % 2 ? 'odd' : 'even'}:${n}`, n }))
    await client.postBulkDocs({ db, bulkDocs: { docs } })
    const designDocument = { views: { n: { map: 'function (doc) { emit(doc.n, doc.n) }', reduce: '_sum' } } }
    await client.putDesignDocument({ db, ddoc: 'd', designDocument })
    await client.postIndex({ db, index: { fields: [{ n: 'asc' }] }, type: 'json' })
    const partitionKey = 'odd'
    const { result: info } = await client.getPartitionInformation({ db, partitionKey })
    expect(info).toMatchObject({ partition: 'odd', docCount: 3, docDelCount: 0, sizes: { active: expect.any(Number) } })
    const { result: all } = await client.postPartitionAllDocs({ db, partitionKey })
    expect(all.rows.map(({ id }) => id)).toEqual(['odd:1', 'odd:3', 'odd:5'])
    const view = { db, partitionKey, ddoc: 'd', view: 'n' }
    expect((await client.postPartitionView({ ...view, reduce: true })).result.rows).toEqual([{ key: null, value: 9 }])
    const selector = { n: { $gt: 1 } }
    const { result: found } = await client.postPartitionFind({ db, partitionKey, selector })
    expect(found.docs.map(({ n }) => n)).toEqual([3, 5])
    const { result: explained } = await client.postPartitionExplain({ db, partitionKey, selector })
    expect(explained).toMatchObject({ partitioned: true, index: { type: 'json' } })
  })

  it('follows changes: those that are there, and those that come', async () => {
    const client = await start()
    const docs = Array.from({ length: 2_500 }, (_, i) => ({ _id: `${i}` }))
    await client.postBulkDocs({ db: 'db', bulkDocs: { docs } })
    let present = 0
    for await (const _ of new ChangesFollower(client, { db: 'db' }).startOneOff()) present++
    expect(present).toBe(2_500)
    const follower = new ChangesFollower(client, { db: 'db', since: '0' })
    const seen = new Set<string>()
    for await (const { id } of follower.start()) {
      seen.add(id)
      if (seen.size === 2_500) await client.putDocument({ db: 'db', docId: 'late', document: {} })
      if (id === 'late') break
    }
    follower.stop()
    expect(seen.size).toBe(2_501)
  })
})
