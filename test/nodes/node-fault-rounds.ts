/** Kills and stops nodes of a server, and compacts its database, while clients keep a history of what they see. */
import { setTimeout as pause } from 'node:timers/promises'
import { CommandService } from '../support/test-service.ts'
import { History } from './history.ts'

/** A node that is stopped goes on after a while. In `stop and kill` the primary is killed meanwhile: the node has its state. */
export type NodeFault = 'kill secondary' | 'kill primary' | 'stop secondary' | 'stop primary' | 'stop and kill'

export interface FaultOptions {
  readonly folder: string
  readonly nodes: number
  readonly faults: readonly NodeFault[]
  /** Edits that must be acknowledged before each fault and after the last one. */
  readonly acknowledgedBetween: number
}

/** Less than the timeout of a notice, after which the node would be killed. */
const STOP_MS = 1000

export async function playNodeFaults(options: FaultOptions): Promise<History> {
  const { folder, nodes, faults, acknowledgedBetween } = options
  const service = new CommandService({ dir: folder, port: 0 }, nodes)
  const url = await service.listen()
  try {
    const history = new History({ urls: () => [url], database: 'history' })
    await history.begin()
    for (const fault of faults) {
      await history.progress(acknowledgedBetween)
      if (history.problems.length > 0) break
      // The database gets another file, of which every node must know.
      void compact(url)
      await play(service, fault)
    }
    await history.progress(acknowledgedBetween)
    await history.end()
    return history
  } finally {
    await service.close()
  }
}

async function play(service: CommandService, fault: NodeFault): Promise<void> {
  const primary = service.primaryPid
  const secondaries = service.listeningPids().filter((pid) => pid !== primary)
  const secondary = secondaries[Math.floor(Math.random() * secondaries.length)]
  switch (fault) {
    case 'kill secondary':
      return signal(secondary, 'SIGKILL')
    case 'kill primary':
      return signal(primary, 'SIGKILL')
    case 'stop secondary':
      return stopped(secondary, () => pause(STOP_MS))
    case 'stop primary':
      return stopped(primary, () => pause(STOP_MS))
    case 'stop and kill':
      return stopped(secondary, async () => {
        signal(primary, 'SIGKILL')
        await pause(STOP_MS)
      })
  }
}

async function stopped(pid: number | undefined, meanwhile: () => Promise<unknown>): Promise<void> {
  signal(pid, 'SIGSTOP')
  await meanwhile()
  signal(pid, 'SIGCONT')
}

function signal(pid: number | undefined, name: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(pid, name)
  } catch {
    // It has ended meanwhile.
  }
}

async function compact(url: string): Promise<void> {
  const headers = { 'Content-Type': 'application/json' }
  // A node that is killed does not answer.
  const reply = await fetch(`${url}history/_compact`, { method: 'POST', headers }).catch(() => undefined)
  await reply?.text().catch(() => {})
}
