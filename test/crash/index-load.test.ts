import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { IndexLoad } from './index-load.ts'
import { Random } from './random.ts'

const DURATION_MS = 8000

describe('a server whose indexes are under load', () => {
  it('leaves nothing of databases that come and go', async () => {
    const load = await loadFor({})
    await load.createQueryDelete()
    expect([...load.problems]).toEqual([])
    expect(load.seen.rounds).toBeGreaterThan(10)
  })

  it('answers while its indexes are compacted', async () => {
    const load = await loadFor({})
    await load.compactBeside()
    expect([...load.problems]).toEqual([])
    expect(load.seen.compactions).toBeGreaterThan(10)
  })

  it.runIf(process.platform === 'linux')('answers while its index processes are killed', async () => {
    const load = await loadFor({ killEveryMs: 400 })
    await load.compactBeside()
    expect([...load.problems]).toEqual([])
    expect(load.seen.kills).toBeGreaterThan(2)
  })

  it.runIf(process.platform === 'linux')('leaves nothing though its index processes are killed', async () => {
    const load = await loadFor({ killEveryMs: 400 })
    await load.createQueryDelete()
    expect([...load.problems]).toEqual([])
    expect(load.seen.kills).toBeGreaterThan(2)
  })
})

async function loadFor(options: { readonly killEveryMs?: number }): Promise<IndexLoad> {
  return new IndexLoad({ folder: await temporaryFolder(), random: new Random(), durationMs: DURATION_MS, ...options })
}
