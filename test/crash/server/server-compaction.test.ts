import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { DataFolder } from '../../../src/storage/files/data-folder.ts'
import { LmdbEngine } from '../../../src/storage/lmdb/lmdb-engine.ts'
import { checkContents } from '../../database/check-database.ts'
import { DatabaseContents } from '../../database/database-contents.ts'
import { Client, type TestDatabase } from '../../support/client.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { until } from '../../support/until.ts'
import { ServerProcess } from '../server-process.ts'

const DOCUMENTS = 400
const UPDATES = 8
const TEXT_BYTES = 3000

/** A server with a database most of whose bytes are old revisions. */
async function start(): Promise<{ folder: string; server: ServerProcess; database: TestDatabase }> {
  const folder = await temporaryFolder()
  const server = new ServerProcess(folder)
  onTestFinished(() => server.kill())
  const client = new Client((await server.url())!)
  onTestFinished(() => client.close())
  const database = await client.database()
  let revisions: (string | undefined)[] = new Array(DOCUMENTS).fill(undefined)
  for (let update = 0; update < UPDATES; update++) {
    const text = String(update).repeat(TEXT_BYTES)
    const docs = revisions.map((_rev, i) => ({ _id: `document-${i}`, _rev, update, text }))
    const reply = await database.post('_bulk_docs', { docs })
    revisions = reply.as<{ rev: string }[]>().map(({ rev }) => rev)
  }
  return { folder, server, database }
}

async function filesIn(folder: string): Promise<string[]> {
  // Those of the database of users do not matter.
  return (await readdir(folder)).filter((file) => !file.startsWith('_') && /\.mdb(\.new)?$/.test(file))
}

/** What the folder holds of the database after the server is gone, and what is wrong with it. */
async function inspect(folder: string, name: string): Promise<{ contents: DatabaseContents; faults: string[] }> {
  const lock = await DataFolder.open(folder)
  const engine = await LmdbEngine.open({ folder })
  try {
    using snapshot = (await engine.open(name)).snapshot()
    const contents = await DatabaseContents.read(snapshot)
    return { contents, faults: await checkContents(contents, snapshot) }
  } finally {
    await engine.close()
    lock.close()
  }
}

describe('a server that compacts a database', () => {
  it('gives its room back while clients write, and loses nothing of what they write', async () => {
    const { folder, server, database } = await start()
    const before = await database.info()
    const written = new Map<string, string>()
    let isDone = false
    const writers = Array.from({ length: 4 }, async (_, writer) => {
      for (let n = 0; !isDone; n++) {
        const id = `document-${(writer + 4 * n) % DOCUMENTS}`
        const { _rev } = (await database.get(id)).as<{ _rev: string }>()
        written.set(id, await database.save(id, { _rev, writer, n }))
        written.set(`new-${writer}-${n}`, await database.save(`new-${writer}-${n}`, { n }))
      }
    })
    await database.compact()
    isDone = true
    await Promise.all(writers)
    const after = await database.info()
    expect(after.disk_size).toBeLessThan(0.3 * before.disk_size)
    expect(after.data_size).toBeLessThanOrEqual(after.disk_size)
    expect(written.size).toBeGreaterThan(4)
    await until(async () => (await filesIn(folder)).length === 1)
    const [file] = await filesIn(folder)
    expect((await stat(join(folder, file!))).size).toBe(after.disk_size)
    for (const [id, rev] of written) expect((await database.get(id)).as<{ _rev: string }>()._rev, id).toBe(rev)
    await server.kill()
    const { contents, faults } = await inspect(folder, database.name)
    expect(faults).toEqual([])
    for (const [id, rev] of written) expect(contents.records.get(id)?.winner, id).toBe(rev)
    expect(server.complaints).toBe('')
  })

  it('has the old file, whole, when it is killed on the way', async () => {
    const { folder, server, database } = await start()
    const [old] = await filesIn(folder)
    const { doc_count, update_seq } = await database.info()
    // A write that is the last one before the kill, and therefore after the copying began.
    await database.post('_compact', '')
    await until(async () => (await filesIn(folder)).some((file) => file.endsWith('.new')))
    const rev = await database.save('last', {})
    const isUnfinished = (await filesIn(folder)).some((file) => file.endsWith('.new'))
    await server.kill()
    const left = await filesIn(folder)
    const { contents, faults } = await inspect(folder, database.name)
    expect(faults).toEqual([])
    expect(contents.records.get('last')?.winner).toBe(rev)
    expect([contents.state?.documentCount, contents.state?.updateSequence]).toEqual([doc_count + 1, update_seq + 1])
    // The write may have taken longer than the compaction did; what was left is then the new file.
    if (isUnfinished && left.some((file) => file.endsWith('.new'))) expect(left).toContain(old)
    expect(await filesIn(folder)).toHaveLength(1)
  })

  it('can be compacted again after it was killed on the way', async () => {
    const { folder, server, database } = await start()
    const before = await database.info()
    await database.post('_compact', '')
    await server.kill()
    const again = new ServerProcess(folder)
    onTestFinished(() => again.kill())
    const client = new Client((await again.url())!)
    onTestFinished(() => client.close())
    await client.request('POST', `/${database.name}/_compact`, { body: '' })
    const info = async () =>
      (await client.request('GET', `/${database.name}`)).as<{ compact_running: boolean; disk_size: number }>()
    await until(async () => !(await info()).compact_running, 20_000)
    expect((await info()).disk_size).toBeLessThan(0.3 * before.disk_size)
    await again.kill()
    expect((await inspect(folder, database.name)).faults).toEqual([])
  })
})
