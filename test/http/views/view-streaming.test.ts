/** Long answers of views: what they take of the server while a client reads them, and what becomes of them. */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { ServerProcess } from '../../crash/server-process.ts'
import { Client, type TestDatabase } from '../../support/client.ts'
import { SlowReader, wholeBody } from '../../support/slow-reader.ts'
import { until } from '../../support/until.ts'
import { answerOf, fill, putViews, query } from '../../support/views.ts'

const DOCUMENTS = 6_000
const VALUE_BYTES = 2_000
const MEGABYTE = 1024 * 1024
/** What an answer may take on top, whatever its length. */
const GROWTH_BYTES = 80 * MEGABYTE

const MAP = `function (doc) { emit(doc._id, new Array(${VALUE_BYTES + 1}).join('x')) }`

function idOf(number: number): string {
  return String(number).padStart(6, '0')
}

describe('a long answer of a view', { timeout: 120_000 }, () => {
  let folder: string
  let server: ServerProcess
  let client: Client

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'settle-test-'))
    server = new ServerProcess(folder)
    client = new Client((await server.url())!)
  })

  afterAll(async () => {
    client.close()
    await server.stop()
    await rm(folder, { recursive: true })
    expect(server.complaints).toBe('')
  })

  async function viewOfMany(): Promise<TestDatabase> {
    const db = await client.database()
    for (let first = 0; first < DOCUMENTS; first += 2_000) {
      await fill(
        db,
        Array.from({ length: 2_000 }, (_, i) => ({ _id: idOf(first + i) })),
      )
    }
    await putViews(db, { long: { map: MAP, reduce: '_count' } })
    expect((await query(db, 'long', 'reduce=false&limit=1')).total_rows).toBe(DOCUMENTS)
    return db
  }

  /** For tests that leave it as it is, or add to it. */
  let many: Promise<TestDatabase> | undefined
  function shared(): Promise<TestDatabase> {
    many ??= viewOfMany()
    return many
  }

  function read(db: TestDatabase, parameters = 'reduce=false'): SlowReader {
    const reader = new SlowReader(client.url, `/${db.name}/_design/d/_view/long?${parameters}`)
    onTestFinished(() => reader.leave())
    return reader
  }

  async function restOf(reader: SlowReader): Promise<(string | undefined)[]> {
    const body = wholeBody(await reader.rest())
    const { rows }: { rows: { id?: string; value: string }[] } = JSON.parse(body ?? '')
    return rows.map(({ id }) => id)
  }

  const ALL = Array.from({ length: DOCUMENTS }, (_, i) => idOf(i))

  async function indexFiles(db: TestDatabase): Promise<string[]> {
    const files = await readdir(folder, { recursive: true })
    return files.filter((file) => file.includes(db.name) || file.includes('.trash/'))
  }

  it('uses no memory for rows that a slow reader has not read', async () => {
    const db = await shared()
    await db.get('_design/d/_view/long?reduce=false&limit=3000')
    const before = server.residentBytes
    const reader = read(db)
    let highest = 0
    while (!reader.isClosed) {
      await reader.take(MEGABYTE)
      await pause(5)
      highest = Math.max(highest, server.residentBytes)
    }
    expect(await restOf(reader)).toEqual(ALL)
    expect((highest - before) / MEGABYTE).toBeLessThan(GROWTH_BYTES / MEGABYTE)
  })

  it('continues to its end when the design document is deleted in the meantime and cleaned up', async () => {
    const db = await viewOfMany()
    const reader = read(db, 'reduce=false&include_docs=true')
    await reader.take(1)
    const { _rev } = (await db.get('_design/d')).as<{ _rev: string }>()
    await db.remove('_design/d', _rev)
    expect((await db.get('_design/d/_view/long')).status).toBe(404)
    expect((await db.post('_view_cleanup', '')).status).toBe(202)
    expect(await restOf(reader)).toEqual(ALL)
  })

  it('is aborted when its reader disconnects', async () => {
    const db = await viewOfMany()
    const readers = [read(db), read(db, 'group=true'), read(db, 'reduce=false&descending=true&include_docs=true')]
    await Promise.all(readers.map((reader) => reader.take(1)))
    expect((await db.request('DELETE')).status).toBe(200)
    for (const reader of readers) reader.leave()
    await until(async () => (await indexFiles(db)).length === 0, 20_000)
  })

  it('does not block others', async () => {
    const db = await shared()
    const readers = Array.from({ length: 20 }, () => read(db))
    await Promise.all(readers.map((reader) => reader.take(1)))
    await db.save('zzz', {})
    expect(answerOf(await db.get('_design/d/_view/long'))).toEqual({ rows: [{ key: null, value: DOCUMENTS + 1 }] })
  })
})
