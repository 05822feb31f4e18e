import { describe, expect, it } from 'vitest'
import { Client, until } from '../support/client.ts'
import { startService } from '../support/service.ts'

describe('GET /_active_tasks', () => {
  it('lists what is going on while it goes on', async () => {
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

  it('has only GET', async () => {
    const client = new Client((await startService()).url)
    expect((await client.request('POST', '/_active_tasks')).headers.allow).toBe('GET,HEAD')
  })
})
