import { describe, expect, it } from 'vitest'
import { rawRequest, serverOfFile, type TestDatabase } from '../../support/client.ts'
import { until } from '../../support/until.ts'
import { json } from '../../support/views.ts'

/** No function is ended for the time it takes: what ends, ends for another reason. */
const client = serverOfFile({ settings: { service: { os_process_timeout: '600000' } } })

const ENDLESS = 'function (doc) { while (true); }'

describe('a view that is being built', () => {
  it('continues when its client disconnects, since others may query it', async () => {
    const db = await slowDatabase()
    await leaveWhileBuilding([`GET /${db.name}/_design/d/_view/v HTTP/1.1`])
    await until(async () => (await indexOf(db, 'd')).waiting_clients === 0)
    await until(async () => (await indexOf(db, 'd')).updater_running)
    await removeDesign(db, 'd')
  })

  it('is cancelled when its design document changes and no client waits', async () => {
    const db = await slowDatabase()
    await leaveWhileBuilding([`GET /${db.name}/_design/d/_view/v HTTP/1.1`])
    const _rev = await revisionOf(db, 'd')
    await db.save('_design/d', { _rev, views: { v: { map: 'function (doc) { emit(doc._id, null) }' } } })
    await until(async () => (await tasks()) === 0)
    expect((await db.get(`_design/d/_view/v?key=${json('a')}`)).json).toMatchObject({ rows: [{ id: 'a' }] })
  })

  it('is cancelled with its design document', async () => {
    const db = await slowDatabase()
    await leaveWhileBuilding([`GET /${db.name}/_design/d/_view/v HTTP/1.1`])
    await removeDesign(db, 'd')
    await until(async () => (await tasks()) === 0)
  })

  it('continues while another design document has the same views', async () => {
    const db = await slowDatabase()
    await db.save('_design/other', { views: { v: { map: ENDLESS } } })
    await leaveWhileBuilding([`GET /${db.name}/_design/d/_view/v HTTP/1.1`])
    await removeDesign(db, 'd')
    await until(async () => (await indexOf(db, 'other')).waiting_clients === 0)
    await until(async () => (await indexOf(db, 'other')).updater_running)
    await removeDesign(db, 'other')
    await until(async () => (await tasks()) === 0)
  })

  it('is cancelled with its client when no design document has it', async () => {
    const db = await slowDatabase()
    const body = JSON.stringify({ map: ENDLESS })
    const head = ['Content-Type: application/json', `Content-Length: ${body.length}`]
    await leaveWhileBuilding([`POST /${db.name}/_temp_view HTTP/1.1`, ...head], body)
    await until(async () => (await tasks()) === 0)
  })
})

describe('a cleanup', () => {
  it('does not wait for an index that another client waits for', async () => {
    const db = await slowDatabase()
    const connection = await client().open()
    connection.write(rawRequest([`GET /${db.name}/_design/d/_view/v HTTP/1.1`, `Host: ${client().host}`]))
    await until(async () => (await indexOf(db, 'd')).waiting_clients === 1)
    await removeDesign(db, 'd')
    expect((await db.post('_view_cleanup', '')).status).toBe(202)
    expect(await tasks()).toBe(1)
    connection.end()
    await until(async () => (await tasks()) === 0)
  })
})

async function slowDatabase(): Promise<TestDatabase> {
  await until(async () => (await tasks()) === 0)
  const db = await client().database()
  await db.save('a', {})
  await db.save('_design/d', { views: { v: { map: ENDLESS } } })
  return db
}

async function leaveWhileBuilding(lines: string[], body = ''): Promise<void> {
  const connection = await client().open()
  connection.write(rawRequest([...lines, `Host: ${client().host}`], body))
  await until(async () => (await tasks()) === 1)
  connection.end()
}

async function removeDesign(db: TestDatabase, name: string): Promise<void> {
  await db.remove(`_design/${name}`, await revisionOf(db, name))
}

async function revisionOf(db: TestDatabase, name: string): Promise<string> {
  return (await db.get(`_design/${name}`)).as<{ _rev: string }>()._rev
}

interface IndexInformation {
  waiting_clients: number
  updater_running: boolean
}

/** As any server sees it; the clients of each server wait there. */
async function indexOf(db: TestDatabase, name: string): Promise<IndexInformation> {
  const replies = await client().getFromAll(`/${db.name}/_design/${name}/_info`)
  const indexes = replies.map((reply) => reply.as<{ view_index: IndexInformation }>().view_index)
  return {
    waiting_clients: indexes.reduce((sum, { waiting_clients }) => sum + waiting_clients, 0),
    updater_running: indexes.every(({ updater_running }) => updater_running),
  }
}

/** Of all servers. */
async function tasks(): Promise<number> {
  return (await client().request('GET', '/_active_tasks')).as<unknown[]>().length
}
