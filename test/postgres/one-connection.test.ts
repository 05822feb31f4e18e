import { expect, it, onTestFinished, vi } from 'vitest'
import { PostgresStore } from '../../src/storage/postgres/postgres-store.ts'
import { inline } from '../support/attachments.ts'
import { Client, type Reply, TestDatabase } from '../support/client.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres } from '../support/postgres.ts'
import { readTransactions } from '../support/read-transactions.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

const DOCUMENTS = 40
/** Of several chunks. */
const LARGE = Buffer.alloc(300_000, 'large ')
const PARTS = { headers: { Accept: 'multipart/mixed' } }

const DESIGN = {
  views: {
    keys: { map: 'function (doc) { emit(doc.key, null) }' },
    sums: { map: 'function (doc) { emit(doc.key, 1) }', reduce: '_sum' },
  },
  lists: {
    all: `function (head, req) {
      var row, lines = [req.info.db_name]
      while ((row = getRow())) lines.push(row.id || row.key)
      return lines.join(' ')
    }`,
  },
  shows: { it: 'function (doc, req) { return doc._id + req.info.doc_count }' },
  updates: { it: 'function (doc, req) { doc.changed = req.uuid; return [doc, req.info.db_name] }' },
  filters: { all: 'function (doc, req) { return doc.key !== undefined }' },
  rewrites: [{ from: '/rows', to: '_view/keys' }],
  validate_doc_update: 'function (doc) { if (doc.isBad) throw { forbidden: "bad" } }',
}

/** A database whose server has one connection for reading, with attachments and functions. */
async function database(): Promise<TestDatabase> {
  const engine = (await sharedPostgres()).address()
  const settings = { service: { engine_read_connections: '1' } }
  const service = await startService({ dir: await temporaryFolder(), engine, settings })
  const client = new Client(service.url)
  onTestFinished(() => client.close())
  const db = new TestDatabase(client, (await client.database()).name)
  await db.save('_design/d', DESIGN)
  const docs = Array.from({ length: DOCUMENTS }, (_, i) => ({
    _id: `doc-${i}`,
    key: i % 7,
    _attachments: { small: inline(`small ${i}`, 'text/plain'), ...(i % 20 === 0 && { large: inline(LARGE) }) },
  }))
  await db.post('_bulk_docs', { docs })
  return db
}

/** Requests of all kinds that read, the name of what they ask for and how. */
function readers(db: TestDatabase): readonly (readonly [string, () => Promise<Reply>])[] {
  const gets = [
    '_all_docs?include_docs=true',
    '_all_docs?include_docs=true&attachments=true',
    '_all_docs?include_docs=true&attachments=true&conflicts=true&descending=true&skip=3',
    '_design/d/_view/keys?include_docs=true&attachments=true',
    '_design/d/_view/keys?include_docs=true&attachments=true&stale=update_after',
    '_design/d/_view/sums?group=true',
    '_design/d/_info',
    '_design/d/_list/all/keys',
    '_design/d/_list/all/sums?group=true',
    '_design/d/_list/all/keys?include_docs=true&attachments=true',
    '_design/d/_list/all/_all_docs',
    '_design/d/_list/all/_all_docs?include_docs=true&attachments=true',
    '_design/d/_show/it/doc-1',
    '_design/d/_rewrite/rows?limit=3',
    '_changes?include_docs=true&attachments=true',
    '_changes?include_docs=true&attachments=true&filter=d/all',
    '_changes?feed=longpoll&include_docs=true&attachments=true',
    '_design_docs?include_docs=true&attachments=true',
    '_local_docs?include_docs=true',
    '_security',
    '_backup',
    'doc-1?revs=true&conflicts=true',
    'doc-20?attachments=true',
    'doc-20?open_revs=all&attachments=true',
    'doc-20/large',
    '',
  ]
  const keys = ['doc-20', 'doc-3', 'none']
  const wanted = { docs: keys.map((id) => ({ id })) }
  const queries = { queries: [{ keys, attachments: true, include_docs: true }, { limit: 2 }] }
  const posts: readonly (readonly [string, unknown])[] = [
    ['_all_docs?include_docs=true&attachments=true', { keys }],
    ['_all_docs/queries', queries],
    ['_design/d/_view/keys?include_docs=true&attachments=true', { keys: [1, 3] }],
    ['_design/d/_list/all/_all_docs', { keys }],
    ['_bulk_get?attachments=true&revs=true', wanted],
    ['_revs_diff', { 'doc-1': ['1-0'] }],
    ['_find', { selector: { key: { $gt: 2 } } }],
    ['_find', { selector: { other: { $exists: false } } }],
    ['_explain', { selector: { key: 1 } }],
  ]
  return [
    ...gets.map((path) => [`GET ${path}`, () => db.get(path)] as const),
    ['GET doc-20 in parts', () => db.get('doc-20?open_revs=all&attachments=true', PARTS.headers)] as const,
    ...posts.map(([path, body]) => [`POST ${path}`, () => db.post(path, body)] as const),
  ]
}

/** Requests that write, and that begin work in the background. */
function writers(db: TestDatabase): readonly (readonly [string, () => Promise<Reply>])[] {
  const { client, name } = db
  const revision = async (id: string) => (await db.get(id)).as<{ _rev: string }>()._rev
  const jobs = [
    { source: name, target: `${name}-copy`, create_target: true },
    { source: `${client.url.origin}/${name}`, target: `${name}-far`, create_target: true },
  ]
  return [
    ['a document', () => db.put('new', { key: 1 })],
    ['an attachment', async () => db.put(`doc-2/large?rev=${await revision('doc-2')}`, LARGE)],
    ['a document with a stub', async () => db.put('doc-3', (await db.get('doc-3')).json)],
    ['documents', () => db.post('_bulk_docs', { docs: [{ _id: 'a' }, { _id: 'b', isBad: true }] })],
    ['an update', () => db.put('_design/d/_update/it/doc-4', {})],
    ['an index', () => db.post('_index', { index: { fields: ['key'] }, name: 'keys', ddoc: 'keys' })],
    ['a deleted index', () => db.post('_index/_bulk_delete', { docids: ['keys', 'none'] })],
    ['a purge', async () => db.post('_purge', { 'doc-5': [await revision('doc-5')] })],
    ['members', () => db.put('_security', { members: { names: [], roles: [] } })],
    ['a limit', () => db.put('_revs_limit', 500)],
    ['a compaction', () => db.post('_compact', {})],
    ['a compaction of an index', () => db.post('_compact/d', {})],
    ...jobs.map(
      (job) => [`a replication of ${job.source}`, () => client.request('POST', '/_replicate', { body: job })] as const,
    ),
  ]
}

describeOnPostgres('a server with one connection for reading', () => {
  it('gives it back before it commits', async () => {
    const db = await database()
    const reading = readTransactions()
    const { commit } = PostgresStore.prototype
    const committing = vi.spyOn(PostgresStore.prototype, 'commit').mockImplementation(async function (
      this: PostgresStore,
      changes,
    ) {
      // A commit waits for readers that have not begun.
      await until(() => reading.now === 0)
      return commit.call(this, changes)
    })
    onTestFinished(() => committing.mockRestore())
    for (const [name, ask] of [...writers(db), ...readers(db)]) {
      expect([name, (await ask()).status < 300]).toEqual([name, true])
    }
    const user = { name: 'u', password: 'p', roles: [], type: 'user' }
    await db.client.request('PUT', '/_users/org.couchdb.user:u', { body: user })
    expect((await db.client.request('POST', '/_session', { body: user })).status).toBe(200)
  })

  it('answers every request with it', async () => {
    const db = await database()
    const reading = readTransactions()
    // Indexes are built first, and updated after the writes.
    for (const [name, ask] of [...readers(db), ...writers(db), ...readers(db).slice(0, 12)]) {
      expect([name, (await ask()).status < 300, reading.most]).toEqual([name, true, 1])
    }
  })

  it('answers all of them at once', async () => {
    const db = await database()
    const all = [...readers(db), ...writers(db), ...readers(db)]
    const failed = await Promise.all(
      all.map(async ([name, ask]) => {
        const { status } = await ask()
        return status < 300 ? [] : [`${name}: ${status}`]
      }),
    )
    expect(failed.flat()).toEqual([])
  })
})
