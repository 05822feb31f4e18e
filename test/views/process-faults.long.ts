import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ServerProcess } from '../crash/server-process.ts'
import { Client, type Reply } from '../support/client.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const SUMS = { views: { n: { map: 'function (doc) { emit(doc.n, doc.n) }', reduce: '_sum' } } }
const VIEW = '/db/_design/test/_view/n'

describe.runIf(process.platform === 'linux')('index processes that fall', { timeout: 600_000 }, () => {
  it('are given up after some tries, and restarted for the next query', async () => {
    const server = new ServerProcess(await temporaryFolder())
    onTestFinished(() => server.kill())
    const client = new Client((await server.url()) ?? '')
    onTestFinished(() => client.close())
    await client.request('PUT', '/db')
    await client.request('PUT', '/db/doc', { body: { n: 1 } })
    await client.request('PUT', '/db/_design/test', { body: SUMS })
    let reply: Reply | undefined
    client.request('GET', VIEW).then((answer) => {
      reply = answer
    })
    const killed = new Set<number>()
    while (!reply) {
      for (const pid of server.childrenCalled('settle-index')) {
        if (!killed.has(pid)) process.kill(pid, 'SIGKILL')
        killed.add(pid)
      }
      await pause(1)
    }
    expect(reply).toMatchObject({ status: 500 })
    expect(reply.json).toEqual({
      error: 'os_process_error',
      reason: 'The index process keeps ending: SIGKILL.',
    })
    expect(killed.size).toBeGreaterThan(8)
    expect((await client.request('GET', VIEW)).text).toContain('"value":1')
    await server.stop()
  })
})
