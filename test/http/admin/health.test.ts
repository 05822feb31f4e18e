import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Client } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { until } from '../../support/until.ts'

describe('GET /_up', () => {
  it('reports maintenance mode', async () => {
    const client = new Client((await startService({})).url)
    const mode = (value: string) =>
      client.request('PUT', '/_config/couchdb/maintenance_mode', { body: JSON.stringify(value) })
    expect((await client.request('GET', '/_up')).json).toEqual({ status: 'ok', seeds: {} })
    for (const [value, status] of [
      ['true', 'maintenance_mode'],
      ['nolb', 'nolb'],
    ] as const) {
      expect((await mode(value)).status).toBe(200)
      const reply = await client.request('GET', '/_up')
      expect([reply.status, reply.json]).toEqual([404, { status }])
      expect((await client.request('GET', '/_all_dbs')).status).toBe(200)
    }
    expect((await mode('maybe')).status).toBe(400)
    await mode('false')
    expect((await client.request('GET', '/_up')).status).toBe(200)
  })

  it('is 503 while nothing can be written, and 200 afterwards', async () => {
    const dir = await temporaryFolder()
    const client = new Client((await startService({ dir })).url)
    expect((await client.request('GET', '/_up')).status).toBe(200)
    // A folder where its probe would be: the write fails, also for root, whom no permissions stop.
    await mkdir(join(dir, '.health', 'x'), { recursive: true })
    await until(async () => (await client.request('GET', '/_up')).status === 503)
    expect((await client.request('GET', '/_up')).json).toMatchObject({
      status: 'not_writable',
      reason: expect.stringContaining('cannot be written'),
    })
    expect((await client.request('GET', '/_all_dbs')).status).toBe(200)
    await rm(join(dir, '.health'), { recursive: true })
    await until(async () => (await client.request('GET', '/_up')).status === 200)
  })

  it('is public, in memory too', async () => {
    const settings = { admins: { ann: 'secret' }, service_httpd_auth: { require_valid_user: 'false' } }
    const client = new Client((await startService({ inMemory: true, settings })).url)
    expect((await client.request('GET', '/_up')).status).toBe(200)
  })
})
