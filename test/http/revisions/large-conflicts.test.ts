/** All leaves of a document together may be larger than memory: they are opened as fast as the client takes them. */
import { createHash } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import { serverOfFile, type TestDatabase } from '../../support/client.ts'
import { MeasuredServer } from '../../support/measured-server.ts'
import { SlowReader, wholeBody } from '../../support/slow-reader.ts'

const client = serverOfFile()

const BODY_BYTES = 256 * 1024
const LEAVES = 60
const MEBIBYTE = 1024 * 1024

const hash = (number: number) => createHash('md5').update(String(number)).digest('hex')

/** One document with so many leaves, each as large; their revisions. */
async function conflicting(database: TestDatabase, leaves: number, bytes: number): Promise<string[]> {
  for (let first = 0; first < leaves; first += 20) {
    const length = Math.min(20, leaves - first)
    const docs = Array.from({ length }, (_, i) => ({ _id: 'a', _rev: `1-${hash(first + i)}`, text: 'x'.repeat(bytes) }))
    await database.replicate(...docs)
  }
  return Array.from({ length: leaves }, (_, i) => `1-${hash(i)}`)
    .toSorted()
    .reverse()
}

function reading(database: TestDatabase, path: string, body?: object): SlowReader {
  const reader = new SlowReader(database.client.url, `/${database.name}/${path}`, body)
  onTestFinished(() => reader.leave())
  return reader
}

it('are few in memory at a time', async () => {
  const server = await MeasuredServer.start()
  const database = await server.client.database()
  const revisions = await conflicting(database, LEAVES, BODY_BYTES)
  for (const [path, body] of [['a?open_revs=all'], ['_bulk_get', { docs: [{ id: 'a' }] }]] as const) {
    const before = await server.heldBytes()
    const reader = reading(database, path, body)
    await reader.take(MEBIBYTE)
    expect((await server.heldBytes()) - before, path).toBeLessThan(8 * MEBIBYTE)
    const reply = wholeBody(await reader.rest()) ?? ''
    for (const revision of revisions) expect(reply.includes(`{"_id":"a","_rev":"${revision}"`), path).toBe(true)
  }
})

it('are complete, in their order, followed by the missing ones', async () => {
  const database = await client().database()
  const revisions = await conflicting(database, 250, 10)
  const found = (await database.get('a?open_revs=all')).as<{ ok: { _rev: string } }[]>()
  expect(found.map(({ ok }) => ok._rev)).toEqual(revisions)
  const asked = encodeURIComponent(JSON.stringify(['9-none', ...revisions]))
  const named = (await database.get(`a?open_revs=${asked}`)).as<{ ok?: { _rev: string }; missing?: string }[]>()
  expect(named.map(({ ok, missing }) => ok?._rev ?? missing)).toEqual([...revisions, '9-none'])
})

it('that are purged while they are sent are reported missing', async () => {
  const database = await client().database()
  // More than the buffers of the sockets take.
  const revisions = await conflicting(database, 120, BODY_BYTES)
  const reader = reading(database, 'a?open_revs=all')
  await reader.take(MEBIBYTE)
  expect((await database.post('_purge', { a: revisions })).status).toBe(200)
  const entries: { ok?: object; missing?: string }[] = JSON.parse(wholeBody(await reader.rest()) ?? '')
  expect(entries).toHaveLength(revisions.length)
  expect(entries[0]).toHaveProperty('ok')
  expect(entries.at(-1)).toEqual({ missing: revisions.at(-1) })
})
