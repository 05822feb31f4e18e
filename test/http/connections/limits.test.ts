import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { Client, expectRefusal, rawRequest, type TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

const TOO_LARGE = 'the request entity is too large'

async function limited(settings: Record<string, Record<string, string>>): Promise<TestDatabase> {
  const { url } = await startService({ settings })
  return new Client(url).database()
}

describe('a limit', () => {
  it('holds for a document', async () => {
    const db = await limited({ service: { max_document_size: '1000' } })
    const document = (length: number) => ({ text: 'x'.repeat(length) })
    expect((await db.put('fits', document(900))).status).toBe(201)
    const refused = await Promise.all([
      db.put('doc', document(1_100)),
      db.post('', document(1_100)),
      db.put('_local/doc', document(1_100)),
      db.put('_design/doc', document(1_100)),
      db.put('doc', document(1_100), { 'Transfer-Encoding': 'chunked' }),
    ])
    for (const reply of refused) {
      expect([reply.status, reply.json]).toMatchObject([413, { error: expect.stringMatching(/too_large$/) }])
    }
    expect(await db.info()).toMatchObject({ doc_count: 1, update_seq: 1 })
  })

  it('holds for each document of a bulk request, and not for all of them together', async () => {
    const db = await limited({ service: { max_document_size: '1000' } })
    const docs = Array.from({ length: 10 }, () => ({ text: 'x'.repeat(800) }))
    expect((await db.post('_bulk_docs', { docs })).status).toBe(201)
    const reply = await db.post('_bulk_docs', { docs: [{ _id: 'a' }, { _id: 'b', text: 'x'.repeat(1_100) }] })
    expect(reply.status).toBe(413)
    expect(await db.info()).toMatchObject({ doc_count: 10, update_seq: 10 })
  })

  it('holds for a request', async () => {
    const db = await limited({ httpd: { max_http_request_size: '1000' } })
    const docs = Array.from({ length: 10 }, () => ({ text: 'x'.repeat(200) }))
    expectRefusal(await db.post('_bulk_docs', { docs }), 413, 'too_large', TOO_LARGE)
    const chunked = await db.post('_bulk_docs', { docs }, { 'Transfer-Encoding': 'chunked' })
    expectRefusal(chunked, 413, 'too_large', TOO_LARGE)
    expectRefusal(await db.put('doc', { text: 'x'.repeat(1_100) }), 413, 'too_large', TOO_LARGE)
    const keys = Array.from({ length: 200 }, () => 'abcdef')
    expectRefusal(await db.post('_all_docs', { keys }), 413, 'too_large', TOO_LARGE)
    expect((await db.post('_bulk_docs', { docs: docs.slice(0, 2) })).status).toBe(201)
    expect(await db.info()).toMatchObject({ doc_count: 2, update_seq: 2 })
  })

  it('holds for the decompressed size of a body', async () => {
    const db = await limited({ httpd: { max_http_request_size: '10000' } })
    const bomb = gzipSync(JSON.stringify({ text: 'x'.repeat(5_000_000) }))
    expect(bomb.length).toBeLessThan(10_000)
    expectRefusal(await db.put('doc', bomb, { 'Content-Encoding': 'gzip' }), 413, 'too_large', TOO_LARGE)
    expect((await db.info()).update_seq).toBe(0)
  })

  it('is reported before the body is sent, to a client that waits for 100 Continue', async () => {
    const db = await limited({ httpd: { max_http_request_size: '1000' } })
    const connection = await db.client.open()
    const lines = [`PUT /${db.name}/doc HTTP/1.1`, 'Host: x', 'Content-Length: 5000000', 'Expect: 100-continue']
    connection.write(rawRequest(lines))
    await connection.receives(/^HTTP\/1\.1 413/)
    connection.end()
  })

  it('holds for a path with its query', async () => {
    const db = await limited({ httpd: { max_uri_length: '200' } })
    expect((await db.get(`${'x'.repeat(100)}`)).status).toBe(404)
    for (const path of ['x'.repeat(300), `doc?${'x'.repeat(300)}`]) {
      expectRefusal(await db.get(path), 414, 'too_long', 'the request entity is too long')
    }
  })
})
