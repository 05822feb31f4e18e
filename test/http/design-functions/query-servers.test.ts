/** Design documents in a language that the operator brought: all that their functions do, over HTTP. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { expectRefusal, serverOfFile, type TestDatabase } from '../../support/client.ts'

const PROGRAM = fileURLToPath(new URL('../../functions/support/query-server.mjs', import.meta.url))
const COMMAND = `"${process.execPath}" "${PROGRAM}"`

// On disk: indexes are then built beside the thread that answers.
const client = serverOfFile({ dir: await folderOfFile(), settings: { query_servers: { node: COMMAND } } })

/** For all tests of the file, whose server ends before it goes. */
async function folderOfFile(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'settle-test-'))
  afterAll(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const DESIGN = {
  language: 'node',
  // Nothing that the sandbox would have: it cannot be mistaken for it.
  views: {
    lib: { greeting: 'hello' },
    by_n: {
      map: 'function (doc) { if (doc.n) emit([library.greeting, doc.n], process.pid) }',
      reduce: 'function (keys, values, rereduce) { return rereduce ? values.reduce((a, b) => a + b) : values.length }',
    },
    built_in: { map: 'function (doc) { if (doc.n) emit(doc.n % 2, doc.n) }', reduce: '_sum' },
  },
  shows: {
    n: 'function (doc, req) { return { headers: { "X-N": String(doc.n) }, body: "n is " + doc.n + req.query.end } }',
  },
  lists: {
    rows: `function (head, req) {
      start({ headers: { 'Content-Type': 'text/plain' } })
      send('all ' + head.total_rows + ':')
      var row
      while (row = getRow()) send(' ' + row.id)
      return '.'
    }`,
  },
  updates: { add: 'function (doc, req) { doc.n += Number(req.body); return [doc, "now " + doc.n] }' },
  filters: { big: 'function (doc, req) { return doc.n > Number(req.query.least) }' },
  validate_doc_update: 'function (doc) { if (doc.n === 13) throw { forbidden: "unlucky" } }',
}

async function numbers(design: object = DESIGN): Promise<TestDatabase> {
  const db = await client().database()
  await db.save('_design/d', design)
  const docs = [1, 2, 3, 4, 5].map((n) => ({ _id: `doc-${n}`, n }))
  const reply = await db.post('_bulk_docs', { docs })
  expect(reply.status, reply.text).toBe(201)
  return db
}

describe('functions of another language', () => {
  it('map and reduce', async () => {
    const db = await numbers()
    const view = (await db.get('_design/d/_view/by_n?reduce=false')).as<{ rows: { key: unknown }[] }>()
    expect(view.rows.map(({ key }) => key)).toEqual([1, 2, 3, 4, 5].map((n) => ['hello', n]))
    expect((await db.get('_design/d/_view/by_n')).json).toEqual({ rows: [{ key: null, value: 5 }] })
    expect((await db.get('_design/d/_view/built_in?group=true')).json).toEqual({
      rows: [
        { key: 0, value: 6 },
        { key: 1, value: 9 },
      ],
    })
    await db.save('doc-6', { n: 6 })
    expect((await db.get('_design/d/_view/by_n')).json).toEqual({ rows: [{ key: null, value: 6 }] })
  })

  it('show, list and update', async () => {
    const db = await numbers()
    const shown = await db.get('_design/d/_show/n/doc-1?end=!')
    expect([shown.text, shown.headers['x-n']]).toEqual(['n is 1!', '1'])
    const listed = await db.get('_design/d/_list/rows/by_n?reduce=false&skip=3')
    expect([listed.text, listed.headers['content-type']]).toEqual(['all 5: doc-4 doc-5.', 'text/plain'])
    const updated = await db.request('PUT', '_design/d/_update/add/doc-1', { body: '41' })
    expect([updated.status, updated.text]).toEqual([201, 'now 42'])
    expect((await db.get('doc-1')).json).toMatchObject({ n: 42 })
  })

  it('filter, and validate', async () => {
    const db = await numbers()
    const idsOf = async (query: string) =>
      (await db.get(`_changes?${query}`)).as<{ results: { id: string }[] }>().results.map(({ id }) => id)
    expect(await idsOf('filter=d/big&least=3')).toEqual(['doc-4', 'doc-5'])
    expect(await idsOf('filter=_view&view=d/built_in')).toHaveLength(5)
    expectRefusal(await db.put('bad', { n: 13 }), 403, 'forbidden', 'unlucky')
    const bulk = await db.post('_bulk_docs', {
      docs: [
        { _id: 'a', n: 13 },
        { _id: 'b', n: 14 },
      ],
    })
    expect(bulk.json).toMatchObject([
      { id: 'a', error: 'forbidden', reason: 'unlucky' },
      { id: 'b', ok: true },
    ])
  })

  it('take many documents', async () => {
    const db = await numbers()
    const docs = Array.from({ length: 2000 }, (_, n) => ({ _id: `more-${n}`, n: n + 100 }))
    await db.post('_bulk_docs', { docs })
    expect((await db.get('_design/d/_view/by_n')).json).toEqual({ rows: [{ key: null, value: 2005 }] })
  })

  it('do not disturb others when their process dies, and are retried', async () => {
    const dying = {
      language: 'node',
      views: { x: { map: 'function (doc) { if (doc.kill) process.exit(7); emit(1) }' } },
    }
    const db = await numbers(dying)
    const other = await numbers()
    const rev = await db.save('bomb', { kill: true })
    const [failed, fine] = await Promise.all([db.get('_design/d/_view/x'), other.get('_design/d/_view/by_n')])
    expectRefusal(failed, 500, 'os_process_error', '{exit_status,7}')
    expect(fine.status).toBe(200)
    await db.remove('bomb', rev)
    expect((await db.get('_design/d/_view/x')).json).toMatchObject({ total_rows: 5 })
  })

  it('stop with the setting, and start with it', async () => {
    const db = await numbers()
    const show = () => db.get('_design/d/_show/n/doc-1?end=')
    expect((await show()).status).toBe(200)
    await client().request('DELETE', '/_config/query_servers/node')
    expectRefusal(await show(), 500, 'unknown_query_language', 'node')
    await client().request('PUT', '/_config/query_servers/node', { body: JSON.stringify(COMMAND) })
    expect((await show()).text).toBe('n is 1')
    const chosen = JSON.stringify(`${COMMAND} chosen`)
    await client().request('PUT', '/_config/query_servers/node', { body: chosen })
    expectRefusal(await show(), 500, 'unknown_query_language', 'node')
    await client().request('PUT', '/_config/query_servers/node', { body: JSON.stringify(COMMAND) })
  })
})
