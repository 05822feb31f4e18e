/** Kills nodes of a server at random while clients keep a history of what they see. */
import { setTimeout as pause } from 'node:timers/promises'
import { CommandService } from '../support/test-service.ts'
import { History } from './history.ts'

export interface KillOptions {
  readonly folder: string
  readonly nodes: number
  readonly kills: number
  /** What is awaited between two kills. */
  readonly acknowledgedBetween: number
}

export interface KillOutcome {
  readonly problems: readonly string[]
  readonly acknowledged: number
  readonly reads: number
}

export async function killNodes({ folder, nodes, kills, acknowledgedBetween }: KillOptions): Promise<KillOutcome> {
  const service = new CommandService({ dir: folder, port: 0 }, nodes)
  const url = await service.listen()
  try {
    const history = new History({ url, database: 'history' })
    await history.begin()
    for (let kill = 0; kill < kills; kill++) {
      await progress(history, acknowledgedBetween)
      const pids = service.listeningPids()
      // In turns the primary, which was started first, and one of the others.
      const victim = kill % 2 === 0 ? pids.at(-1) : Math.min(...pids)
      if (victim !== undefined) process.kill(victim, 'SIGKILL')
    }
    await progress(history, acknowledgedBetween)
    await history.end()
    const { problems, acknowledged, reads } = history
    return { problems, acknowledged, reads }
  } finally {
    await service.close()
  }
}

async function progress(history: History, count: number): Promise<void> {
  const wanted = history.acknowledged + count
  const deadline = Date.now() + 60_000
  while (history.acknowledged < wanted) {
    if (Date.now() > deadline) throw new Error('Nothing was acknowledged for a minute.')
    await pause(10)
  }
}
