import { describe, expect, it } from 'vitest'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { until } from '../../support/until.ts'

describe('GET /_active_tasks', () => {
  it('lists tasks while they run', async () => {
    const client = new Client((await startService()).url)
    const list = async () => (await client.request('GET', '/_active_tasks')).as<Record<string, unknown>[]>()
    expect(await list()).toEqual([])
    const db = await client.database()
    const docs = Array.from({ length: 20_000 }, (_, i) => ({ _id: `d${i}`, text: 'x'.repeat(100) }))
    await db.post('_bulk_docs', { docs })
    await db.post('_compact', '')
    let seen: Record<string, unknown> | undefined
    await until(async () => {
      seen ??= (await list())[0]
      return seen !== undefined || !(await db.info()).compact_running
    })
    expect(seen).toMatchObject({
      pid: expect.stringMatching(/^<.+>$/),
      type: 'database_compaction',
      database: db.name,
      total_changes: 20_000,
      task: db.name,
      status: expect.stringContaining('of 20000 changes'),
      progress: expect.any(Number),
    })
    expect(Object.keys(seen ?? {})[0]).toBe('pid')
    await until(async () => (await list()).length === 0, 15_000)
  })

  it('reports the total of a short task, and names a temporary view by its signature', async () => {
    const client = new Client((await startService()).url)
    const list = async () => (await client.request('GET', '/_active_tasks')).as<Record<string, unknown>[]>()
    const db = await client.database()
    await db.post('_bulk_docs', { docs: Array.from({ length: 3 }, (_, i) => ({ _id: `d${i}` })) })
    const map = 'function (doc) { for (var end = Date.now() + 600; Date.now() < end; ) {} emit(doc._id) }'
    await db.put('_design/slow', { views: { rows: { map } } })
    for (const [ask, name] of [
      [() => db.get('_design/slow/_view/rows'), /^_design\/slow$/],
      [() => db.post('_temp_view', { map: `${map} ` }), /^[0-9a-f]{32}$/],
    ] as const) {
      const reply = ask()
      let seen: Record<string, unknown> | undefined
      await until(async () => {
        seen = (await list())[0]
        return seen !== undefined
      })
      expect(seen).toMatchObject({
        type: 'indexer',
        database: db.name,
        design_document: expect.stringMatching(name),
        changes_done: 0,
        total_changes: 4,
        progress: 0,
        status: 'Processed 0 of 4 changes (0%)',
      })
      expect((await reply).status).toBe(200)
      await until(async () => (await list()).length === 0)
    }
  })

  it('allows GET only', async () => {
    const client = new Client((await startService()).url)
    expect((await client.request('POST', '/_active_tasks')).headers.allow).toBe('GET,HEAD')
  })
})
