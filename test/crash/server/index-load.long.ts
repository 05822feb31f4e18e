import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { Random } from '../random.ts'
import { IndexLoad } from './index-load.ts'

/** Of each test; the hour of the whole file unless less is set. */
const DURATION_MS = Number(process.env.SETTLE_LOAD_MINUTES ?? 15) * 60_000

describe.each([
  { processes: 'left alone', options: {} },
  { processes: 'killed at random', options: { killEveryMs: 1000 } },
])('a server whose indexes are under load for long, its index processes $processes', ({ options }) => {
  it('leaves nothing of databases that come and go', async () => {
    const load = await loadFor(options)
    await load.createQueryDelete()
    expect([...load.problems]).toEqual([])
    expect(load.seen.rounds).toBeGreaterThan(100)
  })

  it('answers while its indexes are compacted', async () => {
    const load = await loadFor(options)
    await load.compactBeside()
    expect([...load.problems]).toEqual([])
    expect(load.seen.compactions).toBeGreaterThan(100)
  })
})

async function loadFor(options: { readonly killEveryMs?: number }): Promise<IndexLoad> {
  return new IndexLoad({ folder: await temporaryFolder(), random: new Random(), durationMs: DURATION_MS, ...options })
}
