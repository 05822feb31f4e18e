/** `_design_docs` and `_local_docs`: what `_all_docs` lists with all else, and what it does not list. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client, expectRefusal, type Reply, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { EMPTY } from '../../support/first-revisions.ts'
import { startService } from '../../support/service.ts'

const client = serverOfFile()

interface Listing {
  total_rows: number | null
  offset?: number | null
  rows: { id?: string; key: unknown; value?: unknown; doc?: unknown; error?: string }[]
}

const IDS = ['A', '_design/a', '_design/b', '_design/c', 'b', 'c']

async function filled(): Promise<TestDatabase> {
  const db = await client().database()
  await db.post('_bulk_docs', { docs: [...IDS, '_local/x', '_local/y', '_local/z'].map((_id) => ({ _id })) })
  return db
}

/** `total offset: ids` */
function glance(reply: Reply): string {
  expect(reply.status, reply.text).toBe(200)
  const { total_rows, offset, rows } = reply.as<Listing>()
  return `${total_rows} ${offset}: ${rows.map(({ id, key }) => id ?? `no ${key}`).join(' ')}`.trim()
}

describe('_design_docs', () => {
  it.each([
    ['', '3 0: _design/a _design/b _design/c'],
    ['?descending=true', '3 0: _design/c _design/b _design/a'],
    ['?skip=1&limit=1', '3 1: _design/b'],
    ['?descending=true&skip=1', '3 1: _design/b _design/a'],
    ['?limit=0', '3 0:'],
    ['?key="_design/b"', '3 1: _design/b'],
    ['?key="b"', '3 3:'],
    ['?startkey="_design/b"', '3 1: _design/b _design/c'],
    ['?endkey="_design/b"&inclusive_end=false', '3 0: _design/a'],
    ['?startkey="_design/b"&descending=true', '3 1: _design/b _design/a'],
    ['?startkey="A"&endkey="zzz"', '3 0: _design/a _design/b _design/c'],
    ['?startkey="b"', '3 3:'],
    ['?endkey="A"', '3 0:'],
    ['?keys=["_design/c","b","_design/none"]', '3 0: _design/c no _design/none'],
  ])('lists design documents only: %s', async (query, expected) => {
    const db = await filled()
    expect(glance(await db.get(`_design_docs${query}`))).toBe(expected)
  })

  it('has rows like those of _all_docs, with their documents', async () => {
    const db = await filled()
    const { rows } = (await db.get('_design_docs?include_docs=true&limit=1')).as<Listing>()
    const id = '_design/a'
    expect(rows).toEqual([{ id, key: id, value: { rev: EMPTY }, doc: { _id: id, _rev: EMPTY } }])
  })

  it('takes keys and several queries by POST', async () => {
    const db = await filled()
    expect(glance(await db.post('_design_docs', { keys: ['_design/b'] }))).toBe('3 0: _design/b')
    const { results } = (await db.post('_design_docs/queries', { queries: [{ limit: 1 }, { keys: ['A'] }] })).as<{
      results: Listing[]
    }>()
    expect(results.map(({ rows }) => rows.map(({ id }) => id))).toEqual([['_design/a'], []])
    expectRefusal(await db.post('_design_docs/other', {}), 404, 'not_found', 'missing')
  })

  it('does not count those that are deleted', async () => {
    const db = await filled()
    await db.remove('_design/b', EMPTY)
    expect(glance(await db.get('_design_docs'))).toBe('2 0: _design/a _design/c')
  })

  it('answers 304 when nothing changed', async () => {
    const db = await filled()
    const { etag = '' } = (await db.get('_design_docs')).headers
    expect((await db.get('_design_docs', { 'If-None-Match': etag })).status).toBe(304)
  })

  it('refuses other methods', async () => {
    const db = await filled()
    const reply = await db.put('_design_docs', {})
    expectRefusal(reply, 405, 'method_not_allowed', 'Only GET,POST,HEAD allowed')
  })
})

describe('_local_docs', () => {
  it.each([
    ['', '_local/x _local/y _local/z'],
    ['?descending=true', '_local/z _local/y _local/x'],
    ['?skip=1&limit=1', '_local/y'],
    ['?limit=0', ''],
    ['?key="_local/y"', '_local/y'],
    ['?startkey="_local/y"', '_local/y _local/z'],
    ['?endkey="_local/y"', '_local/x _local/y'],
    ['?endkey="_local/y"&inclusive_end=false', '_local/x'],
    ['?startkey="_local/y"&descending=true', '_local/y _local/x'],
    ['?startkey="_local/z"&endkey="_local/y"&descending=true&inclusive_end=false', '_local/z'],
    ['?startkey="_local/z"&endkey="_local/y"', ''],
    ['?keys=["_local/z","A",1]', '_local/z no A no 1'],
    ['?keys=["_local/z","_local/x"]&descending=true&limit=1', '_local/x'],
  ])('lists local documents, which are not counted: %s', async (query, expected) => {
    const db = await filled()
    expect(glance(await db.get(`_local_docs${query}`))).toBe(`null null: ${expected}`.trim())
  })

  it('is framed like _all_docs', async () => {
    const db = await client().database()
    await db.put('_local/x', { a: 1 })
    const row = '{"id":"_local/x","key":"_local/x","value":{"rev":"0-1"}'
    const head = '{"total_rows":null,"offset":null,"rows":[\r\n'
    expect((await db.get('_local_docs')).text).toBe(`${head}${row}}\r\n]}\n`)
    const withDocument = (await db.get('_local_docs?include_docs=true')).text
    expect(withDocument).toBe(`${head}${row},"doc":{"_id":"_local/x","_rev":"0-1","a":1}}\r\n]}\n`)
  })

  it('shows what was just written, and not what was deleted', async () => {
    const db = await filled()
    await db.put('_local/y', { _rev: '0-1', b: 2 })
    await db.delete('_local/z?rev=0-1')
    const { rows } = (await db.post('_local_docs', { startkey: '_local/y' })).as<Listing>()
    expect(rows.map(({ id, value }) => [id, value])).toEqual([['_local/y', { rev: '0-2' }]])
  })

  it('answers several queries at once', async () => {
    const db = await client().database()
    for (const name of ['x', 'y']) await db.put(`_local/${name}`, {})
    const queries = [{ limit: 1 }, { keys: ['_local/y'] }, {}]
    const { results } = (await db.post('_local_docs/queries', { queries })).as<{ results: Listing[] }>()
    expect(results.map(({ rows }) => rows.map(({ id }) => id))).toEqual([
      ['_local/x'],
      ['_local/y'],
      ['_local/x', '_local/y'],
    ])
    expectRefusal(await db.post('_local_docs/other', {}), 404, 'not_found', 'missing')
  })

  it('lists more than fit on a page of the store', async () => {
    const db = await client().database()
    const ids = Array.from({ length: 700 }, (_, i) => `_local/${String(i).padStart(4, '0')}`)
    await db.post('_bulk_docs', { docs: ids.map((_id) => ({ _id })) })
    const listed = async (query: string) => (await db.get(`_local_docs${query}`)).as<Listing>().rows.map(({ id }) => id)
    expect(await listed('')).toEqual(ids)
    expect(await listed('?skip=300&limit=300')).toEqual(ids.slice(300, 600))
    expect(await listed('?descending=true&skip=600')).toEqual(ids.slice(0, 100).reverse())
  })
})

describe('of the users database', () => {
  it.each(['_design_docs', '_local_docs'])('%s is for its admins alone', async (list) => {
    const service = await startService({ settings: { admins: { root: 'top' } } })
    const users = new Client(service.url)
    onTestFinished(() => users.close())
    const refused = await users.request('GET', `/_users/${list}`)
    expect([refused.status, refused.json]).toMatchObject([403, { error: 'forbidden' }])
    const headers = { Authorization: `Basic ${btoa('root:top')}` }
    expect((await users.request('GET', `/_users/${list}`, { headers })).status).toBe(200)
  })
})
