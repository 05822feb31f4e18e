/** The clock of the system is set back and forth while a server works. What lasts a while lasts that long all the same. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Client } from '../support/client.ts'
import { FeedClient } from '../support/feed.ts'
import { startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

// Timers run on: they go by another clock, as those of the system do.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'] })
  vi.setSystemTime(new Date('2026-06-01T12:00:00Z'))
})
afterEach(() => {
  vi.useRealTimers()
})

function step(byMs: number): void {
  vi.setSystemTime(Date.now() + byMs)
}

async function server(settings: Record<string, Record<string, string>> = {}): Promise<Client> {
  const { url } = await startService({ settings })
  return new Client(url)
}

describe('while the clock jumps', () => {
  it('documents are written, feeds continue, and replications catch up', async () => {
    const client = await server()
    const source = await client.database()
    const target = await client.database()
    const feed = await FeedClient.open(client, `/${source.name}/_changes?feed=continuous&heartbeat=50`)
    const job = { source: source.name, target: target.name, continuous: true }
    expect((await client.request('POST', '/_replicate', { body: job })).status).toBe(202)
    const jumps = [0, -HOUR_MS, 3 * DAY_MS, -7 * DAY_MS, 1]
    for (const [i, jump] of jumps.entries()) {
      step(jump)
      await source.save(`doc${i}`, { i })
      await until(async () => (await target.get(`doc${i}`)).status === 200)
      await feed.receives(`"id":"doc${i}"`)
      // Heartbeats are empty lines.
      const { length } = feed.text
      await until(() => feed.text.length > length + 2)
      const date = new Date(String((await client.request('GET', '/')).headers.date)).getTime()
      expect(Math.abs(date - Date.now())).toBeLessThan(2_000)
    }
    await feed.hears(...jumps.map((_, i) => `doc${i}`))
    await client.request('POST', '/_replicate', { body: { ...job, cancel: true } })
    client.close()
  })

  it.each(['sequential', 'random', 'utc_random', 'utc_id'])(
    'ids of the algorithm %s are never the same',
    async (algorithm) => {
      const client = await server({ uuids: { algorithm } })
      const seen: string[] = []
      for (const jump of [0, -HOUR_MS, DAY_MS, -3 * DAY_MS, 0]) {
        step(jump)
        const { uuids } = (await client.request('GET', '/_uuids?count=200')).as<{ uuids: string[] }>()
        seen.push(...uuids)
      }
      expect(new Set(seen).size).toBe(1_000)
      if (algorithm === 'utc_id') expect(seen).toEqual(seen.toSorted())
      client.close()
    },
  )

  it('a session expires, and one from the far future is invalid', async () => {
    const client = await server({ admins: { ann: 'secret' }, service_httpd_auth: { secret: 'x', timeout: '600' } })
    const login = async () => {
      const reply = await client.request('POST', '/_session', { body: { name: 'ann', password: 'secret' } })
      expect(reply.status).toBe(200)
      return String(reply.headers['set-cookie']).split(';')[0]!
    }
    const whoIs = async (cookie: string) => {
      const reply = await client.request('GET', '/_session', { headers: { Cookie: cookie } })
      return reply.as<{ userCtx: { name: string | null } }>().userCtx.name
    }
    const early = await login()
    expect(await whoIs(early)).toBe('ann')
    step(DAY_MS)
    expect(await whoIs(early)).toBeNull()
    const ahead = await login()
    expect(await whoIs(ahead)).toBe('ann')
    // The clock was wrong, and is right again: the session would last a day.
    step(-DAY_MS)
    expect(await whoIs(ahead)).toBeNull()
    expect(await whoIs(early)).toBe('ann')
    client.close()
  })
})
