import { expect, it } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { CommandService } from '../support/test-service.ts'
import { until } from '../support/until.ts'
import { clientsOfNodes } from './node-clients.ts'
import { type NodeFault, playNodeFaults } from './node-fault-rounds.ts'

/** How often all faults are played. */
const ROUNDS = Number(process.env.SETTLE_HISTORY_ROUNDS ?? 25)
const FAULTS: readonly NodeFault[] = [
  'kill secondary',
  'stop secondary',
  'kill primary',
  'stop primary',
  'kill secondary',
  'stop and kill',
]

it('four nodes keep every acknowledged write, and show one history, while they are killed and stopped', async () => {
  const faults = Array.from({ length: ROUNDS }, () => FAULTS).flat()
  const folder = await temporaryFolder()
  const history = await playNodeFaults({ folder, nodes: 4, faults, acknowledgedBetween: 100 })
  const { problems, acknowledged, reads, conflicts, refused, broken } = history
  const counts = { faults: faults.length, acknowledged, reads, conflicts, refused, broken }
  process.stderr.write(`history: ${JSON.stringify(counts)}\n`)
  expect(problems).toEqual([])
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
