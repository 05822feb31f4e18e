import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createService, type Service } from '../../../src/service.ts'
import { Client, expectRefusal, serverOfFile, TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const client = serverOfFile()

const VIEWS = { views: { n: { map: 'function (doc) { emit(doc.n, null) }', reduce: '_count' } } }

/** Names that agree in all but their end, as long as they may be, and such that are just too long for the name of a file. */
const NAMES = [
  'a'.repeat(221),
  `${'a/'.repeat(74)}`,
  `${'a'.repeat(999)}b`,
  `${'a'.repeat(999)}c`,
  `${'a/'.repeat(499)}-)`,
  `a${'/'.repeat(999)}`,
  `a${'_$()+-/'.repeat(142)}/+$()`,
]

function database(client: Client, name: string): TestDatabase {
  return new TestDatabase(client, encodeURIComponent(name))
}

async function rowsOf(db: TestDatabase): Promise<unknown> {
  const reply = await db.get('_design/d/_view/n?reduce=false')
  expect(reply.status, reply.text).toBe(200)
  return reply.as<{ rows: unknown }>().rows
}

async function files(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => name.startsWith('~'))
}

describe('a database with a name of up to 1,000 characters', () => {
  it.each(NAMES)('is created, listed, written, read and deleted: %#', async (name) => {
    const db = database(client(), name)
    const made = await db.request('PUT')
    expect([made.status, made.text]).toEqual([201, '{"ok":true}\n'])
    expect((await db.request('PUT')).status).toBe(412)
    expect(await db.info()).toMatchObject({ db_name: name, doc_count: 0 })
    expect((await client().request('GET', '/_all_dbs')).json).toContain(name)
    const rev = await db.save('doc', { n: 1 })
    await db.save('_design/d', VIEWS)
    expect(await rowsOf(db)).toEqual([{ id: 'doc', key: 1, value: null }])
    expect((await db.put(`doc/attached?rev=${rev}`, 'bytes', { 'Content-Type': 'text/plain' })).status).toBe(201)
    await db.compact()
    expect((await db.post('_compact/d', '')).status).toBe(202)
    expect((await db.post('_view_cleanup', '')).status).toBe(202)
    expect((await db.get('doc/attached')).text).toBe('bytes')
    expect((await db.request('DELETE')).status).toBe(200)
    expect((await db.get()).status).toBe(404)
    expect((await client().request('GET', '/_all_dbs')).json).not.toContain(name)
    expect((await db.request('PUT')).status).toBe(201)
    expect(await db.info()).toMatchObject({ doc_count: 0 })
  })

  it('exists after a restart with its indexes, and is removed with them', async () => {
    const dir = await temporaryFolder()
    const first = await createService({ port: 0, dir })
    const before = new Client(await first.listen())
    try {
      for (const [n, name] of NAMES.entries()) {
        const db = database(before, name)
        expect((await db.request('PUT')).status).toBe(201)
        await db.save('doc', { n })
        await db.save('_design/d', VIEWS)
        expect(await rowsOf(db)).toHaveLength(1)
      }
      expect((await database(before, NAMES[0]!).request('DELETE')).status).toBe(200)
    } finally {
      before.close()
      await first.close()
    }
    const second: Service = await startService({ dir })
    const after = new Client(second.url)
    const left = NAMES.slice(1)
    const listed = (await after.request('GET', '/_all_dbs')).as<string[]>()
    expect(listed.filter((name) => !name.startsWith('_'))).toEqual([...left].sort())
    for (const [n, name] of left.entries()) {
      const db = database(after, name)
      expect((await db.get('doc')).json).toMatchObject({ n: n + 1 })
      expect((await db.get('_design/d/_view/n?stale=ok&reduce=false')).json).toMatchObject({ total_rows: 1 })
    }
    expect(await files(dir)).not.toEqual([])
    for (const name of left) expect((await database(after, name).request('DELETE')).status).toBe(200)
    expect(await files(dir)).toEqual([])
    const indexes = await readdir(join(dir, 'view_indexes'))
    expect(indexes.filter((name) => name.endsWith('.mdb'))).toEqual([])
    after.close()
  })
})

describe('a name of more than 1,000 characters', () => {
  it.each(['GET', 'PUT', 'DELETE'])('%s is refused with the limit', async (method) => {
    const reply = await client().request(method, `/${'a'.repeat(1001)}`)
    const reason = `Name: '${'a'.repeat(80)}…'. It has 1001 characters; at most 1000 are allowed.`
    expectRefusal(reply, 400, 'illegal_database_name', reason)
  })

  it('counts characters, not the bytes of the path', async () => {
    expect((await client().request('PUT', `/b${'%2F'.repeat(999)}`)).status).toBe(201)
    expect((await client().request('PUT', `/b${'%2F'.repeat(1000)}`)).status).toBe(400)
  })
})
