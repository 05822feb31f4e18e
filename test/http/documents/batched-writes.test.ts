import { describe, expect, it } from 'vitest'
import { Client, expectRefusal, serverOfFile, TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const client = serverOfFile()

describe('batch=ok', () => {
  async function becomes(db: TestDatabase, path: string, status: number): Promise<unknown> {
    await expect.poll(async () => (await db.get(path)).status).toBe(status)
    return (await db.get(path)).json
  }

  it('answers 202 without a revision, and writes in the background', async () => {
    const db = await client().database()
    const reply = await db.put('doc?batch=ok', { a: 1 })
    expect([reply.status, reply.text]).toEqual([202, '{"ok":true,"id":"doc"}\n'])
    expect(reply.headers.etag).toBeUndefined()
    expect(reply.headers.location).toBe(`${db.url}/doc`)
    expect(await becomes(db, 'doc', 200)).toEqual({ _id: 'doc', _rev: '1-23202479633c2b380f79507a776743d5', a: 1 })
  })

  it('works for POST, with an id and without', async () => {
    const db = await client().database()
    const named = await db.post('?batch=ok', { _id: 'named' })
    expect([named.status, named.text]).toEqual([202, '{"ok":true,"id":"named"}\n'])
    const reply = await db.post('?batch=ok', { a: 1 })
    const { id } = reply.as<{ id: string }>()
    expect([reply.status, reply.text]).toEqual([202, `{"ok":true,"id":"${id}"}\n`])
    expect(id).toMatch(/^[0-9a-f]{32}$/)
    await becomes(db, 'named', 200)
    await becomes(db, id, 200)
  })

  it('works for DELETE and COPY', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { a: 1 })
    const copy = await db.copy('doc?batch=ok', 'copy')
    expect([copy.status, copy.text]).toEqual([202, '{"ok":true,"id":"copy"}\n'])
    await becomes(db, 'copy', 200)
    const deletion = await db.delete(`doc?batch=ok&rev=${rev}`)
    expect([deletion.status, deletion.text]).toEqual([202, '{"ok":true,"id":"doc"}\n'])
    await becomes(db, 'doc', 404)
  })

  it('does not report a conflict to the client', async () => {
    const db = await client().database()
    const rev = await db.save('doc', { n: 1 })
    expect((await db.put('doc?batch=ok', { n: 2 })).status).toBe(202)
    // What comes after it in the batch is written all the same.
    await db.put('after?batch=ok', {})
    await becomes(db, 'after', 200)
    expect((await db.get('doc')).json).toEqual({ _id: 'doc', _rev: rev, n: 1 })
  })

  it('refuses invalid documents at once', async () => {
    const db = await client().database()
    await db.save('doc', {})
    expectRefusal(await db.put('doc?batch=ok', '{'), 400, 'bad_request', 'invalid_json')
    expectRefusal(await db.put('doc?batch=ok', '[]'), 400, 'bad_request', 'Document must be a JSON object')
    expectRefusal(await db.put('doc?batch=ok', { _rev: 'x' }), 400, 'bad_request', 'Invalid rev format')
    expect((await db.put('_odd?batch=ok', {})).status).toBe(400)
    expect((await db.put('doc?batch=ok', { _odd: 1 })).status).toBe(500)
    expectRefusal(await db.delete('nosuch?batch=ok'), 404, 'not_found', 'missing')
    expectRefusal(await db.copy('nosuch?batch=ok', 'x'), 404, 'not_found', 'missing')
  })

  it('loses none of many writes', async () => {
    const db = await client().database()
    await Promise.all(Array.from({ length: 200 }, (_, n) => db.put(`doc-${n}?batch=ok`, { n })))
    await expect.poll(async () => (await db.info()).doc_count).toBe(200)
  })

  it('is done before the server closes', async () => {
    const dir = await temporaryFolder()
    const first = await startService({ dir })
    const before = await new Client(first.url).database()
    for (let n = 0; n < 20; n++) await before.put(`doc-${n}?batch=ok`, { n })
    before.client.close()
    await first.close()
    const second = await startService({ dir })
    const after = new TestDatabase(new Client(second.url), before.name)
    expect((await after.info()).doc_count).toBe(20)
    after.client.close()
  })

  it('does not recreate a database that is deleted', async () => {
    const db = await client().database()
    await db.put('doc?batch=ok', {})
    await db.request('DELETE')
    await db.request('PUT')
    // Whatever is written after it in the batch of the new database is there; what was meant for the old one is not.
    await db.put('new?batch=ok', {})
    await becomes(db, 'new', 200)
    expect((await db.info()).doc_count).toBe(1)
  })

  it('is ignored with another value', async () => {
    const db = await client().database()
    expect((await db.put('doc?batch=no', {})).status).toBe(201)
  })
})
