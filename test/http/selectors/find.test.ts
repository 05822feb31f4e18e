/** `_find` and `_explain`: the rules of the interface, one by one. */
import { describe, expect, it } from 'vitest'
import { expectRefusal, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'

const client = serverOfFile()

/** Whatever the reason. */
function expectError(reply: Reply, status: number, error: string): void {
  expect([reply.status, reply.as<{ error: string }>().error], reply.text).toEqual([status, error])
}

interface FindReply {
  docs: Record<string, unknown>[]
  bookmark?: string
  warning?: string
  count?: number
  execution_stats?: Record<string, number>
}

const PEOPLE = [
  { _id: 'ann', name: 'Ann', age: 31, address: { city: 'Rome', zip: 10 }, tags: ['a', 'b'] },
  { _id: 'bob', name: 'Bob', age: 25, address: { city: 'Oslo' } },
  { _id: 'cas', name: 'Cas', age: 31, address: { city: 'Oslo' } },
  { _id: 'dan', name: 'Dan', age: null },
  { _id: 'eve', name: 'Eve' },
]

async function people(...indexes: object[]): Promise<TestDatabase> {
  const db = await client().database()
  await db.post('_bulk_docs', { docs: PEOPLE })
  for (const index of indexes) {
    const reply = await db.post('_index', index)
    expect(reply.status, reply.text).toBe(200)
  }
  return db
}

async function find(db: TestDatabase, query: object): Promise<FindReply> {
  const reply = await db.post('_find', query)
  expect(reply.status, reply.text).toBe(200)
  return reply.as<FindReply>()
}

function ids({ docs }: FindReply): unknown[] {
  return docs.map(({ _id }) => _id)
}

const BY_AGE = { index: { fields: ['age'] }, ddoc: 'by-age', name: 'age' }
const BY_CITY = { index: { fields: ['address.city', 'age'] }, ddoc: 'by-city', name: 'city' }

describe('a query by selector', () => {
  it('gives whole documents', async () => {
    const db = await people()
    const reply = await db.post('_find', { selector: { name: 'Bob' } })
    const [document] = reply.as<FindReply>().docs
    expect(document).toEqual({ ...PEOPLE[1], _rev: document?._rev })
    expect(Object.keys(document ?? {}).slice(0, 2)).toEqual(['_id', '_rev'])
  })

  it('passes over design documents and deleted ones', async () => {
    const db = await people()
    await db.save('_design/d', { name: 'x' })
    await db.saveAndRemove('gone', { name: 'x' })
    expect(ids(await find(db, { selector: {} }))).toEqual(['ann', 'bob', 'cas', 'dan', 'eve'])
  })

  it('has documents with attachments, and conflicts where they are asked for', async () => {
    const db = await people(BY_AGE)
    await db.save('pic', { age: 99, _attachments: { x: { content_type: 'text/plain', data: 'aGk=' } } })
    const [pic] = (await find(db, { selector: { age: 99 } })).docs
    expect(pic?._attachments).toMatchObject({ x: { stub: true, length: 2 } })
    expect((await find(db, { selector: { '_attachments.x.length': 2 } })).docs).toHaveLength(1)
    const docs = [
      { _id: 'torn', _rev: '1-a', age: 77 },
      { _id: 'torn', _rev: '1-b', age: 77 },
    ]
    await db.post('_bulk_docs', { docs, new_edits: false })
    expect((await find(db, { selector: { age: 77 }, conflicts: true })).docs).toMatchObject([
      { _rev: '1-b', _conflicts: ['1-a'] },
    ])
    expect((await find(db, { selector: { age: 77 } })).docs[0]).not.toHaveProperty('_conflicts')
  })

  it('gives some fields', async () => {
    const db = await people(BY_CITY)
    const fields = ['address.city', 'name', 'nope']
    expect((await db.post('_find', { selector: { name: 'Bob' }, fields })).text).toContain(
      '[\r\n{"address":{"city":"Oslo"},"name":"Bob"}\r\n]',
    )
    const covered = {
      selector: { 'address.city': 'Oslo', age: { $gt: 0 } },
      fields: ['_id', 'address.city'],
      execution_stats: true,
    }
    const reply = await find(db, covered)
    expect(reply.docs).toEqual([
      { _id: 'bob', address: { city: 'Oslo' } },
      { _id: 'cas', address: { city: 'Oslo' } },
    ])
    expect(reply.execution_stats).toMatchObject({ total_keys_examined: 2, total_docs_examined: 0, results_returned: 2 })
    expect(reply.warning).toBeUndefined()
  })

  it('reads the documents of a long list of ids, in pages and in both directions', async () => {
    const db = await people()
    const others = Array.from({ length: 1500 }, (_, i) => `missing ${(i * 7) % 1500}`)
    const selector = { _id: { $in: [...others, 'eve', 'bob', 'ann', 'bob', '_design/x', 7] } }
    expect(ids(await find(db, { selector }))).toEqual(['ann', 'bob', 'eve'])
    expect(ids(await find(db, { selector, skip: 1 }))).toEqual(['bob', 'eve'])
    expect((await find(db, { selector, count: true })).count).toBe(3)
    expect(ids(await find(db, { selector: { ...selector, age: 25 } }))).toEqual(['bob'])
    const bounded = { $and: [selector, { _id: { $gt: 'ann' } }] }
    const backwards = { selector: bounded, sort: [{ _id: 'desc' }], limit: 1 }
    const first = await find(db, backwards)
    const second = await find(db, { ...backwards, bookmark: first.bookmark })
    const third = await find(db, { ...backwards, bookmark: second.bookmark })
    expect([first, second, third].map(ids)).toEqual([['eve'], ['bob'], []])
    const explained = (await db.post('_explain', { selector })).as<{ mrargs: object }>()
    expect(explained.mrargs).toMatchObject({ start_key: ['ann'], end_key: ['missing 999', '<MAX>'], ranges: 1503 })
  })

  it('reads pages with bookmarks, limit and skip', async () => {
    const db = await people(BY_AGE)
    const query = { selector: { age: { $gte: null } }, limit: 2 }
    const first = await find(db, query)
    expect(ids(first)).toEqual(['dan', 'bob'])
    const second = await find(db, { ...query, bookmark: first.bookmark })
    expect(ids(second)).toEqual(['ann', 'cas'])
    const third = await find(db, { ...query, bookmark: second.bookmark })
    expect(third).toMatchObject({ docs: [], bookmark: second.bookmark })
    expect(ids(await find(db, { ...query, bookmark: first.bookmark, skip: 1 }))).toEqual(['cas'])
    expect(await find(db, { selector: { age: 1000 } })).toMatchObject({ docs: [], bookmark: 'nil' })
    expect(ids(await find(db, { ...query, bookmark: 'nil' }))).toEqual(['dan', 'bob'])
    expect((await find(db, { ...query, limit: 0 })).docs).toEqual([])
  })

  it('continues with the index that it began with', async () => {
    const db = await people(BY_AGE)
    const query = { selector: { age: { $gt: 0 }, 'address.city': { $gt: null } }, limit: 1 }
    const first = await find(db, query)
    expect(ids(first)).toEqual(['bob'])
    await db.post('_index', BY_CITY)
    expect(ids(await find(db, { ...query, bookmark: first.bookmark, limit: 9 }))).toEqual(['ann', 'cas'])
    await db.request('DELETE', '_index/by-age/json/age')
    expectError(await db.post('_find', { ...query, bookmark: first.bookmark }), 400, 'invalid_bookmark')
  })

  it('sorts by an index, and never without one', async () => {
    const db = await people(BY_AGE, BY_CITY)
    const selector = { age: { $gt: 0 } }
    expect(ids(await find(db, { selector, sort: ['age'] }))).toEqual(['bob', 'ann', 'cas'])
    expect(ids(await find(db, { selector, sort: [{ age: 'desc' }] }))).toEqual(['cas', 'ann', 'bob'])
    expect(ids(await find(db, { selector: { 'address.city': 'Oslo' }, sort: ['age'] }))).toEqual(['bob', 'cas'])
    expect(ids(await find(db, { selector: { _id: { $gt: 'b' } }, sort: [{ _id: 'desc' }] }))).toEqual([
      'eve',
      'dan',
      'cas',
      'bob',
    ])
    expectRefusal(
      await db.post('_find', { selector, sort: ['name'] }),
      400,
      'no_usable_index',
      'No index exists for this sort, try indexing by the sort fields.',
    )
    expectError(await db.post('_find', { selector, sort: ['_id'] }), 400, 'no_usable_index')
  })

  it('finds nothing where nothing can match', async () => {
    const db = await people(BY_AGE)
    for (const selector of [{ $or: [] }, { $and: [] }, { age: { $gt: 5, $lt: 3 } }, { _id: { $in: [] } }]) {
      expect((await db.post('_find', { selector })).text, JSON.stringify(selector)).toBe('{"docs":[]}\n')
    }
    expect((await find(db, { selector: { age: { $in: [] } } })).docs).toEqual([])
  })

  it('reads about as many rows as it gives', async () => {
    const db = await client().database()
    await db.post('_bulk_docs', {
      docs: Array.from({ length: 3000 }, (_, i) => ({ _id: `d${String(i).padStart(5, '0')}`, n: i, m: i % 7 })),
    })
    await db.post('_index', { index: { fields: ['m', 'n'] } })
    const query = { selector: { m: 3, n: { $gt: 100 } }, limit: 25, execution_stats: true }
    expect((await find(db, query)).execution_stats).toMatchObject({
      total_keys_examined: 25,
      total_docs_examined: 25,
      results_returned: 25,
    })
    expect((await find(db, { ...query, skip: 300 })).execution_stats).toMatchObject({
      total_keys_examined: 25,
      total_docs_examined: 25,
    })
    const some = await find(db, { selector: { m: { $in: [1, 5] }, n: { $gte: 10, $lt: 30 } }, execution_stats: true })
    expect(some.docs).toHaveLength(6)
    expect(some.execution_stats).toMatchObject({ total_keys_examined: 6 })
    const either = {
      $or: [
        { m: 1, n: 8 },
        { m: 2, n: { $lt: 10 } },
      ],
    }
    expect((await find(db, { selector: either, execution_stats: true })).execution_stats).toMatchObject({
      results_returned: 3,
    })
    const all = await find(db, { selector: {}, limit: 25, execution_stats: true })
    expect(all.execution_stats).toMatchObject({ total_keys_examined: 25, total_docs_examined: 25 })
    const page = await find(db, { selector: { _id: { $beginsWith: 'd0001' } }, execution_stats: true })
    expect(page.execution_stats).toMatchObject({ total_docs_examined: 10, results_returned: 10 })
  })

  it('streams large answers', async () => {
    const db = await client().database()
    const text = 'x'.repeat(1000)
    await db.post('_bulk_docs', { docs: Array.from({ length: 3000 }, (_, i) => ({ _id: `d${i}`, n: i, text })) })
    await db.post('_index', { index: { fields: ['n'] } })
    const { docs } = await find(db, { selector: { n: { $gte: 0 } }, limit: 10_000 })
    expect(docs.map(({ n }) => n)).toEqual(Array.from({ length: 3000 }, (_, i) => i))
  })

  it('sees writes, unless update=false', async () => {
    const db = await people(BY_AGE)
    const selector = { age: 31 }
    expect(ids(await find(db, { selector }))).toEqual(['ann', 'cas'])
    await db.save('zoe', { age: 31 })
    expect(ids(await find(db, { selector, update: false }))).toEqual(['ann', 'cas'])
    expect(ids(await find(db, { selector }))).toEqual(['ann', 'cas', 'zoe'])
    await db.request('DELETE', `zoe?rev=${(await db.get('zoe')).as<{ _rev: string }>()._rev}`)
    expect(ids(await find(db, { selector, stale: 'ok' }))).toEqual(['ann', 'cas'])
  })

  it('reports errors of a request', async () => {
    const db = await people()
    const refused = async (body: unknown, error: string, reason?: string) => {
      const reply = await db.post('_find', body)
      if (reason === undefined) expectError(reply, 400, error)
      else expectRefusal(reply, 400, error, reason)
    }
    const selector = {}
    await refused({}, 'missing_required_key', 'Missing required key: selector')
    await refused({ selector: 5 }, 'invalid_selector_json', 'Selector must be a JSON object, not: 5')
    await refused([], 'bad_request', 'Request body must be a JSON object')
    await refused(
      { selector, limit: -1 },
      'invalid_non_neg_integer',
      '-1 is not an integer greater than or equal to zero',
    )
    await refused({ selector, skip: 1.5 }, 'invalid_non_neg_integer')
    await refused({ selector, sort: 'a' }, 'invalid_sort_json', 'Sort must be an array of sort specs, not: a')
    await refused({ selector, sort: [{ a: 'up' }] }, 'invalid_sort_field', 'Invalid sort field: {"a":"up"}')
    await refused({ selector, sort: ['a', { b: 'desc' }] }, 'unsupported_mixed_sort')
    await refused({ selector, fields: {} }, 'invalid_fields')
    await refused({ selector, fields: [1] }, 'invalid_field')
    await refused({ selector, use_index: 5 }, 'invalid_index_name', 'Invalid index name: 5')
    await refused({ selector, use_index: ['a', 'b', 'c'] }, 'invalid_index_name')
    await refused({ selector, bookmark: 'garbage' }, 'invalid_bookmark', 'Invalid bookmark value: "garbage"')
    await refused({ selector, conflicts: 1 }, 'invalid_boolean', 'Invalid boolean value: 1')
    await refused({ selector, r: 0 }, 'invalid_pos_integer', '0 is not an integer greater than zero')
    await refused({ selector, stale: 'maybe' }, 'invalid_value', 'Invalid value for stale: maybe')
    await refused({ selector, partition: 'p' }, 'bad_request', '`partition` is not supported on this db')
    await refused({ selector, nope: 1 }, 'invalid_key', 'Invalid key nope for this request.')
    await refused({ selector: { $gt: 1 } }, 'invalid_selector', 'One or more conditions is missing a field name.')
    expectError(
      await db.request('POST', '_find', { body: '{}', headers: { 'Content-Type': 'text/plain' } }),
      415,
      'bad_content_type',
    )
    expectRefusal(await db.get('_find'), 405, 'method_not_allowed', 'Only POST allowed')
    expectError(await client().request('POST', '/nosuch/_find', { body: { selector } }), 404, 'not_found')
  })

  it('uses the index that is named, or says why not', async () => {
    const db = await people(BY_AGE, BY_CITY)
    const selector = { age: { $gt: 0 }, 'address.city': { $gt: null } }
    expect(ids(await find(db, { selector, use_index: 'by-age' }))).toEqual(['bob', 'ann', 'cas'])
    expect(ids(await find(db, { selector, use_index: ['_design/by-city', 'city'] }))).toEqual(['bob', 'cas', 'ann'])
    expect(ids(await find(db, { selector, use_index: 'by-age/age' }))).toEqual(['bob', 'ann', 'cas'])
    const other = await find(db, { selector: { name: 'Bob' }, use_index: 'by-age' })
    expect(ids(other)).toEqual(['bob'])
    expect(other.warning).toBe(
      '_design/by-age was not used because it does not contain a valid index for this query.\n' +
        'No matching index found, create an index to optimize query time.',
    )
    const named = await find(db, { selector, use_index: ['by-age', 'nope'] })
    expect(named.warning).toBe('_design/by-age, nope was not used because it is not a valid index for this query.')
    expectRefusal(
      await db.post('_find', { selector: { name: 'Bob' }, use_index: 'by-age', allow_fallback: false }),
      400,
      'invalid_index',
      '_design/by-age specified by `use_index` could not be found or it is not suitable.',
    )
    expectRefusal(
      await db.post('_find', { selector: { name: 'Bob' }, allow_fallback: false }),
      400,
      'invalid_index',
      'You must specify an index with the `use_index` parameter.',
    )
  })

  it('warns when many documents are read that do not match', async () => {
    const db = await client().database()
    await db.post('_bulk_docs', { docs: Array.from({ length: 20 }, (_, i) => ({ n: i })) })
    expect((await find(db, { selector: { n: 19 } })).warning).toContain('The number of documents examined is high')
    await client().request('PUT', '/_config/mango/index_scan_warning_threshold', { body: '"0"' })
    expect((await find(db, { selector: { n: 19 } })).warning).not.toContain('high')
    await client().request('PUT', '/_config/mango/index_scan_warning_threshold', { body: '"10"' })
  })

  it('counts what matches', async () => {
    const db = await people(BY_AGE)
    expect((await find(db, { selector: { age: { $gt: 0 } }, count: true, limit: 1 })).count).toBe(3)
    expect((await find(db, { selector: {}, count: true, limit: 0 })).count).toBe(5)
    expect((await find(db, { selector: { age: { $in: [31, 25] } }, count: true, limit: 0 })).count).toBe(3)
    expect((await find(db, { selector: { name: { $gt: 'C' } }, count: true, limit: 0 })).count).toBe(3)
    await client().request('PUT', '/_config/mango/count_scan_limit', { body: '"2"' })
    const refused = await db.post('_find', { selector: { name: { $gt: 'C' } }, count: true })
    expectError(refused, 400, 'no_usable_index')
    expect((await find(db, { selector: { age: { $gt: 0 } }, count: true })).count).toBe(3)
    await client().request('PUT', '/_config/mango/count_scan_limit', { body: '"10000"' })
  })
})

interface Explanation {
  index: { ddoc: string | null; name: string; type: string }
  selector: unknown
  mrargs: Record<string, unknown>
  covering: boolean
  limit: number
  index_candidates: { index: { name: string }; analysis: { usable: boolean; reasons: { name: string }[] } }[]
}

async function explain(db: TestDatabase, query: object): Promise<Explanation> {
  const reply = await db.post('_explain', query)
  expect(reply.status, reply.text).toBe(200)
  return reply.as<Explanation>()
}

describe('an explanation', () => {
  it('returns the index, its range and why the others are not used', async () => {
    const db = await people(BY_AGE, BY_CITY, {
      index: { fields: ['age'], partial_filter_selector: { name: 'Ann' } },
      ddoc: 'part',
      name: 'part',
    })
    const told = await explain(db, { selector: { age: { $gte: 3, $lt: 9 } }, fields: ['age'], limit: 3 })
    expect(told).toMatchObject({
      dbname: db.name,
      index: {
        ddoc: '_design/by-age',
        name: 'age',
        type: 'json',
        partitioned: false,
        def: { fields: [{ age: 'asc' }] },
      },
      partitioned: false,
      selector: { $and: [{ age: { $gte: 3 } }, { age: { $lt: 9 } }] },
      opts: { limit: 3, use_index: [], bookmark: 'nil', r: 1, update: true },
      limit: 3,
      skip: 0,
      fields: ['age'],
      mrargs: {
        start_key: [3],
        end_key: [9, '<MAX>'],
        direction: 'fwd',
        include_docs: false,
        view_type: 'map',
        reduce: false,
      },
      covering: true,
      selector_hints: [{ type: 'json', indexable_fields: ['age'], unindexable_fields: [] }],
    })
    expect(
      told.index_candidates.map(({ index, analysis }) => [index.name, analysis.usable, analysis.reasons[0]?.name]),
    ).toEqual([
      ['city', false, 'field_mismatch'],
      ['part', false, 'is_partial'],
      ['_all_docs', true, 'unfavored_type'],
    ])
  })

  it('shows a query without an index', async () => {
    const db = await people()
    expect(await explain(db, { selector: { age: 1 }, sort: ['age'] })).toMatchObject({ index: null })
    expect(await explain(db, { selector: { age: 1 } })).toMatchObject({
      index: { ddoc: null, name: '_all_docs', type: 'special', def: { fields: [{ _id: 'asc' }] } },
    })
  })

  it('chooses by overlap, then by the number of fields, then by name', async () => {
    const index = (fields: string[], name: string) => ({ index: { fields }, ddoc: name, name })
    const db = await people(
      index(['a', 'b'], 'ab'),
      index(['b', 'a'], 'ba'),
      index(['a'], 'a'),
      index(['a'], 'a2'),
      index(['b'], 'b'),
    )
    const chosen = async (selector: object) => (await explain(db, { selector })).index.name
    expect(await chosen({ a: { $gt: 1 }, b: { $ne: 1 } })).toBe('a')
    expect(await chosen({ a: { $gt: 1 }, b: 1 })).toBe('ab')
    expect(await chosen({ a: { $ne: 1 }, b: 1 })).toBe('b')
    expect(await chosen({ a: { $ne: 1 }, b: { $in: [1] } })).toBe('b')
    expect(await chosen({ $or: [{ a: 1 }, { a: 2 }] })).toBe('a')
    expect(await chosen({ $or: [{ a: 1 }, { b: 2 }] })).toBe('_all_docs')
  })
})
