import { expect, it } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { CommandService } from '../support/test-service.ts'
import { until } from '../support/until.ts'
import { killNodes } from './kill-rounds.ts'
import { clientsOfNodes } from './node-clients.ts'

const KILLS = Number(process.env.SETTLE_KILLS ?? 100)

it('keeps every acknowledged write, and shows one history, while nodes are killed again and again', async () => {
  const outcome = await killNodes({ folder: await temporaryFolder(), nodes: 4, kills: KILLS, acknowledgedBetween: 200 })
  expect(outcome.problems).toEqual([])
})

it('kills a node that hangs when it must acknowledge a notice, and continues', async () => {
  const folder = await temporaryFolder()
  const service = new CommandService({ dir: folder, port: 0 }, 3)
  await service.listen()
  try {
    const pids = service.listeningPids()
    const nodes = await clientsOfNodes(service.url, folder, pids)
    const hanging = Math.max(...pids)
    const [node] = nodes.filter(({ pid }) => pid !== hanging)
    process.kill(hanging, 'SIGSTOP')
    expect((await node?.request('PUT', '/db'))?.status).toBe(201)
    await until(() => service.listeningPids().length === 3 && !service.listeningPids().includes(hanging), 60_000)
    for (const each of await clientsOfNodes(service.url, folder, service.listeningPids())) {
      expect((await each.request('GET', '/db/_all_docs')).status).toBe(200)
      each.close()
    }
    for (const each of nodes) each.close()
  } finally {
    await service.close()
  }
})
