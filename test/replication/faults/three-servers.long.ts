/** Three servers that replicate among each other, many times. */
import { describe, it } from 'vitest'
import { Random } from '../../crash/random.ts'
import { LongProgress } from '../../support/long-progress.ts'
import { startService } from '../../support/service.ts'
import { runThreeServers } from './three-servers.ts'

const RUNS = Number(process.env.SETTLE_THREE_SERVERS_RUNS ?? 200)
/** Each waits for one reply at a time. */
const RUNS_AT_A_TIME = 4

describe('three servers, many times', () => {
  it('agree on winners, conflicts and attachments', async () => {
    const urls = [await startService(), await startService(), await startService()].map(({ url }) => url)
    const random = new Random()
    const progress = new LongProgress('three servers', RUNS)
    const numbers = Array.from({ length: RUNS }, (_, i) => i).values()
    const work = async () => {
      for (const i of numbers) {
        await runThreeServers({ urls, name: `run-${i}`, steps: 10 + random.below(50), seed: random.below(2 ** 31) })
        progress.done()
      }
    }
    await Promise.all(Array.from({ length: RUNS_AT_A_TIME }, work))
  })
})
