import { expect, it } from 'vitest'
import { Client } from '../support/client.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { CommandService } from '../support/test-service.ts'
import { until } from '../support/until.ts'
import { clientsOfNodes } from './node-clients.ts'

it('notifies a feed of what was committed while its node was cut off', { timeout: 180_000 }, async () => {
  const folder = await temporaryFolder()
  const service = new CommandService({ dir: folder, port: 0 }, 2)
  await service.listen()
  try {
    const pids = service.listeningPids()
    const [primary = 0, secondary = 0] = pids
    const [first, second] = await clientsOfNodes(service.url, folder, pids)
    await first!.request('PUT', '/db')
    await second!.request('PUT', '/db/before', { body: {} })
    const feed = second!.json('GET', '/db/_changes?feed=longpoll&since=1')
    // The node waits for changes when it has read those that there are.
    await until(async () => isWaiting((await first!.request('GET', '/_node/_local/_prometheus')).text))
    process.kill(secondary, 'SIGSTOP')
    process.kill(primary, 'SIGKILL')
    await until(() => service.listeningPids().some((pid) => pid !== primary && pid !== secondary), 60_000)
    // Only the new primary accepts.
    const client = new Client(service.url)
    expect((await client.request('PUT', '/db/meanwhile', { body: {} })).status).toBe(201)
    process.kill(secondary, 'SIGCONT')
    expect(await feed).toMatchObject({ results: [{ id: 'meanwhile' }] })
    for (const each of [first, second, client]) each?.close()
  } finally {
    await service.close()
  }
})

function isWaiting(metrics: string): boolean {
  return /^settle_feeds\{[^}]*longpoll[^}]*\} 1$/m.test(metrics)
}
