import { describe, expect, it } from 'vitest'
import { Client, rawRequest, serverOfFile } from '../../support/client.ts'
import { startService } from '../../support/service.ts'
import { until } from '../../support/until.ts'

const client = serverOfFile()

describe('a client that leaves', () => {
  it.each([
    ['a show', 'GET', '_show/loop/a'],
    ['a list', 'GET', '_list/loop/_all_docs'],
    ['an update', 'POST', '_update/loop/a'],
  ])('cancels %s, without an error in the log', async (_, method, path) => {
    const complaints: string[] = []
    const log = {
      debug() {},
      info() {},
      warn() {},
      error: (message: string) => void complaints.push(message),
    }
    const service = await startService({
      log,
      settings: { query_server_config: { os_process_limit: '1' }, service: { os_process_timeout: '60000' } },
    })
    const own = new Client(service.url)
    try {
      const db = await own.database()
      const loop = 'function () { for (;;) {} }'
      const functions = { loop, quick: "function () { return 'quick' }" }
      await db.save('_design/app', { shows: functions, lists: functions, updates: { loop } })
      expect((await db.get('_design/app/_show/quick')).text).toBe('quick')
      const connection = await own.open()
      const length = method === 'POST' ? ['Content-Length: 0'] : []
      connection.write(
        rawRequest([`${method} /${db.name}/_design/app/${path} HTTP/1.1`, `Host: ${own.host}`, ...length]),
      )
      // The only place is taken: another call waits until the first one is given up.
      let isShown = false
      await until(async () => (await own.request('GET', '/_up')).status === 200)
      const waiting = db.get('_design/app/_show/quick').then((reply) => {
        isShown = true
        return reply.text
      })
      await db.get()
      expect(isShown).toBe(false)
      connection.end()
      expect(await waiting).toBe('quick')
      expect(complaints).toEqual([])
    } finally {
      own.close()
    }
  })
})

describe('many clients', () => {
  it('get each their own answer', async () => {
    const db = await client().database()
    await db.save('_design/app', { shows: { echo: 'function (doc, req) { return req.query.n }' } })
    const replies = await Promise.all(
      Array.from({ length: 100 }, (_, n) => db.get(`_design/app/_show/echo?n=${n}`).then(({ text }) => text)),
    )
    expect(replies).toEqual(replies.map((_, n) => `${n}`))
  })
})
