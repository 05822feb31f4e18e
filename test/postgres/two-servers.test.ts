import { expect, it, onTestFinished } from 'vitest'
import { Client, TestDatabase } from '../support/client.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres } from '../support/postgres.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

/** Two servers on one engine, each with a folder of its own. */
async function servers(): Promise<[Client, Client]> {
  const engine = (await sharedPostgres()).address()
  const start = async () => {
    const service = await startService({ dir: await temporaryFolder(), engine })
    const client = new Client(service.url)
    onTestFinished(() => client.close())
    return client
  }
  return [await start(), await start()]
}

async function sharedDatabase(): Promise<[TestDatabase, TestDatabase]> {
  const [a, b] = await servers()
  const db = await a.database()
  return [db, new TestDatabase(b, db.name)]
}

describeOnPostgres('two servers on one engine', () => {
  it('show each other every write that was acknowledged', async () => {
    const [a, b] = await sharedDatabase()
    for (let i = 0; i < 20; i++) {
      const [writer, reader] = i % 2 === 0 ? [a, b] : [b, a]
      const rev = await writer.save(`doc-${i}`, { i })
      const read = await reader.get(`doc-${i}`)
      expect(read.json).toMatchObject({ _rev: rev, i })
      expect((await reader.info()).doc_count).toBe(i + 1)
    }
  })

  it('lose no update of one document that many clients write through both', async () => {
    const both = await sharedDatabase()
    await both[0].save('counter', { n: 0 })
    const increment = async (db: TestDatabase) => {
      for (;;) {
        const { _rev, n } = (await db.get('counter')).as<{ _rev: string; n: number }>()
        const { status, text } = await db.put(`counter?rev=${_rev}`, { n: n + 1 })
        if (status === 201) return
        expect(status, text).toBe(409)
      }
    }
    await Promise.all(
      Array.from({ length: 6 }, async (_, i) => {
        for (let round = 0; round < 8; round++) await increment(both[i % 2]!)
      }),
    )
    expect((await both[1].get('counter')).json).toMatchObject({ n: 48 })
    expect((await both[0].info()).update_seq).toBe(49)
  })

  it('write different documents at the same time', async () => {
    const both = await sharedDatabase()
    await Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        const docs = Array.from({ length: 5 }, (_, j) => ({ _id: `${i}-${j}` }))
        const reply = await both[i % 2]!.post('_bulk_docs', { docs })
        expect(reply.status, reply.text).toBe(201)
      }),
    )
    const rows = (await both[0].get('_all_docs')).as<{ total_rows: number; rows: unknown[] }>()
    expect([rows.total_rows, rows.rows.length]).toEqual([200, 200])
    const changes = (await both[1].get('_changes')).as<{ results: { seq: number }[] }>().results
    expect(changes.map(({ seq }) => seq)).toEqual(Array.from({ length: 200 }, (_, i) => i + 1))
  })

  it('wake each other’s feeds', async () => {
    const [a, b] = await sharedDatabase()
    await b.get()
    const longpoll = b.get('_changes?feed=longpoll&since=0&timeout=50000')
    const connection = await b.client.open()
    onTestFinished(() => connection.end())
    connection.write(`GET /${b.name}/_changes?feed=continuous&timeout=50000 HTTP/1.1\r\nHost: x\r\n\r\n`)
    await connection.receives('200 OK')
    await a.save('one', {})
    expect((await longpoll).as<{ results: { id: string }[] }>().results.map(({ id }) => id)).toEqual(['one'])
    await connection.receives('"one"')
    await a.save('two', {})
    await connection.receives('"two"')
  })

  it('follow each other’s databases as they come and go', async () => {
    const [a, b] = await servers()
    const db = await a.database()
    const other = new TestDatabase(b, db.name)
    await db.save('old', {})
    expect((await other.get('old')).status).toBe(200)
    expect((await a.request('DELETE', `/${db.name}`)).status).toBe(200)
    expect((await other.get('old')).status).toBe(404)
    expect((await b.request('PUT', `/${db.name}`)).status).toBe(201)
    await other.save('new', {})
    await until(async () => (await db.get('new')).status === 200)
    expect((await db.get('old')).status).toBe(404)
    expect((await a.request('GET', '/_all_dbs')).json).toContain(db.name)
  })

  it('apply validation functions that were written through the other one', async () => {
    const [a, b] = await sharedDatabase()
    await b.save('before', {})
    const validate_doc_update = 'function (doc) { if (!doc.ok) throw { forbidden: "not ok" } }'
    await a.save('_design/rules', { validate_doc_update })
    expect((await b.put('after', {})).status).toBe(403)
    expect((await b.put('after', { ok: true })).status).toBe(201)
  })

  it('answer views and attachments alike', async () => {
    const [a, b] = await sharedDatabase()
    await a.save('_design/d', { views: { v: { map: 'function (doc) { emit(doc.n, doc.n) }', reduce: '_sum' } } })
    const sum = async (db: TestDatabase) => (await db.get('_design/d/_view/v')).as<{ rows: { value: number }[] }>().rows
    for (let round = 1; round <= 4; round++) {
      const docs = Array.from({ length: 10 }, (_, i) => ({ _id: `${round}-${i}`, n: 1 }))
      await (round % 2 ? a : b).post('_bulk_docs', { docs })
      const sums = await Promise.all([sum(a), sum(b), sum(a), sum(b)])
      expect(sums.map((rows) => rows[0]?.value)).toEqual(Array(4).fill(10 * round))
    }
    const large = Buffer.alloc(6_000_000, 'settle')
    const revs = await Promise.all([
      a.put('from-a/x', Buffer.concat([large, Buffer.from('a')]), { 'Content-Type': 'text/x' }),
      b.put('from-b/x', Buffer.concat([large, Buffer.from('b')]), { 'Content-Type': 'text/x' }),
    ])
    for (const reply of revs) expect(reply.status, reply.text).toBe(201)
    expect((await b.get('from-a/x')).body.subarray(-1).toString()).toBe('a')
    expect((await a.get('from-b/x')).body.subarray(-1).toString()).toBe('b')
    // What another server may still be working with stays.
    await a.compact()
    expect((await a.get('from-b/x')).body.length).toBe(6_000_001)
  })
})
