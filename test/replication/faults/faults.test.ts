/** Replication through a network that fails at random; the long form has many more runs. */
import { describe, it } from 'vitest'
import { Random } from '../../crash/random.ts'
import { startService } from '../../support/service.ts'
import { type Direction, runWithFaults } from './fault-runs.ts'

const DIRECTIONS: readonly Direction[] = ['push', 'pull', 'between others']
const CHANCES = [0.1, 0.15, 0.2, 0.25]
/** Each direction with each chance, all at the same time: they mostly wait. */
const RUNS = DIRECTIONS.length * CHANCES.length

describe('replication through a network that delays, drops, truncates, resets and lies', () => {
  it('loses nothing and repeats nothing', async () => {
    const [here, there] = [await startService(), await startService()]
    const random = new Random()
    const runs = Array.from({ length: RUNS }, (_, i) => ({
      here: here.url,
      there: there.url,
      name: `run-${i}`,
      direction: DIRECTIONS[i % DIRECTIONS.length] ?? 'push',
      chance: CHANCES[i % CHANCES.length] ?? 0.1,
      edits: 40,
      seed: random.below(2 ** 31),
    }))
    await Promise.all(runs.map((run) => runWithFaults(run)))
  }, 300_000)
})
