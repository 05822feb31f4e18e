import { randomBytes } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import { Client, type Reply, type TestDatabase } from '../../support/client.ts'
import { startService } from '../../support/service.ts'

const IDS = 60
const ROUNDS = 15

type Work = (database: TestDatabase, round: number) => Promise<Reply[]>

const pick = (round: number, step: number) => `d${(round * step) % IDS}`
const texts = (round: number) => 'x'.repeat((round * 997) % 5000)

async function onCurrent(database: TestDatabase, id: string, act: (rev: string) => Promise<Reply>): Promise<Reply[]> {
  const found = await database.get(id)
  return found.status === 200 ? [found, await act(found.as<{ _rev: string }>()._rev)] : [found]
}

const WORK: Record<string, Work> = {
  bulk: async (database, round) => [
    await database.post('_bulk_docs', {
      docs: Array.from({ length: 20 }, (_, i) => ({ _id: pick(round + i, 7), text: texts(round) })),
    }),
  ],
  replicate: async (database, round) => [
    await database.post('_bulk_docs', {
      new_edits: false,
      docs: Array.from({ length: 10 }, (_, i) => ({
        _id: pick(round + i, 11),
        _rev: `${1 + (i % 3)}-${randomBytes(16).toString('hex')}`,
        _deleted: i % 4 === 0,
      })),
    }),
  ],
  update: (database, round) =>
    onCurrent(database, pick(round, 3), (_rev) => database.put(pick(round, 3), { _rev, text: texts(round) })),
  remove: (database, round) =>
    onCurrent(database, pick(round, 5), (rev) => database.delete(`${pick(round, 5)}?rev=${rev}`)),
  attach: (database, round) =>
    onCurrent(database, pick(round, 13), (rev) =>
      database.put(`${pick(round, 13)}/a?rev=${rev}`, Buffer.alloc(300_000, String(round)), {
        'Content-Type': 'image/png',
      }),
    ),
  purge: (database, round) =>
    onCurrent(database, pick(round, 17), (rev) => database.post('_purge', { [pick(round, 17)]: [rev] })),
  compact: async (database) => {
    await database.compact()
    return []
  },
  list: async (database, round) => {
    const order = round % 2 ? '&descending=true' : ''
    const reply = await database.get(`_all_docs?include_docs=true&conflicts=true&attachments=true${order}`)
    if (reply.status === 200) expectListing(reply)
    return [reply]
  },
  keys: async (database, round) => {
    const keys = Array.from({ length: 40 }, (_, i) => pick(round + i, 19))
    const reply = await database.post('_all_docs?include_docs=true&attachments=true', { keys })
    if (reply.status === 200) expect(reply.as<{ rows: { key: string }[] }>().rows.map(({ key }) => key)).toEqual(keys)
    return [reply]
  },
  openRevisions: async (database, round) => [await database.get(`${pick(round, 23)}?open_revs=all&attachments=true`)],
  bulkGet: async (database, round) => {
    const docs = Array.from({ length: 10 }, (_, i) => ({ id: pick(round + i, 29) }))
    return [await database.post('_bulk_get?attachments=true', { docs }, { Accept: 'application/json' })]
  },
  limit: async (database, round) => [await database.put('_revs_limit', String(1 + (round % 5)))],
}

function expectListing(reply: Reply): void {
  const { rows } = reply.as<{ rows: { id: string; doc?: { _id: string } }[] }>()
  expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length)
  for (const { id, doc } of rows) expect(doc?._id).toBe(id)
}

async function newDatabase(): Promise<TestDatabase> {
  const { url } = await startService()
  const client = new Client(url)
  onTestFinished(() => client.close())
  return client.database()
}

it('everything at once leaves a database whose numbers match, without any failure', async () => {
  const database = await newDatabase()
  await Promise.all(
    Object.entries(WORK).map(async ([name, work]) => {
      for (let round = 0; round < ROUNDS; round++) {
        for (const reply of await work(database, round)) expect([name, reply.status < 500, reply.text]).toContain(true)
      }
    }),
  )
  await database.compact()
  const { doc_count } = await database.info()
  const { total_rows, rows } = (await database.get('_all_docs')).as<{ total_rows: number; rows: unknown[] }>()
  expect([total_rows, rows.length]).toEqual([doc_count, doc_count])
})

it('a database that is dropped and created again meanwhile exists or does not', async () => {
  const database = await newDatabase()
  const { compact: _, ...work } = WORK
  let isOver = false
  const dropping = (async () => {
    while (!isOver) {
      expect((await database.request('DELETE')).status).toBe(200)
      expect((await database.request('PUT')).status).toBe(201)
    }
  })()
  await Promise.all(
    Object.entries(work).map(async ([name, each]) => {
      for (let round = 0; round < ROUNDS; round++) {
        for (const reply of await brokenOff(each(database, round))) {
          expect([name, [200, 201, 404, 409].includes(reply.status), reply.text]).toContain(true)
        }
      }
    }),
  )
  isOver = true
  await dropping
  expect((await database.info()).doc_count).toBe(0)
})

/** A reply whose database goes away while it is sent ends without its end. */
async function brokenOff(replies: Promise<Reply[]>): Promise<Reply[]> {
  try {
    return await replies
  } catch (error) {
    expect(String(error)).toMatch(/aborted|socket hang up|ECONNRESET/)
    return []
  }
}
