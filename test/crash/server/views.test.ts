import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { Random } from '../random.ts'
import { ViewRounds } from './view-rounds.ts'

describe('an index whose server is killed while it works on it', () => {
  it('is whole, and complete when it is asked for again', { timeout: 120_000 }, async () => {
    const random = new Random()
    const rounds = new ViewRounds(await temporaryFolder(), random)
    const seed = `seed ${random.seed}`
    expect(await rounds.build(2), seed).toEqual([])
    expect(await rounds.update(1), seed).toEqual([])
    // When it is killed is left to chance. Updates of some thousand documents are one commit, over before most kills.
    expect(rounds.seen.builds + rounds.seen.updates, seed).toBeGreaterThan(0)
  })
})
