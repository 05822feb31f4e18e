/** The rest of nano's interface, in both dialects: the server, feeds, replication, design functions and queries. */
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import nano from 'nano'
import { describe, expect, it } from 'vitest'
import type { Dialect } from '../../src/config/dialect.ts'
import { type Client, serverOfFile } from '../support/client.ts'
import { startService } from '../support/service.ts'

interface Body {
  n: number
}

const DIALECTS: readonly Dialect[] = ['1.6', '3']

const DESIGN = {
  views: {
    by_n: { map: 'function (doc) { emit(doc.n, doc.n) }', reduce: '_sum' },
    all: { map: 'function (doc) { emit(doc._id) }' },
  },
  filters: { odd: 'function (doc) { return doc.n % 2 === 1 }' },
  shows: { n: 'function (doc, req) { return { json: { n: doc.n } } }' },
  lists: {
    lines: `function (head, req) {
      start({ headers: { 'Content-Type': 'text/plain' } })
      for (var row; (row = getRow()); ) send(row.key + (req.query.sign || ';'))
    }`,
  },
  updates: {
    add: 'function (doc, req) { doc.n += JSON.parse(req.body).more; return [doc, JSON.stringify({ n: doc.n })] }',
  },
}

let databases = 0

async function start(client: Client, documents = 0) {
  const server = nano(client.url.origin)
  const name = `things-${++databases}`
  await server.db.create(name)
  const db = server.use<Body>(name)
  if (documents > 0) {
    await db.bulk({ docs: Array.from({ length: documents }, (_, n) => ({ _id: `doc-${n}`, n })) })
    await server.use<object>(name).insert(DESIGN, '_design/d')
  }
  return { server, db, name }
}

const read = async (stream: Readable): Promise<unknown> => JSON.parse(await text(stream))

describe.each(DIALECTS)('nano in dialect %s', (dialect) => {
  const client = serverOfFile({ dialect })

  it('asks the server', async () => {
    const { server, name } = await start(client())
    expect(await server.info()).toMatchObject({ couchdb: 'Welcome', vendor: { name: 'Settle' } })
    expect((await server.uuids(3)).uuids).toHaveLength(3)
    expect(await server.db.list()).toContain(name)
    expect(await read(server.db.listAsStream())).toContain(name)
    expect(await server.request({ db: name, path: '_all_docs' })).toMatchObject({ total_rows: 0, rows: [] })
    expect(await server.session()).toMatchObject({ ok: true, userCtx: { name: null, roles: ['_admin'] } })
  })

  it('signs in, and stays so', async () => {
    const { url } = await startService({ dialect, settings: { admins: { ann: 'secret' } } })
    const server = nano({ url: url.replace(/\/$/, '') })
    await expect(server.db.create('things')).rejects.toMatchObject({ statusCode: 401 })
    expect(await server.auth('ann', 'secret')).toMatchObject({ ok: true, name: 'ann' })
    expect(await server.session()).toMatchObject({ userCtx: { name: 'ann' } })
    expect(await server.db.create('things')).toEqual({ ok: true })
    await expect(server.auth('ann', 'wrong')).rejects.toMatchObject({ statusCode: 401 })
  })

  it('compacts and informs', async () => {
    const { server, db, name } = await start(client(), 10)
    expect(await server.db.compact(name)).toEqual({ ok: true })
    expect(await server.db.compact(name, 'd')).toEqual({ ok: true })
    expect(await db.compact()).toEqual({ ok: true })
    expect(await db.info()).toMatchObject({ db_name: name, doc_count: 11 })
  })

  it('reads changes, at once, as a stream and with a reader', async () => {
    const { server, db, name } = await start(client(), 10)
    expect((await db.changes({ filter: 'd/odd' })).results).toHaveLength(5)
    expect((await server.db.changes(name, { limit: 3 })).results).toHaveLength(3)
    // Its types have this function in another place.
    const changesAsStream: (query: object) => Readable = Reflect.get(db, 'changesAsStream')
    expect(await read(changesAsStream({ since: 10 }))).toMatchObject({ results: [{ id: '_design/d' }] })
    const ids = await new Promise<string[]>((resolve, reject) => {
      const batches: string[] = []
      db.changesReader
        .get({ since: '0', batchSize: 4, timeout: 200 })
        .on('batch', (batch: { id: string }[]) => batches.push(...batch.map(({ id }) => id)))
        .on('end', () => resolve(batches))
        .on('error', reject)
    })
    expect(ids).toHaveLength(11)
    // Nothing says when the reader has begun to listen: it is told where from.
    const { last_seq: since } = await db.changes()
    await db.insert({ n: 1 }, 'late')
    const live = await new Promise<string>((resolve, reject) => {
      db.changesReader
        .start({ since, timeout: 2_000 })
        .on('change', ({ id }: { id: string }) => resolve(id))
        .on('error', reject)
    })
    db.changesReader.stop()
    expect(live).toBe('late')
  })

  it('replicates, once and by a document', async () => {
    const { server, db, name } = await start(client(), 10)
    expect(await server.db.replicate(name, `${name}-copy`, { create_target: true })).toMatchObject({ ok: true })
    expect((await server.use(`${name}-copy`).info()).doc_count).toBe(11)
    await server.db.create(`${name}-second`)
    expect(await db.replicate(`${name}-second`)).toMatchObject({ ok: true })
    await server.db.create(`${name}-third`)
    const { id } = await server.db.replication
      .enable(name, `${name}-third`, {})
      .then((reply) => reply as { id?: string })
    const job = await expect
      .poll(() => server.db.replication.query(String(id), {}))
      .toMatchObject({ _replication_state: 'completed' })
      .then(() => server.db.replication.query(String(id), {}))
    expect((await server.use(`${name}-third`).info()).doc_count).toBe(11)
    expect(await server.db.replication.disable(String(id), String(Reflect.get(job, '_rev')), {})).toMatchObject({
      ok: true,
    })
  })

  it('works with partitions', async () => {
    const server = nano(client().url.origin)
    const name = `partitioned-${++databases}`
    await server.db.create(name, { partitioned: true })
    const db = server.use<Body>(name)
    expect(await db.info()).toMatchObject({ props: { partitioned: true } })
    await db.bulk({ docs: Array.from({ length: 10 }, (_, n) => ({ _id: `${n % 2 ? 'odd' : 'even'}:${n}`, n })) })
    await server.use<object>(name).insert({ views: DESIGN.views }, '_design/d')
    await db.createIndex({ index: { fields: ['n'] }, partitioned: true })
    expect(await db.partitionInfo('odd')).toMatchObject({ partition: 'odd', doc_count: 5, doc_del_count: 0 })
    const odd = ['odd:1', 'odd:3', 'odd:5', 'odd:7', 'odd:9']
    expect((await db.partitionedList('odd')).rows.map(({ id }) => id)).toEqual(odd)
    expect(await read(db.partitionedListAsStream('odd', { limit: 1 }))).toMatchObject({ total_rows: 5 })
    const query = { selector: { n: { $gt: 4 } } }
    expect((await db.partitionedFind('odd', query)).docs.map(({ n }) => n)).toEqual([5, 7, 9])
    expect(await read(db.partitionedFindAsStream('odd', query))).toMatchObject({ docs: [{ n: 5 }, { n: 7 }, { n: 9 }] })
    expect((await db.partitionedView('odd', 'd', 'by_n', { reduce: true })).rows).toEqual([{ key: null, value: 25 }])
    expect(await read(db.partitionedViewAsStream('even', 'd', 'by_n', { reduce: true }))).toEqual({
      rows: [{ key: null, value: 20 }],
    })
  })

  it('queries views', async () => {
    const { db } = await start(client(), 10)
    expect((await db.view('d', 'by_n', { reduce: false, startkey: 7 })).rows.map(({ key }) => key)).toEqual([7, 8, 9])
    expect((await db.view('d', 'by_n')).rows).toEqual([{ key: null, value: 45 }])
    expect((await db.view('d', 'all', { keys: ['doc-3', 'doc-1'], include_docs: true })).rows).toMatchObject([
      { doc: { n: 3 } },
      { doc: { n: 1 } },
    ])
    expect(await read(db.viewAsStream('d', 'by_n', { reduce: false, limit: 1 }))).toMatchObject({ rows: [{ key: 0 }] })
    expect(await read(db.listAsStream({ limit: 2 }))).toMatchObject({ total_rows: 11 })
  })

  it('runs shows, lists and updates', async () => {
    const { db } = await start(client(), 10)
    expect(await db.show('d', 'n', 'doc-4')).toEqual({ n: 4 })
    expect(String(await db.viewWithList('d', 'all', 'lines', { limit: 2, sign: '|' } as object))).toBe('doc-0|doc-1|')
    expect(await text(db.viewWithListAsStream('d', 'all', 'lines', { limit: 1 }))).toBe('doc-0;')
    const updated: unknown = await db.atomic('d', 'add', 'doc-4', { more: 10 })
    expect(typeof updated === 'string' ? JSON.parse(updated) : updated).toEqual({ n: 14 })
    expect((await db.get('doc-4')).n).toBe(14)
  })

  it('finds documents by selectors', async () => {
    const { db } = await start(client(), 10)
    expect(await db.createIndex({ index: { fields: ['n'] }, name: 'n' })).toMatchObject({ result: 'created' })
    const query = { selector: { n: { $gt: 6 } }, fields: ['n'], sort: [{ n: 'asc' as const }] }
    expect((await db.find(query)).docs).toEqual([{ n: 7 }, { n: 8 }, { n: 9 }])
    expect(await read(db.findAsStream(query))).toMatchObject({ docs: [{ n: 7 }, { n: 8 }, { n: 9 }] })
  })
})
