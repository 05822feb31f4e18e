import { expect, it, onTestFinished, vi } from 'vitest'
import { Database } from '../../src/database/database.ts'
import { Connection } from '../../src/storage/postgres/connection.ts'
import { PostgresStore } from '../../src/storage/postgres/postgres-store.ts'
import { TooManyReadersError } from '../../src/storage/storage-error.ts'
import { Views } from '../../src/views/views.ts'
import { Client, TestDatabase } from '../support/client.ts'
import { describeOnPostgres } from '../support/on-postgres.ts'
import { sharedPostgres } from '../support/postgres.ts'
import { readTransactions } from '../support/read-transactions.ts'
import { startService } from '../support/service.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

interface Rows {
  readonly total_rows: number
  readonly offset: number
  readonly rows: readonly { readonly id: string; readonly key: string; readonly value: unknown }[]
}

const DOCUMENTS = 600

/** A database with two views and so many documents that their trees have several levels, on so many servers. */
async function viewsOn(servers: number, settings = {}): Promise<readonly TestDatabase[]> {
  const engine = (await sharedPostgres()).address()
  const clients = await Promise.all(
    Array.from({ length: servers }, async () => {
      const service = await startService({ dir: await temporaryFolder(), engine, settings })
      const client = new Client(service.url)
      onTestFinished(() => client.close())
      return client
    }),
  )
  const { name } = await clients[0]!.database()
  const all = clients.map((client) => new TestDatabase(client, name))
  const map = 'function (doc) { if (doc.key) emit(doc.key, 1) }'
  await all[0]!.save('_design/d', { views: { plain: { map }, summed: { map: `${map} `, reduce: '_sum' } } })
  const docs = Array.from({ length: DOCUMENTS }, (_, i) => ({ _id: `doc-${i}`, key: keyOf(i) }))
  await all[0]!.post('_bulk_docs', { docs })
  for (const database of all) await rowsFrom(database, 'plain', '')
  return all
}

function keyOf(number: number): string {
  return String((number * 7919) % 100_000).padStart(5, '0')
}

async function rowsFrom(database: TestDatabase, view: string, key: string): Promise<Rows> {
  return (await database.get(`_design/d/_view/${view}?reduce=false&startkey="${key}"`)).as<Rows>()
}

/** The names of the statements that are sent from now on; those of heartbeats and polls are left out. */
function statements(): string[] {
  const names: string[] = []
  const { run, script } = Connection.prototype
  const running = vi.spyOn(Connection.prototype, 'run').mockImplementation(function (this: Connection, ...args) {
    if (!['beat', 'versions', 'held_leases', 'notify'].includes(args[0].name)) names.push(args[0].name)
    return run.apply(this, args)
  })
  const scripts = vi.spyOn(Connection.prototype, 'script').mockImplementation(function (this: Connection, text) {
    names.push(text.replace(/ ISOLATION.*/, ''))
    return script.call(this, text)
  })
  onTestFinished(() => {
    running.mockRestore()
    scripts.mockRestore()
  })
  return names
}

describeOnPostgres('a view of databases in PostgreSQL', () => {
  it('has every acknowledged write and counts right while several servers write and update it', async () => {
    const all = await viewsOn(2)
    const keys = new Map(Array.from({ length: DOCUMENTS }, (_, i) => [`doc-${i}`, keyOf(i)]))
    const work = async (worker: number) => {
      for (let round = 0; round < 12; round++) {
        const [writer, reader] = worker % 2 === round % 2 ? [all[0]!, all[1]!] : [all[1]!, all[0]!]
        // Documents of its own: some move, some go, some are new.
        const number = worker + 4 * ((round * 5) % 12) + (round % 3 === 2 ? DOCUMENTS : 0)
        const id = `doc-${number}`
        const rev = (await writer.get(id)).as<{ _rev?: string }>()._rev
        const key = round % 4 === 3 ? undefined : keyOf(number + 31 * round)
        await writer.save(id, { ...(rev && { _rev: rev }), ...(key && { key }) })
        const before = keys.get(id)
        if (key) keys.set(id, key)
        else keys.delete(id)
        const found = await rowsFrom(reader, round % 2 ? 'plain' : 'summed', key ?? before ?? '')
        expect(found.offset + found.rows.length).toBe(found.total_rows)
        expect(found.rows.filter((row) => row.id === id).map((row) => row.key)).toEqual(key ? [key] : [])
      }
    }
    await Promise.all([0, 1, 2, 3].map(work))
    const expected = [...keys].map(([id, key]) => `${key} ${id}`).sort()
    for (const database of all) {
      for (const view of ['plain', 'summed']) {
        const { rows, total_rows } = await rowsFrom(database, view, '')
        expect(rows.map(({ id, key }) => `${key} ${id}`)).toEqual(expected)
        expect(total_rows).toBe(expected.length)
      }
      const summed = (await database.get('_design/d/_view/summed?group_level=0')).as<Rows>()
      expect(summed.rows[0]?.value).toBe(expected.length)
    }
  })

  it('takes few statements when it is asked after each write', async () => {
    const [database] = await viewsOn(1)
    const map = 'function (doc) { emit(doc._id, null) }'
    await database!.save('_design/ids', { views: { ids: { map } } })
    const cycle = async (number: number) => {
      const id = `new-${number}`
      await database!.save(id, {})
      const { rows } = (await database!.get(`_design/ids/_view/ids?key="${id}"`)).as<Rows>()
      expect(rows).toHaveLength(1)
    }
    await cycle(0)
    const names = statements()
    const counts: number[] = []
    for (let number = 1; number <= 20; number++) {
      names.length = 0
      await cycle(number)
      counts.push(names.length)
    }
    // Now and then a boundary of a tree comes, or a timer ends a transaction early.
    expect(counts.sort((a, b) => a - b)[5]).toBeLessThanOrEqual(17)
  })

  it('answers queries with few connections while others write', async () => {
    const [database] = await viewsOn(1, { service: { engine_read_connections: '1' } })
    let isOver = false
    const writing = (async () => {
      for (let i = 0; !isOver; i++) await database!.save(`new-${i}`, { key: keyOf(DOCUMENTS + i) })
    })()
    const statuses = await Promise.all(
      Array.from({ length: 12 }, async () => {
        const answers: number[] = []
        for (let i = 0; i < 10; i++) answers.push((await database!.get('_design/d/_view/plain?limit=1')).status)
        return answers
      }),
    )
    isOver = true
    await writing
    expect(new Set(statuses.flat())).toEqual(new Set([200]))
  })

  it('reads rows and their documents in one transaction', async () => {
    const [database] = await viewsOn(1)
    const index = { index: { fields: ['key'] }, name: 'keys', ddoc: 'keys' }
    expect((await database!.post('_index', index)).status).toBe(200)
    const find = { selector: { key: { $gt: '' } }, limit: 5 }
    const asked = [
      () => database!.get('_design/d/_view/plain?include_docs=true&limit=5'),
      () => database!.post('_find', find),
    ]
    for (const ask of asked) {
      await ask()
      const counts: number[] = []
      for (let times = 0; times < 5; times++) {
        const began = vi.spyOn(Connection.prototype, 'beginReading')
        const { status, body } = await ask()
        counts.push(began.mock.calls.length)
        began.mockRestore()
        expect([status, String(body).includes('"_rev"')]).toEqual([200, true])
      }
      // What was begun before, such as the end of an update, may still read.
      expect(Math.min(...counts)).toBe(1)
    }
  })

  it('holds no connection after a query that failed', async () => {
    const [database] = await viewsOn(1)
    // Of the index and the database, only the index can be read.
    const state = vi.spyOn(Database.prototype, 'stateIn').mockRejectedValue(new TooManyReadersError('None is free.'))
    onTestFinished(() => state.mockRestore())
    // More of them than there are connections for reading.
    for (let query = 0; query < 20; query++) {
      expect((await database!.get('_design/d/_view/plain?limit=1')).status).toBe(503)
    }
    state.mockRestore()
    expect((await database!.get('_design/d/_view/plain?limit=1')).status).toBe(200)
  })

  it('holds no connection after its database was deleted between its rows and their documents', async () => {
    const [database] = await viewsOn(1)
    const reading = readTransactions()
    const { openIndexOf } = Views.prototype
    const opening = vi.spyOn(Views.prototype, 'openIndexOf').mockImplementation(async function (this: Views, ...args) {
      const index = await openIndexOf.apply(this, args)
      await database!.delete('')
      return index
    })
    onTestFinished(() => opening.mockRestore())
    expect((await database!.get('_design/d/_view/plain?include_docs=true')).status).toBe(404)
    await until(() => reading.now === 0, 10_000)
  })

  it('holds no connection while it is built again', async () => {
    const [database] = await viewsOn(1)
    // After two purges nobody knows which rows to remove.
    for (const id of ['doc-1', 'doc-2']) {
      const { _rev } = (await database!.get(id)).as<{ _rev: string }>()
      await database!.post('_purge', { [id]: [_rev] })
    }
    const reading = readTransactions()
    const { replace } = PostgresStore.prototype
    const replacing = vi.spyOn(PostgresStore.prototype, 'replace').mockImplementation(async function (
      this: PostgresStore,
      ...args
    ) {
      await until(() => reading.now === 0)
      return replace.apply(this, args)
    })
    onTestFinished(() => replacing.mockRestore())
    expect((await rowsFrom(database!, 'plain', '')).total_rows).toBe(DOCUMENTS - 2)
    expect(replacing).toHaveBeenCalledOnce()
  })
})
