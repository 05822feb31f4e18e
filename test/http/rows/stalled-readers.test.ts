import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client, expectRefusal, type TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { SlowReader, wholeBody } from '../../support/slow-reader.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { TEST_NODES } from '../../support/test-service.ts'
import { until } from '../../support/until.ts'

const DOCUMENTS = 4000
const DOCUMENT_BYTES = 5000

/** Written so often without growth, the file has let the reader's state go. */
const STEADY_WRITES = 100
const LOCAL_BYTES = 100_000

interface Members {
  readonly version?: number
  readonly text?: string
}

interface Listed {
  readonly rows: readonly {
    readonly id: string
    readonly key: string
    readonly value: Members
    readonly doc?: Members
  }[]
}

async function newDatabase(): Promise<TestDatabase> {
  const { url } = await startService()
  const client = new Client(url)
  onTestFinished(() => client.close())
  return client.database()
}

const idOf = (number: number) => String(number).padStart(8, '0')

async function fill(database: TestDatabase): Promise<void> {
  const text = 'x'.repeat(DOCUMENT_BYTES)
  for (let first = 0; first < DOCUMENTS; first += 1000) {
    const docs = Array.from({ length: 1000 }, (_, i) => ({ _id: idOf(first + i), version: 1, text }))
    expect((await database.post('_bulk_docs', { docs })).status).toBe(201)
  }
}

async function change(database: TestDatabase, number: number, members: object): Promise<void> {
  const { _rev } = (await database.get(idOf(number))).as<{ _rev: string }>()
  await database.save(idOf(number), { ...members, _rev })
}

/** Writes what takes no more room each time, until that is so: while an old state is held, no page is used again. */
async function writeUntilSteady(database: TestDatabase): Promise<void> {
  let rev: string | undefined
  let size = 0
  let steady = 0
  await until(async () => {
    rev = await database.save('_local/busy', { _rev: rev, text: 'y'.repeat(LOCAL_BYTES) })
    const { disk_size } = await database.info()
    steady = disk_size > size ? 0 : steady + 1
    size = disk_size
    return steady === STEADY_WRITES
  }, 60_000)
}

function reader(database: TestDatabase, path: string, body?: object): SlowReader {
  const slow = new SlowReader(database.client.url, `/${database.name}/${path}`, body)
  onTestFinished(() => slow.leave())
  return slow
}

async function listed(slow: SlowReader): Promise<Listed> {
  const body = wholeBody(await slow.rest())
  expect(body).toBeDefined()
  return JSON.parse(body ?? '')
}

const MAP = 'function (doc) { emit(doc._id, { version: doc.version, text: doc.text }) }'
const VIEW = '_design/by/_view/id'

describe('clients that stall in the middle of a reply', { timeout: 120_000 }, () => {
  it('take no slots from others, and then get every document that existed throughout, once and in order', async () => {
    const database = await newDatabase()
    await fill(database)
    await database.save('_design/by', { views: { id: { map: MAP } } })
    expect((await database.get(`${VIEW}?limit=1`)).status).toBe(200)
    const keys = Array.from({ length: DOCUMENTS }, (_, i) => idOf(DOCUMENTS - 1 - i))
    const up = reader(database, '_all_docs?include_docs=true&endkey="9"')
    const down = reader(database, '_all_docs?include_docs=true&descending=true&startkey="9"')
    const named = reader(database, '_all_docs?include_docs=true', { keys })
    const view = reader(database, `${VIEW}?endkey="9"`)
    const viewDown = reader(database, `${VIEW}?include_docs=true&descending=true&startkey="9"`)
    await Promise.all([up, down, named, view, viewDown].map((slow) => slow.take(1)))

    // Some change, some go, some come: all along the list.
    for (let i = 0; i < DOCUMENTS; i += 100) await change(database, i, { version: 2 })
    for (let i = 50; i < DOCUMENTS; i += 100) await change(database, i, { version: 2, _deleted: true })
    for (let i = 0; i < DOCUMENTS; i += 100) await database.save(`${idOf(i)}-new`, { version: 2 })
    expect((await database.get(`${VIEW}?limit=1`)).status).toBe(200)
    await writeUntilSteady(database)
    await database.compact()
    expect((await database.get('_all_docs?limit=1')).status).toBe(200)

    expectThroughout(await listed(up))
    expectThroughout(reversed(await listed(down)))
    expectThroughout(await listed(view))
    expectThroughout(reversed(await listed(viewDown)))
    const rows = (await listed(named)).rows.map(({ id, key }) => id ?? key)
    expect(rows).toEqual(keys)
  })
})

function reversed({ rows }: Listed): Listed {
  return { rows: rows.toReversed() }
}

function expectThroughout({ rows }: Listed): void {
  const ids = rows.map(({ id }) => id)
  expect(ids).toEqual([...new Set(ids)].toSorted())
  const throughout = Array.from({ length: DOCUMENTS }, (_, i) => idOf(i)).filter((_, i) => i % 100 !== 50)
  const still = new Set(throughout)
  expect(ids.filter((id) => still.has(id))).toEqual(throughout)
  const members = rows.map(({ doc, value }) => doc ?? value)
  // What it was sent last is of the newer state: else nothing was let go.
  expect(members.some((each) => each.version === 2)).toBe(true)
  for (const { version, text } of members) expect(text?.length).toBe(version === 1 ? DOCUMENT_BYTES : undefined)
}

describe('a file whose reader slots are all taken', () => {
  // Of several nodes each has a slot of its own, or none.
  it.skipIf(TEST_NODES > 1)('answers 503 until one is free, and nothing is lost', async () => {
    const dir = await temporaryFolder()
    const { url } = await startService({ dir })
    const client = new Client(url)
    onTestFinished(() => client.close())
    const database = await client.database()
    const rev = await database.save('a', {})
    for (let i = 0; i < 16; i++) await database.save(`large-${i}`, { text: 'x'.repeat(1_000_000) })
    const [file = ''] = (await readdir(dir)).filter(
      (name) => name.startsWith(`${database.name}.`) && name.endsWith('.mdb'),
    )
    const crowd = fork(join(import.meta.dirname, 'reader-slots.ts'), [join(dir, file)])
    onTestFinished(() => void crowd.kill())
    await once(crowd, 'message')

    // The server has a slot of its own. Now it is taken too: by a reader of a state that is no longer the newest.
    await reader(database, '_all_docs?include_docs=true').take(1)
    await database.save('newer', {})

    const reason = 'Too many states of the store are being read; try again later.'
    const refused = await database.get('a')
    expectRefusal(refused, 503, 'service_unavailable', reason)
    expect(refused.headers['retry-after']).toBe('1')
    for (const path of ['', '_all_docs', '_all_docs?include_docs=true', 'a?open_revs=all']) {
      expectRefusal(await database.get(path), 503, 'service_unavailable', reason)
    }
    expectRefusal(await database.put('b', {}), 503, 'service_unavailable', reason)
    expectRefusal(await database.post('_bulk_docs', { docs: [{}] }), 503, 'service_unavailable', reason)
    expect((await client.request('GET', '/')).status).toBe(200)

    crowd.send('release')
    await once(crowd, 'exit')
    expect((await database.get('a')).as<{ _rev: string }>()._rev).toBe(rev)
    expect((await database.info()).doc_count).toBe(18)
    expect((await database.put('b', {})).status).toBe(201)
  })
})
