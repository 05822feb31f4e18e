import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { Random } from '../random.ts'
import { IndexLoad, type LoadOptions } from './index-load.ts'

/** At least; each continues until it has done enough, however long that takes. */
const DURATION_MS = 1000
const KILL_EVERY_MS = 100

/** The other two combinations are in `index-load.long.ts`. */
describe('a server whose indexes are under load', { timeout: 180_000 }, () => {
  it('leaves nothing of databases that come and go', async () => {
    const load = await loadFor({ isEnough: ({ rounds }) => rounds > 12 })
    await load.createQueryDelete()
    expect([...load.problems]).toEqual([])
  })

  it.runIf(process.platform === 'linux')('answers while its index processes are killed', async () => {
    const load = await loadFor({ killEveryMs: KILL_EVERY_MS, isEnough: ({ kills }) => kills > 2 })
    await load.compactBeside()
    expect([...load.problems]).toEqual([])
  })
})

async function loadFor(options: Partial<LoadOptions>): Promise<IndexLoad> {
  return new IndexLoad({ folder: await temporaryFolder(), random: new Random(), durationMs: DURATION_MS, ...options })
}
