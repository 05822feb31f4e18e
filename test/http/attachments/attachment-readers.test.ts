/**
 * Buffers of contents are freed as soon as they are sent or stored. No reader may see bytes of another, be it slow, gone, in
 * ranges, pipelined or beside writers and a compaction that use the same memory again.
 */
import { createHash, randomBytes } from 'node:crypto'
import { describe, expect, it, onTestFinished } from 'vitest'
import { OCTETS } from '../../support/attachments.ts'
import { RawConnection, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { SlowReader } from '../../support/slow-reader.ts'

const client = serverOfFile()

/** One chunk and several; the largest is more than a connection buffers while its client does not read. */
const SIZES = [40_000, 261_000, 900_000, 12_000_000]

function digestOf(bytes: Buffer): string {
  return createHash('sha1').update(bytes).digest('hex')
}

interface Content {
  readonly path: string
  readonly bytes: Buffer
}

async function stored(db: TestDatabase): Promise<Content[]> {
  const contents: Content[] = []
  for (const [i, size] of SIZES.entries()) {
    const bytes = randomBytes(size)
    expect((await db.put(`d${i}/a`, bytes, { 'Content-Type': OCTETS })).status).toBe(201)
    contents.push({ path: `d${i}/a`, bytes })
  }
  return contents
}

/** The bodies of replies that have a length each, in their order. */
function bodiesIn(received: string, bodies: readonly ('sent' | 'left out')[]): Buffer[] {
  let rest = received
  return bodies.map((body) => {
    const headEnd = rest.indexOf('\r\n\r\n') + 4
    const length = body === 'sent' ? Number(/Content-Length: (\d+)/i.exec(rest.slice(0, headEnd))?.[1]) : 0
    const content = Buffer.from(rest.slice(headEnd, headEnd + length), 'latin1')
    rest = rest.slice(headEnd + length)
    return content
  })
}

async function readPipelined(db: TestDatabase, contents: readonly Content[]): Promise<void> {
  const connection = await RawConnection.open(db.client.url)
  const line = (method: string, path: string, more = '') =>
    `${method} /${db.name}/${path} HTTP/1.1\r\nHost: x\r\n${more}\r\n`
  const [a, b, c] = [contents[3]!, contents[1]!, contents[2]!]
  connection.write(
    line('GET', a.path) +
      line('HEAD', b.path) +
      line('GET', c.path, 'Range: bytes=1000-600000\r\n') +
      line('GET', b.path, 'Connection: close\r\n'),
  )
  const found = bodiesIn(await connection.closed(), ['sent', 'left out', 'sent', 'sent'])
  const wanted = [a.bytes, Buffer.alloc(0), c.bytes.subarray(1000, 600_001), b.bytes]
  expect(found.map(digestOf)).toEqual(wanted.map(digestOf))
}

async function readSlowly(db: TestDatabase, { path, bytes }: Content): Promise<void> {
  const slow = new SlowReader(db.client.url, `/${db.name}/${path}`)
  onTestFinished(() => slow.leave())
  for (let taken = 0; taken < 3; taken++) await slow.take(1)
  const [found] = bodiesIn(await slow.rest(), ['sent'])
  expect(digestOf(found!)).toBe(digestOf(bytes))
}

async function leaveEarly(db: TestDatabase, { path }: Content): Promise<void> {
  const slow = new SlowReader(db.client.url, `/${db.name}/${path}`)
  await slow.take(1)
  slow.leave()
}

async function readRange(db: TestDatabase, { path, bytes }: Content): Promise<void> {
  const [first, last] = [Math.floor(bytes.length / 3), bytes.length - 7]
  const reply = await db.get(path, { Range: `bytes=${first}-${last}` })
  expect(digestOf(reply.body)).toBe(digestOf(bytes.subarray(first, last + 1)))
}

/** Contents in JSON: of one size that is sent at once, and of one that is streamed. */
async function readTogether(db: TestDatabase, contents: readonly Content[]): Promise<void> {
  const docs = await Promise.all(
    contents.map(async (_, i) => ({ id: `d${i}`, rev: (await db.get(`d${i}`)).as<{ _rev: string }>()._rev })),
  )
  const reply = await db.post('_bulk_get?attachments=true', { docs }, { Accept: 'application/json' })
  const { results } = reply.as<{ results: { docs: { ok: { _attachments: { a: { data: string } } } }[] }[] }>()
  const found = results.map(({ docs: [doc] }) => digestOf(Buffer.from(doc!.ok._attachments.a.data, 'base64')))
  expect(found).toEqual(contents.map(({ bytes }) => digestOf(bytes)))
}

/** In bodies that are read at once, with contents of a size that is freed by itself. */
async function writeInBulk(db: TestDatabase): Promise<void> {
  const contents = Array.from({ length: 12 }, (_, i) => randomBytes(9000 + 6000 * i))
  const docs = contents.map((bytes, i) => ({
    _id: `bulk-${i}`,
    _attachments: { a: { content_type: OCTETS, data: bytes.toString('base64') } },
  }))
  // One that is refused: its content stays with nobody.
  const saved = await db.post('_bulk_docs', { docs: [...docs, { ...docs[0], _rev: '1-abc' }] })
  expect(saved.status).toBe(201)
  const found = await Promise.all(docs.map(async ({ _id }) => digestOf((await db.get(`${_id}/a`)).body)))
  expect(found).toEqual(contents.map(digestOf))
}

describe('contents of attachments', () => {
  it('are those that were stored, for all concurrent readers', async () => {
    const db = await client().database()
    const contents = await stored(db)
    await Promise.all([
      ...contents.map((content) => readSlowly(db, content)),
      ...contents.map((content) => leaveEarly(db, content)),
      ...contents.map((content) => readRange(db, content)),
      readPipelined(db, contents),
      readTogether(db, contents),
      writeInBulk(db),
      db.put('upload/a', randomBytes(5_000_000), { 'Content-Type': OCTETS }),
      db.compact(),
    ])
  })
})
