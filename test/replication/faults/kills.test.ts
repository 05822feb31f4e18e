/** Replication while servers are killed; the long form has many more runs. */
import { describe, it } from 'vitest'
import { Random } from '../../crash/random.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { runWithKills } from './kill-runs.ts'

describe('a continuous replication whose servers are killed', () => {
  it('loses nothing', async () => {
    const random = new Random()
    const runs = (['push', 'pull'] as const).map(async (direction) => {
      const folders = [await temporaryFolder(), await temporaryFolder()] as const
      await runWithKills({ direction, kills: 2, seed: random.below(2 ** 31), folders })
    })
    await Promise.all(runs)
  }, 300_000)
})
