import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { type Client, rawRequest, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { until } from '../../support/until.ts'

const dir = await mkdtemp(join(tmpdir(), 'settle-test-'))
afterAll(() => rm(dir, { recursive: true, force: true }))
const client = serverOfFile({ dir })

const MEGABYTE = 1024 * 1024
const CONTENT = Buffer.alloc(4 * MEGABYTE, 'x')
const BINARY = { 'Content-Type': 'application/octet-stream' }
const ROUNDS = 10
/** What one upload may take, the room that its removal needs, and growth ahead; all of them would take ten times as much. */
const LIMIT = 5 * CONTENT.length

const refuseAll = { validate_doc_update: "function () { throw({forbidden: 'no'}) }" }

function related(document: unknown, ...parts: readonly Buffer[]): { body: Buffer; headers: Record<string, string> } {
  const pieces: Buffer[] = [Buffer.from(`--b\r\nContent-Type: application/json\r\n\r\n${JSON.stringify(document)}`)]
  for (const part of parts) pieces.push(Buffer.from('\r\n--b\r\n\r\n'), part)
  pieces.push(Buffer.from('\r\n--b--'))
  return { body: Buffer.concat(pieces), headers: { 'Content-Type': 'multipart/related; boundary="b"' } }
}

const follows = (length: number) => ({ _attachments: { f: { follows: true, content_type: 'image/png', length } } })

type Upload = (database: TestDatabase, server: Client, round: number) => Promise<number>

const uploads: readonly [name: string, status: number, upload: Upload][] = [
  [
    'that a validation function refuses',
    403,
    async (database) => (await database.request('PUT', 'x/f', { body: CONTENT, headers: BINARY })).status,
  ],
  [
    'whose digest is wrong',
    400,
    async (database) => {
      const headers = { ...BINARY, 'Content-MD5': 'AAAAAAAAAAAAAAAAAAAAAA==' }
      return (await database.request('PUT', 'x/f', { body: CONTENT, headers })).status
    },
  ],
  [
    'in a multipart document that is a conflict',
    409,
    async (database) => {
      await database.put('there', {})
      return (await database.request('PUT', 'there', related(follows(CONTENT.length), CONTENT))).status
    },
  ],
  [
    'in a multipart document whose length is wrong',
    400,
    async (database) => (await database.request('PUT', 'x', related(follows(1), CONTENT))).status,
  ],
  [
    'in a form that is a conflict',
    409,
    async (database, server) => {
      await database.put('there', {})
      const head =
        '--b\r\nContent-Disposition: form-data; name="_doc"\r\n\r\n{}\r\n' +
        '--b\r\nContent-Disposition: form-data; name="_attachments"; filename="f"\r\n'
      const body = Buffer.concat([
        Buffer.from(`${head}Content-Type: image/png\r\n\r\n`),
        CONTENT,
        Buffer.from('\r\n--b--'),
      ])
      const headers = { 'Content-Type': 'multipart/form-data; boundary="b"', Referer: `http://${server.host}/` }
      return (await database.request('POST', 'there', { body, headers })).status
    },
  ],
  [
    'inside of _bulk_docs that are conflicts',
    409,
    async (database) => {
      await database.put('there', {})
      const _attachments = { f: { content_type: 'image/png', data: CONTENT.toString('base64') } }
      const reply = await database.post('_bulk_docs', { docs: [{ _id: 'there', _attachments }] })
      return reply.as<{ error?: string }[]>()[0]?.error === 'conflict' ? 409 : reply.status
    },
  ],
  [
    'with batch=ok that a validation function refuses',
    202,
    async (database, _, round) =>
      (await database.request('PUT', `x${round}/f?batch=ok`, { body: CONTENT, headers: BINARY })).status,
  ],
  [
    'that breaks off',
    0,
    async (database, server) => {
      const connection = await server.open()
      const head = [`PUT /${database.name}/x/f HTTP/1.1`, 'Host: x', `Content-Length: ${CONTENT.length + 1}`]
      connection.write(rawRequest([...head, 'Content-Type: image/png'], CONTENT))
      // Broken off when all but what the system buffers has arrived.
      await until(async () => connection.isDrained)
      connection.end()
      return 0
    },
  ],
]

describe('an upload', () => {
  it.each(uploads)('%s leaves nothing behind', async (name, status, upload) => {
    const database = await client().database()
    if (name.includes('validation')) await database.save('_design/d', refuseAll)
    const { disk_size: before } = await database.info()
    for (let round = 0; round < ROUNDS; round++) {
      expect(await upload(database, client(), round)).toBe(status)
      await database.post('_ensure_full_commit', '')
    }
    expect((await database.info()).disk_size - before).toBeLessThan(LIMIT)
  })

  it('that is taken stays, also where the next one is refused', async () => {
    const database = await client().database()
    const { rev } = await database.request('PUT', 'x/f', { body: CONTENT, headers: BINARY })
    expect((await database.request('PUT', 'x/f', { body: CONTENT, headers: BINARY })).status).toBe(409)
    expect((await database.copy('x', 'y')).status).toBe(201)
    expect((await database.request('PUT', 'z/f?batch=ok', { body: CONTENT, headers: BINARY })).status).toBe(202)
    await database.post('_ensure_full_commit', '')
    await database.remove('x', rev)
    for (const id of ['y', 'z']) expect((await database.get(`${id}/f`)).body.equals(CONTENT)).toBe(true)
  })
})
