/** Three servers that replicate among each other, many times. */
import { describe, it } from 'vitest'
import { Random } from '../crash/random.ts'
import { startService } from '../support/service.ts'
import { runThreeServers } from './three-servers.ts'

const RUNS = 200

describe('three servers, many times', () => {
  it('agree on winners, conflicts and attachments', async () => {
    const urls = [await startService(), await startService(), await startService()].map(({ url }) => url)
    const random = new Random()
    for (let i = 0; i < RUNS; i++) {
      await runThreeServers({ urls, name: `run-${i}`, steps: 20 + random.below(100), seed: random.below(2 ** 31) })
    }
  })
})
