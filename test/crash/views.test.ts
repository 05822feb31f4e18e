import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { Random } from './random.ts'
import { ViewRounds } from './view-rounds.ts'

describe('an index whose server is killed while it works on it', () => {
  it('is whole, and complete when it is asked for again', { timeout: 120_000 }, async () => {
    const random = new Random()
    const rounds = new ViewRounds(await temporaryFolder(), random)
    const seed = `seed ${random.seed}`
    // When it is killed is left to chance, and sometimes that is before anything was kept.
    for (let tries = 0; tries === 0 || (tries < 5 && rounds.seen.keptRuns === 0); tries++) {
      expect(await rounds.build(3), seed).toEqual([])
    }
    expect(await rounds.update(1), seed).toEqual([])
    // Updates of some thousand documents are one commit, which is over before most of them can be met.
    expect(rounds.seen.builds + rounds.seen.updates, seed).toBeGreaterThan(0)
    expect(rounds.seen.keptRuns, seed).toBeGreaterThan(0)
  })
})
