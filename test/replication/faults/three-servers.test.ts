/** Three servers that replicate among each other agree in the end; the long form has many more runs. */
import { describe, it } from 'vitest'
import { Random } from '../../crash/random.ts'
import { startService } from '../../support/service.ts'
import { runThreeServers } from './three-servers.ts'

describe('three servers', () => {
  it('agree on winners, conflicts and attachments after any edits and replications', async () => {
    const urls = [await startService(), await startService(), await startService()].map(({ url }) => url)
    const random = new Random()
    const runs = Array.from({ length: 4 }, (_, i) => ({
      urls,
      name: `run-${i}`,
      steps: 30,
      seed: random.below(2 ** 31),
    }))
    await Promise.all(runs.map((run) => runThreeServers(run)))
  }, 180_000)
})
