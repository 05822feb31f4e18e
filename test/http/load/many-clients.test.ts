/** What holds while many clients do things at once. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client, serverOfFile } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { until } from '../../support/until.ts'

const client = serverOfFile()

interface Listing {
  total_rows: number
  rows: { id: string; doc: { _id: string; n: number } }[]
}

function tally(statuses: number[]): Record<number, number> {
  const counts: Record<number, number> = {}
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

describe.each([
  ['in memory', true],
  ['on disk', false],
])('many clients %s', (_where, inMemory) => {
  async function server(): Promise<Client> {
    return new Client((await startService({ inMemory })).url)
  }

  it('make a database once', async () => {
    const own = await server()
    const replies = await Promise.all(Array.from({ length: 20 }, () => own.request('PUT', '/wanted')))
    expect(tally(replies.map(({ status }) => status))).toEqual({ 201: 1, 412: 19 })
    own.close()
  })

  it('delete a database once', async () => {
    const own = await server()
    const db = await own.database()
    const replies = await Promise.all(Array.from({ length: 20 }, () => db.request('DELETE')))
    expect(tally(replies.map(({ status }) => status))).toEqual({ 200: 1, 404: 19 })
    own.close()
  })

  it('make a document once', async () => {
    const own = await server()
    const db = await own.database()
    const replies = await Promise.all(Array.from({ length: 20 }, (_, n) => db.put('doc', { n })))
    expect(tally(replies.map(({ status }) => status))).toEqual({ 201: 1, 409: 19 })
    expect(await db.info()).toMatchObject({ doc_count: 1, update_seq: 1 })
    own.close()
  })

  it('increment a counter together without losing an update', async () => {
    const own = await server()
    const db = await own.database()
    await db.save('counter', { n: 0 })
    const worker = async () => {
      for (let done = 0; done < 5; ) {
        const { _rev, n } = (await db.get('counter')).as<{ _rev: string; n: number }>()
        if ((await db.put('counter', { _rev, n: n + 1 })).status === 201) done++
      }
    }
    await Promise.all(Array.from({ length: 6 }, worker))
    expect((await db.get('counter')).json).toMatchObject({ n: 30, _rev: expect.stringMatching(/^31-/) })
    expect((await db.info()).update_seq).toBe(31)
    own.close()
  })

  it('read one state of the database each', async () => {
    const own = await server()
    const db = await own.database()
    let writing = true
    const writer = async () => {
      for (let round = 0; round < 30; round++) {
        const docs = Array.from({ length: 10 }, (_, n) => ({ _id: `doc-${round}-${n}`, n }))
        await db.post('_bulk_docs', { docs })
      }
      writing = false
    }
    const reader = async () => {
      while (writing) {
        const { total_rows, rows } = (await db.get('_all_docs?include_docs=true')).as<Listing>()
        expect(rows).toHaveLength(total_rows)
        for (const { id, doc } of rows) expect(doc._id).toBe(id)
      }
    }
    await Promise.all([writer(), reader(), reader()])
    expect((await db.info()).doc_count).toBe(300)
    own.close()
  })

  it('get whole listings, whatever the others read meanwhile', async () => {
    const own = await server()
    const db = await own.database()
    const docs = Array.from({ length: 1_500 }, (_, n) => ({ _id: `doc-${String(n).padStart(4, '0')}`, n }))
    await db.post('_bulk_docs', { docs })
    const ids = docs.map(({ _id }) => _id)
    const queries = ['', '?descending=true', '?include_docs=true', '?include_docs=true&descending=true']
    const listings = [...queries, ...queries].map(async (query) => {
      const { rows } = (await db.get(`_all_docs${query}`)).as<Listing>()
      expect(rows.map(({ id }) => id)).toEqual(query.includes('descending') ? ids.toReversed() : ids)
      if (query.includes('include_docs')) for (const { id, doc } of rows) expect(doc._id).toBe(id)
    })
    const reads = ids.slice(0, 200).map(async (id) => expect((await db.get(id)).status).toBe(200))
    await Promise.all([...listings, ...reads])
    own.close()
  })

  it('write while the database is deleted and made again', async () => {
    const own = await server()
    const db = await own.database()
    const writes = Array.from({ length: 100 }, (_, n) => db.put(`doc-${n}`, {}))
    const deletion = db.request('DELETE')
    const statuses = new Set((await Promise.all(writes)).map(({ status }) => status))
    expect([...statuses].filter((status) => status !== 201 && status !== 404)).toEqual([])
    expect((await deletion).status).toBe(200)
    await db.request('PUT')
    expect(await db.info()).toMatchObject({ doc_count: 0, update_seq: 0 })
    expect((await db.put('doc', {})).status).toBe(201)
    own.close()
  })

  it('disconnect in the middle of a long reply without affecting others', async () => {
    const own = await server()
    const db = await own.database()
    const docs = Array.from({ length: 3_000 }, (_, n) => ({ _id: `doc-${n}`, text: 'x'.repeat(1_000) }))
    await db.post('_bulk_docs', { docs })
    for (let n = 0; n < 5; n++) {
      const connection = await own.open()
      connection.write(`GET /${db.name}/_all_docs?include_docs=true HTTP/1.1\r\nHost: x\r\n\r\n`)
      await until(async () => connection.received.length > 10_000)
      connection.end()
    }
    const { rows } = (await db.get('_all_docs?include_docs=true')).as<Listing>()
    expect(rows).toHaveLength(3_000)
    own.close()
  })
})

describe('a slow client', () => {
  it('costs the server no more than a fast one', async () => {
    const warnings: Error[] = []
    const note = (warning: Error) => warnings.push(warning)
    process.on('warning', note)
    onTestFinished(() => void process.off('warning', note))
    const db = await client().database()
    const docs = Array.from({ length: 3_000 }, (_, n) => ({ _id: `doc-${n}`, text: 'x'.repeat(1_000) }))
    await db.post('_bulk_docs', { docs })
    // More than the buffers between the two hold, so that the server has to wait many times.
    for (let n = 0; n < 3; n++) await db.get('_all_docs?include_docs=true')
    expect(warnings).toEqual([])
  })
})

describe('long ids', () => {
  it('are distinguished by their last byte', async () => {
    const db = await client().database()
    const ids = ['a', 'b', 'c'].map((end) => `${'x'.repeat(5_000)}${end}`)
    const docs = ids.map((_id, n) => ({ _id, n }))
    await db.post('_bulk_docs', { docs })
    expect((await db.info()).doc_count).toBe(3)
    const found = (await db.post('_all_docs?include_docs=true', { keys: ids })).as<Listing>()
    expect(found.rows.map(({ doc }) => doc.n)).toEqual([0, 1, 2])
    const listed = (await db.get('_all_docs')).as<Listing>()
    expect(listed.rows.map(({ id }) => id).sort()).toEqual(ids)
    for (const id of ids) {
      const one = (await db.get(`_all_docs?key=${encodeURIComponent(JSON.stringify(id))}`)).as<Listing>()
      expect(one.rows.map((row) => row.id)).toEqual([id])
      expect((await db.get(id)).json).toMatchObject({ _id: id })
    }
    expect((await db.put(ids[1]!, {})).status).toBe(409)
    await db.save(`_local/${ids[0]}`, { n: 1 })
    await db.save(`_local/${ids[1]}`, { n: 2 })
    expect((await db.get(`_local/${ids[0]}`)).json).toMatchObject({ n: 1 })
  })
})

describe('a document with very many conflicts', () => {
  it('is like others, only larger', async () => {
    const db = await client().database()
    const revs = Array.from({ length: 1_000 }, (_, n) => `1-${String(n).padStart(4, '0')}`)
    await db.replicate(...revs.map((_rev) => ({ _id: 'd', _rev })))
    expect((await db.get('d?conflicts=true')).json).toEqual({
      _id: 'd',
      _rev: '1-0999',
      _conflicts: revs.slice(0, -1).reverse(),
    })
    expect((await db.get('d?open_revs=all')).as<unknown[]>()).toHaveLength(1_000)
    expect((await db.post('_revs_diff', { d: [...revs, '1-x'] })).json).toEqual({ d: { missing: ['1-x'] } })
    expect(await db.info()).toMatchObject({ doc_count: 1, update_seq: 1 })
  })
})
