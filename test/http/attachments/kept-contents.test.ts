import { describe, expect, it, onTestFinished } from 'vitest'
import { Client, type TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { SlowReader, wholeBody } from '../../support/slow-reader.ts'
import { HAS_SEVERAL_SERVERS } from '../../support/test-service.ts'

/** Much more than a connection buffers while its client does not read. */
const CONTENT_BYTES = 12 * 1024 * 1024

const contentOf = (name: string) => Buffer.alloc(CONTENT_BYTES, `${name} `)

async function databaseWithContents(ids: string[], names: string[]): Promise<TestDatabase> {
  const { url } = await startService()
  const client = new Client(url)
  onTestFinished(() => client.close())
  const database = await client.database()
  for (const id of ids) {
    let rev = await database.save(id, {})
    for (const name of names) {
      const headers = { 'Content-Type': 'application/octet-stream' }
      rev = (await database.put(`${id}/${name}?rev=${rev}`, contentOf(id + name), headers)).rev
    }
  }
  return database
}

/** Replaces the documents by some without attachments, and removes what nothing refers to. */
async function replaceAndCompact(database: TestDatabase, ids: string[]): Promise<void> {
  for (const id of ids) {
    const { _rev } = (await database.get(id)).as<{ _rev: string }>()
    await database.save(id, { _rev })
  }
  await database.compact()
}

function reader(database: TestDatabase, path: string, body?: object): SlowReader {
  const slow = new SlowReader(database.client.url, `/${database.name}/${path}`, body)
  onTestFinished(() => slow.leave())
  return slow
}

interface Document {
  readonly _id: string
  readonly _attachments?: Record<string, { readonly data: string }>
}

function expectContents({ _id, _attachments }: Document, names: string[]): void {
  expect(Object.keys(_attachments ?? {}).toSorted()).toEqual(names)
  for (const name of names) {
    const content = Buffer.from(_attachments?.[name]?.data ?? '', 'base64')
    expect(content.equals(contentOf(_id + name))).toBe(true)
  }
}

/** The JSON of a reply, with a length or in chunks. */
function jsonOf(reply: string): unknown {
  return JSON.parse(
    /\r\nTransfer-Encoding: chunked/i.test(reply) ? (wholeBody(reply) ?? '') : reply.split('\r\n\r\n')[1]!,
  )
}

describe('contents that a slow client has not reached yet', () => {
  it.each(['a?attachments=true', 'a?open_revs=all&attachments=true'])(
    'of %s stay until they are sent, though the document has lost them',
    async (path) => {
      const database = await databaseWithContents(['a'], ['x', 'y'])
      const slow = reader(database, path)
      await slow.take(1)
      await replaceAndCompact(database, ['a'])
      const value = jsonOf(await slow.rest())
      const document = Array.isArray(value) ? value[0].ok : value
      expectContents(document, ['x', 'y'])
    },
  )

  it.each([undefined, { keys: ['a', 'b'] }])('are of one state with their document in a listing (%j)', async (keys) => {
    const database = await databaseWithContents(['a', 'b'], ['x'])
    const slow = reader(database, '_all_docs?include_docs=true&attachments=true', keys)
    await slow.take(1)
    await replaceAndCompact(database, ['a', 'b'])
    const { rows } = jsonOf(await slow.rest()) as { rows: { doc: Document }[] }
    expect(rows.map(({ doc }) => doc._id)).toEqual(['a', 'b'])
    // The first was begun before. The second is as it was then, or as it is now.
    expectContents(rows[0]!.doc, ['x'])
    if (rows[1]!.doc._attachments) expectContents(rows[1]!.doc, ['x'])
  })

  // Where there are other servers, they are removed a day later.
  it.skipIf(HAS_SEVERAL_SERVERS)('take no space once they are sent', async () => {
    const database = await databaseWithContents(['a'], ['x'])
    const slow = reader(database, 'a?attachments=true')
    await slow.take(1)
    await replaceAndCompact(database, ['a'])
    expect((await database.info()).disk_size).toBeGreaterThan(CONTENT_BYTES)
    await slow.rest()
    await database.compact()
    expect((await database.info()).disk_size).toBeLessThan(CONTENT_BYTES)
  })
})
