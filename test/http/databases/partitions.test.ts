/** Partitioned databases, as release 3 has them. */
import { describe, expect, it } from 'vitest'
import { Client, expectRefusal, type Reply, serverOfFile, TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { until } from '../../support/until.ts'

const client = serverOfFile()
let names = 0

async function partitioned(on: Client = client()): Promise<TestDatabase> {
  const name = `partitioned${names++}`
  const reply = await on.request('PUT', `/${name}?partitioned=true`)
  expect([reply.status, reply.json]).toEqual([201, { ok: true }])
  return new TestDatabase(on, name)
}

const FORM = 'Doc id must be of form partition:id'

describe('a partitioned database', () => {
  it('says so', async () => {
    const db = await partitioned()
    expect((await db.get('')).as<{ props: unknown }>().props).toEqual({ partitioned: true })
    expect((await client().request('GET', '/')).as<{ features: string[] }>().features).toContain('partitioned')
  })

  it('is created by partitioned=true only, and never for system databases', async () => {
    const bad = await client().request('PUT', '/other?partitioned=yes')
    expectRefusal(bad, 400, 'bad_request', 'Invalid `partitioned` parameter')
    expect((await client().request('PUT', '/plain?partitioned=false')).status).toBe(201)
    expect((await client().request('GET', '/plain')).as<{ props: unknown }>().props).toEqual({})
    await client().request('DELETE', '/_users')
    const system = await client().request('PUT', '/_users?partitioned=true')
    expectRefusal(system, 400, 'bad_request', 'Cannot partition a system database')
  })

  it.each([
    ['x', 'bad_request', FORM],
    [':x', 'illegal_partition', 'Partition must not be empty'],
    ['a:', 'bad_request', 'Document id must not be empty'],
    ['a:_x', 'bad_request', 'Only reserved document ids may start with underscore.'],
  ])('refuses a document with the id %s, at every endpoint', async (id, error, reason) => {
    const db = await partitioned()
    const rev = await db.save('a:source', {})
    const path = encodeURIComponent(id)
    const update = 'function (doc, req) { return [JSON.parse(req.body), ""] }'
    await db.save('_design/d', { updates: { write: update } })
    const replies: Reply[] = [
      await db.put(path, {}),
      await db.post('', { _id: id }),
      await db.post('_bulk_docs', { docs: [{ _id: 'a:good' }, { _id: id }] }),
      await db.post('_bulk_docs', { all_or_nothing: true, docs: [{ _id: id }] }),
      await db.request('COPY', 'a:source', { headers: { Destination: path } }),
      await db.put(`${path}?batch=ok`, {}),
      await db.put(`${path}/file`, 'x'),
      await db.request('PUT', `${path}?new_edits=false`, { body: { _rev: rev } }),
      await db.post('_design/d/_update/write', { _id: id }),
    ]
    for (const reply of replies) expectRefusal(reply, 400, error, reason)
    expect((await db.info()).doc_count).toBe(2)
    // A replicator is told of each document.
    const docs = ['b:good', id].map((_id) => ({ _id, _rev: '1-abc', _revisions: { start: 1, ids: ['abc'] } }))
    const bulk = await db.post('_bulk_docs', { new_edits: false, docs })
    expect([bulk.status, bulk.json]).toMatchObject([
      201,
      [
        { ok: true, id: 'b:good' },
        { id, reason },
      ],
    ])
    expect((await db.info()).doc_count).toBe(3)
  })

  it('refuses an upload to an id without a partition before its body is read', async () => {
    const db = await partitioned()
    const connection = await client().open()
    const head = `PUT /${db.name}/none/file HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n`
    connection.write(head)
    expect(await connection.receives(FORM)).toContain('HTTP/1.1 400')
    connection.end()
  })

  it('refuses documents without an id', async () => {
    const db = await partitioned()
    expectRefusal(await db.post('', {}), 400, 'bad_request', FORM)
    const three = new Client((await startService({ dialect: '3' })).url)
    const other = await partitioned(three)
    expectRefusal(await other.post('', {}), 400, 'illegal_docid', FORM)
  })

  it('has design and local documents like other databases', async () => {
    const db = await partitioned()
    await db.save('_design/d', {})
    await db.save('_local/x', {})
    await db.save('a:b:c', {})
    expect((await db.get('a:b:c')).status).toBe(200)
  })

  it('receives replicated documents, except those without a partition', async () => {
    const db = await partitioned()
    const source = await client().database()
    for (const id of ['a:1', 'none', 'b:2']) await source.save(id, {})
    const reply = await client().request('POST', '/_replicate', { body: { source: source.name, target: db.name } })
    expect(reply.status, reply.text).toBe(200)
    const [run] = reply.as<{ history: { docs_written: number; doc_write_failures: number }[] }>().history
    expect(run).toMatchObject({ docs_written: 2, doc_write_failures: 1 })
    expect((await db.info()).doc_count).toBe(2)
  })

  it('stays partitioned across compaction and restart', async () => {
    const dir = await temporaryFolder()
    const first = await startService({ dir })
    const before = await partitioned(new Client(first.url))
    await before.save('a:1', { n: 1 })
    await before.save('_design/d', { views: { all: { map: 'doc => emit(doc.n)' } } })
    await before.get('_partition/a/_design/d/_view/all')
    await before.compact()
    expectRefusal(await before.put('x', {}), 400, 'bad_request', FORM)
    await first.close()
    const db = new TestDatabase(new Client((await startService({ dir })).url), before.name)
    expect((await db.get('')).as<{ props: unknown }>().props).toEqual({ partitioned: true })
    expectRefusal(await db.put('x', {}), 400, 'bad_request', FORM)
    expect((await db.get('_partition/a/_design/d/_view/all')).json).toMatchObject({ total_rows: 1 })
  })
})

describe('GET /{db}/_partition/{name}', () => {
  it('returns the counts of one partition', async () => {
    const db = await partitioned()
    await db.save('a:1', { text: 'x'.repeat(100) })
    const rev = await db.save('a:2', {})
    await db.save('ab:3', {})
    await db.save('b:4', {})
    await db.request('DELETE', `a:2?rev=${rev}`)
    expect((await db.get('_partition/a')).json).toEqual({
      db_name: db.name,
      partition: 'a',
      doc_count: 1,
      doc_del_count: 1,
      sizes: { active: expect.any(Number), external: expect.any(Number) },
    })
    const { sizes } = (await db.get('_partition/a')).as<{ sizes: { active: number } }>()
    expect(sizes.active).toBeGreaterThan(100)
    expect((await db.get('_partition/none')).json).toMatchObject({ doc_count: 0, doc_del_count: 0 })
  })

  it('reports errors', async () => {
    const db = await partitioned()
    const plain = await client().database()
    const notOne = 'database is not partitioned'
    expectRefusal(await plain.get('_partition/a'), 400, 'bad_request', notOne)
    expectRefusal(await plain.get('_partition/a/_all_docs'), 400, 'bad_request', notOne)
    expectRefusal(await db.get('_partition'), 400, 'bad_request', 'invalid_partition_req')
    const underscore = 'Partition must not start with an underscore'
    expectRefusal(await db.get('_partition/_a'), 400, 'illegal_partition', underscore)
    expectRefusal(await db.get('_partition/_a/_all_docs'), 400, 'illegal_partition', underscore)
    const colon = 'Partition must not contain a colon'
    expectRefusal(await db.get('_partition/a:b/_all_docs'), 400, 'illegal_partition', colon)
    expectRefusal(await db.post('_partition/a', {}), 405, 'method_not_allowed', 'Only GET allowed')
    expectRefusal(await db.get('_partition/a/_changes'), 404, 'not_found', 'missing')
    expectRefusal(await db.get('_partition/a/doc'), 404, 'not_found', 'missing')
    const conflicting = 'Conflicting value for `partition` in query string'
    expectRefusal(await db.get('_partition/a/_all_docs?partition=b'), 400, 'bad_request', conflicting)
    expect((await db.get('_partition/a/_all_docs?partition=a')).status).toBe(200)
  })
})

/** Documents in several partitions, some of whose names begin with each other. */
const PARTITIONS = ['a', 'ab', 'b', 'a b', 'ä', 'z']
const IDS = PARTITIONS.flatMap((name) => Array.from({ length: name === 'a' ? 60 : 7 }, (_, i) => `${name}:${i}`))

/** Those that are compared with a database of their own. */
const COMPARED = ['a', 'ä']

const documentOf = (id: string) => {
  const i = Number(id.split(':')[1])
  return { _id: id, n: i % 5, tags: ['x', i % 3], text: `t${i % 4}` }
}

const VIEWS = {
  views: {
    n: { map: 'function (doc) { emit(doc.n, doc.n) }', reduce: '_sum' },
    tags: { map: 'function (doc) { emit(doc.tags.concat(doc.n), 1) }', reduce: '_count' },
    stats: { map: 'function (doc) { emit([doc.text, doc.n], doc.n) }', reduce: '_stats' },
    twice: { map: 'function (doc) { emit(null); emit(doc.text) }' },
  },
}

/** A partitioned database, and one for each partition that has its documents alone. */
async function sideBySide(): Promise<{ whole: TestDatabase; parts: Map<string, TestDatabase> }> {
  const whole = await partitioned()
  const parts = new Map<string, TestDatabase>()
  await whole.post('_bulk_docs', { docs: IDS.map(documentOf) })
  await whole.save('_design/v', VIEWS)
  for (const name of COMPARED) {
    const part = await client().database()
    await part.post('_bulk_docs', { docs: IDS.filter((id) => id.startsWith(`${name}:`)).map(documentOf) })
    await part.save('_design/v', VIEWS)
    parts.set(name, part)
  }
  return { whole, parts }
}

const RANGES = [
  '',
  'startkey=1',
  'endkey=3',
  'startkey=1&endkey=3&inclusive_end=false',
  'key=2',
  'keys=[4,1,9,1]',
  'startkey=["x"]&endkey=["x",1,{}]',
  'startkey="t1"&endkey="t3"',
]
const PAGES = ['', 'skip=2&limit=4', 'skip=1000', 'limit=0']
const DIRECTIONS = ['', 'descending=true']

describe('a view of a partition', () => {
  it('is that of a database which has the documents of the partition alone', async () => {
    const { whole, parts } = await sideBySide()
    const queries = RANGES.flatMap((range) =>
      PAGES.flatMap((page) => DIRECTIONS.map((direction) => [range, page, direction].filter(Boolean).join('&'))),
    )
    for (const [name, part] of parts) {
      for (const view of ['twice', 'tags']) {
        for (const query of queries) {
          const path = `_design/v/_view/${view}?${view === 'twice' ? '' : 'reduce=false&'}${query}`
          const got = await whole.get(`_partition/${encodeURIComponent(name)}/${path}`)
          expect([name, path, got.status]).toEqual([name, path, 200])
          expect([name, path, got.json]).toEqual([name, path, (await part.get(path)).json])
        }
      }
    }
  }, 60_000)

  it('is reduced and grouped the same', async () => {
    const { whole, parts } = await sideBySide()
    const groups = ['', 'group=true', 'group_level=1', 'group_level=2', 'group=true&skip=1&limit=2']
    for (const [name, part] of parts) {
      for (const view of ['n', 'tags', 'stats']) {
        for (const group of groups) {
          for (const range of ['', 'startkey=1', 'startkey=["x",1]', 'endkey=["t2"]', 'descending=true']) {
            const path = `_design/v/_view/${view}?${[group, range].filter(Boolean).join('&')}`
            const got = await whole.get(`_partition/${encodeURIComponent(name)}/${path}`)
            expect([name, path, got.status]).toEqual([name, path, 200])
            expect([name, path, got.json]).toEqual([name, path, (await part.get(path)).json])
          }
        }
      }
    }
  }, 60_000)

  it('follows changes and deletions', async () => {
    const db = await partitioned()
    await db.save('_design/v', VIEWS)
    const rev = await db.save('a:1', documentOf('a:1'))
    await db.save('b:1', documentOf('b:1'))
    const sum = async (name: string) =>
      (await db.get(`_partition/${name}/_design/v/_view/n`)).as<{ rows: { value: number }[] }>().rows[0]?.value
    expect([await sum('a'), await sum('b'), await sum('c')]).toEqual([1, 1, undefined])
    const next = await db.save('a:1', { ...documentOf('a:4'), _id: 'a:1', _rev: rev })
    expect([await sum('a'), await sum('b')]).toEqual([4, 1])
    await db.request('DELETE', `a:1?rev=${next}`)
    expect([await sum('a'), await sum('b')]).toEqual([undefined, 1])
  })

  it('is the same where it is built in many sorted runs', async () => {
    const settings = { view_building: { sort_memory: '20000' } }
    const db = await partitioned(new Client((await startService({ settings })).url))
    const names = ['a', 'b', 'c']
    const docs = Array.from({ length: 3000 }, (_, i) => ({ _id: `${names[i % 3]}:${i}`, n: i }))
    await db.post('_bulk_docs', { docs })
    await db.save('_design/v', { views: { n: { map: 'doc => emit(-doc.n, 1)', reduce: '_sum' } } })
    for (const [i, name] of names.entries()) {
      const view = `_partition/${name}/_design/v/_view/n`
      const rows = (await db.get(`${view}?reduce=false`)).as<{ rows: { key: number; id: string }[] }>().rows
      expect(rows.map(({ id }) => id)).toEqual(
        docs
          .filter((_, at) => at % 3 === i)
          .map(({ _id }) => _id)
          .reverse(),
      )
      expect((await db.get(view)).json).toEqual({ rows: [{ key: null, value: 1000 }] })
    }
  })

  it('is that of its own partition, however long the name is', async () => {
    const db = await partitioned()
    // Longer than what the store keeps in order.
    const names = ['a', 'b'].map((end) => 'x'.repeat(2500) + end)
    await db.post('_bulk_docs', {
      docs: names.flatMap((name) => Array.from({ length: 30 }, (_, i) => ({ _id: `${name}:${i}`, n: i }))),
    })
    await db.save('_design/v', VIEWS)
    for (const name of names) {
      const ids = Array.from({ length: 30 }, (_, i) => `${name}:${i}`)
      const view = `_partition/${name}/_design/v/_view/n`
      const rows = (await db.get(`${view}?reduce=false`)).as<{ total_rows: number; rows: { id: string }[] }>()
      expect([rows.total_rows, rows.rows.map(({ id }) => id)]).toEqual([30, ids])
      expect((await db.get(view)).json).toMatchObject({ rows: [{ value: 435 }] })
      const listed = (await db.get(`_partition/${name}/_all_docs`)).as<{ total_rows: number; rows: { id: string }[] }>()
      expect([listed.total_rows, listed.rows.map(({ id }) => id).sort()]).toEqual([30, ids.sort()])
    }
  })

  it('needs a partition, unless its design document is for all of them', async () => {
    const { whole } = await sideBySide()
    const needed = '`partition` parameter is mandatory for queries to this view.'
    expectRefusal(await whole.get('_design/v/_view/n'), 400, 'query_parse_error', needed)
    await whole.save('_design/g', { ...VIEWS, options: { partitioned: false } })
    const all = (await whole.get('_design/g/_view/twice')).as<{ total_rows: number }>()
    expect(all.total_rows).toBe(2 * IDS.length)
    const unsupported = '`partition` parameter is not supported in this design doc'
    const asked = await whole.get('_partition/a/_design/g/_view/twice')
    expectRefusal(asked, 400, 'query_parse_error', unsupported)
    const plain = await client().database()
    await plain.save('_design/v', VIEWS)
    const none = '`partition` parameter is not supported on this db'
    for (const path of ['_all_docs', '_design/v/_view/n']) {
      expectRefusal(await plain.get(`${path}?partition=a`), 400, 'query_parse_error', none)
    }
    const refused = await plain.put('_design/p', { options: { partitioned: true } })
    const reason = 'partitioned option cannot be true in a non-partitioned database.'
    expectRefusal(refused, 400, 'invalid_design_doc', reason)
  })

  it('is given to a list function', async () => {
    const db = await partitioned()
    const lines = 'function () { var row; while ((row = getRow())) send(row.id + " ") }'
    await db.save('_design/v', { ...VIEWS, lists: { lines } })
    for (const id of ['a:1', 'a:2', 'b:3']) await db.save(id, documentOf(id))
    const listed = await db.get('_partition/a/_design/v/_list/lines/n?reduce=false')
    expect([listed.status, listed.text]).toEqual([200, 'a:1 a:2 '])
    expect((await db.get('_partition/b/_design/v/_list/lines/_all_docs')).text).toBe('b:3 ')
    expect((await db.get('_partition/a/_design/v/_info')).json).toMatchObject({ name: 'v' })
  })

  it('accepts several queries at once, and include_docs', async () => {
    const { whole, parts } = await sideBySide()
    const queries = { queries: [{ key: 1, reduce: false }, { group: true }] }
    const got = await whole.post('_partition/a/_design/v/_view/n/queries', queries)
    expect(got.json).toEqual((await parts.get('a')!.post('_design/v/_view/n/queries', queries)).json)
    const withDocuments = await whole.get('_partition/ab/_design/v/_view/twice?include_docs=true&limit=1')
    expect(withDocuments.json).toMatchObject({ rows: [{ id: 'ab:0', doc: { _id: 'ab:0', n: 0 } }] })
  })

  it('returns at most the configured number of rows', async () => {
    const settings = { query_server_config: { partition_query_limit: '2' } }
    const other = new Client((await startService({ settings })).url)
    const db = await partitioned(other)
    await db.post('_bulk_docs', { docs: IDS.slice(0, 5).map(documentOf) })
    await db.save('_design/v', VIEWS)
    for (const path of ['_all_docs', '_design/v/_view/twice']) {
      expect((await db.get(`_partition/a/${path}`)).as<{ rows: unknown[] }>().rows).toHaveLength(2)
      const tooMany = await db.get(`_partition/a/${path}?limit=3`)
      expectRefusal(tooMany, 400, 'query_parse_error', 'Limit is too large, must not exceed 2')
    }
  })
})

describe('_all_docs of a partition', () => {
  it('lists only its own documents', async () => {
    const { whole, parts } = await sideBySide()
    for (const [name, part] of parts) {
      await part.request('DELETE', `_design/v?rev=${(await part.get('_design/v')).as<{ _rev: string }>()._rev}`)
      const bounds = ['', `startkey="${name}:2"`, `endkey="${name}:4"`, 'startkey="A"&endkey="zz"']
      for (const bound of bounds.map((each) => each.replaceAll(' ', '%20').replaceAll('ä', '%C3%A4'))) {
        for (const page of [...PAGES, 'include_docs=true&limit=2']) {
          const path = `_all_docs?${[bound, page].filter(Boolean).join('&')}`
          const got = await whole.get(`_partition/${encodeURIComponent(name)}/${path}`)
          expect([name, path, got.status]).toEqual([name, path, 200])
          expect([name, path, got.json]).toEqual([name, path, (await part.get(path)).json])
        }
      }
    }
  })

  it('is limited to the partition, whatever the body says', async () => {
    const { whole } = await sideBySide()
    const conflicting = { error: 'bad_request', reason: 'Conflicting values for `partition`' }
    for (const path of ['_all_docs', '_design/v/_view/n']) {
      for (const [place, of] of [
        ['_partition/a/', ''],
        ['', '?partition=a'],
      ]) {
        const single = await whole.post(`${place}${path}${of}`, { partition: 'b' })
        expect([path, place, single.status, single.json]).toEqual([path, place, 400, conflicting])
        const several = await whole.post(`${place}${path}/queries${of}`, { queries: [{}, { partition: 'b' }] })
        expect([path, place, several.status, several.json]).toEqual([path, place, 400, conflicting])
        const same = await whole.post(`${place}${path}/queries${of}`, { queries: [{ partition: 'a' }] })
        expect([path, place, same.status]).toEqual([path, place, 200])
      }
    }
  })

  it('finds keys of its own alone, also in the body and in several queries', async () => {
    const { whole } = await sideBySide()
    const keys = ['a:1', 'b:1', 'a:none']
    const expected = [
      { id: 'a:1', key: 'a:1', value: expect.anything() },
      { key: 'b:1', error: 'not_found' },
      { key: 'a:none', error: 'not_found' },
    ]
    expect((await whole.post('_partition/a/_all_docs', { keys })).json).toMatchObject({ rows: expected })
    const several = await whole.post('_partition/a/_all_docs/queries', { queries: [{ keys }, { limit: 1 }] })
    expect(several.json).toMatchObject({ results: [{ rows: expected }, { rows: [{ id: 'a:0' }], total_rows: 60 }] })
  })
})

interface Found {
  docs: { _id: string }[]
  bookmark: string
  warning?: string
  execution_stats: { total_keys_examined: number }
}

describe('selectors within a partition', () => {
  const ids = ({ docs }: Found) => docs.map(({ _id }) => _id)

  it('find its documents alone, with and without an index', async () => {
    const { whole, parts } = await sideBySide()
    const selectors = [{ n: 2 }, { n: { $gt: 1, $lte: 3 } }, { text: 't1', n: { $gte: 0 } }, { _id: { $gt: 'a:3' } }]
    const compare = async () => {
      for (const [name, part] of parts) {
        for (const selector of selectors) {
          const body = { selector, limit: 100 }
          const got = (await whole.post(`_partition/${encodeURIComponent(name)}/_find`, body)).as<Found>()
          const expected = (await part.post('_find', body)).as<Found>()
          expect([name, selector, ids(got).sort()]).toEqual([name, selector, ids(expected).sort()])
        }
      }
    }
    await compare()
    for (const db of [whole, ...parts.values()]) {
      await db.post('_index', { index: { fields: ['n'] } })
      await db.post('_index', { index: { fields: ['text', 'n'] } })
    }
    await compare()
  }, 60_000)

  it('read the rows of their partition alone, page by page, in the order of an index', async () => {
    const { whole } = await sideBySide()
    const made = await whole.post('_index', { index: { fields: ['n'] }, ddoc: 'by-n', name: 'n' })
    expect(made.json).toMatchObject({ result: 'created' })
    expect((await whole.get('_design/by-n')).json).toMatchObject({ options: { partitioned: true } })
    const listed = (await whole.get('_index')).as<{ indexes: { name: string; partitioned?: boolean }[] }>().indexes
    expect(listed.find(({ name }) => name === 'n')).toMatchObject({ partitioned: true })
    const query = { selector: { n: { $gte: 0 } }, sort: ['n'], limit: 25, execution_stats: true }
    const all: string[] = []
    let bookmark: string | undefined
    for (;;) {
      const page = (await whole.post('_partition/a/_find', { ...query, bookmark })).as<Found>()
      expect(page.execution_stats.total_keys_examined).toBeLessThanOrEqual(25)
      if (page.docs.length === 0) break
      all.push(...ids(page))
      bookmark = page.bookmark
    }
    const sorted = IDS.filter((id) => id.startsWith('a:')).sort((a, b) => {
      return documentOf(a).n - documentOf(b).n || (a < b ? -1 : 1)
    })
    expect(all).toEqual(sorted)
    const counted = await whole.post('_partition/ab/_find', { selector: { n: { $gt: 2 } }, count: true })
    expect(counted.json).toMatchObject({ count: 2 })
  })

  it('are distinguished from those of the whole database', async () => {
    const { whole } = await sideBySide()
    await whole.post('_index', { index: { fields: ['n'] }, ddoc: 'by-n', name: 'local' })
    const explained = async (path: string) =>
      (await whole.post(path, { selector: { n: 1 } })).as<{
        index: { name: string }
        partitioned: boolean
        index_candidates: { index: { name: string }; analysis: { reasons: { name: string }[] } }[]
      }>()
    const within = await explained('_partition/a/_explain')
    expect([within.index.name, within.partitioned]).toEqual(['local', true])
    const global = await explained('_explain')
    expect([global.index.name, global.partitioned]).toEqual(['_all_docs', false])
    expect(JSON.stringify(global.index_candidates)).toContain('scope_mismatch')
    const made = await whole.post('_index', { index: { fields: ['n'] }, ddoc: 'global', name: 'g', partitioned: false })
    expect(made.json).toMatchObject({ result: 'created' })
    expect((await explained('_explain')).index.name).toBe('g')
    const found = (await whole.post('_find', { selector: { n: 1 }, limit: 1000 })).as<Found>()
    expect(found.docs).toHaveLength(IDS.filter((id) => documentOf(id).n === 1).length)
    const mismatch = await whole.post('_index', { index: { fields: ['text'] }, ddoc: 'global' })
    const reason = 'Requested partitioned option does not match existing value on design document'
    expectRefusal(mismatch, 400, 'partitioned_option_mismatch', reason)
    const groups = await whole.post('_partition/ab/_find', {
      selector: { n: { $gte: 0 } },
      reduce: '_count',
      group: ['n'],
    })
    expect(groups.json).toMatchObject({ groups: [{ key: [0], value: 2 }, { key: [1], value: 2 }, {}, {}, {}] })
  })
})

describe('the cost of a partition query', () => {
  it('depends on its own rows, not on those of the database', async () => {
    const db = await partitioned()
    const docs = Array.from({ length: 3000 }, (_, i) => ({ _id: `big:${i}`, n: i }))
    await db.post('_bulk_docs', { docs: [...docs, { _id: 'small:1', n: 1 }] })
    await db.post('_index', { index: { fields: ['n'] } })
    const body = { selector: { n: { $gte: 0 } }, execution_stats: true }
    const found = (await db.post('_partition/small/_find', body)).as<Found>()
    expect([found.docs.length, found.execution_stats.total_keys_examined]).toEqual([1, 1])
    const scanned = (
      await db.post('_partition/small/_find', { ...body, selector: { m: { $exists: false } } })
    ).as<Found>()
    expect(scanned.docs).toHaveLength(1)
    await until(async () => (await db.get('_partition/small')).as<{ doc_count: number }>().doc_count === 1)
  })
})
