import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { Client, type Reply, serverOfFile } from '../support/client.ts'
import { descendantsCalled } from '../support/descendants.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const SUMS = { views: { n: { map: 'function (doc) { emit(doc.n % 10, doc.n) }', reduce: '_sum' } } }

interface ViewReply {
  readonly total_rows?: number
  readonly rows: readonly { readonly key: unknown; readonly value: number }[]
}

interface IndexInformation {
  readonly view_index: {
    readonly compact_running: boolean
    readonly disk_size: number
    readonly update_seq: number
    readonly signature: string
  }
}

describe('indexes that other processes work on', () => {
  const server = serverOfFile()
  afterEach(() => server().request('DELETE', '/db'))

  it('show every write that was acknowledged before they were asked', async () => {
    const client = server()
    await fill(client, 'db', 0, 1)
    let sum = 0
    for (let n = 1; n <= 20; n++) {
      await client.request('PUT', `/db/more${n}`, { body: { n } })
      sum += n
      expect(await sumOf(client, 'db')).toBe(sum)
    }
  })

  it('are worked on side by side', async () => {
    const client = server()
    const names = ['one', 'two', 'three']
    for (const name of names) await fill(client, name, 0, 1200)
    expect(await Promise.all(names.map((name) => sumOf(client, name)))).toEqual(names.map(() => (1199 * 1200) / 2))
    for (const name of names) await fill(client, name, 1200, 100)
    expect(await Promise.all(names.map((name) => sumOf(client, name)))).toEqual(names.map(() => (1299 * 1300) / 2))
  })

  it('continue while their database is compacted', async () => {
    const client = server()
    await fill(client, 'db', 0, 1500)
    await client.request('POST', '/db/_compact', { body: {} })
    expect(await sumOf(client, 'db')).toBe((1499 * 1500) / 2)
    for (let round = 0; round < 5; round++) {
      await client.request('POST', '/db/_compact', { body: {} })
      await fill(client, 'db', 1500 + 10 * round, 10)
      const last = 1510 + 10 * round
      expect(await sumOf(client, 'db')).toBe(((last - 1) * last) / 2)
    }
  })

  it('are compacted, take less space, and continue', async () => {
    const client = server()
    await fill(client, 'db', 0, 1200)
    await sumOf(client, 'db')
    for (let first = 0; first < 1200; first += 400) {
      await rewrite(client, first, 400)
      await sumOf(client, 'db')
    }
    const before = await information(client)
    const reply = await client.request('POST', '/db/_compact/test', { body: {} })
    expect(reply.status, reply.text).toBe(202)
    await client.request('PUT', '/db/extra', { body: { n: 7 } })
    const sum = await sumOf(client, 'db')
    await expect.poll(async () => (await information(client)).compact_running).toBe(false)
    const after = await information(client)
    expect(after.disk_size).toBeLessThan(before.disk_size)
    expect(after.signature).toBe(before.signature)
    expect(await sumOf(client, 'db')).toBe(sum)
    await client.request('PUT', '/db/last', { body: { n: 1 } })
    expect(await sumOf(client, 'db')).toBe(sum + 1)
  })
})

describe('indexes and the processes that work on them', () => {
  it('are gone with their database, though it is deleted while they are being built', async () => {
    const { client, folder } = await start()
    await fill(client, 'db', 0, 5000)
    const query = client.request('GET', '/db/_design/test/_view/n')
    await expect
      .poll(async () => (await client.request('GET', '/_active_tasks')).as<{ type: string }[]>())
      .toMatchObject([{ type: 'indexer' }])
    expect((await client.request('DELETE', '/db')).status).toBe(200)
    const reply = await query
    // It may have been served in the last moment.
    if (reply.status !== 200) expect(reply).toMatchObject({ status: 404 })
    await expect.poll(() => indexFiles(folder)).toEqual([])
    await fill(client, 'db', 0, 3)
    expect(await sumOf(client, 'db')).toBe(3)
  })

  it.runIf(process.platform === 'linux')(
    'begin to be thought of when a design document with views is saved',
    async () => {
      const { client } = await start()
      await client.request('PUT', '/db')
      await client.request('PUT', '/db/doc', { body: { n: 1 } })
      await client.request('PUT', '/db/_design/without', { body: { filters: { all: 'function () { return true }' } } })
      // Whatever the one before started would be there by the time that this one is.
      await client.request('PUT', '/db/_design/test', { body: SUMS })
      await expect.poll(() => indexProcesses()).toHaveLength(1)
      await client.request('PUT', '/db/_design/other', { body: { views: { n: { map: 'function () { emit(1) }' } } } })
      expect(await sumOf(client, 'db')).toBe(1)
      expect(indexProcesses()).toHaveLength(1)
    },
  )

  it('are there again after a restart', async () => {
    const folder = await temporaryFolder()
    const first = await start(folder)
    await fill(first.client, 'db', 0, 1200)
    await sumOf(first.client, 'db')
    const { update_seq } = await information(first.client)
    await first.close()
    const { client } = await start(folder)
    expect(await information(client)).toMatchObject({ update_seq })
    expect(await sumOf(client, 'db')).toBe((1199 * 1200) / 2)
  })
})

/** The processes of this one that work on indexes. */
function indexProcesses(): number[] {
  return descendantsCalled(process.pid, 'settle-index')
}

async function start(dir?: string) {
  const folder = dir ?? (await temporaryFolder())
  const service = await startService({ dir: folder })
  const client = new Client(service.url)
  onTestFinished(() => client.close())
  return { client, folder, close: () => service.close() }
}

/** Documents with these numbers; the database and its design document too, where there are none. */
async function fill(client: Client, name: string, first: number, count: number): Promise<void> {
  await client.request('PUT', `/${name}`)
  await client.request('PUT', `/${name}/_design/test`, { body: SUMS })
  const docs = Array.from({ length: count }, (_, i) => ({ _id: `doc${first + i}`, n: first + i }))
  expect((await client.request('POST', `/${name}/_bulk_docs`, { body: { docs } })).status).toBe(201)
}

/** Gives documents of `db` other numbers. */
async function rewrite(client: Client, first: number, count: number): Promise<void> {
  const keys = Array.from({ length: count }, (_, i) => `doc${first + i}`)
  const { rows } = (await client.request('POST', '/db/_all_docs', { body: { keys } })).as<{
    rows: { id: string; value: { rev: string } }[]
  }>()
  const docs = rows.map(({ id, value }, i) => ({ _id: id, _rev: value.rev, n: first + i + 10_000 }))
  await client.request('POST', '/db/_bulk_docs', { body: { docs } })
}

async function sumOf(client: Client, name: string): Promise<number> {
  const reply: Reply = await client.request('GET', `/${name}/_design/test/_view/n`)
  expect(reply.status, reply.text).toBe(200)
  return reply.as<ViewReply>().rows[0]?.value ?? 0
}

async function information(client: Client): Promise<IndexInformation['view_index']> {
  return (await client.request('GET', '/db/_design/test/_info')).as<IndexInformation>().view_index
}

async function indexFiles(folder: string): Promise<string[]> {
  return (await readdir(join(folder, 'view_indexes'))).filter((name) => name.startsWith('db'))
}
