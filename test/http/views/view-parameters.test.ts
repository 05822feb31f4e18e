/** The parameters of view queries: how they are read, which of them go together, and where defaults come from. */
import { beforeAll, describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { answerOf, fill, idsOf, json, keysOf, putViews, query, valuesOf } from '../../support/views.ts'

const client = serverOfFile()

const BY_NUMBER = 'function (doc) { emit(doc.number, doc.number) }'

/** Ten documents, a view without a reduce function and one with. */
async function tenDocuments(options?: Record<string, unknown>): Promise<TestDatabase> {
  const db = await client().database()
  await fill(
    db,
    Array.from({ length: 10 }, (_, number) => ({ _id: `doc-${number}`, number })),
  )
  await putViews(db, { map: { map: BY_NUMBER }, sum: { map: BY_NUMBER, reduce: '_sum' } }, options && { options })
  return db
}

describe('parameters of a view query', () => {
  let db: TestDatabase

  beforeAll(async () => {
    db = await tenDocuments()
  })

  it.each(['key', 'keys', 'startkey', 'start_key', 'endkey', 'end_key'])('%s must be JSON', async (name) => {
    for (const text of ['', '{', 'a', "'a'"]) {
      const reply = await db.get(`_design/d/_view/map?${name}=${encodeURIComponent(text)}`)
      expectRefusal(reply, 400, 'bad_request', 'invalid_json')
    }
  })

  it.each([
    'descending',
    'group',
    'reduce',
    'inclusive_end',
    'include_docs',
    'attachments',
    'att_encoding_info',
    'update_seq',
    'conflicts',
  ])('%s must be true or false', async (name) => {
    for (const text of ['', 'yes', '1', '"true"']) {
      const reply = await db.get(`_design/d/_view/map?${name}=${encodeURIComponent(text)}`)
      expectRefusal(reply, 400, 'query_parse_error', `Invalid boolean parameter: ${JSON.stringify(text)}`)
    }
  })

  it('takes true and false in any case', async () => {
    expect(idsOf(await query(db, 'map', 'descending=TRUE&limit=1'))).toEqual(['doc-9'])
    expect(idsOf(await query(db, 'map', 'descending=False&limit=1'))).toEqual(['doc-0'])
  })

  it('takes the largest integer of a client as no limit', async () => {
    const largest = '9223372036854775807'
    expect(keysOf(await query(db, 'map', `limit=${largest}&startkey=8`))).toEqual([8, 9])
    expect(await query(db, 'map', `skip=${largest}`)).toMatchObject({ offset: 10, rows: [] })
    expect(keysOf(await query(db, 'sum', `group_level=${largest}&startkey=8`))).toEqual([8, 9])
    const reply = await db.post('_design/d/_view/map', `{"startkey":8,"limit":${largest}}`)
    expect(keysOf(answerOf(reply))).toEqual([8, 9])
  })

  it.each(['limit', 'skip', 'group_level'])('%s must be a whole number that is not negative', async (name) => {
    for (const text of ['', 'x', '1.5', '"1"', '1e3']) {
      const reply = await db.get(`_design/d/_view/map?${name}=${encodeURIComponent(text)}`)
      expectRefusal(reply, 400, 'query_parse_error', `Invalid value for integer: ${JSON.stringify(text)}`)
    }
    const reply = await db.get(`_design/d/_view/map?${name}=-1`)
    expectRefusal(reply, 400, 'query_parse_error', 'Invalid value for positive integer: "-1"')
  })

  it('stale, update and stable have their values', async () => {
    for (const name of ['stale', 'update', 'stable']) {
      const reply = await db.get(`_design/d/_view/map?${name}=maybe`)
      expectRefusal(reply, 400, 'query_parse_error', `Invalid value for \`${name}\`.`)
    }
    for (const parameter of ['stale=ok', 'stale=update_after', 'update=true', 'update=false', 'update=lazy']) {
      expect((await db.get(`_design/d/_view/map?${parameter}`)).status).toBe(200)
    }
    for (const word of ['true', 'false']) expect((await db.get(`_design/d/_view/map?stable=${word}`)).status).toBe(200)
  })

  it('count and partition are refused', async () => {
    const count = await db.get('_design/d/_view/map?count=5')
    expectRefusal(count, 400, 'query_parse_error', 'QS param `count` is not `limit`')
    const partition = await db.get('_design/d/_view/map?partition=x')
    expectRefusal(partition, 400, 'query_parse_error', '`partition` parameter is not supported on this db')
  })

  it('unknown parameters are ignored, and so is one without a name', async () => {
    const plain = await db.get('_design/d/_view/map')
    const reply = await db.get('_design/d/_view/map?nonsense=1&=2&list=x&sorted=false&_=17')
    expect([reply.text, reply.headers.etag]).toEqual([plain.text, plain.headers.etag])
  })

  it('are read from left to right, and the last one applies', async () => {
    expect(keysOf(await query(db, 'map', 'limit=5&limit=2'))).toEqual([0, 1])
    expect(keysOf(await query(db, 'map', 'key=3&startkey=1'))).toEqual([1, 2, 3])
    expect(keysOf(await query(db, 'map', 'startkey=1&key=3'))).toEqual([3])
    expect(keysOf(await query(db, 'map', 'start_key=1&startkey=7&end_key=8'))).toEqual([7, 8])
    expect(await query(db, 'sum', 'group=true&group_level=0')).toEqual({ rows: [{ key: null, value: 45 }] })
    expect(keysOf(await query(db, 'sum', 'group_level=0&group=true&limit=2'))).toEqual([0, 1])
  })

  it('the first invalid one is reported', async () => {
    const reply = await db.get('_design/d/_view/map?limit=x&key=%7B')
    expectRefusal(reply, 400, 'query_parse_error', 'Invalid value for integer: "x"')
    const other = await db.get('_design/d/_view/nosuch?key=%7B')
    expectRefusal(other, 400, 'bad_request', 'invalid_json')
  })

  it('ids are plain strings', async () => {
    expect(idsOf(await query(db, 'map', 'startkey=4&startkey_docid=doc-5&limit=1'))).toEqual(['doc-5'])
    expect(idsOf(await query(db, 'map', 'startkey=4&start_key_doc_id=%22doc-5%22&limit=1'))).toEqual(['doc-4'])
  })

  it('the nesting of a key is limited', async () => {
    const deep = `${'['.repeat(1_001)}${']'.repeat(1_001)}`
    const reply = await db.get(`_design/d/_view/map?key=${deep}`)
    expectRefusal(reply, 400, 'query_parse_error', 'A key is nested deeper than 1000 levels.')
  })
})

describe('combinations', () => {
  let db: TestDatabase

  beforeAll(async () => {
    db = await tenDocuments()
  })

  it.each([
    ['map', 'reduce=true', 'Reduce is invalid for map-only views.'],
    ['sum', 'keys=[1]', 'Multi-key fetchs for reduce views must use `group=true`'],
    ['sum', 'keys=[]', 'Multi-key fetchs for reduce views must use `group=true`'],
    ['sum', 'keys=[1]&group_level=2', 'Multi-key fetchs for reduce views must use `group=true`'],
    ['sum', 'keys=1', 'Multi-key fetchs for reduce views must use `group=true`'],
    ['map', 'keys=1', '`keys` must be an array of strings.'],
    ['map', 'keys={}&key=1', '`keys` must be an array of strings.'],
    ['map', 'keys=[1]&key=1', '`keys` is incompatible with `key`, `start_key` and `end_key`'],
    ['map', 'keys=[1]&startkey=null', '`keys` is incompatible with `key`, `start_key` and `end_key`'],
    ['map', 'keys=[1]&endkey=1&group=true', '`keys` is incompatible with `key`, `start_key` and `end_key`'],
    ['map', 'group=true', 'Invalid use of grouping on a map view.'],
    ['map', 'group_level=1&reduce=false', 'Invalid use of grouping on a map view.'],
    ['sum', 'group_level=1&reduce=false', 'Invalid use of grouping on a map view.'],
    ['sum', 'include_docs=true', '`include_docs` is invalid for reduce'],
    ['sum', 'include_docs=true&conflicts=true', '`include_docs` is invalid for reduce'],
    ['sum', 'conflicts=true', '`conflicts` is invalid for reduce views.'],
    ['sum', 'conflicts=false', '`conflicts` is invalid for reduce views.'],
  ])('%s?%s is refused', async (view, parameters, reason) => {
    expectRefusal(await db.get(`_design/d/_view/${view}?${parameters}`), 400, 'query_parse_error', reason)
  })

  it.each([
    ['map', 'reduce=false'],
    ['map', 'group=false'],
    ['map', 'group_level=0'],
    ['map', 'keys=[]&key=1'],
    ['map', 'attachments=true&att_encoding_info=true&conflicts=true'],
    ['sum', 'include_docs=false'],
    ['sum', 'keys=[1]&group=true'],
    ['sum', 'keys=[1]&reduce=false'],
    ['sum', 'include_docs=true&reduce=false&conflicts=true'],
  ])('%s?%s is allowed', async (view, parameters) => {
    answerOf(await db.get(`_design/d/_view/${view}?${parameters}`))
  })
})

describe('the body of a POST', () => {
  let db: TestDatabase

  beforeAll(async () => {
    db = await tenDocuments()
  })

  it.each(['[]', '"keys"', '5', 'null'])('must not be %s', async (body) => {
    const reply = await db.post('_design/d/_view/map', body)
    expectRefusal(reply, 400, 'bad_request', 'Request body must be a JSON object')
  })

  it.each(['', '{', '{"keys":[}', 'keys'])('must be JSON, which %j is not', async (body) => {
    expectRefusal(await db.post('_design/d/_view/map', body), 400, 'bad_request', 'invalid_json')
  })

  it('must have an array of keys', async () => {
    for (const keys of ['a', 5, {}, null]) {
      const reply = await db.post('_design/d/_view/map', { keys })
      expectRefusal(reply, 400, 'bad_request', '`keys` member must be a array.')
    }
  })

  it('may have any Content-Type, and without keys it is like GET', async () => {
    const reply = await db.post('_design/d/_view/map?limit=1', {}, { 'Content-Type': 'text/plain' })
    expect(idsOf(answerOf(reply))).toEqual(['doc-0'])
  })

  it('fetches keys, which those of the query string replace', async () => {
    expect(keysOf(answerOf(await db.post('_design/d/_view/map', { keys: [5, 2, 5] })))).toEqual([5, 2, 5])
    const replaced = await db.post(`_design/d/_view/map?keys=${json([1])}`, { keys: [5, 2] })
    expect(keysOf(answerOf(replaced))).toEqual([1])
  })

  it('may have other parameters, which the query string overrides', async () => {
    const body = { startkey: 3, limit: 2, descending: false, update_seq: true, unknown: 1 }
    expect(answerOf(await db.post('_design/d/_view/map', body))).toMatchObject({
      offset: 3,
      rows: [{ key: 3 }, { key: 4 }],
    })
    expect(keysOf(answerOf(await db.post('_design/d/_view/map?limit=1', body)))).toEqual([3])
    const reply = await db.post('_design/d/_view/map', { limit: 'x' })
    expectRefusal(reply, 400, 'query_parse_error', 'Invalid value for integer: "x"')
  })
})

describe('options of the design document', () => {
  it('are defaults of queries', async () => {
    const db = await tenDocuments({ startkey: 2, endkey: 8, limit: 3, descending: false, startkey_docid: 'doc-2' })
    expect(keysOf(await query(db, 'map'))).toEqual([2, 3, 4])
    expect(keysOf(await query(db, 'map', 'limit=100&endkey=5'))).toEqual([2, 3, 4, 5])
    expect(keysOf(answerOf(await db.post('_design/d/_view/map', { limit: 1 })))).toEqual([2])
  })

  it('that would make a request fail are dropped', async () => {
    const db = await tenDocuments({ include_docs: true, conflicts: true, group: true, startkey: 2, reduce: true })
    expect(valuesOf(await query(db, 'sum', 'group=false'))).toEqual([44])
    expect(keysOf(await query(db, 'sum', 'limit=2'))).toEqual([2, 3])
    const { rows } = await query(db, 'map', 'limit=1')
    expect(rows).toMatchObject([{ key: 2, doc: { _id: 'doc-2' } }])
    expect(keysOf(answerOf(await db.post('_design/d/_view/map', { keys: [9, 1] })))).toEqual([9, 1])
  })

  it('may be what lets a request pass', async () => {
    const db = await tenDocuments({ reduce: false })
    expect(await query(db, 'sum', 'include_docs=true&limit=1')).toMatchObject({ rows: [{ doc: { _id: 'doc-0' } }] })
    expect(valuesOf(await query(db, 'sum', 'reduce=true'))).toEqual([45])
  })

  it('of the wrong type are dropped', async () => {
    const options = { limit: '3', skip: -1, descending: 'true', keys: 5, stale: 'maybe', startkey_docid: 7, count: 3 }
    const db = await tenDocuments(options)
    expect(keysOf(await query(db, 'map'))).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  })

  it('of one view are no defaults', async () => {
    const db = await client().database()
    await fill(db, [{ number: 1 }, { number: 2 }])
    await putViews(db, { map: { map: BY_NUMBER, options: { limit: 1 } } })
    expect(keysOf(await query(db, 'map'))).toEqual([1, 2])
  })

  it('do not hide errors of the request', async () => {
    const db = await tenDocuments({ include_docs: true })
    const reply = await db.get('_design/d/_view/sum?include_docs=true')
    expectRefusal(reply, 400, 'query_parse_error', '`include_docs` is invalid for reduce')
  })
})
