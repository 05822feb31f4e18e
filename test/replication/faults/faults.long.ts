/** Hundreds of replications through networks that fail, and dozens while servers are killed. */
import { describe, it } from 'vitest'
import { Random } from '../../crash/random.ts'
import { LongProgress } from '../../support/long-progress.ts'
import { startService } from '../../support/service.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { type Direction, runWithFaults } from './fault-runs.ts'
import { runWithKills } from './kill-runs.ts'

const RUNS = Number(process.env.SETTLE_FAULT_RUNS ?? 280)
const KILL_RUNS = Number(process.env.SETTLE_KILL_RUNS ?? 12)
const DIRECTIONS: readonly Direction[] = ['push', 'pull', 'between others', 'push', 'pull', 'between others', 'pull']
/** They mostly wait: for a peer that is silent, or before a request is repeated. */
const RUNS_AT_A_TIME = 12

describe('replication, many times', () => {
  it('loses nothing and repeats nothing, whatever the network does', async () => {
    const [here, there] = [await startService(), await startService()]
    const random = new Random()
    const progress = new LongProgress('faults', RUNS)
    const numbers = Array.from({ length: RUNS }, (_, i) => i).values()
    const work = async () => {
      for (const i of numbers) {
        const direction = DIRECTIONS[i % DIRECTIONS.length] ?? 'push'
        const run = { here: here.url, there: there.url, name: `run-${i}`, direction }
        const chance = 0.05 + 0.25 * random.next()
        await runWithFaults({ ...run, chance, edits: 20 + random.below(150), seed: random.below(2 ** 31) })
        progress.done()
      }
    }
    await Promise.all(Array.from({ length: RUNS_AT_A_TIME }, work))
  })

  it('loses nothing while servers are killed', async () => {
    const random = new Random()
    const progress = new LongProgress('kills', KILL_RUNS)
    for (let run = 0; run < KILL_RUNS; run++) {
      const folders = [await temporaryFolder(), await temporaryFolder()] as const
      const direction = run % 2 === 0 ? 'push' : 'pull'
      await runWithKills({ direction, kills: 4, seed: random.below(2 ** 31), folders })
      progress.done()
    }
  })
})
