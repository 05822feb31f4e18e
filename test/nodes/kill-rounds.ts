/** Kills nodes of a server at random while clients keep a history of what they see. */
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
    const history = new History({ urls: () => [url], database: 'history' })
    await history.begin()
    for (let kill = 0; kill < kills; kill++) {
      await history.progress(acknowledgedBetween)
      const primary = service.primaryPid
      const others = service.listeningPids().filter((pid) => pid !== primary)
      // In turns one of the others and the primary.
      const victim = kill % 2 === 0 ? others.at(-1) : primary
      if (victim !== undefined) process.kill(victim, 'SIGKILL')
    }
    await history.progress(acknowledgedBetween)
    await history.end()
    const { problems, acknowledged, reads } = history
    return { problems, acknowledged, reads }
  } finally {
    await service.close()
  }
}
