import { beforeAll, describe, expect, it } from 'vitest'
import { expectRefusal, type Reply, serverOfFile } from '../../support/client.ts'
import { HAS_SEVERAL_SERVERS } from '../../support/test-service.ts'

const client = serverOfFile()

const as = (name: string, password = 'pass') => ({
  Authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`,
})
const ADMIN = as('root', 'top')

const APP = {
  shows: { it: "function (doc) { return doc ? doc.name : 'none' }" },
  lists: { it: "function () { return 'listed' }" },
  updates: {
    it: "function (doc, req) { return [{ _id: req.id }, 'updated'] }",
  },
  views: { it: { map: 'function () {}' } },
  rewrites: [{ from: '*', to: '../../*' }],
}

const ACTIONS = [
  ['GET', '_show/it/org.service.user:ann'],
  ['GET', '_list/it/_all_docs'],
  ['GET', '_list/it/it'],
  ['GET', '_view/it'],
  ['POST', '_update/it/x'],
  ['GET', '_rewrite/org.service.user:ann'],
] as const

function request(method: string, path: string, headers: Record<string, string>, body?: unknown): Promise<Reply> {
  return client().request(method, path, { headers, body })
}

async function count(): Promise<{ reads: number; writes: number; views: number }> {
  const { json } = await request('GET', '/_stats?flush=true', ADMIN)
  const all = json as Record<string, Record<string, { current: number | null }>>
  return {
    reads: all.service?.database_reads?.current ?? 0,
    writes: all.service?.database_writes?.current ?? 0,
    views: all.httpd?.view_reads?.current ?? 0,
  }
}

beforeAll(async () => {
  const ann = { name: 'ann', password: 'pass', roles: [], type: 'user' }
  expect((await request('PUT', '/_users/org.service.user:ann', {}, ann)).status).toBe(201)
  expect((await request('PUT', '/_config/admins/root', {}, '"top"')).status).toBe(200)
  for (const database of ['_users', 'app']) {
    if (database === 'app') await request('PUT', '/app', ADMIN)
    expect((await request('PUT', `/${database}/_design/app`, ADMIN, APP)).status).toBe(201)
  }
})

describe('functions of system databases', () => {
  it.each(ACTIONS)('%s %s are for administrators', async (method, path) => {
    const reason = 'Only admins can access design document actions for system databases.'
    for (const headers of [{}, as('ann')]) {
      expectRefusal(await request(method, `/_users/_design/app/${path}`, headers), 403, 'forbidden', reason)
    }
    const reply = await request(method, `/_users/_design/app/${path}`, ADMIN)
    expect(reply.text).not.toContain(reason)
  })

  it('cannot be reached by rules of another database', async () => {
    const reply = await request('GET', '/app/_design/app/_rewrite/../../_users/_all_docs', as('ann'))
    expect(reply.status).toBe(404)
  })
})

describe('an update function', () => {
  it('writes with the rights of its caller', async () => {
    const path = '/app/_design/app/_update/it/_design/other'
    expectRefusal(await request('POST', path, as('ann')), 401, 'unauthorized', 'You are not a db or server admin.')
    expect((await request('POST', path, ADMIN)).status).toBe(201)
  })
})

describe('calls of functions', () => {
  // Each server counts for itself.
  it.skipIf(HAS_SEVERAL_SERVERS)('are counted as the reads and writes that they do', async () => {
    const before = await count()
    await request('GET', '/app/_design/app/_show/it', ADMIN)
    await request('GET', '/app/_design/app/_list/it/it', ADMIN)
    await request('POST', '/app/_design/app/_update/it/counted', ADMIN)
    const after = await count()
    expect([after.writes - before.writes, after.views - before.views]).toEqual([1, 0])
    // What a rule leads to counts as if it had been asked for.
    await request('GET', '/app/_design/app/_rewrite/counted', ADMIN)
    expect((await count()).reads - after.reads).toBe(1)
  })
})
