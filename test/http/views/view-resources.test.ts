/** The addresses of views and their indexes: methods, what is missing, who may, and the form of replies. */
import { describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { HAS_SEVERAL_SERVERS } from '../../support/test-service.ts'
import { until } from '../../support/until.ts'
import { answerOf, fill, idsOf, keysOf, putViews, query, valuesOf } from '../../support/views.ts'

const client = serverOfFile()

const JSON_TYPE = { 'Content-Type': 'application/json' }
const BY_NUMBER = 'function (doc) { emit(doc.number, doc.number) }'

async function threeDocuments(): Promise<TestDatabase> {
  const db = await client().database()
  await fill(
    db,
    [1, 2, 3].map((number) => ({ _id: `d${number}`, number })),
  )
  await putViews(db, { map: { map: BY_NUMBER }, sum: { map: BY_NUMBER, reduce: '_sum' } })
  return db
}

describe('the address of a view', () => {
  it('answers 404 without database, design document or view', async () => {
    const db = await threeDocuments()
    const missing = await client().request('GET', '/nosuch/_design/d/_view/map')
    expectRefusal(missing, 404, 'not_found', 'no_db_file')
    expectRefusal(await db.get('_design/none/_view/map'), 404, 'not_found', 'missing')
    for (const path of ['nosuch', '', 'map/more', 'map/more/more']) {
      expectRefusal(await db.get(`_design/d/_view/${path}`), 404, 'not_found', 'missing_named_view')
    }
    expectRefusal(await db.get('_design/d/_view'), 404, 'not_found', 'missing_named_view')
    expectRefusal(await db.post('_design/d/_view/nosuch', {}), 404, 'not_found', 'missing_named_view')
    const { _rev } = (await db.get('_design/d')).as<{ _rev: string }>()
    await db.remove('_design/d', _rev)
    expectRefusal(await db.get('_design/d/_view/map'), 404, 'not_found', 'deleted')
  })

  it('answers 404 for a member that is not a view', async () => {
    const db = await client().database()
    const views = { a: { map: 5 }, b: 'x', c: {}, lib: { m: 'exports.x = 1' }, good: { map: BY_NUMBER } }
    await db.save('_design/d', { views })
    for (const name of ['a', 'b', 'c', 'lib', 'constructor', '__proto__']) {
      expectRefusal(await db.get(`_design/d/_view/${name}`), 404, 'not_found', 'missing_named_view')
    }
    expect((await query(db, 'good')).rows).toEqual([])
    for (const broken of [5, 'x', null, []]) {
      const name = `broken-${JSON.stringify(broken).length}`
      await db.put(`_design/${name}`, { views: broken })
      expectRefusal(await db.get(`_design/${name}/_view/a`), 404, 'not_found', 'missing_named_view')
    }
  })

  it('allows GET, POST and HEAD', async () => {
    const db = await threeDocuments()
    for (const method of ['PUT', 'DELETE', 'COPY']) {
      const reply = await db.request(method, '_design/d/_view/map')
      expectRefusal(reply, 405, 'method_not_allowed', 'Only GET,POST,HEAD allowed')
      expect(reply.headers.allow).toBe('GET,POST,HEAD')
    }
    const head = await db.head('_design/d/_view/map')
    const get = await db.get('_design/d/_view/map')
    expect([head.status, head.text, head.headers.etag]).toEqual([200, '', get.headers.etag])
    expect(head.headers['content-length']).toBeUndefined()
  })

  it('may have the slash of the design document escaped', async () => {
    const db = await threeDocuments()
    expect((await query(db, 'map')).total_rows).toBe(3)
    expect(keysOf(answerOf(await db.get('_design%2Fd/_view/map')))).toEqual([1, 2, 3])
    expect(keysOf(answerOf(await db.post('_design%2fd/_view/map', { keys: [2] })))).toEqual([2])
    expect((await db.get('_design%2Fd/_info')).status).toBe(200)
  })

  it('may have names that must be escaped', async () => {
    const db = await client().database()
    await fill(db, [{ number: 1 }])
    await db.save('_design/a%2Fb%20%C3%A9', { views: { 'x/y ü%': { map: BY_NUMBER } } })
    expect(keysOf(answerOf(await db.get('_design/a%2Fb%20%C3%A9/_view/x%2Fy%20%C3%BC%25')))).toEqual([1])
  })

  it('answers in the form that all answers with rows have', async () => {
    const db = await threeDocuments()
    const reply = await db.get('_design/d/_view/map?limit=2&update_seq=true')
    expect(reply.text).toBe(
      '{"total_rows":3,"offset":0,"update_seq":4,"rows":[\r\n' +
        '{"id":"d1","key":1,"value":1},\r\n{"id":"d2","key":2,"value":2}\r\n]}\n',
    )
    expect(reply.headers).toMatchObject({
      'content-type': 'text/plain;charset=utf-8',
      'cache-control': 'must-revalidate',
      'transfer-encoding': 'chunked',
    })
    const asJson = await db.get('_design/d/_view/map', { Accept: 'application/json' })
    expect(asJson.headers['content-type']).toBe('application/json')
    expect((await db.get('_design/d/_view/map?limit=0')).text).toBe('{"total_rows":3,"offset":0,"rows":[\r\n\r\n]}\n')
  })

  it('returns the sequence of the last change of its rows', async () => {
    const db = await threeDocuments()
    expect((await query(db, 'map', 'update_seq=true')).update_seq).toBe(4)
    await db.save('_local/x', {})
    await db.save('_design/other', {})
    expect((await query(db, 'map', 'update_seq=true')).update_seq).toBe(4)
    await db.save('d4', { number: 4 })
    expect((await query(db, 'map', 'update_seq=true&stale=ok')).update_seq).toBe(4)
    expect((await query(db, 'map', 'update_seq=true&keys=[]')).update_seq).toBe(6)
  })

  it('reports the error of a function', async () => {
    const db = await client().database()
    await fill(db, [{ number: 1 }])
    await db.save('_design/d', { views: { bad: { map: 'function (doc) {' }, good: { map: BY_NUMBER } } })
    for (const name of ['bad', 'good']) {
      const reply = await db.get(`_design/d/_view/${name}`)
      expect([reply.status, reply.as<{ error: string }>().error]).toEqual([500, 'compilation_error'])
    }
    await db.save('_design/e', { language: 'klingon', views: { v: { map: 'x' } } })
    expectRefusal(await db.get('_design/e/_view/v'), 500, 'unknown_query_language', 'klingon')
  })

  it.each([
    ['function (keys) {', 500, 'compilation_error'],
    ['', 404, 'not_found'],
    ['_unknown', 500, 'invalid_value'],
    ['function () { throw ["fatal", "own_error", "why"] }', 500, 'own_error'],
  ])('fails with the reduce function of its map function, %j, and with no other', async (reduce, status, error) => {
    const db = await client().database()
    await fill(db, [{ number: 1 }, { number: 2 }])
    const other = `${BY_NUMBER} // another one`
    const views = { bad: { map: BY_NUMBER, reduce }, same: { map: BY_NUMBER }, good: { map: other, reduce: '_sum' } }
    await db.save('_design/bad', { views })
    for (let round = 0; round < 2; round++) {
      for (const path of ['bad', 'bad?reduce=false', 'same']) {
        const reply = await db.get(`_design/bad/_view/${path}`)
        expect([reply.status, reply.as<{ error: string }>().error]).toEqual([status, error])
      }
      const reply = await db.get('_design/bad/_view/good')
      expect(valuesOf(answerOf(reply))).toEqual([3 + 3 * round])
      await fill(db, [{ _id: `more ${round}`, number: 3 }])
      expect((await db.post('_view_cleanup', {})).status).toBe(202)
    }
  })

  // Each of several servers counts its own requests.
  it.skipIf(HAS_SEVERAL_SERVERS)('is counted', async () => {
    const db = await threeDocuments()
    const count = async (name: string) => {
      const reply = await client().request('GET', `/_stats/httpd/${name}?flush=true`)
      return reply.as<{ httpd: Record<string, { current: number }> }>().httpd[name]?.current ?? 0
    }
    const [views, temporary] = [await count('view_reads'), await count('temporary_view_reads')]
    await query(db, 'map')
    await db.post('_design/d/_view/map', { keys: [1] })
    await db.post('_temp_view', { map: BY_NUMBER })
    expect([await count('view_reads'), await count('temporary_view_reads')]).toEqual([views + 2, temporary + 1])
  })
})

describe('freshness', () => {
  it('is that of the database unless stale rows are allowed', async () => {
    const db = await threeDocuments()
    expect(await query(db, 'map', 'stale=ok')).toEqual({ total_rows: 0, offset: 0, rows: [] })
    expect(await query(db, 'sum', 'stale=ok')).toEqual({ rows: [] })
    expect((await query(db, 'map', 'stale=update_after')).rows).toEqual([])
    await until(async () => (await query(db, 'map', 'stale=ok')).total_rows === 3)
    await db.save('d4', { number: 4 })
    expect(valuesOf(await query(db, 'sum', 'update=false'))).toEqual([6])
    expect(valuesOf(await query(db, 'sum', 'update=lazy'))).toEqual([6])
    expect(valuesOf(await query(db, 'sum'))).toEqual([10])
  })

  it('follows edits and deletions', async () => {
    const db = await threeDocuments()
    expect(keysOf(await query(db, 'map'))).toEqual([1, 2, 3])
    const { _rev } = (await db.get('d2')).as<{ _rev: string }>()
    const edited = await db.save('d2', { _rev, number: 20 })
    expect(keysOf(await query(db, 'map'))).toEqual([1, 3, 20])
    await db.remove('d2', edited)
    expect(keysOf(await query(db, 'map'))).toEqual([1, 3])
    expect(valuesOf(await query(db, 'sum'))).toEqual([4])
  })
})

describe('several queries at once', () => {
  it('are answered in their order', async () => {
    const db = await threeDocuments()
    const body = { queries: [{ keys: [2] }, { limit: 1, descending: true }, { startkey: 2, skip: 1 }] }
    const reply = await db.post('_design/d/_view/map/queries', body)
    expect(reply.status, reply.text).toBe(200)
    const { results } = reply.as<{ results: { total_rows: number; rows: { key: number }[] }[] }>()
    expect(results.map(({ rows }) => rows.map(({ key }) => key))).toEqual([[2], [3], [3]])
    expect(results.map(({ total_rows }) => total_rows)).toEqual([3, 3, 3])
    expect((await db.post('_design/d/_view/sum/queries', { queries: [{}, { group: true }] })).json).toEqual({
      results: [
        { rows: [{ key: null, value: 6 }] },
        { rows: [1, 2, 3].map((number) => ({ key: number, value: number })) },
      ],
    })
    expect((await db.post('_design/d/_view/map/queries', { queries: [] })).json).toEqual({ results: [] })
  })

  it('of all documents too', async () => {
    const db = await threeDocuments()
    const reply = await db.post('_all_docs/queries?limit=1', {
      queries: [{ startkey: 'd2' }, { keys: ['d1', 'd9'], limit: 5 }],
    })
    expect(reply.json).toMatchObject({
      results: [
        { total_rows: 4, rows: [{ id: 'd2' }] },
        { total_rows: 4, rows: [{ id: 'd1' }, { key: 'd9', error: 'not_found' }] },
      ],
    })
    expectRefusal(await db.post('_all_docs/other', {}), 404, 'not_found', 'missing')
  })

  it.each(['_design/d/_view/map/queries', '_all_docs/queries'])(
    'are refused by %s where they are none',
    async (path) => {
      const db = await threeDocuments()
      const none = await db.post(path, {})
      expectRefusal(none, 400, 'bad_request', 'POST body must include `queries` parameter.')
      const wrong = await db.post(path, { queries: 5 })
      expectRefusal(wrong, 400, 'bad_request', '`queries` member must be an array.')
      const entry = await db.post(path, { queries: [{}, 5] })
      expectRefusal(entry, 400, 'bad_request', 'Request body must be a JSON object')
      const faulty = await db.post(path, { queries: [{}, { limit: -1 }] })
      expectRefusal(faulty, 400, 'query_parse_error', 'Invalid value for positive integer: -1')
      expectRefusal(await db.get(path), 405, 'method_not_allowed', 'Only POST allowed')
    },
  )
})

describe('a temporary view', () => {
  it('has its functions in the request', async () => {
    const db = await threeDocuments()
    const reply = await db.post('_temp_view', { map: BY_NUMBER })
    expect(answerOf(reply)).toMatchObject({
      total_rows: 3,
      offset: 0,
      rows: [{ id: 'd1' }, { id: 'd2' }, { id: 'd3' }],
    })
    expect(answerOf(await db.post('_temp_view', { map: BY_NUMBER, reduce: '_sum' }))).toEqual({
      rows: [{ key: null, value: 6 }],
    })
    const reduce = 'function (keys, values) { return values.length }'
    const counted = await db.post('_temp_view?group=true&limit=1', { map: 'function () { emit("x") }', reduce })
    expect(answerOf(counted).rows).toEqual([{ key: 'x', value: 3 }])
  })

  it('takes keys, parameters and options', async () => {
    const db = await threeDocuments()
    const keys = await db.post('_temp_view?include_docs=true', { map: BY_NUMBER, keys: [3, 1] })
    expect(answerOf(keys).rows).toMatchObject([{ doc: { _id: 'd3' } }, { doc: { _id: 'd1' } }])
    const map = 'function (doc) { emit(doc._id) }'
    const designs = await db.post('_temp_view', { map, options: { include_design: true, limit: 1 } })
    expect(idsOf(answerOf(designs))).toEqual(['_design/d'])
    const refused = await db.post('_temp_view?group=true', { map })
    expectRefusal(refused, 400, 'query_parse_error', 'Invalid use of grouping on a map view.')
  })

  it('sees every change', async () => {
    const db = await threeDocuments()
    expect(answerOf(await db.post('_temp_view', { map: BY_NUMBER })).total_rows).toBe(3)
    await db.save('d4', { number: 4 })
    expect(answerOf(await db.post('_temp_view', { map: BY_NUMBER })).total_rows).toBe(4)
    expect((await db.info()).doc_count).toBe(5)
  })

  it('is refused without a map function, as another type, and by other methods', async () => {
    const db = await threeDocuments()
    for (const body of [{}, { map: 5 }, { reduce: '_sum' }]) {
      expectRefusal(await db.post('_temp_view', body), 404, 'not_found', 'missing_named_view')
    }
    const typed = await db.post('_temp_view', { map: BY_NUMBER }, { 'Content-Type': 'text/plain' })
    expectRefusal(typed, 415, 'bad_content_type', 'Content-Type must be application/json')
    const parameter = await db.post(
      '_temp_view',
      { map: BY_NUMBER },
      { 'Content-Type': 'application/json;charset=utf-8' },
    )
    expect(parameter.status).toBe(200)
    expectRefusal(await db.get('_temp_view'), 405, 'method_not_allowed', 'Only POST allowed')
    expectRefusal(await db.post('_temp_view', '{'), 400, 'bad_request', 'invalid_json')
    expectRefusal(await db.post('_temp_view', '[]'), 400, 'bad_request', 'Request body must be a JSON object')
  })
})

interface IndexInformation {
  name: string
  view_index: Record<string, unknown>
}

describe('the index of a design document', () => {
  it('returns its information without an update', async () => {
    const db = await threeDocuments()
    const info = async () => (await db.get('_design/d/_info')).as<IndexInformation>()
    const empty = await info()
    expect(empty.name).toBe('d')
    expect(empty.view_index).toEqual({
      compact_running: false,
      data_size: expect.any(Number),
      disk_size: expect.any(Number),
      language: 'javascript',
      purge_seq: 0,
      signature: expect.stringMatching(/^[0-9a-f]{32}$/),
      update_seq: 0,
      updater_running: false,
      waiting_clients: 0,
      waiting_commit: false,
      sizes: { file: expect.any(Number), external: expect.any(Number), active: expect.any(Number) },
      updates_pending: { minimum: 4, preferred: 4, total: 4 },
    })
    await query(db, 'map')
    await until(async () => (await info()).view_index.updater_running === false)
    const built = (await info()).view_index
    expect(built).toMatchObject({ update_seq: 4, signature: empty.view_index.signature })
    const { disk_size: file, data_size: active } = built
    expect(built).toMatchObject({ sizes: { file, active }, updates_pending: { minimum: 0, preferred: 0, total: 0 } })
    expect((await info()).view_index).toEqual(built)
    expectRefusal(await db.get('_design/none/_info'), 404, 'not_found', 'missing')
    expectRefusal(await db.post('_design/d/_info', {}), 405, 'method_not_allowed', 'Only GET allowed')
  })

  it('is compacted, by either URL', async () => {
    const db = await threeDocuments()
    await query(db, 'map')
    for (const path of ['_compact/d', '_design/d/_compact']) {
      const reply = await db.request('POST', path, { headers: JSON_TYPE })
      expect([reply.status, reply.text]).toEqual([202, '{"ok":true}\n'])
      const typed = await db.request('POST', path, { headers: { 'Content-Type': 'text/plain' } })
      expectRefusal(typed, 415, 'bad_content_type', 'Content-Type must be application/json')
      expectRefusal(await db.get(path), 405, 'method_not_allowed', 'Only POST allowed')
    }
    for (const path of ['_compact/none', '_design/none/_compact']) {
      expectRefusal(await db.request('POST', path, { headers: JSON_TYPE }), 404, 'not_found', 'missing')
    }
    expect(keysOf(await query(db, 'map'))).toEqual([1, 2, 3])
  })

  it('is removed by a cleanup when no design document has it any more', async () => {
    const db = await threeDocuments()
    await query(db, 'map')
    const { _rev } = (await db.get('_design/d')).as<{ _rev: string }>()
    await db.save('_design/d', { _rev, views: { map: { map: 'function (doc) { emit(-doc.number) }' } } })
    expect(keysOf(await query(db, 'map'))).toEqual([-3, -2, -1])
    const reply = await db.request('POST', '_view_cleanup', { headers: JSON_TYPE })
    expect([reply.status, reply.text]).toEqual([202, '{"ok":true}\n'])
    expect(keysOf(await query(db, 'map', 'stale=ok'))).toEqual([-3, -2, -1])
    const typed = await db.request('POST', '_view_cleanup', { headers: { 'Content-Type': 'text/plain' } })
    expectRefusal(typed, 415, 'bad_content_type', 'Content-Type must be application/json')
    expectRefusal(await db.get('_view_cleanup'), 405, 'method_not_allowed', 'Only POST allowed')
  })
})
