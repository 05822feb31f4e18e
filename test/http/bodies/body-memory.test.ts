import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { type RawConnection, type Reply, rawRequest, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { HAS_SEVERAL_SERVERS, isBalanced, TEST_NODES } from '../../support/test-service.ts'

const MEGABYTE = 1024 * 1024
/** Where there are secondaries, three quarters of the limit are left for uploads. */
const LIMIT = 55 * MEGABYTE * (TEST_NODES > 1 && !HAS_SEVERAL_SERVERS ? 4 / 3 : 1)
const settings = { httpd: { max_body_memory: String(Math.ceil(LIMIT)), body_memory_timeout: '6000' } }
const client = serverOfFile({ settings })

const large = Buffer.from(JSON.stringify({ text: 'x'.repeat(9 * MEGABYTE) }))

/** A body of which all but the last byte is sent. */
async function unfinished(database: TestDatabase, id: string): Promise<RawConnection> {
  const connection = await client().open()
  const head = [`PUT /${database.name}/${id} HTTP/1.1`, 'Host: x', `Content-Length: ${large.length}`]
  connection.write(rawRequest([...head, 'Connection: close'], large.subarray(0, -1)))
  await expect.poll(() => connection.isDrained).toBe(true)
  return connection
}

function expectBusy(reply: Reply): void {
  expect(reply.as<{ error: string }>().error).toBe('service_unavailable')
  expect(reply.headers['retry-after']).toMatch(/^\d+$/)
}

function isCutOff(connection: RawConnection): boolean {
  return connection.statuses.includes('408')
}

describe('bodies of many requests', () => {
  it.each([
    ['with their length', large, {}],
    ['in chunks', large, { 'Transfer-Encoding': 'chunked' }],
    ['packed', gzipSync(large), { 'Content-Encoding': 'gzip' }],
    // On a machine with much else to do a client may be too slow, which is answered 408.
  ])('that arrive together %s are accepted or answered 503, and release their memory', async (_, body, headers) => {
    const database = await client().database()
    const replies = await Promise.all(
      Array.from({ length: 8 }, (_, i) => database.request('PUT', `large-${i}`, { body, headers })),
    )
    expect(replies.filter(({ status }) => status === 201).length).toBeGreaterThan(0)
    for (const reply of replies) if (reply.status !== 201 && reply.status !== 408) expectBusy(reply)
    expect((await database.request('PUT', 'another', { body, headers })).status).toBe(201)
  })

  // A load balancer holds a part of what a client has sent.
  it.skipIf(isBalanced)('that are incomplete let small ones pass, and are cut off for the next large one', async () => {
    const database = await client().database()
    const held = [await unfinished(database, 'a'), await unfinished(database, 'b')]
    expect((await database.put('small', {})).status).toBe(201)
    expect((await database.get('small')).status).toBe(200)
    expect((await database.put('third', large)).status).toBe(201)
    await expect.poll(() => held.filter(isCutOff)).toHaveLength(1)
    const left = held.find((connection) => !isCutOff(connection))
    left?.write(large.subarray(-1))
    expect(await left?.closed()).toMatch(/^HTTP\/1.1 201 /)
  })

  it.skipIf(isBalanced)('that are streamed to the store count too', async () => {
    const database = await client().database()
    const held: RawConnection[] = []
    for (const id of ['a', 'b', 'c', 'd', 'e']) held.push(await unfinished(database, `${id}/f`))
    const reply = await database.put('third/f', large, { 'Content-Type': 'application/octet-stream' })
    expect(reply.status).toBe(201)
    await expect.poll(() => held.filter(isCutOff)).toHaveLength(1)
    for (const connection of held) connection.end()
  })

  it('that are announced and not sent take no memory', async () => {
    const database = await client().database()
    const silent: RawConnection[] = []
    for (const id of ['a/f', 'b/f', 'c/f']) {
      const connection = await client().open()
      // The go-ahead tells that the server waits for the body.
      const head = [`PUT /${database.name}/${id} HTTP/1.1`, 'Host: x', 'Expect: 100-continue']
      connection.write(rawRequest([...head, `Content-Length: ${large.length}`]))
      await connection.receives('100 Continue')
      silent.push(connection)
    }
    expect((await database.put('large', large)).status).toBe(201)
    for (const connection of silent) connection.end()
  })
})
