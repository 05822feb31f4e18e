import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { Database } from '../../../src/database/database.ts'
import { bodyKey } from '../../../src/database/layout/keys.ts'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { ServerProcess } from '../../crash/server-process.ts'
import { put, surroundings, written } from '../../database/test-database.ts'
import { Client, expectRefusal, type TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { SlowReader, wholeBody } from '../../support/slow-reader.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { until } from '../../support/until.ts'

/** Large ones, so that there are few rows to a megabyte: this is about bytes. */
const DOCUMENTS = 2_500
const DOCUMENT_BYTES = 40_000
const MEGABYTE = 1024 * 1024
/** What a listing may take on top, whatever its length: this one is longer. */
const GROWTH_BYTES = 80 * MEGABYTE
/** What forty of them may, of which nobody has read anything. */
const STALLED_GROWTH_BYTES = 300 * MEGABYTE
/** Of those that are made for one test: more than fits into the buffers of a connection. */
const OTHER_DOCUMENTS = 600

async function fill(database: TestDatabase, documents: number, bytes: number): Promise<void> {
  const perRequest = Math.max(1, Math.min(1000, Math.floor((4 * MEGABYTE) / bytes)))
  for (let first = 0; first < documents; first += perRequest) {
    const docs = Array.from({ length: Math.min(perRequest, documents - first) }, (_, i) => ({
      _id: String(first + i).padStart(8, '0'),
      text: 'x'.repeat(bytes),
    }))
    const reply = await database.post('_bulk_docs', { docs })
    expect(reply.status, reply.text).toBe(201)
  }
}

describe('a long listing', () => {
  let folder: string
  let server: ServerProcess
  let client: Client
  let database: TestDatabase

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'settle-test-'))
    server = new ServerProcess(folder)
    client = new Client((await server.url())!)
    database = await client.database()
    await fill(database, DOCUMENTS, DOCUMENT_BYTES)
    // Once beforehand: what the server needs for the first one is not what this is about.
    await database.get('_all_docs?include_docs=true&limit=500')
  }, 120_000)

  afterAll(async () => {
    client.close()
    await server.stop()
    await rm(folder, { recursive: true })
    expect(server.complaints).toBe('')
  })

  function read(path = `/${database.name}/_all_docs?include_docs=true`): SlowReader {
    const reader = new SlowReader(client.url, path)
    onTestFinished(() => reader.leave())
    return reader
  }

  it('uses no memory for rows that a slow reader has not read', async () => {
    const before = server.residentBytes
    const reader = read()
    let highest = 0
    while (!reader.isClosed) {
      await reader.take(MEGABYTE / 2)
      await pause(5)
      highest = Math.max(highest, server.residentBytes)
    }
    const body = wholeBody(await reader.rest())
    expect(body && JSON.parse(body).rows.length).toBe(DOCUMENTS)
    expect((highest - before) / MEGABYTE).toBeLessThan(GROWTH_BYTES / MEGABYTE)
  })

  it('uses no memory for rows that many stalled readers have not read, and does not block others', async () => {
    const aloneMs = await slowestOfHundred()
    const before = server.residentBytes
    const readers = Array.from({ length: 40 }, () => read())
    await Promise.all(readers.map((reader) => reader.take(1)))
    // Held against the time without them: the machine may be busy with something else. Who waits for them waits far longer.
    expect(await slowestOfHundred()).toBeLessThan(Math.max(3_000, 10 * aloneMs))
    for (const reader of readers) expect(reader.isClosed).toBe(false)
    expect((server.residentBytes - before) / MEGABYTE).toBeLessThan(STALLED_GROWTH_BYTES / MEGABYTE)
  })

  /** The time that 99 of 100 reads of a document stay below. */
  async function slowestOfHundred(): Promise<number> {
    const timesMs: number[] = []
    for (let i = 0; i < 300; i++) {
      const begun = performance.now()
      const reply = await database.get(String(i * 7).padStart(8, '0'))
      timesMs.push(performance.now() - begun)
      expect(reply.status).toBe(200)
    }
    return timesMs.sort((a, b) => a - b)[Math.floor(0.99 * timesMs.length)]!
  }

  it('is aborted when its reader disconnects', async () => {
    const other = await client.database()
    await fill(other, OTHER_DOCUMENTS, DOCUMENT_BYTES)
    const reader = read(`/${other.name}/_all_docs?include_docs=true`)
    await reader.take(1)
    expect((await other.request('DELETE')).status).toBe(200)
    expect(await filesOf(folder, other.name)).not.toEqual([])
    reader.leave()
    await until(async () => (await filesOf(folder, other.name)).length === 0, 10_000)
  })

  it('continues to its end when its database is deleted in the meantime', async () => {
    const other = await client.database()
    await fill(other, OTHER_DOCUMENTS, DOCUMENT_BYTES)
    const reader = read(`/${other.name}/_all_docs?include_docs=true`)
    await reader.take(1)
    expect((await other.request('DELETE')).status).toBe(200)
    expectRefusal(await other.get(), 404, 'not_found', 'no_db_file')
    const body = wholeBody(await reader.rest())
    expect(body && JSON.parse(body).rows.length).toBe(OTHER_DOCUMENTS)
    await until(async () => (await filesOf(folder, other.name)).length === 0, 10_000)
  })

  it('is one snapshot, whatever is written meanwhile', async () => {
    const other = await client.database()
    await fill(other, OTHER_DOCUMENTS, DOCUMENT_BYTES)
    const reader = read(`/${other.name}/_all_docs?include_docs=true`)
    await reader.take(1)
    // In two requests, however busy the machine: a reader that stalls for seconds would get a newer state.
    const keys = Array.from({ length: 24 }, (_, i) => String(25 * i).padStart(8, '0'))
    const found = (await other.post('_all_docs', { keys })).as<{ rows: { id: string; value: { rev: string } }[] }>()
    const docs = found.rows.map(({ id, value }, i) => ({
      _id: id,
      _rev: value.rev,
      text: 'changed',
      _deleted: i % 2 === 0,
    }))
    expect((await other.post('_bulk_docs', { docs })).status).toBe(201)
    const body = wholeBody(await reader.rest())
    const rows: { doc: { text: string } }[] = body && JSON.parse(body).rows
    expect(rows.length).toBe(OTHER_DOCUMENTS)
    expect(rows.filter(({ doc }) => doc.text === 'changed')).toEqual([])
  })
})

describe('a listing that fails after a part of it was sent', () => {
  it('aborts the connection, and affects nothing else', async () => {
    const dir = await temporaryFolder()
    await damagedDatabase(dir, 'damaged', { documents: 2000, missing: 1900 })
    const { url } = await startService({ dir })
    const reader = new SlowReader(new URL(url), '/damaged/_all_docs?include_docs=true')
    const reply = await reader.rest()
    expect(reply).toMatch(/^HTTP\/1.1 200 OK\r\n/)
    expect(reply).toContain('"id":"00000100"')
    expect(wholeBody(reply)).toBeUndefined()
    const client = new Client(url)
    onTestFinished(() => client.close())
    expect((await client.request('GET', '/damaged/_all_docs')).as<{ rows: unknown[] }>().rows).toHaveLength(2000)
    expect((await client.request('GET', '/damaged/00000001')).status).toBe(200)
  })
})

describe('documents near the limit', () => {
  it('are listed with less memory than they take together', { timeout: 600_000 }, async () => {
    const folder = await temporaryFolder()
    const server = new ServerProcess(folder)
    onTestFinished(() => server.kill())
    const client = new Client((await server.url())!)
    onTestFinished(() => client.close())
    const database = await client.database()
    await fill(database, 60, 4 * MEGABYTE)
    await database.get('_all_docs?include_docs=true&limit=1')
    const before = server.residentBytes
    let highest = 0
    const reader = new SlowReader(client.url, `/${database.name}/_all_docs?include_docs=true`)
    while (!reader.isClosed) {
      await reader.take(4 * MEGABYTE)
      highest = Math.max(highest, server.residentBytes)
    }
    expect(reader.bytes).toBeGreaterThan(60 * 4 * MEGABYTE)
    expect((highest - before) / MEGABYTE).toBeLessThan((3 * GROWTH_BYTES) / MEGABYTE)
  })

  it('come back as they were, and are refused beyond it', async () => {
    const { url } = await startService({
      settings: { service: { max_document_size: '1000000' }, httpd: { max_http_request_size: '3000000' } },
    })
    const client = new Client(url)
    onTestFinished(() => client.close())
    const database = await client.database()
    const text = (bytes: number) => JSON.stringify({ text: 'x'.repeat(bytes - '{"text":""}'.length) })

    const rev = await database.save('just', text(1_000_000))
    expect((await database.get('just')).text).toBe(`{"_id":"just","_rev":"${rev}",${text(1_000_000).slice(1)}\n`)
    expect((await database.put('more', text(1_000_001))).status).toBe(413)
    const bulk = (...bytes: number[]) => `{"docs":[${bytes.map(text).join()}]}`
    expect((await database.post('_bulk_docs', bulk(900_000, 900_000, 900_000))).status).toBe(201)
    expect((await database.post('_bulk_docs', bulk(100, 1_000_001))).status).toBe(413)
    const before = await database.info()
    const tooLarge = await database.post('_bulk_docs', bulk(1_000_000, 1_000_000, 1_000_000, 1_000_000))
    expectRefusal(tooLarge, 413, 'too_large', 'the request entity is too large')
    expect(await database.info()).toEqual(before)
  })

  it('are refused before they are sent when their length is given, and while they are sent when it is not', async () => {
    const { url } = await startService({ settings: { httpd: { max_http_request_size: '1000000' } } })
    const client = new Client(url)
    onTestFinished(() => client.close())
    const database = await client.database()
    const told = await client.exchange(
      `PUT /${database.name}/a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000001\r\n\r\n{`,
    )
    expect(told).toMatch(/^HTTP\/1.1 413 /)
    const connection = await client.open()
    connection.write(`PUT /${database.name}/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n`)
    const chunk = `${(100_000).toString(16)}\r\n${' '.repeat(100_000)}\r\n`
    for (let sent = 0; sent < 1_100_000; sent += 100_000) connection.write(chunk)
    expect(await connection.receives(/\r\n\r\n.*\n/s)).toMatch(/^HTTP\/1.1 413 /)
    connection.end()
  })
})

/** The files of a database, those that wait for their last reader too. */
async function filesOf(folder: string, name: string): Promise<string[]> {
  const files = [...(await readdir(folder)), ...(await readdir(join(folder, '.trash')))]
  return files.filter((file) => file.startsWith(`${name}.`) && file.endsWith('.mdb'))
}

/** Has lost one body, as no crash could make it: something for a listing to fail at. */
async function damagedDatabase(
  folder: string,
  name: string,
  { documents, missing }: { documents: number; missing: number },
): Promise<void> {
  const engine = await LmdbEngine.open({ folder })
  const store = await engine.create(name)
  const database = await Database.create(store, surroundings())
  const text = 'x'.repeat(1000)
  await written(database.write(Array.from({ length: documents }, (_, i) => put(String(i).padStart(8, '0'), { text }))))
  await store.commit({ deletes: [bodyKey(missing)] })
  await engine.close()
}
